#!/usr/bin/env bash
# A process without our variables (ssh, su, env -i) comes first or last; it must not change anybody's limit.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
bare=(env -i "LD_PRELOAD=$library" "LD_LIBRARY_PATH=$LD_LIBRARY_PATH" "SIMGPU_STATE=$SIMGPU_STATE" "SIMGPU_GROUP=other"
    "TEST_SIMCTL=$TEST_SIMCTL")
for _ in 1 2; do
    expect 0 "${bare[@]}" "$TEST_SIMTEST" init_code 0
    [ "$(quota_of 0)" = "$TEST_QUOTA" ] || die "the quota became $(quota_of 0)"
    expect 0 with_instance "$TEST_SIMTEST" cap "$TEST_QUOTA"
done
# A user can't raise it by HAMi's variables: the named instance is the one that counts.
CUDA_DEVICE_MEMORY_LIMIT=8g expect 0 with_instance "$TEST_SIMTEST" cap "$TEST_QUOTA"
