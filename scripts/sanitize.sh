#!/usr/bin/env bash
# sanitize.sh FOLDER SANITIZERS: the unit tests under clang's sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 sanitizers=$2
CC=clang cmake -S . -B "$folder" -G Ninja -DVGPU_SANITIZE="$sanitizers" -DVGPU_CLI=OFF
cmake --build "$folder" --target unit_tests
ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1 TSAN_OPTIONS=halt_on_error=1 \
    ctest --test-dir "$folder" --output-on-failure -j "$(nproc)" -L unit
