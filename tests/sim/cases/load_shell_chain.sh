#!/usr/bin/env bash
# A shell that starts further programs, some of them at once: all under one quota.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
mib=$((1 << 20))
# shellcheck disable=SC2016
"$vgpu" run --name chain --mem $((1024 * mib)) -- bash -c '
    set -e
    "$1" cap '$((1024 * mib))' | grep -q "^total"
    sh -c "exec \"$1\" cap '$((1024 * mib))'" >/dev/null
    env TEST_REACH=getproc "$2" cap '$((1024 * mib))' >/dev/null
    nice -n 1 setsid -w "$1" cap '$((1024 * mib))' >/dev/null
    xargs -n 1 "$1" init_code <<<0 >/dev/null
' chain "$TEST_SIMTEST" "$TEST_SIMTEST_DL" 2>/dev/null || die "status $?"
# Exit status and signals come through.
expect 42 "$vgpu" run --mem 1G -- sh -c 'exit 42'
expect 0 "$vgpu" run --mem 1G -- sh -c 'true && "$0" init_code 0' "$TEST_SIMTEST" >/dev/null
