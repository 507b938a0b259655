#!/usr/bin/env bash
# --gpu and CUDA_VISIBLE_DEVICES: an instance sees its devices only, from 0, the same in CUDA and NVML.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
IFS=, read -ra uuid <<<"$TEST_UUIDS"

are() { # arguments of vgpu run, then -- and what is expected in CUDA and NVML
    local options=()
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    "$vgpu" run --mem 1G "${options[@]}" -- "$TEST_SIMTEST" devices_are "$@" 2>"$TEST_WORK/err" ||
        die "run ${options[*]} (CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES-not set}), expected $*: $(cat "$TEST_WORK/err")"
    "$vgpu" run --mem 1G "${options[@]}" -- "$TEST_SIMTEST_DL" devices_are "$@" 2>"$TEST_WORK/err" ||
        die "run ${options[*]} by dlsym, expected $*: $(cat "$TEST_WORK/err")"
}
are --gpu 2 -- 2 2
are --gpu 3,1 -- 3,1 3,1
are --gpu "${uuid[1]}" -- 1 1
are --gpu "${uuid[3]},${uuid[0]}" -- 3,0 3,0
CUDA_VISIBLE_DEVICES=1 are --gpu 3,1 -- 1 3,1
CUDA_VISIBLE_DEVICES=1,0 are --gpu 3,1 -- 1,3 3,1
CUDA_VISIBLE_DEVICES=${uuid[1]} are --gpu 3,1 -- 1 3,1
CUDA_VISIBLE_DEVICES=${uuid[1]:0:12} are --gpu 3,1 -- 1 3,1
CUDA_VISIBLE_DEVICES=${uuid[2]} are --gpu 3,1 -- -
CUDA_VISIBLE_DEVICES=2 are --gpu 3,1 -- -
CUDA_VISIBLE_DEVICES='' are --gpu 3,1 -- -
CUDA_VISIBLE_DEVICES=-1 are --gpu 3,1 -- -
CUDA_VISIBLE_DEVICES=0,7,1 are --gpu 3,1 -- 3 3,1

pci=$("$TEST_SIMTEST" pci_of 2)
"$vgpu" run --mem 1G --gpu 3,1 -- "$TEST_SIMTEST" devices_hidden "${uuid[2]}" "$pci" || die "device 2 can be had"
exit 0
