#!/usr/bin/env bash
# The driver's file appears after the program has started.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
mkdir -p "$TEST_WORK/lib"
ln -s "$TEST_BUILD/sim/libnvidia-ml.so.1" "$TEST_WORK/lib/"
export TEST_LATE_FROM=$TEST_BUILD/sim/libcuda.so.1 TEST_LATE_TO=$TEST_WORK/lib/libcuda.so.1
LD_LIBRARY_PATH=$TEST_WORK/lib with_instance "$TEST_SIMTEST_DL" load_driver_appears_later
