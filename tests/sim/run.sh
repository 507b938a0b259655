#!/usr/bin/env bash
# Runs one test of tests/sim with its own simulated driver and instance, and checks what it leaves behind.
#
#   run.sh BUILD [options] -- COMMAND ARGS...
#     --quota LIST       the instance's quotas, bytes or N%, by vdev (1 GiB on each device)
#     --host-quota B     its quota of pinned host memory, bytes
#     --set K=V          a setting of the instance, as instance.c reads it: cores=30, weight=300
#     --select LIST      the instance's devices by physical number, in order
#     --devices N        the number of devices (1)
#     --card SIZE        the memory of each (16G)
#     --bare             without the library
#     --no-instance      with the library, without an instance
#     --no-preload       with an instance; the command sets LD_PRELOAD itself
#     --var K=V          one more variable
#     --expect N         the exit status to expect (0)
#     --same             runs it bare, and with library and instance; both must print the same
#     --timeout S        for what hangs (600)
#     --unchecked        does not check what it leaves behind
#
# The truth is the simulator's ledger (simctl). At the end the ledger and the instance's region must show no memory.
# On no device may the instance's peak exceed its quota.
set -uo pipefail

build=$(realpath "$1")
shift
quota='' host_quota='' select='' devices=1 card=16G mode=instance preload=1 expect=0 timeout=${TEST_TIMEOUT:-600} same='' checked=1 vars=() sets=() peaks=()
while [ "$1" != -- ]; do
    case $1 in
    --quota) quota=$2 && shift ;;
    --host-quota) host_quota=$2 && shift ;;
    --select) select=$2 && shift ;;
    --devices) devices=$2 && shift ;;
    --card) card=$2 && shift ;;
    --bare) mode=bare ;;
    --no-instance) mode=none ;;
    --no-preload) preload='' ;;
    --var) vars+=("$2") && shift ;;
    --set) sets+=("$2") && shift ;;
    --expect) expect=$2 && shift ;;
    --same) same=1 ;;
    --timeout) timeout=$2 && shift ;;
    --unchecked) checked='' ;;
    *) echo "run.sh: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done
shift

# Closes ctest's log: below a folder named vgpu, tests would take it for a file of the library's.
for fd in "/proc/$$/fd/"*; do
    fd=${fd##*/}
    case $fd in 0 | 1 | 2 | 255) ;; *) exec {fd}>&- ;; esac
done

work=$(mktemp -d /tmp/vgpu-test.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/run/instances" "$work/tmp" "$work/arena"
instance=$work/run/instances/test

unset LD_PRELOAD VGPU_INSTANCE VGPU_GROUP VGPU_TRACE VGPU_LOG_LEVEL CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_DEVICE_MEMORY_LIMIT
export LD_LIBRARY_PATH=$build/sim TMPDIR=$work/tmp
export SIMGPU_STATE=$work/simgpu SIMGPU_COUNT=$devices SIMGPU_MEM=$card SIMGPU_GROUP=test
export VGPU_RUNTIME_DIR=$work/run VGPU_ARENA_DIR=$work/arena
export TEST_BUILD=$build TEST_WORK=$work TEST_SIMCTL=$build/sim/simctl TEST_INSTANCE_TOOL=$build/tests/sim/instance
export TEST_INSTANCE=$instance TEST_SIMTEST=$build/tests/sim/simtest TEST_SIMTEST_DL=$build/tests/sim/simtest_dl

fail() {
    echo "run.sh: $*" >&2
    exit 1
}

uuids=()
if [ "$devices" -gt 1 ] || [ -n "$select" ]; then
    mapfile -t uuids < <("$TEST_SIMTEST_DL" list_uuids)
    [ "${#uuids[@]}" -eq "$devices" ] || fail "the simulator has ${#uuids[@]} devices, not $devices"
    TEST_UUIDS=$(IFS=, && echo "${uuids[*]}")
    export TEST_UUIDS
fi

if [ "$mode" = instance ]; then
    if [ -z "$quota" ]; then
        quota=$((1 << 30))
        for ((i = 1; i < devices; i++)); do quota+=,$((1 << 30)); done
    fi
    chosen=''
    for index in ${select//,/ }; do chosen+=${chosen:+,}${uuids[$index]}; done
    "$TEST_INSTANCE_TOOL" create "$instance" "$quota" "${host_quota:-0}" ${chosen:+"$chosen"} ${sets[@]+"${sets[@]}"} ||
        fail "no instance"
    export TEST_QUOTA=${quota%%,*} TEST_HOST_QUOTA=${host_quota:-0}
fi

# run_once MODE COMMAND...: the command, with what the mode gives it
run_once() {
    local how=$1
    shift
    local settings=(${vars[@]+"${vars[@]}"})
    [ "$how" = bare ] || [ -z "$preload" ] || settings+=(LD_PRELOAD="$build/libvgpu.so")
    [ "$how" != instance ] || [ -z "$preload" ] || settings+=(VGPU_INSTANCE="$instance")
    timeout --kill-after=5 "$timeout" env ${settings[@]+"${settings[@]}"} "$@"
}

if [ -n "$same" ]; then
    run_once bare "$@" >"$work/bare" 2>&1
    bare=$?
    run_once instance "$@" >"$work/with" 2>&1
    with=$?
    [ -s "$work/bare" ] || fail "the bare program printed nothing"
    diff -u "$work/bare" "$work/with" || fail "the library changes what the program gets"
    [ "$bare" -eq "$with" ] || fail "exit status $bare became $with"
    [ "$bare" -lt 124 ] || fail "the program itself ended with $bare"
    exit 0
fi

run_once "$mode" "$@"
status=$?
[ "$status" -eq 77 ] && exit 77
[ "$status" -eq "$expect" ] || fail "exit status $status, not $expect"
[ -n "$checked" ] || exit 0

# --- what is left ---
bad=0
complain() {
    echo "run.sh: $*" >&2
    bad=1
}

if [ -e "$SIMGPU_STATE" ]; then
    ledger=$("$TEST_SIMCTL" ledger)
    while read -r _ name rest; do
        [ "$name" = test ] || continue
        device=${rest#device=} total=${rest#*total=} peak=${rest#*peak=}
        device=${device%% *} total=${total%% *}
        [ "$total" -eq 0 ] || complain "the driver still holds $total bytes for the instance on device $device"
        peaks[device]=$peak
    done < <(grep '^group ' <<<"$ledger")
    if grep -q '^process .* host=[1-9]' <<<"$ledger"; then
        complain "the driver still holds pinned host memory"
    fi
fi
if [ "$mode" = instance ] && [ -e "$instance/region" ]; then
    "$TEST_INSTANCE_TOOL" check "$instance" || complain "the instance is not empty"
    while read -r word vdev limit _ _ uuid; do
        [ "$word" = vdev ] || continue
        device=$vdev limit=${limit#quota=}
        for i in "${!uuids[@]}"; do [ "${uuids[i]}" != "${uuid#uuid=}" ] || device=$i; done
        [ "$limit" -eq 0 ] || [ "$vdev" -ge 16 ] || [ "${peaks[device]:-0}" -le "$limit" ] ||
            complain "device $device: a peak of ${peaks[device]} bytes exceeds the quota of $limit"
    done < <("$TEST_INSTANCE_TOOL" show "$instance")
fi
left=$(find "$work/tmp" "$work/arena" -mindepth 1 ! -name "vgpu-GPU-*" -print -quit)
[ -z "$left" ] || complain "left behind: $left"
exit "$bad"
