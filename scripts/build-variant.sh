#!/usr/bin/env bash
# build-variant.sh FOLDER COMPILER [CMAKE FLAG...]: configures and builds everything in a folder of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 compiler=$2
shift 2
CC=$compiler cmake -S . -B "$folder" -G Ninja "$@"
cmake --build "$folder"
