# vgpu run and ps with the simulated driver: devices, refusals, tracing.
load common.bash

# Allocates MiB after MiB by the driver API until it is refused, and prints how far it came and the result.
allocate='
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
context, device = ctypes.c_void_p(), ctypes.c_int()
assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
got = 0
for step in range(int(sys.argv[1])):
    pointer = ctypes.c_uint64()
    result = cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(64 << 20))
    if result:
        break
    got += 64
print(got, result, flush=True)
if len(sys.argv) > 2:
    open(sys.argv[2]).read()
'

@test "--sim says in one line that no GPU is involved" {
    expect 0 "$vgpu" run --sim sh -c 'echo $LD_LIBRARY_PATH'
    is "$VGPU_BUILD/sim"
    says "no GPU is involved"
    [ "$(wc -l <<<"$stderr")" = 1 ]
    LD_LIBRARY_PATH=/a:$VGPU_BUILD/sim:/b expect 0 "$vgpu" run --sim sh -c 'echo $LD_LIBRARY_PATH'
    is "$VGPU_BUILD/sim:/a:/b"
}

@test "--gpu without a driver is refused with the reason; without --gpu the command runs" {
    if ldconfig -p | grep -q libnvidia-ml.so.1; then skip "there is a driver"; fi
    expect 125 "$vgpu" run --gpu 0 true
    says "--gpu 0" libnvidia-ml.so.1 doctor
    expect 125 "$vgpu" run --gpu auto true
    expect 0 "$vgpu" run --mem 1G true
}

@test "--gpu: indices, UUIDs, prefixes, auto; errors list what exists" {
    export SIMGPU_COUNT=3
    expect 125 "$vgpu" run --sim --gpu 3 true
    says '"3"' "0 = GPU-" "2 = GPU-"
    local uuid
    uuid=$(grep -o '2 = GPU-[0-9a-f-]*' <<<"$stderr" | cut -c5-)
    [ ${#uuid} = 40 ]
    for list in 0 2,0 "$uuid" "$uuid,0" "${uuid,,}" auto all 0,1,2; do
        expect 0 "$vgpu" run --sim --gpu "$list" true
    done
    for list in '' , 0, 0,,1 -1 x 1x 99999999999 GPU- GPU-zz nvidia; do
        expect 125 "$vgpu" run --sim --gpu="$list" true
        says "--gpu" "0 = GPU-"
    done
    for list in auto,0 1,auto all,0; do
        expect 125 "$vgpu" run --sim --gpu "$list" true
        says "stands alone"
    done
    for list in 0,0 "2,$uuid" "$uuid,1,$uuid"; do
        expect 125 "$vgpu" run --sim --gpu "$list" true
        says "named twice"
    done
    expect 125 "$vgpu" run --sim --gpu MIG-1234 true
    says CUDA_VISIBLE_DEVICES
    expect 125 "$vgpu" run --sim --gpu 0,1 --mem 0:1G,2:1G true
    says "device 2" "2 devices"
    SIMGPU_COUNT=1 expect 0 "$vgpu" run --sim --env SIMGPU_COUNT=4 --env "SIMGPU_STATE=$PWD/four" --gpu 3 true
    no_instances
}

@test "--mem for a device that is not there is refused" {
    export SIMGPU_COUNT=2
    expect 125 "$vgpu" run --sim --mem 2:8G true
    says "--mem 2:8G names device 2" "there are only 2"
    expect 125 "$vgpu" run --sim --gpu 1 --mem 0:8G,5:4G true
    says "names device 5" "--gpu 1 gives the program 1 device"
    expect 0 "$vgpu" run --sim --mem 0:8G,1:4G true
}

@test "a name in use with other devices is refused" {
    export SIMGPU_COUNT=2
    mkfifo hold
    "$vgpu" run --sim --name devices --gpu 0 sh -c 'read line <hold' 2>/dev/null 3>&- &
    wait_for test -f "$VGPU_RUNTIME_DIR/instances/devices/region"
    expect 125 "$vgpu" run --sim --name devices --gpu 1 true
    says "--gpu GPU-" devices
    expect 125 "$vgpu" run --sim --name devices --gpu 0,1 true
    expect 0 "$vgpu" run --sim --name devices --gpu 0 true
    echo >hold
    wait
}

@test "ps --json is the document that is kept here, and every field of it is described" {
    local here=$BATS_TEST_DIRNAME key
    mkfifo hold
    "$vgpu" run --sim --name small --mem 2G --cores 30 --weight 300 --priority 5 --policy fair --copy-bw 1G \
        python3 -c "$allocate" 100 hold >out 2>err 3>&- &
    wait_for test -s out
    expect 0 "$vgpu" ps --json
    # What differs from run to run is replaced by its type.
    jq -S 'walk(if type == "object" then with_entries(if .key | IN("time_ns", "created_ns", "start_ns", "pid", "own_pid", "directory",
        "owner_uid", "user", "command", "last_second_share") then .value |= type else . end) else . end)' <<<"$output" >masked
    diff -u "$here/ps.json" masked
    while read -r key; do
        grep -qE "^\\| \`([a-z]+\\[\\]\\.)?$key(\\[\\])?\`|\`$key\`[,;:]" "$here/../../docs/ps-json.md" || fail "docs/ps-json.md lacks $key"
    done < <(jq -r '[paths[-1] | strings] | unique[]' masked)
    echo >hold
    wait
    no_instances
}

@test "a quota holds in python, and ps shows what is held and what was refused" {
    mkfifo hold
    "$vgpu" run --sim --name small --mem 2G python3 -c "$allocate" 100 hold >out 2>err 3>&- &
    wait_for test -s out
    read -r got result <out
    [ "$result" = 2 ] || fail "result $result: $(cat err)"
    ((got > 1024 && got < 2048)) || fail "got $got MiB"
    expect 0 "$vgpu" ps --json
    [ "$(json '.instances | length')" = 1 ]
    [ "$(json '.instances[0].devices[0].quota_bytes')" = $((2 << 30)) ]
    (($(json '.instances[0].devices[0].used_bytes') <= 2 << 30))
    [ "$(json '.instances[0].devices[0].used_by_kind.data')" = $((got << 20)) ]
    (($(json '.instances[0].devices[0].used_by_kind.context') > 0))
    [ "$(json '.instances[0].devices[0].used_bytes == ([.instances[0].devices[0].used_by_kind[]] | add)')" = true ]
    [ "$(json '.instances[0].devices[0].uuid | startswith("GPU-")')" = true ]
    [ "$(json '.instances[0].processes | length')" = 1 ]
    [[ $(json '.instances[0].processes[0].command') == python3* ]]
    (($(json '.instances[0].refusals.count') >= 1))
    [[ $(json '.instances[0].refusals.last.api') == cuMemAlloc* ]]
    [ "$(json '.instances[0].refusals.last.size_bytes')" = $((64 << 20)) ]
    COLUMNS=200 expect 0 "$vgpu" ps
    [[ $output == INSTANCE*USER*PROCESS*DEVICE*GPU*USED*PEAK*QUOTA*CONTEXT*DATA*REFUSED* ]]
    [[ $output == *"2.0 GiB"* && $output == *"small: "*"refused; the last"*"cuMemAlloc"* ]]
    # Columns are aligned: numbers end where their heads end.
    awk 'NR == 1 { end = index($0, "QUOTA") + 4 } NR == 2 && substr($0, end - 2, 3) != "GiB" { exit 1 }' <<<"$output"
    echo >hold
    wait
    no_instances
}

@test "two commands of one name share one quota" {
    mkfifo hold
    "$vgpu" run --sim --name both --mem 2G python3 -c "$allocate" 8 hold >out 2>err 3>&- &
    wait_for test -s out
    [ "$(cat out)" = "512 0" ]
    expect 0 "$vgpu" run --sim --name both python3 -c "$allocate" 100
    read -r got result <<<"$output"
    [ "$result" = 2 ]
    ((got < 2048 - 512)) || fail "got $got MiB"
    echo >hold
    wait
}

@test "--trace: a summary on stderr and in the file" {
    expect 0 "$vgpu" run --sim --mem 4G --trace calls.txt python3 -c "$allocate" 5
    is "320 0"
    says SYMBOL CALLS BYTES
    [[ $(grep -m1 '^cuMemAlloc_v2 ' <<<"$stderr") =~ ^cuMemAlloc_v2\ +5\ +320.0\ MiB$ ]]
    awk '/^SYMBOL/ { on = 1; last = 1e18; next } on && $2 ~ /^[0-9]+$/ { if ($2 > last) exit 1; last = $2 }' <<<"$stderr"
    [ "$(jq -s '[.[] | select(.symbol == "cuMemAlloc_v2" and .calls == 5 and .total_bytes == 335544320)] | length' calls.txt)" = 1 ]
    [ "$(jq -s '[.[] | select(.symbol == "cuMemAlloc_v2" and .bytes == 67108864)] | length' calls.txt)" = 5 ]
    cp calls.txt first
    expect 0 "$vgpu" run --sim --trace calls.txt true
    says "no driver call"
    [ ! -s calls.txt ]
    expect 125 "$vgpu" run --trace /nowhere/calls.txt true
    says "--trace /nowhere/calls.txt"
}

@test "--gpu inside an instance chooses among its devices" {
    local outer=("$vgpu" run --sim --name lab) inner=("$vgpu" run --sim)
    export SIMGPU_COUNT=3
    local show='echo "$CUDA_VISIBLE_DEVICES"' uuid
    expect 125 "$vgpu" run --sim --gpu 3 true
    uuid=$(grep -o '1 = GPU-[0-9a-f-]*' <<<"$stderr" | cut -c5-)
    expect 0 "${outer[@]}" "${inner[@]}" --gpu 1 sh -c "$show"
    is "$uuid"
    expect 0 "${outer[@]}" "${inner[@]}" --gpu auto true
    expect 0 "${outer[@]}" --gpu 0,1 "${inner[@]}" --gpu 1 --mem 1G sh -c "$show"
    is "$uuid"
    expect 0 "${outer[@]}" --gpu 0,1 "${inner[@]}" --gpu all sh -c 'case $CUDA_VISIBLE_DEVICES in *,*,*) exit 1;; *,*) exit 0;; esac; exit 1'
    expect 125 "${outer[@]}" --gpu 0,1 "${inner[@]}" --gpu 2 true
    says "no device \"2\""
    expect 125 "${outer[@]}" --gpu 0,1 env -u LD_PRELOAD "${inner[@]}" --gpu 2 true
    says "--gpu 2: this is inside instance lab, which has no device GPU-"
    expect 125 "${outer[@]}" "${inner[@]}" --gpu 0,1 --mem 0:1G,1:2G true
    says "another limit for each device" "instance lab"
    # The limit is of the device that was chosen.
    expect 0 "${outer[@]}" --mem 4G "${inner[@]}" --gpu 2 --mem 1G python3 -c '
import ctypes
cuda, total, free = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t(), ctypes.c_size_t()
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
print(total.value >> 20)'
    is 1024
}
