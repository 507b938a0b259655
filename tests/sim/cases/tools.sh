# Sourced by the scripts that run programs of Debian. A neighbour holds 2.5 GiB of the 8 GiB card; an instance "shown" of
# 1 GiB holds 768 MiB, with its context.
# shellcheck shell=bash disable=SC2034 source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
here=$(dirname "${BASH_SOURCE[0]}")
python=/usr/bin/python3 # Debian's packages are for Debian's Python

# skip REASON: what ctest shows of a test that is not run.
skip() {
    echo "skipped: $*"
    exit 77
}

need_module() { # MODULE PACKAGE COMPONENT
    "$python" -c "import $1" 2>/dev/null || skip "Debian's $2 ($3) is not installed"
}

holders=()
drop_holders() {
    [ ${#holders[@]} -eq 0 ] || kill "${holders[@]}" 2>/dev/null
    wait
}
trap drop_holders EXIT

# Sets shown_pid and neighbour_pid.
hold_memory() {
    "$python" "$here/hold.py" "$((2 << 30))" "$TEST_WORK/neighbour" &
    holders+=($!)
    "$vgpu" run --name shown --mem 1G -- "$python" "$here/hold.py" "$((256 << 20))" "$TEST_WORK/shown" &
    holders+=($!)
    wait_for_file "$TEST_WORK/neighbour"
    wait_for_file "$TEST_WORK/shown"
    neighbour_pid=$(<"$TEST_WORK/neighbour") shown_pid=$(<"$TEST_WORK/shown")
}

in_shown() { "$vgpu" run --name shown -- "$@"; }
