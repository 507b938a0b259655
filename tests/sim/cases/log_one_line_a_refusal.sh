#!/usr/bin/env bash
# A refusal is worth one line on stderr, once per instance, vdev and call, however many processes run into it.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
for _ in 1 2 3; do
    with_instance "$TEST_SIMTEST" cap "$TEST_QUOTA" >/dev/null 2>>"$TEST_WORK/err" || die "$(cat "$TEST_WORK/err")"
done
[ "$(wc -l <"$TEST_WORK/err")" -eq 1 ] || die "not one line: $(cat "$TEST_WORK/err")"
grep -q "cuMemAlloc" "$TEST_WORK/err" || die "the line does not name the call: $(cat "$TEST_WORK/err")"
refusals=$("$TEST_INSTANCE_TOOL" show "$TEST_INSTANCE" | grep -c '^refusal cuMemAlloc')
[ "$refusals" -eq 3 ] || die "$refusals refusals are recorded, not 3"
