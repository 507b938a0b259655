#!/usr/bin/env bash
# `vgpu run --trace`: every call is counted by symbol, wrapped or not, linked or looked up; the driver's own counts agree.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
check() { # name, reach, program
    local trace=$TEST_WORK/$1.trace
    TEST_REACH=$2 "$vgpu" run --mem 1G --trace "$trace" -- "$3" trace_script >"$TEST_WORK/$1.out" 2>"$TEST_WORK/$1.err" ||
        die "$1: $(cat "$TEST_WORK/$1.err")"
    while read -r symbol calls; do
        seen=$(sed -n "s/^{\"symbol\":\"$symbol\",\"calls\":\([0-9]*\),.*/\1/p" "$trace")
        # The library records events of its own around some launches.
        [ "${seen:-0}" -eq "$calls" ] || [[ $symbol = cuEvent* && ${seen:-0} -gt 0 && $seen -le $calls ]] ||
            die "$1: $symbol: traced ${seen:-never}, the driver counted $calls"
        grep -q "^ *$symbol *$seen" "$TEST_WORK/$1.err" || die "$1: $symbol is not in the table: $(cat "$TEST_WORK/$1.err")"
    done <"$TEST_WORK/$1.out"
    [ "$(wc -l <"$TEST_WORK/$1.out")" -eq 10 ] || die "$1: the program printed $(cat "$TEST_WORK/$1.out")"
    # Memory calls are logged with their sizes, each a line of JSON.
    [ "$(grep -c '"symbol":"cuMemAlloc_v2","bytes":' "$trace")" -eq 7 ] || die "$1: not 7 allocations in $trace"
    grep -q '"symbol":"cuMemAlloc_v2","bytes":7340032,' "$trace" || die "$1: the seventh allocation's size is missing"
    python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$trace" || die "$1: not JSON"
}
check linked link "$TEST_SIMTEST"
check looked_up dlsym "$TEST_SIMTEST_DL"
check by_address getproc "$TEST_SIMTEST_DL"
# A file that cannot take it all: said with the reason, and the command's success is none.
status=0
"$vgpu" run --mem 1G --trace /dev/full -- "$TEST_SIMTEST" trace_script >/dev/null 2>"$TEST_WORK/full.err" || status=$?
[ "$status" -eq 125 ] || die "a full file: status $status: $(cat "$TEST_WORK/full.err")"
grep -q "trace: /dev/full is incomplete: [0-9]* lines could not be written: No space left" "$TEST_WORK/full.err" ||
    die "a full file: $(cat "$TEST_WORK/full.err")"
