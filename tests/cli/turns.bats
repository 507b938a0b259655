# What the command says of turns: where they are off, and who shares a device outside of them.
load common.bash

setup_arenas()
{
    export VGPU_ARENA_DIR=$BATS_TEST_TMPDIR/arenas
    mkdir -m "$1" "$VGPU_ARENA_DIR"
}

turns() # turns STATUS: how many findings of doctor's check "turns" have it
{
    json "[.checks[] | select(.name == \"turns\" and .status == \"$1\")] | length"
}

@test "turns: a damaged arena is made anew, and that is said once" {
    setup_arenas 700
    : >"$VGPU_ARENA_DIR/vgpu-GPU-broken"
    run --separate-stderr "$vgpu" doctor --json
    [ "$(turns warn)" = 1 ] || fail "$output"
    [[ $output == *"GPU-broken is damaged"* ]]
    expect 0 "$vgpu" run -- true
    says "GPU-broken" "was damaged and has been made anew"
    expect 0 "$vgpu" run -- true
    [[ $stderr != *turns* ]] || fail "$stderr"
    run --separate-stderr "$vgpu" doctor --json
    [ "$(turns ok)" = 1 ] || fail "$output"
}

@test "turns: where there can be none, run says so, and runs" {
    setup_arenas 700
    mkfifo "$VGPU_ARENA_DIR/vgpu-GPU-pipe"
    expect 0 "$vgpu" run -- true
    says "no turns on GPU-pipe"
    run --separate-stderr "$vgpu" doctor --json
    [ "$(turns warn)" = 1 ] || fail "$output"
    VGPU_ARENA_DIR=/nonexistent expect 0 "$vgpu" run -- true
    says "no turns on any device: /nonexistent: No such file or directory"
}

@test "turns: another user's instances on the device are named" {
    [ "$(id -u)" = 0 ] || skip "making a file of another user takes root"
    [ -r /proc/locks ] || skip "no /proc/locks"
    setup_arenas 1777
    : >"$VGPU_ARENA_DIR/vgpu-65534-GPU-shared"
    chown 65534 "$VGPU_ARENA_DIR/vgpu-65534-GPU-shared"
    expect 0 "$vgpu" run --weight 200 -- true
    [[ $stderr != *turns* ]] || fail "$stderr"
    # A lock stands in for a process that has its place there.
    flock "$VGPU_ARENA_DIR/vgpu-65534-GPU-shared" sleep 60 3>&- &
    wait_for grep -q ":$(stat -c %i "$VGPU_ARENA_DIR/vgpu-65534-GPU-shared") " /proc/locks
    expect 0 "$vgpu" run --weight 200 -- true
    says "share GPU-shared without turns with yours" VGPU_ARENA_DIR
    expect 0 "$vgpu" run --mem 1G -- true
    says "share GPU-shared without turns with yours" VGPU_ARENA_DIR
    run --separate-stderr "$vgpu" doctor --json
    [ "$(turns warn)" = 1 ] || fail "$output"
}

entitled() # entitled NAME EXPRESSION: whether jq says so of the entitlement, and of whether all are counted
{
    "$vgpu" ps --json | jq -e ".instances[] | select(.name == \"$1\") | .devices[0].compute | $2"
}

@test "ps: an entitlement is of those who take turns on the device, and says whom it cannot see" {
    setup_arenas 1777
    "$vgpu" run --sim --name one --weight 100 -- "$VGPU_BUILD/demo/busy" one 600 >/dev/null 3>&- &
    "$vgpu" run --sim --name two --weight 300 -- "$VGPU_BUILD/demo/busy" two 600 >/dev/null 3>&- &
    local two=$! arena uuid
    wait_for entitled one '.entitlement == 0.25 and .entitlement_complete'
    wait_for entitled two '.entitlement == 0.75 and .entitlement_complete'
    [[ $("$vgpu" ps) != *"not counted"* ]]
    kill $two
    wait_for entitled one '.entitlement == 1 and .entitlement_complete'
    if [ "$(id -u)" != 0 ] || [ ! -r /proc/locks ]; then
        echo "skip: a file of another user takes root and /proc/locks" >&3
        return
    fi
    uuid=$("$vgpu" ps --json | jq -r '.instances[0].devices[0].uuid')
    arena=$VGPU_ARENA_DIR/vgpu-65534-$uuid
    : >"$arena"
    chown 65534 "$arena"
    flock "$arena" sleep 600 3>&- &
    wait_for entitled one '.entitlement == 1 and (.entitlement_complete | not)'
    wait_for sh -c "'$vgpu' ps | grep -q '^one .* 100.0%\* '"
    wait_for sh -c "'$vgpu' ps | grep -q '^\* other users not counted'"
}
