#!/usr/bin/env bash
# A driver that calls back into the hooks from within an allocation.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
export OLDCUDA_REAL=$TEST_BUILD/sim/libcuda.so.1 OLDCUDA_CALLS_BACK=1
export LD_LIBRARY_PATH=$TEST_BUILD/tests/sim/old:$LD_LIBRARY_PATH
expect 0 with_instance "$TEST_SIMTEST_DL" load_driver_calls_back
