#!/usr/bin/env bash
# A neighbour without a quota has filled most of the card; what is left is less than the quota.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
SIMGPU_GROUP=neighbour "$TEST_SIMTEST" card_filler 60000 >"$TEST_WORK/filler" &
filler=$!
wait_for grep -q filled "$TEST_WORK/filler"
status=0
with_instance "$TEST_SIMTEST" card_out_of_memory || status=$?
kill "$filler"
wait "$filler" 2>/dev/null
exit "$status"
