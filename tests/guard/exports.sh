#!/usr/bin/env bash
# Runs attack.sh ARGS... SOCKET beside a program that is not guarded, which waits at the socket: exports_test outside.
set -uo pipefail

socket=$TEST_WORK/tmp/outside
"$TEST_BUILD/tests/guard/exports_test" outside "$socket" &
outside=$!
"$(dirname "$0")/attack.sh" "$@" "$socket"
status=$?
kill "$outside" 2>/dev/null # it has ended if all went well
wait "$outside"
exit "$status"
