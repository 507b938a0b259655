#!/usr/bin/env bash
# Runs a command with its own fake driver, in its own mount namespace.
#
#   run.sh BUILD [options of fakerm] -- COMMAND ARGS...
#
# The command finds the device nodes in $FAKERM_DIR, a scratch folder in $TEST_WORK and the build in $TEST_BUILD.
# LD_LIBRARY_PATH and, for the guard, VGPU_NVML name a libnvidia-ml.so.1 that reads the fake driver's book. Exits with
# the command's status, or with 77 if there is no FUSE.
set -uo pipefail

skip() {
    echo "skip: $*" >&2
    exit 77
}

if [ -z "${FAKERM_UNSHARED:-}" ]; then
    export FAKERM_UNSHARED=1
    [ -e /dev/fuse ] || skip "no /dev/fuse"
    [ -r /dev/fuse ] && [ -w /dev/fuse ] || skip "no right to open /dev/fuse"
    if [ "$(id -u)" -eq 0 ]; then
        unshare -m true 2>/dev/null || skip "no right to make a mount namespace"
        exec unshare -m -- "$0" "$@"
    fi
    unshare -rm true 2>/dev/null || skip "no right to make a user namespace"
    exec unshare -rm -- "$0" "$@"
fi
unset FAKERM_UNSHARED

build=$(realpath "$1")
shift
options=()
while [ "$1" != -- ]; do
    options+=("$1")
    shift
done
shift

# Closes ctest's log.
for fd in "/proc/$$/fd/"*; do
    fd=${fd##*/}
    case $fd in 0 | 1 | 2 | 255) ;; *) exec {fd}>&- ;; esac
done

work=$(mktemp -d /tmp/vgpu-guard.XXXXXX)
fake=''
stop() {
    [ -z "$fake" ] || kill "$fake" 2>/dev/null
    umount -l "$work/dev" 2>/dev/null
    [ -z "$fake" ] || wait "$fake"
    rm -rf "$work"
}
trap stop EXIT
mkdir "$work/dev" "$work/tmp" "$work/run" "$work/arena"

exec {ready}< <(exec "$build/tests/guard/fakerm" --foreground ${options[@]+"${options[@]}"} "$work/dev")
fake=$!
read -r _ <&"$ready" || { wait "$fake"; status=$?; fake=''; exit "$status"; }
exec {ready}<&-

unset LD_PRELOAD VGPU_INSTANCE VGPU_TRACE VGPU_LOG_LEVEL
export FAKERM_DIR=$work/dev TEST_WORK=$work TEST_BUILD=$build TMPDIR=$work/tmp
export VGPU_RUNTIME_DIR=$work/run VGPU_ARENA_DIR=$work/arena LD_LIBRARY_PATH=$build/tests/guard/nvml
export VGPU_NVML=$LD_LIBRARY_PATH/libnvidia-ml.so.1
"$@"
