#!/usr/bin/env bash
# compute.sh WHAT: the share of a card's time that guarded programs get, with the fake driver of run.sh. A share is
# measured by the fake driver's clock in windows of two seconds, until one window has the expected share. On a busy
# machine the guard and the programs lack processor time in most windows, so ctest's limit is the only bound.
# shellcheck source=tests/guard/common.sh
. "$(dirname "$0")/common.sh"

works() { [ "$(of_book "$(cat "$1.pid")" busy_ns)" -gt 0 ]; }

# begin_work ...: as begin, and waits until it works.
begin_work() {
    begin "$@"
    wait_for works "$1"
}
gets() { # gets NAME LEAST MOST: so much of the card, in parts of it
    local i part
    for ((i = 0; i < 300; i++)); do
        part=$("${rmtest[@]}" share 2 "$(cat "$1.pid")") || fail "share"
        echo "$1 gets $part"
        awk -v part="$part" -v least="$2" -v most="$3" 'BEGIN { exit !(part >= least && part <= most) }' && return
    done
    fail "$1 gets $part, not $2 to $3"
}
ends() { # ends NAME...: by themselves, and well
    local name status
    for name; do
        wait "$(cat "$name.run")"
        status=$?
        [ $status = 0 ] || fail "$name has ended with $status"
    done
}
# says NAME WORD: it has come that far.
says() { grep -q "^$2" "$1.out"; }
switches() { sed -n 's/.*switches of channels \([0-9]*\).*/\1/p' "$1.out"; }

case $1 in
starts)
    # One after the other, while the first have their turns: none is switched off twice, or it would stand still for
    # ever. In between a program does other things, and other channels of it work.
    export START_MS=100
    for round in 1 2; do
        names=()
        for i in 1 2 3 4; do
            start "p$round$i" --weight 100 --stats -- "${rmtest[@]}" sync 1000 1
            names+=("p$round$i")
            sleep 0.1
        done
        # What never runs would not end either.
        for ((i = 0; i < 15; i++)); do
            [ "$(of_gpu wedged)" = 0 ] || fail "channels that never run"
            sleep 0.1
        done
        ends "${names[@]}"
    done
    [ "$(of_gpu wedged)" = 0 ] || fail "channels that never run"
    for name in p11 p12 p13 p14; do
        echo "$name: $(grep '^kernels' $name.out), switches $(switches $name)"
        grep -q '^kernels [1-9]' $name.out || fail "$name has not worked"
    done
    [ "$(switches p12)" -gt 0 ] || fail "there were no turns"
    ;;
caps)
    begin_work busy --cores 50 -- "${rmtest[@]}" work 1000 60000
    sleep 0.5
    gets busy .42 .58
    kill -KILL "$(cat busy.pid)"
    wait "$(cat busy.run)"
    start modest --cores 50 --stats -- "${rmtest[@]}" rest 1000 4000 400
    ends modest
    [ "$(switches modest)" = 0 ] || fail "switched $(switches modest) times"
    ;;
idle)
    begin_work idle -- "${rmtest[@]}" rest 300000 60000000 1
    begin_work busy -- "${rmtest[@]}" work 1000 60000
    sleep 1
    gets busy .85 1
    ;;
reset)
    begin_work busy --cores 50 -- "${rmtest[@]}" reset 1000 60000
    sleep 0.5
    gets busy 0 .6
    ;;
again)
    begin_work busy --cores 50 -- "${rmtest[@]}" again 1000 60000
    sleep 0.5
    gets busy .35 .6
    [ "$(of_gpu wedged)" = 0 ] || fail "channels that never run"
    ;;
subdevice)
    begin_work busy --cores 30 -- "${rmtest[@]}" unsub 1000 60000
    wait_for says busy freed
    sleep 0.5
    gets busy .2 .4
    [ "$(of_gpu wedged)" = 0 ] || fail "channels that never run"
    ;;
hidden)
    # While nobody is seen to have its file it may get nothing. It may have been off or on when it was hidden.
    mkfifo lines
    for name in busy busy2 busy3; do
        # shellcheck disable=SC2016 # for the other shell
        begin_work $name --cores 50 -- sh -c 'exec "$@" <>lines' $name "${rmtest[@]}" hide 1000 60000
        wait_for says $name hidden
        sleep 0.5
        gets $name 0 .6
        echo >lines
        wait_for says $name received
        sleep 0.5
        gets $name .35 .6
        kill -KILL "$(cat $name.pid)"
        wait "$(cat $name.run)"
    done
    # shellcheck disable=SC2016
    begin_work brief --cores 50 -- sh -c 'exec "$@" <>lines' brief "${rmtest[@]}" hide 1000 2000
    wait_for says brief hidden
    sleep 2
    echo >lines
    ends brief
    says brief worked || fail "$(cat brief.out)"
    [ "$(of_gpu wedged)" = 0 ] || fail "channels that never run"
    ;;
slice)
    begin_work long -- "${rmtest[@]}" slice 1000000 60000000 1
    begin_work other -- "${rmtest[@]}" work 1000 60000
    sleep 0.5
    gets other .35 .7
    gets long .3 .65
    ;;
short)
    # Waits for each of its kernels, which by slices would be one in the time of a slice of the other's.
    begin_work long -- "${rmtest[@]}" work 5000 60000
    begin_work short -- "${rmtest[@]}" sync 100 60
    sleep 1
    gets short .12 .7
    ;;
*) fail "no $1" ;;
esac
