#!/usr/bin/env bash
# With no variable of ours the library does nothing: the driver's own pointers, the whole card, no file.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
expect 0 with_library "$TEST_SIMTEST_DL" pointers_are_the_drivers none
TEST_REACH=getproc expect 0 with_library "$TEST_SIMTEST_DL" pointers_are_the_drivers none
expect 0 with_library "$TEST_SIMTEST_DL" cap 0
expect 0 with_library "$TEST_SIMTEST" cap 0
[ -z "$(find "$VGPU_RUNTIME_DIR/instances" -mindepth 1 -not -path "$TEST_INSTANCE*")" ] || die "a file was made"
# And the other way round: with an instance they are ours.
expect 0 with_instance "$TEST_SIMTEST_DL" pointers_are_the_drivers ours
TEST_REACH=getproc expect 0 with_instance "$TEST_SIMTEST_DL" pointers_are_the_drivers ours
