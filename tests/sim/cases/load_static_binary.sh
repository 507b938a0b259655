#!/usr/bin/env bash
# A statically linked program runs unharmed under `vgpu run` (it is not limited; doctor says so).
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
out=$("$vgpu" run --mem 1G -- "$TEST_BUILD/tests/sim/static") || die "status $?"
[ "$out" = "hello" ] || die "it says '$out'"
expect 7 "$vgpu" run --mem 1G -- "$TEST_BUILD/tests/sim/static" 7
