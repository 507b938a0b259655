#!/usr/bin/env bash
# Under a driver of CUDA 10.0 bash starts, and what that driver has works and is limited.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
export OLDCUDA_REAL=$TEST_BUILD/sim/libcuda.so.1
export LD_LIBRARY_PATH=$TEST_BUILD/tests/sim/old:$LD_LIBRARY_PATH
expect 0 with_instance bash -c 'exit 0'
expect 0 with_instance "$TEST_SIMTEST_DL" load_old_driver
