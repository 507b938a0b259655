#!/usr/bin/env bash
# What is in force is said at the start, for whoever asks: one line with the cap, also where HAMi's variables give it.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
says() { # pattern; then a command
    local pattern=$1
    shift
    VGPU_LOG_LEVEL=3 "$@" >/dev/null 2>"$TEST_WORK/err" || die "$* fails: $(cat "$TEST_WORK/err")"
    [ "$(grep -c 'is attached' "$TEST_WORK/err")" -eq 1 ] || die "$*: not one line: $(cat "$TEST_WORK/err")"
    grep -qE -- "is attached.*$pattern" "$TEST_WORK/err" || die "$*: not '$pattern' in: $(cat "$TEST_WORK/err")"
}
load=("$TEST_SIMTEST" load us=100 secs=0)
says 'cap \(hard\): 30% from device 0 on; weight 100, priority 0' "$vgpu" run --cores 30 -- "${load[@]}"
says 'cap \(elastic\): none from device 0 on, 45% from device 1 on.*weight 300, priority 7' \
    "$vgpu" run --cores 1:45 --cores-policy elastic --weight 300 --priority 7 -- "${load[@]}"
says 'cap \(hard\): none from device 0 on' "$vgpu" run --mem 1G -- "${load[@]}"
export CUDA_DEVICE_MEMORY_SHARED_CACHE=$TEST_WORK/hami.cache
CUDA_DEVICE_SM_LIMIT=40 says 'cap \(hard\): 40% from device 0 on' with_library "${load[@]}"
CUDA_DEVICE_SM_LIMIT=40 GPU_CORE_UTILIZATION_POLICY=disable says 'cap \(off\): 40% from device 0 on' with_library "${load[@]}"
CUDA_DEVICE_SM_LIMIT_0=20 says 'cap \(hard\): 20% from device 0 on, none from device 1 on' with_library "${load[@]}"
env -u CUDA_DEVICE_MEMORY_SHARED_CACHE "$vgpu" run --cores 30 -- "${load[@]}" >/dev/null 2>"$TEST_WORK/err"
[ ! -s "$TEST_WORK/err" ] || die "unasked: $(cat "$TEST_WORK/err")"
rm -f "$CUDA_DEVICE_MEMORY_SHARED_CACHE"*
