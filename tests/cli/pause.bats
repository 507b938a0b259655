# vgpu pause and resume, as far as they go without a driver. What needs one is tested with a stand-in for it.
load common.bash

# An instance that has no supervisor: nobody answers.
guarded()
{
    mkdir -p "$VGPU_RUNTIME_DIR/instances/guarded"
    mkfifo hold
    "$VGPU_BUILD/tests/cli/guarded" "$VGPU_RUNTIME_DIR/instances/guarded" <hold >pids 3>&- &
    exec 9>hold
    wait_for grep -q . pids
}

@test "pause and resume: what is wrong on the command line" {
    local command name
    for command in pause resume; do
        expect 2 "$vgpu" $command
        says "$command: no instance was named" "vgpu ps"
        expect 2 "$vgpu" $command --
        says "no instance was named"
        expect 2 "$vgpu" $command --nmae lab
        says "no option --nmae" "vgpu help $command"
        expect 2 "$vgpu" $command --help=1 lab
        says "--help takes no value"
        for name in '' . .. ../lab /lab 'a b' -; do
            expect 2 "$vgpu" $command "$name"
            says "\"$name\" is no name"
        done
        expect 2 "$vgpu" $command lab -- -lab
        says '"-lab" is no name'
        expect 0 "$vgpu" $command lab --help
        [[ $output == "Usage: vgpu $command NAME..."* ]]
    done
    expect 2 "$vgpu" puase
    says "did you mean pause?"
    [ ! -e "$VGPU_RUNTIME_DIR" ]
}

@test "pause and resume: an instance that is not running, or was" {
    local command
    for command in pause resume; do
        expect 1 "$vgpu" $command lab
        says "$command: no instance lab is running" "vgpu ps"
        VGPU_RUNTIME_DIR=here expect 1 "$vgpu" $command lab
        says "VGPU_RUNTIME_DIR" || says "runtime directory here"
        # What nobody uses any more is gone.
        mkdir -p "$VGPU_RUNTIME_DIR/instances/lab"
        expect 1 "$vgpu" $command lab
        says "no instance lab is running"
        no_instances
        expect 1 "$vgpu" $command one two
        says "no instance one" "no instance two"
    done
}

@test "pause and resume: an instance without the guard" {
    mkfifo hold
    "$vgpu" run --name lab sh -c 'read line <hold' 3>&- &
    wait_for test -f "$VGPU_RUNTIME_DIR/instances/lab/users"
    local command
    for command in pause resume; do
        expect 1 "$vgpu" $command lab
        says "$command: instance lab is not under the guard" "vgpu run --guard"
    done
    expect 0 "$vgpu" ps --json
    [ "$(json '.instances[0].paused')" = false ]
    echo >hold
    wait
}

@test "pause and resume: a region that is none" {
    mkdir -p "$VGPU_RUNTIME_DIR/instances/bad"
    head -c 100000 /dev/zero >"$VGPU_RUNTIME_DIR/instances/bad/region"
    lead bad
    expect 1 "$vgpu" pause bad
    says "pause: instance bad" "instances/bad/region" "no region of this version"
    expect 1 "$vgpu" resume bad
    says "resume: instance bad"
    unlead
}

@test "pause: nobody is left who could do it, or nobody answers" {
    guarded
    expect 1 "$vgpu" pause guarded
    says "guarded cannot be paused" "has ended"
    expect 0 "$vgpu" resume guarded
    # As if a \`vgpu run\` were there.
    lead guarded
    expect 1 "$vgpu" pause guarded
    says "instance guarded" "cannot be reached" "instances/guarded/control"
    expect 1 "$vgpu" resume guarded
    says "instance guarded" "cannot be reached"
    expect 0 "$vgpu" ps --json
    [ "$(json '.instances[0].paused')" = false ]
    unlead
    exec 9>&-
    wait
}

# steers STATUS pause|resume NAME...: as expect. A supervisor without a processor may not answer in time: it is asked again.
steers()
{
    local i
    for ((i = 0; i < 20; i++)); do
        run --separate-stderr "$vgpu" "${@:2}"
        [[ $stderr == *"has not answered"* ]] || break
    done
    [ "$status" -eq "$1" ] || fail "${*:2}: status $status, not $1; stderr: $stderr"
}

@test "pause under a guard: at once, again, and back; ps says so" {
    mkdir driver
    printf 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.20  Release Build  (builder)\n' >driver/version
    export VGPU_GUARD_DEV=$PWD/driver
    run --separate-stderr "$vgpu" run --guard true
    [ "$status" = 0 ] || skip "the guard does not work here: $stderr"
    mkfifo hold
    "$vgpu" run --guard --name lab sh -c 'read line <hold' 3>&- &
    local i supervisor=$!
    wait_for test -f "$VGPU_RUNTIME_DIR/instances/lab/users"
    for i in 1 2 3; do
        steers 0 pause lab lab
        [ -z "$output$stderr" ]
        steers 0 pause lab
        expect 0 "$vgpu" ps
        [[ $(grep ^lab <<<"$output") == *" 1 running, paused "* ]] || fail "$output"
        expect 0 "$vgpu" ps --json
        [ "$(json '.instances[0].paused')" = true ]
        steers 0 resume lab
        [ -z "$output$stderr" ]
        steers 0 resume lab
        expect 0 "$vgpu" ps
        [[ $output != *paused* ]]
        steers 1 pause none lab
        says "no instance none"
        expect 0 "$vgpu" ps
        [[ $output == *paused* ]]
        steers 1 resume none lab
        expect 0 "$vgpu" ps
        [[ $output != *paused* ]]
    done
    # What nobody waits for any more does not happen.
    kill -STOP $supervisor
    wait_for grep -q '^State:.T' /proc/$supervisor/status
    expect 1 "$vgpu" pause lab
    says "instance lab" "has not answered"
    kill -CONT $supervisor
    steers 0 resume lab
    expect 0 "$vgpu" ps
    [[ $output != *paused* ]]
    steers 0 pause lab
    echo >hold
    wait
    no_instances
}

@test "pause and resume: completion has the instances, for each operand" {
    mkfifo hold
    "$vgpu" run --name lab sh -c 'read line <hold' 3>&- &
    wait_for test -f "$VGPU_RUNTIME_DIR/instances/lab/users"
    complete_words()
    {
        PATH=$VGPU_BUILD:$PATH bash -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _vgpu; echo "${COMPREPLY[@]}"' \
            "$VGPU_BUILD/generated/vgpu.bash" "$@"
    }
    [ "$(complete_words vgpu pau)" = pause ]
    [ "$(complete_words vgpu res)" = resume ]
    [ "$(complete_words vgpu pause --)" = --help ]
    [ "$(complete_words vgpu pause la)" = lab ]
    [ "$(complete_words vgpu resume other la)" = lab ]
    echo >hold
    wait
    grep -q "'\*:NAME:_vgpu_instances'" "$VGPU_BUILD/generated/_vgpu"
    grep -q "seen_subcommand_from pause' -x -a '(vgpu ps" "$VGPU_BUILD/generated/vgpu.fish"
    grep -q '^\\fINAME\.\.\.\\fR$' "$VGPU_BUILD/generated/vgpu-pause.1"
}
