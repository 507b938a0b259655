#!/usr/bin/env bash
# The instance can't be opened: one clear line, CUDA refuses to start, every other program is left alone.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
check() { # what, command...
    local what=$1 lines
    shift
    "$@" "$TEST_SIMTEST" init_code 304 >"$TEST_WORK/out" 2>"$TEST_WORK/err" || die "$what: $(cat "$TEST_WORK/out" "$TEST_WORK/err")"
    lines=$(wc -l <"$TEST_WORK/err")
    [ "$lines" -eq 1 ] || die "$what: $lines lines on stderr: $(cat "$TEST_WORK/err")"
    "$@" /bin/true >"$TEST_WORK/out" 2>&1 || die "$what: /bin/true fails"
    [ ! -s "$TEST_WORK/out" ] || die "$what: /bin/true says $(cat "$TEST_WORK/out")"
    "$@" bash -c 'exit 3' 2>/dev/null
    [ $? -eq 3 ] || die "$what: bash fails"
}
chmod 600 "$TEST_INSTANCE/region"
other=(setpriv --reuid=12345 --regid=12345 --clear-groups)
if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null || ! "${other[@]}" test -x "$TEST_SIMTEST"; then
    echo "skip: another user: needs root, setpriv and a build folder that others can reach"
else
    chmod 755 "$TEST_WORK" "$TEST_WORK/run" "$TEST_WORK/run/instances" "$TEST_INSTANCE"
    chmod 666 "$SIMGPU_STATE"* 2>/dev/null
    check "another user" "${other[@]}" env LD_PRELOAD="$library" \
        VGPU_INSTANCE="$TEST_INSTANCE" SIMGPU_STATE="$TEST_WORK/simgpu.other"
fi
check "no such instance" env LD_PRELOAD="$library" VGPU_INSTANCE="$TEST_WORK/nothing"
check "a name that is none" env LD_PRELOAD="$library" VGPU_INSTANCE="../../etc"
mkdir -p "$TEST_WORK/run/instances/broken"
head -c 100000 /dev/urandom >"$TEST_WORK/run/instances/broken/region"
check "not a region" env LD_PRELOAD="$library" VGPU_INSTANCE="$TEST_WORK/run/instances/broken"
: >"$TEST_WORK/run/instances/broken/region"
check "an empty region" env LD_PRELOAD="$library" VGPU_INSTANCE="$TEST_WORK/run/instances/broken"
exit 0
