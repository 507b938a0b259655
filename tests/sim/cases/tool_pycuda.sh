#!/usr/bin/env bash
# PyCUDA under a quota and a cap: pool, managed memory, streams and events work, MemoryError comes at the quota, the view
# is the quota, and the ledger's device time keeps to the cap.
# shellcheck source-path=SCRIPTDIR source=tools.sh
source "$(dirname "$0")/tools.sh"
need_module pycuda.driver python3-pycuda contrib
"$vgpu" run --mem 1G --cores 30 -- "$python" "$here/pycuda_quota.py" "$TEST_SIMCTL" || die "PyCUDA fails"
