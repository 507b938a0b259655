# vgpu ps and doctor.
load common.bash

@test "ps without instances" {
    expect 0 "$vgpu" ps
    says
    [[ $output == "No instance"* ]]
    expect 0 "$vgpu" ps --json
    [ "$(json '.instances | length')" = 0 ]
    expect 1 "$vgpu" ps extra
    says "no instance extra is running"
    is ""
    expect 2 "$vgpu" ps --jsn
    says "did you mean --json?"
}

@test "ps: every instance of the user, limits before any use, percentages" {
    mkfifo one two three
    "$vgpu" run --name one --mem 3G sh -c 'read line <one' 3>&- &
    "$vgpu" run --name two --mem 40% --host-mem 2G sh -c 'read line <two' 3>&- &
    "$vgpu" run --name three sh -c 'read line <three' 3>&- &
    for name in one two three; do wait_for test -f "$VGPU_RUNTIME_DIR/instances/$name/users"; done
    wait_for sh -c "test \$('$vgpu' ps --json | jq '[.instances[].running] | add') = 3"
    expect 0 "$vgpu" ps
    [ "$(awk 'NR > 1 { print $1 }' <<<"$output" | sort | tr '\n' ' ')" = "host one three two " ] || fail "$output"
    [[ $(grep ^two <<<"$output") == *"40%"* ]]
    [[ $(grep ^one <<<"$output") == *"3.0 GiB"* ]]
    [[ $(grep ^three <<<"$output") == *"none"* ]]
    expect 0 "$vgpu" ps --json
    [ "$(json '.instances | map(.name) | sort | join(" ")')" = "one three two" ]
    [ "$(json '.instances[] | select(.name == "one") | .limits[0] | [.device, .bytes, .percent] | @csv')" = ',3221225472,' ]
    [ "$(json '.instances[] | select(.name == "two") | .limits[0].percent')" = 40 ]
    [ "$(json '.instances[] | select(.name == "two") | .host.quota_bytes')" = 2147483648 ]
    [ "$(json '.instances[] | select(.name == "three") | .limits | length')" = 0 ]
    [ "$(json '.instances[0].owner_uid')" = "$(id -u)" ]
    (($(json '.instances[0].created_ns') > 1600000000000000000))
    (($(json '.time_ns') >= $(json '.instances[0].created_ns')))
    [ "$(json '.instances[0].user')" = "$(id -un)" ]
    expect 0 "$vgpu" ps --quiet
    [ "$(sort <<<"$output" | tr '\n' ' ')" = "one three two " ] || fail "$output"
    expect 0 "$vgpu" ps -q two one
    [ "$(sort <<<"$output" | tr '\n' ' ')" = "one two " ] || fail "$output"
    expect 1 "$vgpu" ps -q two four
    is two
    says "no instance four is running"
    expect 0 "$vgpu" ps --no-header one
    [[ $output == "one "* && $output != *INSTANCE* ]] || fail "$output"
    expect 2 "$vgpu" ps --watch=0
    says '--watch "0"' seconds
    # Once a second until nobody reads it any more.
    run --separate-stderr sh -c "'$vgpu' ps --watch=1 -q one | head -n 2"
    is $'one\none'
    for name in one two three; do echo >$name; done
    wait
    no_instances
}

@test "ps: what is broken is named, the rest is shown, status 1" {
    mkfifo hold
    "$vgpu" run --name good sh -c 'read line <hold' 3>&- &
    wait_for test -f "$VGPU_RUNTIME_DIR/instances/good/users"
    mkdir "$VGPU_RUNTIME_DIR/instances/bad"
    head -c 100000 /dev/zero >"$VGPU_RUNTIME_DIR/instances/bad/region"
    lead bad
    expect 1 "$vgpu" ps
    says bad "instances/bad/region"
    [[ $output == *good* ]]
    unlead
    expect 0 "$vgpu" ps
    [ ! -e "$VGPU_RUNTIME_DIR/instances/bad" ]
    echo >hold
    wait
}

@test "ps and run look at no other process, whatever there is" {
    mkfifo hold1 hold2 hold3
    local i opens=$VGPU_BUILD/tests/cli/opens.so
    for i in 1 2 3; do "$vgpu" run --name i$i sh -c "read line <hold$i" 3>&- & done
    wait_for sh -c "'$vgpu' ps --json | jq -e '[.instances[].running] == [1, 1, 1]'"
    export OPENS_FILE=$PWD/opens
    LD_PRELOAD=$opens cat /proc/$$/stat >/dev/null
    [ "$(cat opens)" = "/proc/$$/stat" ] || fail "what is preloaded does not count"
    rm opens
    LD_PRELOAD=$opens expect 0 "$vgpu" ps
    [ ! -e opens ] || fail "ps: $(sort opens | uniq -c)"
    LD_PRELOAD=$opens expect 0 "$vgpu" run --name i4 true
    [ ! -e opens ] || fail "run: $(sort opens | uniq -c)"
    for i in 1 2 3; do echo >hold$i; done
    wait
    no_instances
}

@test "ps: an instance that runs in a mount namespace of its own, and in a PID namespace" {
    unshare -rm true 2>err || skip "no namespaces here: $(cat err)"
    mkfifo hold1 hold2
    unshare -rm "$vgpu" run --name far sh -c 'read line <hold1' 3>&- &
    unshare -rmpf --mount-proc "$vgpu" run --name farther sh -c 'read line <hold2' 3>&- &
    wait_for sh -c "'$vgpu' ps --json | jq -e '[.instances[] | {name, running}] == [{name: \"far\", running: 1}, {name: \"farther\", running: 1}]'"
    echo >hold1
    echo >hold2
    wait
    no_instances
}

@test "ps: what says in its environment only that it is in an instance keeps none" {
    mkdir -p "$VGPU_RUNTIME_DIR/instances/ghost"
    mkfifo hold
    VGPU_INSTANCE=$VGPU_RUNTIME_DIR/instances/ghost sh -c 'read line <hold' 3>&- &
    expect 0 "$vgpu" ps --json
    [ "$(json '.instances | length')" = 0 ] || fail "$output"
    no_instances
    echo >hold
    wait
}

@test "ps: a folder that somebody has locked is not waited for, and what nobody uses in it is not shown" {
    mkdir -p "$VGPU_RUNTIME_DIR/instances/dead"
    mkfifo hold
    "$vgpu" run --name live sh -c 'read line <hold' 3>&- &
    wait_for sh -c "'$vgpu' ps | grep '^live .* 1 running'"
    mkdir -p "$VGPU_RUNTIME_DIR/instances/dead"
    exec 9>"$VGPU_RUNTIME_DIR/instances/.lock"
    flock -x 9
    expect 0 "$vgpu" ps --json
    [ "$(json '.instances | map(.name) | join(" ")')" = live ] || fail "$output"
    exec 9>&-
    echo >hold
    wait
    expect 0 "$vgpu" ps
    no_instances
}

@test "ps fits a terminal, and obeys nothing that a program calls itself" {
    mkfifo hold
    local name=$'a\e]0;owned\a\e[31m\n\xc2\x9b1m\xff' width
    cp "$(command -v cat)" "$name"
    "$vgpu" run --sim --mem 1G --name a-name-that-is-as-long-as-names-of-instances-may-well-be -- "./$name" hold 3>&- &
    ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$PWD/"$'b\e[2J\n\xc2\x9b1m\xff'
    "$vgpu" run --sim --mem 1G --name guest -- "./"$'b\e[2J\n\xc2\x9b1m\xff' -c '
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
context = ctypes.c_void_p()
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
open("hold").read()' 3>&- &
    wait_for sh -c "'$vgpu' ps --json | jq -e '[.instances[].processes[]] | length == 1'"
    for width in 60 80 100 200; do
        COLUMNS=$width expect 0 "$vgpu" ps
        LC_ALL=C awk -v most=$width 'length > most { exit 1 }' <<<"$output" || fail "$output"
        ! LC_ALL=C grep -q $'[\x01-\x09\x0b-\x1f\x7f-\xff]' <<<"$output" || fail "$(cat -v <<<"$output")"
        [[ $output == *" b?"* ]] || fail "$output"
    done
    [[ $output == *USER*TIER*DEVICE*GPU*USED*PEAK*QUOTA*CONTEXT*REFUSED* ]] || fail "$output"
    expect 0 "$vgpu" ps --json
    jq . <<<"$output" >/dev/null
    sh -c 'echo >hold'
    wait
}

@test "ps to a closed pipe or a full disk" {
    expect 1 sh -c "'$vgpu' ps >/dev/full"
    says "No space left"
}
