#!/bin/bash
# Builds the libraries for aarch64 and runs the checks and the loader tests under an emulator.
# usage: aarch64.sh SOURCE_DIR WORK_DIR
# Skipped (77) where the cross compiler or the emulator is missing.
set -euo pipefail
source=$1 work=$2
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
if ! command -v aarch64-linux-gnu-gcc >/dev/null || [ -z "$emulator" ]; then
    echo "skip: no aarch64-linux-gnu-gcc or no qemu-aarch64"
    exit 77
fi
mkdir -p "$work"
cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$source/cmake/aarch64.cmake" -DVGPU_TESTS=OFF \
    -DVGPU_CLI=OFF >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/build" --target vgpu_preload vgpu_trace >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$source/tests/abi/exports.sh" "$source" "$work/build/libvgpu.so" plain aarch64-linux-gnu-
"$source/tests/abi/exports.sh" "$source" "$work/build/libvgpu-trace.so" traced aarch64-linux-gnu-
"$source/tests/abi/loader.sh" "$source" "$work/loader" "$work/build/libvgpu.so" "$work/build/libvgpu-trace.so" \
    aarch64-linux-gnu-gcc "$emulator" -L /usr/aarch64-linux-gnu
