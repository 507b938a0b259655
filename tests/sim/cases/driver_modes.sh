#!/usr/bin/env bash
# driver_modes.sh MODE: what tests/gpu/run.sh shows on a card is true of the simulator as well.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "no python3"
line=$(VGPU=$vgpu "$vgpu" run --mem 4G -- python3 "$(dirname "$0")/../../gpu/driver_modes.py" "$1" 4096) || die "$line"
echo "$line"
[[ $line == ok* ]]
