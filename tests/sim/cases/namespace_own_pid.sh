#!/usr/bin/env bash
# In a PID namespace of its own a program finds itself and its child in NVML's lists, by the numbers that it knows.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
unshare --pid --fork --kill-child --mount-proc true 2>/dev/null || skip "no right to make a PID namespace with its own /proc"
with_instance unshare --pid --fork --kill-child --mount-proc "$TEST_SIMTEST" view_process_lists
