#!/usr/bin/env bash
# What HAMi's monitor finds in a cache file while processes come, work and go.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "no python3"
export CUDA_DEVICE_MEMORY_SHARED_CACHE=$TEST_WORK/reader.cache CUDA_DEVICE_MEMORY_LIMIT=4g CUDA_DEVICE_SM_LIMIT=50
cache=$CUDA_DEVICE_MEMORY_SHARED_CACHE
here=$(dirname "$0")

monitor() { python3 "$here/hami_read.py" "$cache"; }
field() { monitor | python3 -c "import json, sys; d = json.load(sys.stdin); print($1)"; }
# holds EXPRESSION: of what the monitor reads; awaited, for it is to be true within a second, on any machine in ten.
holds() {
    for _ in $(seq 200); do
        [ "$(field "$1")" != True ] || return 0
        sleep 0.05
    done
    die "never: $1; it reads $(monitor)"
}
started=()
trap 'kill -9 "${started[@]}" 2>/dev/null' EXIT
start() { # COMMAND...: in the background; its number is in $pid
    LD_PRELOAD=$library "$@" >/dev/null &
    pid=$!
    started+=("$pid")
}
hold() { # NAME
    start python3 "$here/hold.py" $((512 << 20)) "$TEST_WORK/$1"
    wait_for_file "$TEST_WORK/$1"
}
end() {
    kill -9 "$1"
    wait "$1" 2>/dev/null
}

# One at work: its share is shown while it works, and is gone when it has stopped.
hold stays
stays=$pid
start "$TEST_BUILD/demo/busy" at-work 600
busy=$pid
holds "d['sm'] > 0 and len(d['pids']) == 2"
[ "$(field "d['sm'] <= 100")" = True ] || die "more than all of the device: $(monitor)"
# vgpu ps lists the instance as any other, by its file, with what its processes hold.
"$vgpu" ps --json >"$TEST_WORK/ps" || die "vgpu ps"
python3 -c "
import json
found = [i for i in json.load(open('$TEST_WORK/ps'))['instances'] if i['directory'] == '$cache']
assert len(found) == 1 and found[0]['name'] == 'reader.cache' and found[0]['running'] == 2, found" || die "not in vgpu ps"
# Killed: gone from the file although nobody else makes a call.
end "$busy"
holds "len(d['pids']) == 1 and d['sm'] == 0"
[ "$(field "d['used'] >= 512 << 20 and d['pids'] == [$stays]")" = True ] || die "not what is left: $(monitor)"

# Where a cleaner takes one of the file's names, who comes finds the other; that both are gone is told, once.
hold joins 2>"$TEST_WORK/stderr.joins"
joins=$pid
rm "$cache"
hold finds
[ "$(field "len(d['pids'])")" = 3 ] || die "who came did not join: $(monitor)"
end "$pid"
[ ! -s "$TEST_WORK/stderr.joins" ] || die "one name is enough: $(cat "$TEST_WORK/stderr.joins")"
rm "$cache" "$TEST_WORK/.reader.cache.vgpu"
wait_for grep -qF "$cache was removed while programs use it" "$TEST_WORK/stderr.joins"
end "$joins"
[ "$(wc -l <"$TEST_WORK/stderr.joins")" -eq 1 ] || die "told more than once: $(cat "$TEST_WORK/stderr.joins")"
end "$stays"
hold again
stays=$pid

# Ended by itself: gone at once, before anybody has looked for the dead.
kill -STOP "$stays"
with_library python3 -c "
import ctypes
cu = ctypes.CDLL('libcuda.so.1')
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert not cu.cuInit(0) and not cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
assert not cu.cuCtxSetCurrent(context) and not cu.cuMemAlloc_v2(ctypes.byref(address), 1 << 20)" || die "the short one"
[ "$(field "d['pids'] == [$stays]")" = True ] || die "still there after exit: $(monitor)"
kill -CONT "$stays"
end "$stays"

# Files that are there already: taken over where they are HAMi's or nobody's, whatever is in them.
header() { # WORD0 WORD1: magic and major
    python3 -c "
import os, struct, sys
open('$cache', 'wb').write(struct.pack('<II', int(sys.argv[1]), int(sys.argv[2])) + os.urandom(2008945))" "$@"
}
for words in "19920718 2" "19920718 1" "0 1"; do
    rm -f "$cache" "$TEST_WORK/.reader.cache.vgpu"
    # shellcheck disable=SC2086 # two words
    header $words
    hold "stale.${words// /.}"
    holds "d['limit'] == 4 << 30 and d['pids'] == [$pid] and d['sm'] == 0"
    end "$pid"
done
for bytes in 0 100 2008952; do
    rm -f "$cache" "$TEST_WORK/.reader.cache.vgpu"
    truncate -s $bytes "$cache"
    hold "empty.$bytes"
    holds "d['pids'] == [$pid]"
    end "$pid"
done
# Somebody else's is left alone, and the message says what to do.
rm -f "$cache" "$TEST_WORK/.reader.cache.vgpu"
echo "somebody's notes" >"$cache"
expect 0 with_library "$TEST_SIMTEST" init_code 304 2>"$TEST_WORK/stderr" >/dev/null
grep -q "remove it, or set CUDA_DEVICE_MEMORY_SHARED_CACHE" "$TEST_WORK/stderr" || die "no advice: $(cat "$TEST_WORK/stderr")"
[ "$(cat "$cache")" = "somebody's notes" ] || die "somebody's file was written to"
rm -f "$cache"* "$TEST_WORK/.reader.cache.vgpu"
# Nobody is in it any more: vgpu ps does not list it.
"$vgpu" ps --json >"$TEST_WORK/ps" || die "vgpu ps"
! grep -q reader.cache "$TEST_WORK/ps" || die "vgpu ps lists what nobody uses"
