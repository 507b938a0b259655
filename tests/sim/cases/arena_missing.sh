#!/usr/bin/env bash
# There is no daemon, and instances need no place to meet: without one each runs as the driver lets it, caps hold (as
# limits: measured beside others, work looks longer than it is), and programs without CUDA do not even notice. Says so
# once, to who asks for it (level 3). Rubbish in the place is made anew.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"

# together NAME DEVICE WARNINGS VARIABLE...: a capped instance and one without a cap, on a device of their own
together() {
    local name=$1 device=$2 warnings=$3 one two
    shift 3
    for which in capped free; do
        cap=() wanted=(least=0.3)
        [ $which = free ] || { cap=(cores=30) && wanted=(least=0.1 most=0.325); }
        "$TEST_INSTANCE_TOOL" create "$TEST_WORK/run/$name.$which" 0 "${cap[@]}" || die "no instance"
        env "$@" VGPU_LOG_LEVEL=3 SIMGPU_GROUP="$name.$which" LD_PRELOAD="$library" VGPU_INSTANCE="$TEST_WORK/run/$name.$which" \
            "$TEST_SIMTEST" load us=1000 secs=2 sync=4 device="$device" "${wanted[@]}" >"$TEST_WORK/$name.$which.out" 2>"$TEST_WORK/$name.$which.err" &
        [ $which = capped ] && one=$! || two=$!
    done
    wait $one || die "$name: the capped one fails: $(cat "$TEST_WORK/$name.capped.err")"
    wait $two || die "$name: the free one fails: $(cat "$TEST_WORK/$name.free.err")"
    [ "$(grep -c 'no turns on device' "$TEST_WORK/$name.free.err")" -eq "$warnings" ] ||
        die "$name: not $warnings warnings: $(cat "$TEST_WORK/$name.free.err")"
    LD_PRELOAD="$library" VGPU_INSTANCE="$TEST_WORK/run/$name.free" env "$@" timeout 1 /bin/true 2>"$TEST_WORK/true" ||
        die "$name: /bin/true fails"
    [ ! -s "$TEST_WORK/true" ] || die "$name: /bin/true has something to say: $(cat "$TEST_WORK/true")"
}

echo rubbish >"$TEST_WORK/file"
mkdir "$TEST_WORK/rubbish"
for uuid in ${TEST_UUIDS//,/ }; do
    head -c 2000000 /dev/urandom >"$TEST_WORK/rubbish/vgpu-$uuid"
done
together missing 0 1 VGPU_ARENA_DIR=/nonexistent &
a=$!
together file 1 1 VGPU_ARENA_DIR="$TEST_WORK/file" &
b=$!
together rubbish 2 0 VGPU_ARENA_DIR="$TEST_WORK/rubbish" &
c=$!
wait $a && wait $b && wait $c
