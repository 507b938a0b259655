#!/usr/bin/env bash
# Programs that have nothing to do with CUDA, without a driver: the same output and status with the library.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
unset LD_LIBRARY_PATH
same() {
    local plain with variables
    plain=$("$@" 2>&1)
    plain+=" status $?"
    for variables in "" "VGPU_INSTANCE=$TEST_INSTANCE"; do
        # shellcheck disable=SC2086
        with=$(env LD_PRELOAD="$library" $variables "$@" 2>&1)
        with+=" status $?"
        [ "$plain" = "$with" ] || die "'$*' gives '$with', not '$plain' (${variables:-no instance})"
    done
}
same /bin/true
same /bin/false
same bash -c 'echo $((6 * 7)); (exit 5); echo $?; for i in a b; do /bin/echo $i; done | sort -r'
same sh -c 'cat /etc/hostname | wc -l'
same awk 'BEGIN { print 1 / 3 }'
same env -u NOTHING sed -n 1p /etc/passwd
same "$TEST_BUILD/tests/sim/static"
# No driver: dlopen says so, as ever.
# shellcheck disable=SC2016
same sh -c '"$0" init_code 0 2>&1 | sed "s/\[[0-9]*\]//"' "$TEST_SIMTEST_DL"
! command -v python3 >/dev/null || same python3 -c 'import ctypes, json, threading; print(json.dumps([1, 2]), ctypes.sizeof(ctypes.c_long))'
! command -v perl >/dev/null || same perl -e 'print join(",", map { $_ * 2 } 1..5), "\n"'
