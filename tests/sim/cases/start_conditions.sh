#!/usr/bin/env bash
# No runtime folder yet, an unwritable one, stale files of the dead, a lock file that is a symbolic link.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
VGPU_RUNTIME_DIR=$TEST_WORK/new/deeper expect 0 "$vgpu" run --mem 1G -- "$TEST_SIMTEST" init_code 0 >/dev/null
# Nowhere to write: a message, and CUDA is refused rather than unlimited; other programs start.
VGPU_RUNTIME_DIR=/proc/nothing expect 125 "$vgpu" run --mem 1G -- /bin/true 2>/dev/null
CUDA_DEVICE_MEMORY_SHARED_CACHE=/proc/nothing/cache CUDA_DEVICE_MEMORY_LIMIT=1g \
    expect 0 with_library "$TEST_SIMTEST" init_code 304 >/dev/null 2>&1
CUDA_DEVICE_MEMORY_SHARED_CACHE=/proc/nothing/cache CUDA_DEVICE_MEMORY_LIMIT=1g expect 0 with_library /bin/true
# Killed in mid-run: the folder of the dead instance does not get in anybody's way, under the same name or another.
"$vgpu" run --name again --mem 1G -- "$TEST_SIMTEST" hold 30 >/dev/null 2>&1 &
runner=$!
wait_for_file "$TEST_WORK/holding"
children=$(pgrep -P "$runner")
kill -9 "$runner"
# shellcheck disable=SC2086
kill -9 $children 2>/dev/null
wait "$runner" 2>/dev/null
expect 0 timeout 30 "$vgpu" run --name again --mem 1G -- "$TEST_SIMTEST" cap $((1 << 30)) >/dev/null 2>&1
# HAMi's cache path planted as a link by somebody else: refused, not followed.
echo precious >"$TEST_WORK/precious"
ln -s "$TEST_WORK/precious" "$TEST_WORK/planted.cache"
CUDA_DEVICE_MEMORY_SHARED_CACHE=$TEST_WORK/planted.cache CUDA_DEVICE_MEMORY_LIMIT=1g \
    with_library "$TEST_SIMTEST" init_code 304 >/dev/null 2>&1
[ "$(cat "$TEST_WORK/precious")" = precious ] || die "a planted link was followed and written to"
exit 0
