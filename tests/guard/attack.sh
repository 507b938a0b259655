#!/usr/bin/env bash
# Runs a program under the guard, with the fake driver of run.sh, and checks what it leaves behind.
#
#   attack.sh QUOTA [options of vgpu run] -- PROGRAM ARGS...
#
# $INSTANCES (1) copies of the program run at once. ATTACK_QUOTA is the quota in bytes. Afterwards these must hold:
# - each exits with $EXPECT (0)
# - no GPU ever gave more than the quota at a time, unless $OVER is set
# - the driver holds nothing for them
# - the audit found no difference; if $DIFFER is set, it found one
# - the guard made no other complaint
set -uo pipefail

quota=$(numfmt --from=iec "$1")
shift
options=()
while [ "$1" != -- ]; do
    options+=("$1")
    shift
done
shift
[ ${#options[@]} -gt 0 ] || options=(--guard)
[ "$quota" -eq 0 ] || options+=(--mem "$quota")

fail() {
    echo "attack.sh: $*" >&2
    exit 1
}

export ATTACK_QUOTA=$quota VGPU_GUARD_DEV=$FAKERM_DIR
log=$TEST_WORK/log
exec {err}> >(exec tee "$log" >&2)
tee=$!
runs=()
for _ in $(seq "${INSTANCES:-1}"); do
    "$TEST_BUILD/vgpu" run --stats "${options[@]}" -- "$@" 2>&"$err" {err}>&- &
    runs+=($!)
done
exec {err}>&-
for run in "${runs[@]}"; do
    wait "$run"
    status=$?
    [ "$status" -ne 77 ] || exit 77
    [ "$status" -eq "${EXPECT:-0}" ] || fail "ended with $status, not ${EXPECT:-0}"
done
wait "$tee" # nobody has it any more, so nobody is left

if [ "$quota" -ne 0 ] && [ -z "${OVER:-}" ]; then
    while read -r gpu peak; do
        [ "$peak" -le $((quota * ${INSTANCES:-1})) ] || fail "GPU $gpu has given $peak at a time, of $quota"
    done < <(sed -n 's/^gpu \([0-9]*\) .* peak \([0-9]*\) .*/\1 \2/p' "$FAKERM_DIR/book")
fi

# The driver is told of the end of a process a little after it.
left() {
    grep -E '^gpu .* used [1-9]' "$FAKERM_DIR/book" || grep -vE ' clients 0 objects 0 files [01] ' <(grep '^total' "$FAKERM_DIR/book")
}
for _ in $(seq 300); do
    left >/dev/null || break
    sleep 0.1
done
! left >&2 || fail "the driver still has something"

differed=$(sed -n 's/.*of which differed \([0-9]*\).*/\1/p' "$log" | sort -n | tail -n 1)
if [ -n "${DIFFER:-}" ]; then
    [ "${differed:-0}" -gt 0 ] || fail "the audit has found nothing"
else
    [ "${differed:-0}" -eq 0 ] || fail "the audit has found $differed differences"
    ! grep -E 'could not be (noted|answered)|cannot be told|NVML cannot be used' "$log" || fail "the guard has complained"
fi
