#!/usr/bin/env bash
# gpustat in an instance shows the instance's memory and its processes alone; outside, everybody's.
# shellcheck source-path=SCRIPTDIR source=tools.sh
source "$(dirname "$0")/tools.sh"
need_module gpustat gpustat contrib
command -v jq >/dev/null || skip "jq is not installed"
hold_memory
gpustat='import sys; sys.argv[0] = "gpustat"; from gpustat import main; main()'
view='.gpus[0] | [."memory.used", ."memory.total", ([.processes[].pid] | sort | join("+"))] | join(" ")'
inside=$(in_shown "$python" -c "$gpustat" --json | jq -r "$view") || die "gpustat fails in the instance"
[ "$inside" = "768 1024 $shown_pid" ] || die "inside: $inside"
outside=$("$python" -c "$gpustat" --json | jq -r "$view") || die "gpustat fails outside"
both=$(printf '%s\n' "$shown_pid" "$neighbour_pid" | sort -n | paste -sd+)
[ "$outside" = "3328 8192 $both" ] || die "outside: $outside"
