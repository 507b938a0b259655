#!/usr/bin/env bash
# Runs the tests of a build folder and ends with "N passed, N failed". With FULL=1 also the checks that need other
# compilers and other systems; each of those counts as one.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
build=${1:-build}
passed=0
failed=0
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT

note() { # name, status
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok      $1"
    else
        failed=$((failed + 1))
        echo "FAILED  $1"
    fi
}

step() { # name, command...
    local name=$1
    shift
    "$@" >"$log/step" 2>&1
    local status=$?
    [ $status -eq 0 ] || tail -n 60 "$log/step"
    note "$name" $status
}

run_ctest() { # log, options...: and reads ctest_failed and ctest_total
    ctest --test-dir "$build" --output-on-failure "${@:2}" 2>&1 | tee "$1"
    read -r ctest_failed ctest_total <<<"$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' "$1" | tail -n 1)"
}
names_of() { sed -nE "s/^[[:space:]]+[0-9]+ - (.*) \\($2\\)\$/\1/p" "$1" | sort; } # log, result

run_ctest "$log/ctest" -j "$(nproc)" "${CTEST_ARGS[@]:---no-compress-output}"
: "${ctest_failed:=1}" "${ctest_total:=1}"
# Some compare what they measure with the time, and a machine may have other things to do: a few that have failed, not
# crashed, may try once more, alone. Which did is said at the end: it may be a fault that is rare.
if [ "$ctest_failed" -gt 0 ] && [ "$ctest_failed" -le 3 ] &&
    [ "$(names_of "$log/ctest" Failed | wc -l)" = "$ctest_failed" ]; then
    total=$ctest_total
    run_ctest "$log/again" --rerun-failed
    : "${ctest_failed:=1}"
    ctest_total=$total
    again=$(comm -23 <(names_of "$log/ctest" Failed) <(names_of "$log/again" '.*'))
fi
passed=$((ctest_total - ctest_failed))
failed=$ctest_failed
skipped=$(names_of "$log/ctest" Skipped)
[ -z "$skipped" ] || passed=$((passed - $(wc -l <<<"$skipped"))) # ctest counts them as passed

if [ "${FULL:-}" = 1 ]; then
    FULL=1 scripts/deps.sh || note "packages for the full check" 1
    step "gcc, -Werror" scripts/build-variant.sh "$log/gcc" gcc -DVGPU_WERROR=ON
    step "clang, -Werror" scripts/build-variant.sh "$log/clang" clang -DVGPU_WERROR=ON
    step "unit tests under ASan and UBSan" scripts/sanitize.sh "$log/asan" address,undefined
    step "unit tests under TSan" scripts/sanitize.sh "$log/tsan" thread
    step "aarch64 cross build" scripts/aarch64.sh "$log/aarch64"
    step "libvgpu.so in a Debian 11 root" scripts/debian11.sh "$build"
    step "shellcheck" scripts/lint.sh
fi

[ -z "$skipped" ] || echo "skipped, for want of what they need: $(paste -sd ' ' <<<"$skipped")"
[ -z "${again:-}" ] || echo "failed beside others, passed alone: $(paste -sd ' ' <<<"$again")"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
