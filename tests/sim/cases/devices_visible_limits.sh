#!/usr/bin/env bash
# Limits by number are numbered as the program sees its devices, with CUDA_VISIBLE_DEVICES set, by any way to set them.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
IFS=, read -ra uuid <<<"$TEST_UUIDS"
gib=$((1 << 30)) half=$((1 << 29))

# kept QUOTAS COMMAND...: each of the program's devices stops at its own quota, in the view and on the card.
kept() {
    local quotas=$1 test
    shift
    for test in "$TEST_SIMTEST" "$TEST_SIMTEST_DL"; do
        "$@" "$test" quota_per_device "$quotas" 2>"$TEST_WORK/err" ||
            die "$*: not $quotas (CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES-not set}): $(cat "$TEST_WORK/err")"
    done
}

hami() { # NAME=VALUE... -- COMMAND...: a process with HAMi's variables, and a cache file of its own
    local variables=()
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    rm -f "$TEST_WORK/cache"
    env "${variables[@]}" CUDA_DEVICE_MEMORY_SHARED_CACHE="$TEST_WORK/cache" LD_PRELOAD="$library" "$@"
}

for variable in 1 "${uuid[1]}" "${uuid[1]:0:12}"; do
    export CUDA_VISIBLE_DEVICES=$variable
    kept $gib "$vgpu" run --mem 0:1G --
    kept $half hami CUDA_DEVICE_MEMORY_LIMIT_0=512m --
done
for variable in 3,1 "${uuid[3]},1"; do
    export CUDA_VISIBLE_DEVICES=$variable
    kept $gib,$half "$vgpu" run --mem 0:1G,1:512M --
    kept $half,$gib "$vgpu" run --mem 512M,1:1G --
    kept $gib,$half hami CUDA_DEVICE_MEMORY_LIMIT_0=1g CUDA_DEVICE_MEMORY_LIMIT_1=512m --
done
# Among the devices of --gpu.
CUDA_VISIBLE_DEVICES=1 kept $gib "$vgpu" run --gpu 2,0 --mem 0:1G --
CUDA_VISIBLE_DEVICES=1,0 kept $gib,$half "$vgpu" run --gpu 2,0 --mem 0:1G,1:512M --

# Caps go the same way; the vdevs are those of the devices.
CUDA_VISIBLE_DEVICES=2,1 "$vgpu" run --cores 0:10,1:20 -- sh -c '"$0" show "$VGPU_INSTANCE"' "$TEST_INSTANCE_TOOL" >"$TEST_WORK/vdevs"
grep -q "^vdev 0 .*cap=10 uuid=${uuid[2]}" "$TEST_WORK/vdevs" && grep -q "^vdev 1 .*cap=20 uuid=${uuid[1]}" "$TEST_WORK/vdevs" ||
    die "caps: $(cat "$TEST_WORK/vdevs")"

# A process that numbers differently and comes later has its own limit for a device that nobody has used.
export CUDA_DEVICE_MEMORY_SHARED_CACHE=$TEST_WORK/shared CUDA_DEVICE_MEMORY_LIMIT_0=1g
for device in 1 2; do
    CUDA_VISIBLE_DEVICES=$device LD_PRELOAD=$library "$TEST_SIMTEST" quota_per_device $gib || die "rank on device $device"
done
# NVML has the number of the variable, too; CUDA then agrees.
rm -f "$TEST_WORK/shared"
CUDA_VISIBLE_DEVICES=3 LD_PRELOAD=$library "$TEST_SIMTEST" nvml_total_of "${uuid[3]}" $gib || die "NVML before CUDA"
CUDA_VISIBLE_DEVICES=3 LD_PRELOAD=$library "$TEST_SIMTEST" quota_per_device $gib || die "CUDA after NVML"
unset CUDA_DEVICE_MEMORY_SHARED_CACHE CUDA_DEVICE_MEMORY_LIMIT_0

# A refusal names the program's number, also where a process of the instance has renumbered once more.
"$vgpu" run --mem 1G -- env CUDA_VISIBLE_DEVICES=2 "$TEST_SIMTEST" cap $gib >/dev/null 2>"$TEST_WORK/err"
grep -q "refused on device 0:" "$TEST_WORK/err" || die "the refusal: $(cat "$TEST_WORK/err")"

# What is not there is refused, with the variable that says so.
CUDA_VISIBLE_DEVICES=1 "$vgpu" run --mem 1:1G -- true 2>"$TEST_WORK/err" && die "device 1 of one"
grep -q 'CUDA_VISIBLE_DEVICES=1 leaves the program 1 device,' "$TEST_WORK/err" || die "$(cat "$TEST_WORK/err")"
exit 0

# What a program hides from itself has kept its limit; that what it sees has none is told.
"$vgpu" run --mem 0:1G -- env CUDA_VISIBLE_DEVICES=1 "$TEST_SIMTEST" start_process_once 2>"$TEST_WORK/err" || die "a hidden limit"
grep -q "device 0 (${uuid[1]}) has no limit: the instance limits ${uuid[0]}, which CUDA_VISIBLE_DEVICES=1 hides" "$TEST_WORK/err" ||
    die "hidden limits: $(cat "$TEST_WORK/err")"
"$vgpu" run --mem 0:1G -- env CUDA_VISIBLE_DEVICES=0,1 "$TEST_SIMTEST" start_process_once 2>"$TEST_WORK/err" || die "none hidden"
! grep -q "has no limit" "$TEST_WORK/err" || die "none hidden: $(cat "$TEST_WORK/err")"
"$vgpu" run --mem 1G -- env CUDA_VISIBLE_DEVICES=1 "$TEST_SIMTEST" start_process_once 2>"$TEST_WORK/err" || die "one limit for all"
! grep -q "has no limit" "$TEST_WORK/err" || die "one limit for all: $(cat "$TEST_WORK/err")"

# A quota above the device is told, however little it is.
"$vgpu" run --mem 3073M -- "$TEST_SIMTEST" start_process_once 2>"$TEST_WORK/err" || die "above the device"
grep -q "a quota of 3.0 GiB is more than the 3.0 GiB of device 0: the device is the limit" "$TEST_WORK/err" ||
    die "above the device: $(cat "$TEST_WORK/err")"
CUDA_DEVICE_MEMORY_LIMIT=3073m CUDA_DEVICE_MEMORY_SHARED_CACHE=$TEST_WORK/above.cache with_library "$TEST_SIMTEST" start_process_once 2>"$TEST_WORK/err" ||
    die "HAMi above the device"
! grep -q "more than the" "$TEST_WORK/err" || die "HAMi above the device: $(cat "$TEST_WORK/err")"
