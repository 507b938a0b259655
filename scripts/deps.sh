#!/usr/bin/env bash
# Installs the Debian packages that the build and the tests need. FULL=1 adds what `make check` needs.
set -euo pipefail

packages=(gcc libc6-dev make cmake ninja-build pkg-config libjansson-dev libcmocka-dev jq bats python3)
if [ "${FULL:-}" = 1 ]; then
    packages+=(clang clang-format libclang-rt-14-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static debootstrap shellcheck)
fi

missing=()
for package in "${packages[@]}"; do
    # shellcheck disable=SC2016 # the format is dpkg-query's own
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "deps: not a Debian system; install the equivalents of: ${missing[*]}" >&2
    exit 0
fi
sudo=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "deps: need root or sudo to install: ${missing[*]}" >&2; exit 1; }
    sudo=sudo
fi
echo "deps: installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    cat "$log" >&2
    echo "deps: apt-get failed; install by hand: ${missing[*]}" >&2
    exit 1
fi
