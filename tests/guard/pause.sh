#!/usr/bin/env bash
# pause.sh WHAT: vgpu pause and vgpu resume, with the fake driver of run.sh, whose book shows what runs.
# shellcheck source=tests/guard/common.sh
. "$(dirname "$0")/common.sh"

busy() { of_book "$1" busy_ns; }
more_than() { [ "$("${@:2}")" -gt "$1" ]; }

# For as long as the neighbour needs for 200 ms of work.
while_other_works() { wait_for more_than $(($(busy "$other") + 200000000)) busy "$other"; }

# A channel that is made in a paused instance works until it is found, a millisecond later: it does not get far, and stops.
stops() { # stops PID WORK_NS
    local before i
    for ((i = 0; i < 20; i++)); do
        before=$(busy "$1")
        while_other_works
        [ "$(busy "$1")" != "$before" ] || break
    done
    [ "$i" -lt 20 ] || return 1
    echo "made while paused, it has worked: $before ns"
    [ "$before" -lt "$2" ] && kill -0 "$1"
}

is_paused() { "$vgpu" ps | grep -E "^$1 .* running, paused "; }
goes_on() { ! is_paused "$1"; }
refused_twice() { [ "$(grep -c '^1$' inside.out)" = 2 ]; }
timed() { # timed WHAT COMMAND...: for the log; how long it takes is up to the machine
    local begin=${EPOCHREALTIME/[.,]/} status=0
    "${@:2}" || status=$?
    echo "$1: $((${EPOCHREALTIME/[.,]/} - begin)) us"
    return $status
}

begin other --mem 1G -- "${rmtest[@]}" queue 2000 3600
other=$(cat other.pid)
wait_for more_than 0 busy "$other"

case $1 in
steers)
    # One that works, with memory.
    begin one --mem 1G --cores 50 -- sh -c '"$@" hold 256M & echo $! >hold.pid; exec "$@" work 1000 2000' one "${rmtest[@]}"
    one=$(cat one.pid)
    wait_for more_than 50000000 busy "$one"
    wait_for more_than $((255 << 20)) of_book "$(cat hold.pid)" bytes
    for i in 1 2 3 4 5; do timed "a process of vgpu that does nothing" "$vgpu" help version | grep us$ >>timings; done
    for i in 1 2 3 4 5; do
        timed pause "$vgpu" pause one >>timings || fail "pause: $?"
        stood=$(busy "$one")
        [ "$i" = 1 ] || timed "pause of a paused one" "$vgpu" pause one >>timings || fail "again: $?"
        while_other_works
        [ "$(busy "$one")" = "$stood" ] || fail "it has worked $(($(busy "$one") - stood)) ns while it was paused"
        is_paused one >/dev/null || fail "ps says that it is not paused"
        timed resume "$vgpu" resume one >>timings || fail "resume: $?"
        ! is_paused one >/dev/null || fail "ps says that it is paused"
        wait_for more_than "$stood" busy "$one"
    done
    sort timings

    "$vgpu" pause one one || fail "twice"
    COLUMNS=200 "$vgpu" ps >table
    grep -qE '^one .*guard +2 running, paused ' table || fail "$(cat table)"
    ! grep '^other' table | grep -q paused || fail "$(cat table)"
    held=$(of_book "$(cat hold.pid)" bytes)
    [ "$held" -ge $((256 << 20)) ] || fail "memory has gone: $held"

    # Of several names: those that can be.
    "$vgpu" pause nobody one 2>err && fail "nobody"
    grep -q 'no instance nobody is running.*vgpu ps' err || fail "$(cat err)"
    "$vgpu" resume one one || fail "resume"
    "$vgpu" resume one other || fail "of those that run"
    wait "$(cat one.run)" || fail "one has ended with $?: $(cat one.out)"
    grep -q '^worked 2000000000 kernels 2000 ' one.out || fail "$(cat one.out)"
    ;;
from_inside)
    # What is inside does not steer: neither an instance of its own, nor another, nor from a session of its own.
    mkfifo asks
    for who in inside other; do
        # shellcheck disable=SC2016 # for the other shell
        start inside --mem 1G -- sh -c '"$1" resume "$2" 2>&1; echo $?; setsid -w "$1" pause "$2" 2>&1; echo $?; exec <asks' inside "$vgpu" $who
        wait_for refused_twice
        [ "$(grep -c 'cannot steer' inside.out)" = 2 ] || fail "$(cat inside.out)"
        goes_on inside && goes_on other || fail "paused from within"
        if [ $who = inside ]; then
            "$vgpu" pause inside || fail "from outside"
            is_paused inside >/dev/null || fail "not paused from outside"
            "$vgpu" resume inside || fail "from outside"
        fi
        : >asks
        wait "$(cat inside.run)" || fail "inside has ended with $?: $(cat inside.out)"
        rm inside.out inside.pid
    done
    ;;
new_channels)
    # Channels that are made while it is paused: at first it has none, later some.
    mkfifo orders
    begin late -- bash -c 'for i in 1 2 3 4 5 6 7 8; do read -r line; (echo $BASHPID >late$i.new; mv late$i.new late$i.pid; exec "$@") & done <orders; wait' \
        late "${rmtest[@]}" work 1000 500
    exec 9>orders
    "$vgpu" pause late || fail "without a channel"
    channels=$(of_gpu channels)
    for i in 1 2 3 4; do echo >&9; wait_for test -s late$i.pid; done
    wait_for more_than $((channels + 3)) of_gpu channels
    for i in 1 2 3 4; do stops "$(cat late$i.pid)" 500000000 || fail "the first channels there were: $(cat late.out)"; done
    "$vgpu" resume late || fail "resume: $?"
    for i in 1 2 3 4; do wait_for more_than 499999999 busy "$(cat late$i.pid)"; done
    before_them() { [ "$(of_gpu channels)" = "$channels" ]; }
    wait_for before_them # those that have worked end
    "$vgpu" pause late || fail "between"
    for i in 5 6 7 8; do echo >&9; wait_for test -s late$i.pid; done
    wait_for more_than $((channels + 3)) of_gpu channels
    for i in 5 6 7 8; do stops "$(cat late$i.pid)" 500000000 || fail "later ones: $(cat late.out)"; done
    "$vgpu" resume late || fail "resume"
    wait "$(cat late.run)" || fail "late has ended with $?: $(cat late.out)"
    [ "$(grep -c '^worked 500000000 ' late.out)" = 8 ] || fail "$(cat late.out)"
    exec 9>&-
    ;;
orphan)
    # The supervisor dies: nobody stays off.
    begin orphan -- "${rmtest[@]}" sync 1000 3600
    orphan=$(cat orphan.pid)
    wait_for more_than 0 busy "$orphan"
    "$vgpu" pause orphan || fail "orphan"
    stood=$(busy "$orphan")
    while_other_works
    [ "$(busy "$orphan")" = "$stood" ] || fail "the orphan works"
    kill -KILL "$(cat orphan.run)"
    wait "$(cat orphan.run)"
    wait_for more_than "$stood" busy "$orphan"
    wait_for goes_on orphan # by ps; the keeper may be about to end
    "$vgpu" pause orphan 2>err && fail "an orphan cannot be paused"
    grep -q 'no instance orphan is running' err || fail "$(cat err)"
    kill -KILL "$orphan"
    ;;
first_schedule)
    # A channel that is scheduled for the first time while its instance is paused does not run, by whichever handle of its
    # group; resume makes up for it, and the end of the supervisor.
    mkfifo lines
    export START_MS=100
    for how in group duplicate foreign; do
        # shellcheck disable=SC2016 # for the other shell
        START_LINE=$how begin $how -- sh -c 'exec "$@" <>lines' $how "${rmtest[@]}" work 1000 300
        first=$(cat $how.pid)
        wait_for more_than 0 busy "$first"
        "$vgpu" pause $how || fail "$how"
        stood=$(busy "$first")
        echo >lines
        wait_for grep -q '^scheduled' $how.out
        while_other_works
        [ "$(busy "$first")" = "$stood" ] || fail "$how: it has worked $(($(busy "$first") - stood)) ns while it was paused"
        if [ $how = group ]; then
            kill -KILL "$(cat $how.run)"
            wait "$(cat $how.run)"
            wait_for grep -q '^worked 300000000 ' $how.out
        else
            "$vgpu" resume $how || fail "$how: resume"
            wait "$(cat $how.run)" || fail "$how has ended with $?: $(cat $how.out)"
            grep -q '^worked 300000000 ' $how.out || fail "$(cat $how.out)"
        fi
    done
    unset START_MS
    ;;
ends)
    # It ends while it is paused: the command by itself, and a program that is killed.
    begin brief -- "${rmtest[@]}" sync 1000 3600
    wait_for more_than 0 busy "$(cat brief.pid)"
    "$vgpu" pause brief || fail "brief"
    kill -TERM "$(cat brief.run)"
    wait "$(cat brief.run)"
    [ $? = 143 ] || fail "a paused command cannot be ended"
    "$vgpu" resume brief 2>err && fail "there is no such instance any more"
    ;;
preload)
    # The library has the device's time: the guard cannot stop it, and says so.
    if [ -e "$TEST_BUILD/libvgpu.so" ]; then
        begin both --preload -- "${rmtest[@]}" sync 1000 3600
        wait_for more_than 0 busy "$(cat both.pid)"
        "$vgpu" pause both 2>err && fail "it cannot be paused"
        grep -q 'both cannot be paused.*--preload' err || fail "$(cat err)"
        ! is_paused both >/dev/null || fail "ps says that it is paused"
        stood=$(busy "$(cat both.pid)")
        wait_for more_than "$stood" busy "$(cat both.pid)"
        "$vgpu" resume both || fail "resume of what works"
        kill -TERM "$(cat both.run)"
    fi
    ;;
*) fail "no $1" ;;
esac
kill -TERM "$(cat other.run)"
wait
[ "$(of_gpu wedged)" = 0 ] || fail "channels that never run"
