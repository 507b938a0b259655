#!/usr/bin/env bash
# A driver whose cuInit has a thread of its own come back into cuInit by its exported name, and waits for it; the
# instance selects a device, so that the environment is exchanged meanwhile. Both see it as the instance has it.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
export OLDCUDA_REAL=$TEST_BUILD/sim/libcuda.so.1 OLDCUDA_INIT_THREAD=1
export LD_LIBRARY_PATH=$TEST_BUILD/tests/sim/old:$LD_LIBRARY_PATH
expect 0 with_instance "$TEST_SIMTEST_DL" init_from_helper_thread
