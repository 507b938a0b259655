#!/usr/bin/env bash
# HAMi's variables without `vgpu run`: an instance that nobody made by hand.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
export CUDA_DEVICE_MEMORY_SHARED_CACHE=$TEST_WORK/hami.cache
gib=$((1 << 30))

CUDA_DEVICE_MEMORY_LIMIT=1g expect 0 with_library "$TEST_SIMTEST" cap $gib
[ "$(stat -c %a "$CUDA_DEVICE_MEMORY_SHARED_CACHE")" = 666 ] || die "the cache file is not for everybody"
[ "$(stat -c %s "$CUDA_DEVICE_MEMORY_SHARED_CACHE")" -ge 2008952 ] || die "the cache file is too short for HAMi's monitor"

# Nobody is attached: a later process's limits are taken, in any of the accepted forms.
CUDA_DEVICE_MEMORY_LIMIT=1536m expect 0 with_library "$TEST_SIMTEST" cap $((1536 << 20))
CUDA_DEVICE_MEMORY_LIMIT=2GiB expect 0 with_library "$TEST_SIMTEST_DL" cap $((2 * gib))
CUDA_DEVICE_MEMORY_LIMIT_0=3g CUDA_DEVICE_MEMORY_LIMIT=1g expect 0 with_library "$TEST_SIMTEST" cap $((3 * gib))
CUDA_DEVICE_MEMORY_LIMIT=1.5Gi expect 0 with_library "$TEST_SIMTEST" cap $((1536 << 20))
CUDA_DEVICE_MEMORY_LIMIT=' 0x400m' expect 0 with_library "$TEST_SIMTEST" cap $gib
CUDA_DEVICE_MEMORY_LIMIT=0m expect 0 with_library "$TEST_SIMTEST" cap 0

# Somebody is attached: the old limits stand, with one line about it.
CUDA_DEVICE_MEMORY_LIMIT=2g LD_PRELOAD=$library "$TEST_SIMTEST" hold 30 &
holder=$!
wait_for_file "$TEST_WORK/holding"
CUDA_DEVICE_MEMORY_LIMIT=1g with_library "$TEST_SIMTEST" view_of_total 2>"$TEST_WORK/stderr" >"$TEST_WORK/stdout"
kill -9 "$holder"
wait "$holder" 2>/dev/null
grep -q "^total $((2 * gib))\$" "$TEST_WORK/stdout" || die "the limits changed under a live process: $(cat "$TEST_WORK/stdout")"
[ "$(wc -l <"$TEST_WORK/stderr")" -eq 1 ] || die "not one line about the other limits: $(cat "$TEST_WORK/stderr")"

# A size that can't be read is refused, with the text in the message; CUDA does not start, other programs do.
for bad in 1.3g 1Gi5 abc -1 1g5 99999999999999999999g; do
    CUDA_DEVICE_MEMORY_LIMIT=$bad expect 0 with_library "$TEST_SIMTEST" init_code 304 2>"$TEST_WORK/stderr" >/dev/null
    grep -qF -- "$bad" "$TEST_WORK/stderr" || die "the message does not show '$bad': $(cat "$TEST_WORK/stderr")"
    CUDA_DEVICE_MEMORY_LIMIT=$bad expect 0 with_library /bin/true
done
rm -f "$CUDA_DEVICE_MEMORY_SHARED_CACHE"*
