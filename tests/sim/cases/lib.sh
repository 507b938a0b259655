# Sourced by the scripts here, which run.sh starts (see there for the variables).
# shellcheck shell=bash disable=SC2034
set -uo pipefail

library=$TEST_BUILD/libvgpu.so
vgpu=$TEST_BUILD/vgpu

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

with_library() { env LD_PRELOAD="$library" "$@"; }
with_instance() { env LD_PRELOAD="$library" VGPU_INSTANCE="$TEST_INSTANCE" "$@"; }
simtest() { "$TEST_SIMTEST" "$@"; }

skip() {
    echo "skip: $*"
    exit 77
}

# expect STATUS COMMAND...
expect() {
    local want=$1 status=0
    shift
    "$@" || status=$?
    [ "$status" -eq "$want" ] || die "'$*' ended with $status, not $want"
}

# wait_for COMMAND...: until it succeeds, for a minute.
wait_for() {
    for _ in $(seq 1200); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.05
    done
    die "waited in vain for: $*"
}
wait_for_file() { wait_for test -e "$1"; }

quota_of() { "$TEST_INSTANCE_TOOL" show "$TEST_INSTANCE" | awk -v vdev="$1" '$1 == "vdev" && $2 == vdev { sub("quota=", "", $3); print $3 }'; }
