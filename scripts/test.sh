#!/usr/bin/env bash
# Runs the tests of a build folder and ends with "N passed, N failed". CTEST_ARGS: words for ctest; without any, the
# slow tests are left out. With FULL=1 all tests are run, and also the checks that need other compilers and other
# systems; each of those counts as one.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
build=${1:-build}
passed=0 failed=0 skipped=0
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT

step() { # name, command...: 77 is for "not here", and its last line says why
    local name=$1
    shift
    "$@" >"$log/step" 2>&1
    case $? in
    0) passed=$((passed + 1)) && echo "ok      $name" ;;
    77) skipped=$((skipped + 1)) && echo "skipped $name: $(tail -n 1 "$log/step")" ;;
    *)
        failed=$((failed + 1))
        tail -n 60 "$log/step"
        echo "FAILED  $name"
        ;;
    esac
}

read -ra words <<<"${CTEST_ARGS:-}"
[ -n "${CTEST_ARGS:-}" ] || [ "${FULL:-}" = 1 ] || words=(-LE slow)
# Most tests wait most of the time. Part of one may be skipped and say so, also where it passes and prints much.
ctest --test-dir "$build" --output-on-failure --test-output-size-passed 1000000 --output-junit "$log/junit.xml" \
    -j "$((3 * $(nproc)))" ${words[@]+"${words[@]}"}
if ! scripts/report.py "$log/junit.xml" >"$log/report"; then
    echo "test.sh: ctest has left no report" >&2
    echo "0 0 0" >"$log/report"
    failed=1
fi
read -r counted_passed counted_failed counted_skipped < <(tail -n 1 "$log/report")
passed=$counted_passed failed=$((failed + counted_failed)) skipped=$counted_skipped

if [ "${FULL:-}" = 1 ]; then
    step "packages for the full check" scripts/deps.sh install check
    step "gcc, -Werror" scripts/build-variant.sh "$log/gcc" gcc -DVGPU_WERROR=ON
    step "clang, -Werror" scripts/build-variant.sh "$log/clang" clang -DVGPU_WERROR=ON
    step "unit tests under ASan and UBSan" scripts/sanitize.sh "$log/asan" address,undefined
    step "unit tests under TSan" scripts/sanitize.sh "$log/tsan" thread
    step "aarch64 cross build" scripts/aarch64.sh "$log/aarch64"
    step "libvgpu.so in a Debian 11 root" scripts/debian11.sh "$build"
    step "shellcheck" scripts/lint.sh
fi

head -n -1 "$log/report"
[ "${words[*]-}" != "-LE slow" ] ||
    echo "$(ctest --test-dir "$build" -N -L '^slow$' | sed -n 's/^Total Tests: //p') slow tests left out: make check runs all"
[ "$skipped" -eq 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
