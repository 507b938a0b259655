# Signals and job control.
load common.bash

@test "each signal reaches the command once, whether sent to vgpu or to its group; job control works on a terminal" {
    VGPU=$vgpu python3 "$BATS_TEST_DIRNAME/signals.py"
    wait_for no_instances # of what ran in a terminal, nobody has waited for the end
}
