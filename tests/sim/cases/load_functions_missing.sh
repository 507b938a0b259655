#!/usr/bin/env bash
# A driver, or an NVML, that lacks any one of the functions that the library calls itself: a program that uses a bit of
# everything ends as it does otherwise, or is told so, but is never killed.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "no python3"
here=$(dirname "$0")
mapfile -t symbols < <(cd "$here/../../../src/hook" && {
    grep -rohE '\bDRIVER\(cu[A-Za-z0-9_]+' --include='*.c' . | sed 's/.*(//'
    grep -oE '"nvml[A-Za-z0-9_]+"' loader/nvml_driver.c | tr -d '"'
    echo nvmlDeviceGetIndex
} | sort -u)
[ "${#symbols[@]}" -gt 60 ] || die "found only ${#symbols[@]} symbols"
# without SYMBOL: one run, on a card of its own; what it prints goes to a file, which stays where the run fails.
without() {
    local symbol=$1 folder=$TEST_WORK/without/${1:-nothing} status=0
    mkdir -p "$folder"
    cp "$TEST_BUILD/sim/"*.so.1 "$folder"
    # The name is changed in the library's table of names, so that nobody finds it.
    [ -z "$symbol" ] || LC_ALL=C sed -i "s/\x00$symbol\x00/\x00x${symbol:1}\x00/" "$folder/"*.so.1
    SIMGPU_STATE=$folder.card LD_LIBRARY_PATH=$folder with_instance python3 "$here/use_everything.py" >"$folder.out" 2>&1 || status=$?
    rm -r "$folder" "$folder.card"*
    [ "$status" -eq 0 ] || echo "without ${symbol:-nothing}: status $status"
}
export -f without with_instance
export here library
without ""
grep -q "^failed: 0 " "$TEST_WORK/without/nothing.out" || { cat "$TEST_WORK/without/nothing.out"; die "calls fail with a whole driver"; }
printf '%s\n' "${symbols[@]}" | xargs -P 8 -I {} bash -c 'without {}' >"$TEST_WORK/bad"
[ ! -s "$TEST_WORK/bad" ] || { cat "$TEST_WORK/bad" "$TEST_WORK/without/"*.out; die "a function is missed"; }
