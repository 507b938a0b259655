#!/usr/bin/env bash
# A driver, or an NVML, that lacks any one of the functions that the library calls itself: a program that uses a bit of
# everything ends as it does otherwise, or is told so, but is never killed.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "no python3"
here=$(dirname "$0")
mapfile -t symbols < <(cd "$here/../../../src/hook" && {
    grep -ohE '\bDRIVER\(cu[A-Za-z0-9_]+' ./*.c | sed 's/.*(//'
    grep -oE '"nvml[A-Za-z0-9_]+"' nvml_driver.c | tr -d '"'
    echo nvmlDeviceGetIndex
} | sort -u)
[ "${#symbols[@]}" -gt 60 ] || die "found only ${#symbols[@]} symbols"
mkdir "$TEST_WORK/without"
for symbol in "" "${symbols[@]}"; do
    cp "$TEST_BUILD/sim/"*.so.1 "$TEST_WORK/without"
    # The name is changed in the library's table of names, so that nobody finds it.
    [ -z "$symbol" ] || LC_ALL=C sed -i "s/\x00$symbol\x00/\x00x${symbol:1}\x00/" "$TEST_WORK/without/"*.so.1
    status=0
    LD_LIBRARY_PATH=$TEST_WORK/without with_instance python3 "$here/use_everything.py" >"$TEST_WORK/out" 2>&1 || status=$?
    [ "$status" -eq 0 ] || { cat "$TEST_WORK/out"; die "without ${symbol:-nothing}: status $status"; }
    [ -n "$symbol" ] || cp "$TEST_WORK/out" "$TEST_WORK/whole"
done
grep -q "^failed: 0 " "$TEST_WORK/whole" || { cat "$TEST_WORK/whole"; die "calls fail with a whole driver"; }
