#!/usr/bin/env bash
# Shell scripts through shellcheck; C files through clang-format.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t scripts < <(git ls-files -co --exclude-standard '*.sh' .ci/run)
shellcheck -S warning "${scripts[@]}"
mapfile -t sources < <(git ls-files -co --exclude-standard '*.c' '*.h')
clang-format --dry-run -Werror "${sources[@]}"
