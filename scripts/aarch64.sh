#!/usr/bin/env bash
# aarch64.sh FOLDER: cross-builds the libraries and the simulator.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
cmake -S . -B "$folder" -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DVGPU_WERROR=ON -DVGPU_CLI=OFF -DVGPU_TESTS=OFF
cmake --build "$folder"
floor=$(aarch64-linux-gnu-objdump -T "$folder/libvgpu.so" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
echo "highest versioned symbol: $floor"
[ "$floor" = GLIBC_2.17 ]
