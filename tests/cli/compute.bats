# Caps, weights, priorities, policies: vgpu run, its summary, and ps.
load common.bash

charge() # charge INSTANCE DEVICE NAME=VALUE...
{
    "$VGPU_BUILD/tests/cli/charge" "$VGPU_RUNTIME_DIR/instances/$1/region" "${@:2}"
}

# start NAME OPTION...: an instance that lasts until something is written to the fifo NAME.
start()
{
    mkfifo "$1"
    "$vgpu" run --name "$@" sh -c "read line <$1" 3>&- &
    wait_for test -f "$VGPU_RUNTIME_DIR/instances/$1/users"
}

stop()
{
    local name
    for name; do echo >"$name"; done
    wait
    rm "$@"
    no_instances
}

# json_of NAME FILTER: of one instance in the output of ps --json.
json_of()
{
    json ".instances[] | select(.name == \"$1\") | $2"
}

@test "what is accepted, and what ps says of it" {
    local text
    for text in 1 30 30% 99 100 0:30,1:50 25,15:50; do
        expect 0 "$vgpu" run --cores "$text" true
    done
    start all --cores 30 --cores-policy elastic --weight 1000 --priority 255 --policy mlfq --copy-bw 5G
    start each --cores 0:30,3:50 --weight 1
    start plain
    start full --cores 100 --cores-policy hard --weight 100 --priority 0
    expect 0 "$vgpu" ps --json
    [ "$(json_of all '[.compute | .weight, .priority, .cap_policy, .turn_policy, .copy_bytes_per_s] | @csv')" = \
        '1000,255,"elastic","mlfq",5368709120' ]
    [ "$(json_of all '.limits | map([.device, .cap_percent]) | @json')" = '[[null,30]]' ]
    [ "$(json_of each '.limits | map([.device, .bytes, .cap_percent]) | @json')" = '[[0,null,30],[3,null,50]]' ]
    [ "$(json_of plain '[.compute | .weight, .priority, .cap_policy, .turn_policy, .copy_bytes_per_s] | @csv')" = '100,0,"hard",,' ]
    [ "$(json_of plain '.limits | length')" = 0 ]
    [ "$(json_of full '[.compute, .limits] == ['"$(json_of plain '.compute')"', []]')" = true ]
    for text in fair priority rr adaptive; do
        expect 0 "$vgpu" run --policy $text "$vgpu" ps --json
        [ "$(json ".instances | map(select(.compute.turn_policy == \"$text\")) | length")" = 1 ]
    done
    expect 0 "$vgpu" ps
    [[ $(grep '^all .*elastic' <<<"$output") =~ 30%\ elastic\ +1000 ]] || fail "$output"
    [[ $(grep '^plain ' <<<"$output" | tail -n 1) =~ none\ +100 ]] || fail "$output"
    stop all each plain full
}

@test "what is refused, with the option, the value and what to write" {
    local text
    for text in '' 0 101 -1 abc 1.5 30%% 05 '30 ' 8G 0:30,0:40 16:30 0: 30, 30,40 0:0; do
        expect 125 "$vgpu" run --cores "$text" true
        says "run: --cores \"$text\""
    done
    for text in '' hrad HARD off none; do
        expect 125 "$vgpu" run --cores-policy "$text" true
        says "run: --cores-policy \"$text\"" hard elastic
    done
    for text in '' 0 1001 -5 5% x 18446744073709551616; do
        expect 125 "$vgpu" run --weight "$text" true
        says "run: --weight \"$text\"" "from 1 to 1000"
    done
    for text in '' 256 -1 high; do
        expect 125 "$vgpu" run --priority "$text" true
        says "run: --priority \"$text\"" "from 0 to 255"
    done
    for text in '' lottery Fair; do
        expect 125 "$vgpu" run --policy "$text" true
        says "run: --policy \"$text\"" "fair, priority, mlfq, rr or adaptive"
    done
    for text in '' 0 50% 5X -1 5G/s 1000 5; do
        expect 125 "$vgpu" run --copy-bw "$text" true
        says "run: --copy-bw" "$text"
    done
    says "did you mean 5G?"
    expect 125 "$vgpu" run --stats=yes true
    says "--stats takes no value"
    expect 125 "$vgpu" run --core 30 true
    says "did you mean --cores?"
    no_instances
}

@test "a cap for a device that is not there is refused" {
    export SIMGPU_COUNT=2
    expect 125 "$vgpu" run --sim --cores 2:30 true
    says "--cores 2:30 names device 2" "there are only 2"
    expect 125 "$vgpu" run --sim --gpu 1 --cores 0:30,5:40 true
    says "names device 5" "--gpu 1 gives the program 1 device"
    expect 0 "$vgpu" run --sim --cores 0:30,1:40 true
}

@test "a name in use: joined with the same settings or none, refused with others" {
    start lab --cores 30,1:50 --cores-policy elastic --weight 200 --priority 3 --copy-bw 5G
    expect 0 "$vgpu" run --name lab true
    expect 0 "$vgpu" run --name lab --cores 30%,1:50 --cores-policy elastic --weight 200 --priority 3 --copy-bw 5120m true
    expect 125 "$vgpu" run --name lab --cores 40,1:50 true
    says "instance lab is running with --cores 0:30, but --cores 0:40 was given"
    expect 125 "$vgpu" run --name lab --cores 30 true
    says "--cores 1:50" "--cores 1:30"
    expect 125 "$vgpu" run --name lab --cores 30,1:100 true
    says "--cores 1:50" "--cores 1:none"
    expect 125 "$vgpu" run --name lab --weight 100 true
    says "--weight 200, but --weight 100"
    expect 125 "$vgpu" run --name lab --priority 0 true
    says "--priority 3, but --priority 0"
    expect 125 "$vgpu" run --name lab --cores-policy hard true
    says "--cores-policy elastic, but --cores-policy hard"
    expect 125 "$vgpu" run --name lab --copy-bw 6G true
    says "--copy-bw 5.0 GiB, but --copy-bw 6.0 GiB"
    stop lab
    start lab
    expect 0 "$vgpu" run --name lab --cores 100 --weight 100 --priority 0 --cores-policy hard true
    expect 125 "$vgpu" run --name lab --copy-bw 6G true
    says "--copy-bw none"
    stop lab
}

@test "--policy is the device's: whoever joins may set it, and changes nothing else" {
    start lab --cores 30 --mem 1G --policy rr
    expect 0 "$vgpu" run --name lab --policy fair true
    expect 0 "$vgpu" ps --json
    [ "$(json_of lab .compute.turn_policy)" = fair ]
    [ "$(json_of lab '.limits | map([.device, .bytes, .cap_percent]) | @json')" = '[[null,1073741824,30]]' ]
    expect 0 "$vgpu" run --name lab true
    expect 0 "$vgpu" ps --json
    [ "$(json_of lab .compute.turn_policy)" = fair ]
    expect 125 "$vgpu" run --name lab --policy mlfq --weight 7 true
    expect 0 "$vgpu" ps --json
    [ "$(json_of lab .compute.turn_policy)" = fair ]
    stop lab
}

@test "ps: shares of the last second, entitlement among those who use the device, times, work by kind" {
    local a=GPU-aaaaaaaa-0000-0000-0000-000000000000 b=GPU-bbbbbbbb-0000-0000-0000-000000000000
    start one --cores 30 --weight 300
    start two
    start three --weight 600
    charge one 0 uuid=$a kernel.calls=10 kernel.amount=2500000000 graph.calls=2 graph.amount=500000000 htod.calls=3 \
        htod.amount=4096 throttles=7 throttled_ns=1500000000 turns=4 turn_wait_ns=20000000 copy_wait_ns=5
    charge two 1 uuid=${a^^} kernel.calls=1 kernel.amount=1000
    charge three 0 uuid=$a
    charge three 1 uuid=$b kernel.calls=1 kernel.amount=1000
    shares()
    {
        charge one 0 now_ns=300000000
        charge two 1 now_ns=99000000000
        charge three 1 now_ns=1
        output=$("$vgpu" ps --json)
        [ "$(json_of one '.devices[0].compute.last_second_share')" = 0.3 ]
    }
    wait_for shares
    [ "$(json_of one '.devices[0].compute | [.cap_percent, .gpu_ns, .throttles, .throttled_ns, .turns, .turn_wait_ns, .copy_wait_ns] | @csv')" = \
        30,3000000000,7,1500000000,4,20000000,5 ]
    [ "$(json_of one '.devices[0].compute | [.calls.kernel, .calls.graph, .calls.memset, .calls.htod] | @csv')" = 10,2,0,3 ]
    [ "$(json_of one '.devices[0].compute | [.gpu_ns_by_kind, .copy_bytes_by_kind] | @json')" = \
        '[{"kernel":2500000000,"graph":500000000,"memset":0,"copy":0},{"htod":4096,"dtoh":0}]' ]
    # 100 of 400, on a device that the two number differently; three has not used that one.
    # 300 of 400, but the cap holds.
    [ "$(json_of one '.devices[0].compute.entitlement')" = 0.3 ]
    [ "$(json_of two '.devices[] | select(.device == 1) | .compute.entitlement')" = 0.25 ]
    [ "$(json_of two '.devices[] | select(.device == 1) | .compute.last_second_share <= 1')" = true ]
    # What it would get, with all three.
    [ "$(json_of three '.devices[0].compute.entitlement')" = 0.6 ]
    [ "$(json_of three '.devices[1].compute.entitlement')" = 1 ] || [ "$(json_of three '.devices[1].compute.entitlement')" = 1.0 ]

    lines()
    {
        charge one 0 now_ns=300000000
        charge two 1 now_ns=99000000000
        output=$(COLUMNS=120 "$vgpu" ps)
        [[ $output =~ one\ +0\ +GPU-aaaaaaaa\ +30\.0%\ +30%\ +300\ +30\.0%\ +3\.00\ s\ +20\.0\ ms\ +1\.50\ s$'\n' ]] &&
            [[ $output =~ two\ +1\ +GPU-AAAAAAAA\ +100\.0%\ +none\ +100\ +25\.0%\ +1\.0\ us\ +0\ s\ +0\ s$ ]]
    }
    wait_for lines || fail "$output"
    [[ $output == *$'\n\nINSTANCE'*DEVICE*GPU*NOW*CAP*WEIGHT*ENTITLED*"GPU TIME"*"TURN WAIT"*"CAP WAIT"* ]]
    awk 'length > 120 { exit 1 }' <<<"$output" || fail "$output"
    stop one two three
}

@test "ps has no table about time where nothing was done and nothing is set" {
    start quiet --mem 1G
    expect 0 "$vgpu" ps
    [ "$(grep -c ^INSTANCE <<<"$output")" = 1 ]
    stop quiet
}

@test "--stats: what was done meanwhile, with the command's own status" {
    local region='$VGPU_INSTANCE/region' charge=$VGPU_BUILD/tests/cli/charge
    expect 0 "$vgpu" run --stats true
    says "note: stats: instance true-" "no GPU was used"
    [ "$(wc -l <<<"$stderr")" = 1 ]
    expect 3 "$vgpu" run --name lab --cores 1:50 --stats sh -c "$charge $region 1 uuid=GPU-cccccccc-1 kernel.calls=20 \
        kernel.amount=1000000 copy.calls=1 copy.amount=500000 htod.calls=2 htod.amount=6442450944 throttles=3 \
        throttled_ns=2000000 turns=5 turn_wait_ns=7000000 copy_wait_ns=9000; exit 3"
    says "stats: instance lab"
    [ -z "$output" ]
    [[ $stderr =~ DEVICE\ +GPU\ +GPU\ TIME\ +SHARE\ +CAP\ +TURNS\ +TURN\ WAIT\ +THROTTLED\ +CAP\ WAIT\ +COPY\ WAIT\ +PEAK\ MEM ]]
    [[ $stderr =~ $'\n'1\ +GPU-cccccccc\ +1\.5\ ms\ +[0-9]+\.[0-9]%\ +50%\ +5\ +7\.0\ ms\ +3\ +2\.0\ ms\ +9\.0\ us ]] || fail "$stderr"
    [[ $stderr =~ $'\n'DEVICE\ +WORK\ +CALLS\ +AMOUNT$'\n'1\ +kernel\ +20\ +1\.0\ ms$'\n'1\ +copy\ +1\ +500\.0\ us$'\n'1\ +htod\ +2\ +6\.0\ GiB$ ]] || fail "$stderr"
    awk 'length > 120 { exit 1 }' <<<"$stderr"
    expect 0 "$vgpu" run --sim --stats "$VGPU_BUILD/demo/busy" peak 0.05
    [[ $stderr =~ $'\n'0\ .*\ [0-9.]+\ MiB$'\n' ]] || fail "no peak: $stderr"
    expect 143 "$vgpu" run --stats sh -c 'kill -TERM $$'
    says "stats: instance"
    # Only a millisecond of GPU time: a small share of however long it took.
    expect 0 "$vgpu" run --stats sh -c "$charge $region 0 kernel.calls=1 kernel.amount=50000000; sleep 0.5"
    [[ $stderr =~ $'\n'0\ +-\ +50\.0\ ms\ +[0-9]\.[0-9]%\  ]] || fail "$stderr"
}

@test "--stats of a run that joins counts from when it began, and goes with --trace" {
    start lab
    charge lab 0 kernel.calls=1000 kernel.amount=5000000000 turns=9
    expect 0 "$vgpu" run --name lab --stats --trace calls.txt \
        "$VGPU_BUILD/tests/cli/charge" "$VGPU_RUNTIME_DIR/instances/lab/region" 0 kernel.calls=2 kernel.amount=3000
    says "trace: no driver call was seen" "stats: instance lab"
    [[ $stderr =~ $'\n'0\ +-\ +3\.0\ us\ +0\.[0-9]%\ +none\ +0\  ]] || fail "$stderr"
    [[ $stderr =~ $'\n'0\ +kernel\ +2\ +3\.0\ us$ ]] || fail "$stderr"
    stop lab
}
