# shellcheck shell=bash
# For tests that run guarded programs beside the fake driver of run.sh, whose book tells what really runs: sourced.
set -uo pipefail

export VGPU_GUARD_DEV=$FAKERM_DIR
vgpu=$TEST_BUILD/vgpu
# shellcheck disable=SC2034 # for whoever sources this
rmtest=("$TEST_BUILD/tests/guard/rmtest" "$FAKERM_DIR")
cd "$TEST_WORK/tmp" || exit 1

fail() {
    echo "${0##*/}: line ${BASH_LINENO[0]}: $*" >&2
    tail -n 20 ./*.out >&2
    cat "$FAKERM_DIR/book" >&2
    exit 1
}
cleanup() {
    local pid
    # What is paused would not notice before it goes on.
    for pid in $(cat ./*.pid 2>/dev/null) $(jobs -p); do kill -KILL "$pid" 2>/dev/null; done
}
trap cleanup EXIT

# wait_for COMMAND...: until it succeeds; 60 s are for ever.
wait_for() {
    local i
    for ((i = 0; i < 3000; i++)); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.02
    done
    fail "waited in vain for: $*"
}

of_book() { # of_book PID KEY: of its row, or 0
    awk -v pid="$1" -v key="$2" '$1 == "process" && $2 == pid { for (i = 3; i < NF; i++) if ($i == key) n = $(i + 1) } END { print n == "" ? 0 : n }' \
        "$FAKERM_DIR/book"
}
of_gpu() { sed -n "s/^gpu 0 .* $1 \([0-9]*\).*/\1/p" "$FAKERM_DIR/book"; }

# start NAME [OPTIONS] -- PROGRAM...: in the instance NAME. Its pid will be in NAME.pid, that of vgpu is in NAME.run.
start() {
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    "$vgpu" run --guard --name "$name" "${options[@]}" -- sh -c 'echo $$ >"$0.pid.new"; mv "$0.pid.new" "$0.pid"; exec "$@"' \
        "$name" "$@" >"$name.out" 2>&1 &
    echo $! >"$name.run"
}
# begin ...: the same, and waits until the program is there.
begin() {
    start "$@"
    wait_for test -s "$1.pid"
}
