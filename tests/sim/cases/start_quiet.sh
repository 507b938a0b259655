#!/usr/bin/env bash
# Several devices, and a second process: neither says anything on stderr.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
for _ in 1 2; do
    with_instance "$TEST_SIMTEST" context_none_of_our_own "$SIMGPU_COUNT" 2>"$TEST_WORK/err" || die "$(cat "$TEST_WORK/err")"
    [ ! -s "$TEST_WORK/err" ] || die "a clean start says: $(cat "$TEST_WORK/err")"
done
