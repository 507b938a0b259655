#!/usr/bin/env bash
# Two PID namespaces with equal PIDs share one instance: nobody is taken for dead, nobody for the other.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
unshare --pid --fork --kill-child --mount-proc true 2>/dev/null || skip "no right to make a PID namespace with its own /proc"
start() { # folder for its file; the process is number 1 in its namespace, and dies with unshare
    TEST_WORK=$1 unshare --pid --fork --kill-child --mount-proc env LD_PRELOAD="$library" VGPU_INSTANCE="$TEST_INSTANCE" \
        "$TEST_SIMTEST" hold 60 &
}
used() { "$TEST_INSTANCE_TOOL" show "$TEST_INSTANCE" | awk '$1 == "vdev" && $2 == 0 { sub("used=", "", $4); print $4 }'; }
becomes() { # bytes, what is wrong otherwise
    uses() { [ "$(used)" -eq "$1" ]; }
    echo "$2"
    wait_for uses "$1"
}
mkdir "$TEST_WORK/a" "$TEST_WORK/b"
start "$TEST_WORK/a"
first=$!
wait_for_file "$TEST_WORK/a/holding"
one=$(used)
[ "$one" -gt 0 ] || die "nothing is charged"
start "$TEST_WORK/b"
second=$!
wait_for_file "$TEST_WORK/b/holding"
becomes $((2 * one)) "two contexts of $one bytes"
[ "$("$TEST_INSTANCE_TOOL" show "$TEST_INSTANCE" | grep -c '^proc .*vdev=0')" -eq 2 ] || die "not two processes"
# A third, in the outer namespace, is stopped by what the two hold.
with_instance "$TEST_SIMTEST" cap "$TEST_QUOTA" >/dev/null 2>&1 || die "the quota does not hold across namespaces"
becomes $((2 * one)) "after the third"
kill -9 "$first"
wait "$first" 2>/dev/null
becomes "$one" "one is dead"
kill -9 "$second"
wait "$second" 2>/dev/null
becomes 0 "both are dead"
driver_is_empty() { grep -q '^group test .* total=0 ' < <("$TEST_SIMCTL" ledger); }
wait_for driver_is_empty
