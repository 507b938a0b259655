#!/usr/bin/env bash
# Beside the fake driver of run.sh: the quota binds programs of every kind, however they are started.
set -uo pipefail

export VGPU_GUARD_DEV=$FAKERM_DIR
bin=$TEST_BUILD/tests/guard
failed=0

# NAME COMMAND...: fills the quota.
check() {
    local name=$1 said
    shift
    said=$("$TEST_BUILD/vgpu" run --guard --mem 1G -- "$@" 2>"$TEST_WORK/log" </dev/null)
    [ "$said" = "filled 1073741824 blocks 16 status 0x51" ] && return
    echo "$name: $said" >&2
    cat "$TEST_WORK/log" >&2
    failed=1
}

cp "$bin/rmtest" "$TEST_WORK/-odd name"
ln -s "$FAKERM_DIR/nvidiactl" "$TEST_WORK/nvidiactl"
ln -s "$FAKERM_DIR/nvidia-uvm" "$TEST_WORK/nvidia-uvm"
ln -s "$FAKERM_DIR/nvidia0" "$TEST_WORK/nvidia0"
printf '#!/bin/sh\nexec "%s" "%s" fill 64M\n' "$bin/rmtest" "$FAKERM_DIR" >"$TEST_WORK/script"
chmod +x "$TEST_WORK/script"

# shellcheck disable=SC2016 # other shells expand them
{
    check "plain" "$bin/rmtest" "$FAKERM_DIR" fill 64M
    check "static" "$bin/rmtest_static" "$FAKERM_DIR" fill 64M
    check "without LD_PRELOAD" env -u LD_PRELOAD "$bin/rmtest" "$FAKERM_DIR" fill 64M
    check "without an environment" env -i "$bin/rmtest" "$FAKERM_DIR" fill 64M
    check "shell" sh -c 'unset LD_PRELOAD VGPU_INSTANCE; "$0" "$1" fill 64M' "$bin/rmtest" "$FAKERM_DIR"
    check "script" "$TEST_WORK/script"
    check "odd name" "$TEST_WORK/-odd name" "$FAKERM_DIR" fill 64M
    check "links to the devices" "$bin/rmtest" "$TEST_WORK" fill 64M
    check "session of its own" setsid -w "$bin/rmtest" "$FAKERM_DIR" fill 64M
    check "descendant" sh -c 'sh -c "sh -c \"$0 $1 fill 64M\" & wait"' "$bin/rmtest" "$FAKERM_DIR"
    check "closed descriptors" sh -c 'exec "$0" "$1" fill 64M <&- 2>&-' "$bin/rmtest" "$FAKERM_DIR"
    check "namespace of its own" sh -c 'if unshare -r true; then set -- unshare -r "$0" "$@"; else set -- "$0" "$@"; fi
        exec "$@" fill 64M' "$bin/rmtest" "$FAKERM_DIR"
    check "loader" "$(ldd "$bin/rmtest" | sed -n 's|^\s*\(/[^ ]*ld-[^ ]*\) .*|\1|p')" "$bin/rmtest" "$FAKERM_DIR" fill 64M
}

exit "$failed"
