#!/usr/bin/env bash
# A guarded program puts something else where its supervisor listens: vgpu pause does not say that it is done.
# shellcheck source=tests/guard/common.sh
. "$(dirname "$0")/common.sh"

fake=$TEST_BUILD/tests/guard/fakecontrol
begin other -- "${rmtest[@]}" sync 1000 3600
wait_for "$vgpu" pause other
"$vgpu" resume other || fail "other"

# Itself. Its address has room for 107 bytes.
# shellcheck disable=SC2016 # for the shell that is the program
begin liar -- sh -c 'cd "$VGPU_INSTANCE" && exec "$0" control' "$fake"
wait_for grep -q listens liar.out
for command in pause resume; do
    "$vgpu" $command liar 2>err && fail "$command: believed"
    grep -q "^vgpu: $command: instance liar: .*a program under a guard seems to answer" err || fail "$(cat err)"
done
# One that has ended since.
kill -KILL "$(cat liar.pid)"
wait "$(cat liar.run)"

# The same program outside of the guard is believed: the test would see that.
# shellcheck disable=SC2016
begin outside -- sh -c 'rm "$VGPU_INSTANCE/control"; exec "$@"' outside "${rmtest[@]}" sync 1000 3600
wait_for test ! -e "$VGPU_RUNTIME_DIR/instances/outside/control"
(cd "$VGPU_RUNTIME_DIR/instances/outside" && exec "$fake" control >"$TEST_WORK/tmp/fake.out") &
wait_for grep -q listens fake.out
"$vgpu" pause outside || fail "who is not guarded: $?"

# Another instance's.
# shellcheck disable=SC2016
begin thief -- sh -c 'ln -f "$VGPU_INSTANCE/../other/control" "$VGPU_INSTANCE/control" && echo linked && exec "$@"' thief \
    "${rmtest[@]}" sync 1000 3600
wait_for grep -q linked thief.out
"$vgpu" pause thief 2>err && fail "another instance's socket: believed"
grep -q 'instance thief: the socket of another instance' err || fail "$(cat err)"
! "$vgpu" ps | grep -E '^other .* paused ' || fail "another instance was paused"

# And it hides that somebody leads the instance.
# shellcheck disable=SC2016
begin hider -- sh -c '"$@" & until [ -e "$0" ]; do sleep 0.02; done
    cd "$VGPU_INSTANCE" && rm users && ln -f ../other/control control && echo hidden && wait' "$TEST_WORK/hide" \
    "${rmtest[@]}" sync 1000 3600
# vgpu ps removes an instance that nobody leads and in which no process is known yet.
known() { "$vgpu" ps --json | jq -e '.instances[] | select(.name == "hider") | .processes | length > 0' >known.out; }
wait_for known
touch "$TEST_WORK/hide"
wait_for grep -q hidden hider.out
"$vgpu" ps | grep -q '^hider .* running' || fail "no instance hider: $("$vgpu" ps)"
"$vgpu" resume hider 2>err && fail "resume: nobody was asked"
grep -q 'instance hider: the socket of another instance' err || fail "$(cat err)"
for name in hider outside thief other; do kill -TERM "$(cat $name.run)"; done
wait "$(cat hider.run)" "$(cat thief.run)" "$(cat other.run)"
exit 0
