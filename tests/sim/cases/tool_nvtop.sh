#!/usr/bin/env bash
# nvtop in an instance draws the instance's memory and its processes alone; outside, everybody's. tmux is its terminal.
# shellcheck source-path=SCRIPTDIR source=tools.sh
source "$(dirname "$0")/tools.sh"
command -v nvtop >/dev/null || skip "Debian's nvtop (contrib) is not installed"
command -v tmux >/dev/null || skip "tmux is not installed"
hold_memory
export TMUX_TMPDIR=$TEST_WORK LC_ALL=C.UTF-8 HOME=$TEST_WORK
unset TMUX
screens=0
terminal() { tmux -f /dev/null -L "nvtop$screens" "$@"; } # a server each: one that is told to end takes a while
trap 'terminal kill-server 2>/dev/null; drop_holders' EXIT

# screen_has COMMAND WANTED...: until each pattern is on the screen.
screen_has() {
    local command=$1 screen='' missing
    shift
    screens=$((screens + 1))
    terminal new-session -d -x 140 -y 40 "$command" || skip "tmux has no terminal here (is /dev/pts mounted?)"
    for _ in $(seq 300); do
        screen=$(terminal capture-pane -p 2>/dev/null) missing=''
        for wanted; do
            grep -Eq -- "$wanted" <<<"$screen" || missing=$wanted
        done
        [ -n "$missing" ] || break
        sleep 0.1
    done
    terminal kill-server
    [ -z "$missing" ] || die "no \"$missing\" on the screen of $command:"$'\n'"$screen"
    shown=$screen
}

screen_has "'$vgpu' run --name shown -- nvtop" 'simgpu \(simulated\)' 'GEN 5@16x' 'POW +75 / 700 W' 'FAN N/A' \
    'MEM\[.*0\.750Gi/1\.000Gi\]' "^ *$shown_pid .* 768MiB .*hold\.py"
! grep -Eq "^ *$neighbour_pid " <<<"$shown" || die "the neighbour is shown inside"
screen_has nvtop 'MEM\[.*3\.250Gi/8\.000Gi\]' "^ *$shown_pid .* 768MiB" "^ *$neighbour_pid .* 2560MiB"
