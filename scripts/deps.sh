#!/usr/bin/env bash
# deps.sh need|install build|test|check: the Debian packages that building, `make test` or `make check` needs. `need` ends
# with 1 where one is missing; `install` installs it, as root or by sudo. Where nothing can be installed, both print the
# one line to type.
set -euo pipefail

how=${1:-} what=${2:-}
build=(gcc libc6-dev make cmake ninja-build pkg-config libjansson-dev)
tests=(libcmocka-dev jq bats python3 tmux musl-tools)
if grep -qs '^VERSION_ID="1[3-9]"' /etc/os-release; then tests+=(nvtop); fi # in Debian's main archive since 13
full() { # clang's runtime for sanitizers is a package of its own, of the version that clang is
    local version=''
    ! command -v clang >/dev/null || version=-$(clang -dumpversion | cut -d. -f1)
    echo clang "libclang-rt$version-dev" clang-format shellcheck
    echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static debootstrap
}
case $how-$what in
need-build | install-build) packages=("${build[@]}") ;;
need-test | install-test) packages=("${build[@]}" "${tests[@]}") ;;
need-check | install-check)
    mapfile -t packages < <(printf '%s\n' "${build[@]}" "${tests[@]}" && full | tr ' ' '\n')
    ;;
*) echo "usage: deps.sh need|install build|test|check" >&2 && exit 2 ;;
esac

# What is there counts, wherever it came from.
is_there() {
    # shellcheck disable=SC2016 # the format is dpkg-query's own
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ] && return
    case $1 in
    gcc) command -v "${CC:-cc}" ;;
    ninja-build) command -v ninja ;;
    libjansson-dev) pkg-config --exists jansson ;;
    libcmocka-dev) pkg-config --exists cmocka ;;
    make | cmake | pkg-config | jq | bats | python3 | tmux | clang | clang-format | shellcheck) command -v "$1" ;;
    musl-tools) command -v musl-gcc ;;
    libc6-dev) [ -e /usr/include/stdio.h ] ;;
    *) false ;;
    esac >/dev/null 2>&1
}

missing=()
for package in "${packages[@]}"; do is_there "$package" || missing+=("$package"); done
[ ${#missing[@]} -eq 0 ] && exit 0

line="sudo apt-get install -y --no-install-recommends ${missing[*]}"
if ! command -v apt-get >/dev/null; then
    echo "vgpu: not a Debian system; install what these Debian packages hold: ${missing[*]}" >&2
    exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
    sudo=(sudo)
    [ -t 0 ] || sudo+=(-n) # nobody is there who could type a password
fi
if [ "$how" = need ] || { [ ${#sudo[@]} -gt 0 ] && ! command -v sudo >/dev/null; }; then
    printf 'vgpu: packages are missing; type:\n  %s\n' "$line" >&2
    exit 1
fi
echo "installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)
if ! { "${install[@]}" update -qq && "${install[@]}" install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    cat "$log" >&2
    printf 'vgpu: they could not be installed; type:\n  %s\n' "$line" >&2
    exit 1
fi
