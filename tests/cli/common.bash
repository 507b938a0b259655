# What the tests of the command share. VGPU_BUILD is the build folder; each test has a runtime directory of its own.

bats_require_minimum_version 1.5.0

setup()
{
    VGPU_BUILD=${VGPU_BUILD:?the build folder}
    vgpu=$VGPU_BUILD/vgpu
    export VGPU_RUNTIME_DIR=$BATS_TEST_TMPDIR/runtime
    export SIMGPU_STATE=$BATS_TEST_TMPDIR/simgpu VGPU_ARENA_DIR=$BATS_TEST_TMPDIR
    unset VGPU_INSTANCE VGPU_LIBRARY VGPU_TRACE LD_PRELOAD CUDA_VISIBLE_DEVICES "${!CUDA_DEVICE_@}"
    cd "$BATS_TEST_TMPDIR"
}

fail()
{
    echo "$*" >&2
    return 1
}

# A test that fails half-way leaves nothing running.
teardown()
{
    local jobs
    jobs=$(jobs -p)
    [ -z "$jobs" ] || { kill $jobs; kill -CONT $jobs; } 2>/dev/null || true # what is stopped would not end
    wait
}

# expect STATUS COMMAND...: the command ends with it. Leaves its stdout in $output and its stderr in $stderr.
expect()
{
    local wanted=$1 flags=(--separate-stderr)
    shift
    # bats takes 127 for a mistake in the test unless it is told.
    [ "$wanted" != 127 ] || flags+=(-127)
    run "${flags[@]}" "$@"
    [ "$status" -eq "$wanted" ] || fail "$*: status $status, not $wanted; stdout: $output; stderr: $stderr"
}

# says PART...: stderr contains each.
says()
{
    local part
    for part; do
        [[ $stderr == *"$part"* ]] || fail "stderr has no \"$part\": $stderr"
    done
}

# is WANTED: stdout is exactly that.
is()
{
    [ "$output" = "$1" ] || fail "stdout is \"$output\", not \"$1\"; stderr: $stderr"
}

# lead NAME: an instance of this name is led, as by a `vgpu run`, until unlead.
lead()
{
    [ -p "$BATS_TEST_TMPDIR/lead" ] || mkfifo "$BATS_TEST_TMPDIR/lead"
    "$VGPU_BUILD/tests/cli/lead" "$VGPU_RUNTIME_DIR/instances/$1" <"$BATS_TEST_TMPDIR/lead" >"$BATS_TEST_TMPDIR/led" 3>&- &
    leader=$!
    exec 8>"$BATS_TEST_TMPDIR/lead"
    wait_for grep -q leads "$BATS_TEST_TMPDIR/led"
}

unlead()
{
    exec 8>&-
    wait "$leader"
}

# wait_for COMMAND...: until it succeeds, a minute at most.
wait_for()
{
    local i
    for ((i = 0; i < 3000; i++)); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.02
    done
    fail "waited in vain for: $*"
}

no_instances()
{
    [ -z "$(ls "$VGPU_RUNTIME_DIR/instances" 2>/dev/null)" ] || fail "left: $(ls "$VGPU_RUNTIME_DIR/instances")"
}

json() # json FILTER: jq on the output, as text
{
    jq -r "$1" <<<"$output"
}

# golden FILE: it is as the file of this name here keeps it. GOLDEN=1 keeps it anew.
golden()
{
    [ -z "${GOLDEN:-}" ] || cp "$1" "$BATS_TEST_DIRNAME/$1"
    diff -u "$BATS_TEST_DIRNAME/$1" "$1" || fail "what people read has changed, see CONTRIBUTING.md"
}

# masked [PID...]: stdin without what differs between machines and runs; columns are a space apart.
masked()
{
    local pid pids=()
    for pid; do pids+=(-e "s/\b$pid\b/PID/g"); done
    sed -E -e "s|$VGPU_BUILD|BUILD|g; s|$PWD|HERE|g; s|GPU-[0-9a-f]{8}[0-9a-f-]*|GPU-UUID|g; s/\b$(id -un)\b/USER/g" \
        -e 's/ [0-9.]+ m?s ago/ T ago/g; s/glibc [0-9.]+/glibc V/; s/ +/ /g; s/ $//' "${pids[@]}"
}
