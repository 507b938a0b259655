#!/usr/bin/env bash
# cudart.sh shared|static: a program of CUDA's runtime API in an instance of 1 GiB and 30 %, with every libcudart.so that
# is installed or named in VGPU_TEST_CUDART (a list like PATH), or with the static runtime. The instance's peak in the
# ledger is below the quota.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
quota=$((1 << 30)) cap=30

try() { # PROGRAM LIBRARY
    echo "$2"
    "$TEST_SIMCTL" reset-peak 2>/dev/null
    "$vgpu" run --mem "$quota" --cores "$cap" -- "$1" "$2" "$quota" "$cap" "$TEST_SIMCTL" || die "$2 fails"
    peak=$("$TEST_SIMCTL" ledger | sed -n 's/^group test device=0 .* peak=//p')
    if [ "$peak" -le $((quota / 2)) ] || [ "$peak" -gt "$quota" ]; then
        die "$2: a peak of $peak bytes in the ledger"
    fi
}

if [ "$1" = static ]; then
    program=$TEST_BUILD/tests/sim/cudart_static
    [ -x "$program" ] || { echo "skipped: there was no libcudart_static.a when this was built" && exit 77; }
    try "$program" "the static runtime"
    exit 0
fi
mapfile -t runtimes < <({
    tr : '\n' <<<"${VGPU_TEST_CUDART:-}"
    ldconfig -p | sed -n 's/.*libcudart\.so\.[0-9.]* .* => //p'
    ls -d /usr/local/cuda*/lib64/libcudart.so.*
} 2>/dev/null | xargs -r realpath -q | sort -u)
[ ${#runtimes[@]} -gt 0 ] || { echo "skipped: no libcudart.so is installed (Debian's libcudart11.0 is in non-free)" && exit 77; }
for runtime in "${runtimes[@]}"; do try "$TEST_BUILD/tests/sim/cudart" "$runtime"; done
