#!/usr/bin/env bash
# CUDA_VISIBLE_DEVICES in every form, with an instance that selects nothing: what the driver itself makes of it, and
# memory is charged to the card that holds it.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
IFS=, read -ra uuid <<<"$TEST_UUIDS"
check() { # value of the variable, what is expected
    CUDA_VISIBLE_DEVICES=$1 "$TEST_SIMTEST" devices_are "$2" || die "the driver itself makes something else of '$1' than $2"
    CUDA_VISIBLE_DEVICES=$1 with_instance "$TEST_SIMTEST" devices_are "$2" 0,1,2,3 || die "'$1' is not $2"
}
check 1 1
check 3,1 3,1
check 2,0,3,1 2,0,3,1
check "${uuid[2]}" 2
check "${uuid[2]},${uuid[0]}" 2,0
check "${uuid[3]:0:10}" 3
check "" -
check -1 -
check 1,-1,2 1
check 9 -
check 0,0 -
check "MIG-${uuid[1]#GPU-}" -
CUDA_DEVICE_ORDER=PCI_BUS_ID check 3,1 3,1
CUDA_DEVICE_ORDER=FASTEST_FIRST check 1,2 1,2
unset CUDA_VISIBLE_DEVICES
with_instance "$TEST_SIMTEST" devices_are 0,1,2,3 0,1,2,3 || die "all four"
