#!/usr/bin/env bash
# Python, which finds the driver by ctypes: the quota, the view, a refusal it can catch, and its subprocesses.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "no python3"
"$vgpu" run --mem 1G -- python3 "$(dirname "$0")/quota.py"
