#!/usr/bin/env bash
# check_driver_abi.sh CHECKOUT: compares what the guard knows of the driver's ABI with a checkout of NVIDIA's open kernel
# modules (github.com/NVIDIA/open-gpu-kernel-modules, at the version in question). Prints what differs; exit 1 where
# anything does. For a branch that is not known yet it prints the row to add to spec/branches.def, which is right only if
# nothing else is printed. By hand, with every new branch: the build does not need it.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -eq 1 ] || { echo "usage: check_driver_abi.sh CHECKOUT" >&2; exit 2; }
driver=$1
version=$(sed -n 's/^NVIDIA_VERSION *= *//p' "$driver/version.mk")
[ -n "$version" ] || { echo "check_driver_abi: no version in $driver/version.mk" >&2; exit 2; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sources=(scripts/check_driver_abi.c src/guard/nvidia/branch.c src/base/file.c src/base/clock.c)
includes=(src/common/sdk/nvidia/inc src/common/inc src/nvidia/arch/nvalloc/unix/include kernel-open/common/inc kernel-open/nvidia-uvm)
"${CC:-cc}" -std=gnu17 -D_GNU_SOURCE -w -Isrc -Ispec "${includes[@]/#/-I$driver/}" "${sources[@]}" -o "$folder/check"
"$folder/check" "$version"
