# What people read, kept as it was: beside this file, made anew by GOLDEN=1 (CONTRIBUTING.md). Help is in help.bats.
load common.bash

allocate='
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
while cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20)) == 0:
    pass
print("full", flush=True)
sys.stdin.readline()
'

# Each line "$ COMMAND" of messages.txt is a command, whose output is behind it.
@test "messages of vgpu run about its options" {
    local line status
    mkdir driver
    printf 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.20  Release Build  (builder)\n' >driver/version
    export VGPU_GUARD_DEV=$PWD/driver PATH=$VGPU_BUILD:$PATH
    while IFS= read -r line; do
        [[ $line == '$ '* ]] || continue
        echo "$line"
        status=0
        bash -c "${line#'$ '}" 2>&1 </dev/null || status=$?
        [ $status = 125 ] || echo "status $status"
    done <"$BATS_TEST_DIRNAME/messages.txt" | masked >messages.txt
    golden messages.txt
}

@test "ps of an instance with a limit of each kind, which has refused memory" {
    command -v python3 >/dev/null || skip "python3 is not installed"
    mkfifo hold
    "$vgpu" run --sim --name small --mem 2G --host-mem 1G --cores 30 --weight 300 --priority 5 --policy fair --copy-bw 1G \
        python3 -c "$allocate" <hold >out 2>err 3>&- &
    exec 9>hold
    wait_for test -s out
    expect 0 "$vgpu" ps --json
    COLUMNS=100 "$vgpu" ps | masked "$(json '.instances[0].processes[0].pid')" >ps.txt
    exec 9>&-
    wait
    golden ps.txt
}

# The checks whose result does not depend on the machine.
doctor_says()
{
    run --separate-stderr "$vgpu" doctor --json "$@"
    jq -r '.checks[] | select(.name | IN("driver", "NVML", "C library", "library", "preload", "runtime directory", "environment",
        "program")) | "\(.status) \(.name): \(.detail)", if .advice then "  -> \(.advice)" else empty end' <<<"$output"
    echo
}

@test "doctor on the simulator, with a library or folder that is wrong, and of a static program" {
    export LD_LIBRARY_PATH=$VGPU_BUILD/sim
    {
        doctor_says
        VGPU_LIBRARY=/nowhere/libvgpu.so VGPU_RUNTIME_DIR=/proc/no doctor_says
        doctor_says "$VGPU_BUILD/tests/cli/static_program"
    } | masked >doctor.txt
    golden doctor.txt
}

@test "trace of a program that fills its quota" {
    command -v python3 >/dev/null || skip "python3 is not installed"
    "$vgpu" run --sim --name traced --mem 1G --trace calls python3 -c "$allocate" </dev/null 2>&1 >/dev/null | masked >trace.txt
    golden trace.txt
}
