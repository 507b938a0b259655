#!/usr/bin/env bash
# debian11.sh BUILD: loads libvgpu.so into programs inside a Debian 11 root (glibc 2.31): shells, perl, dlsym through it.
# The root is made once by debootstrap and kept in $VGPU_DEBIAN11 (default /var/cache/vgpu/debian11).
set -euo pipefail
build=$(realpath "$1")
root=${VGPU_DEBIAN11:-/var/cache/vgpu/debian11}
[ "$(id -u)" -eq 0 ] || { echo "debootstrap and chroot need root" >&2; exit 77; }

if [ ! -x "$root/bin/bash" ]; then
    rm -rf "$root.new"
    mkdir -p "$(dirname "$root")"
    debootstrap --variant=minbase bullseye "$root.new" >"$root.log" 2>&1 || { tail -n 20 "$root.log"; exit 1; }
    mv "$root.new" "$root"
fi

inside=$root/opt/vgpu
rm -rf "$inside"
mkdir -p "$inside/sim"
trap 'rm -rf "$inside"' EXIT
cp "$build/libvgpu.so" "$build/libvgpu-trace.so" "$inside/"

under() { # library, command...
    local library=$1
    shift
    chroot "$root" /usr/bin/env LD_PRELOAD="/opt/vgpu/$library" CUDA_DEVICE_MEMORY_LIMIT=1g "$@"
}

for library in libvgpu.so libvgpu-trace.so; do
    # A preload that the loader cannot take shows on stderr, or as a failure of the most harmless program.
    message=$(under "$library" /bin/true 2>&1)
    [ -z "$message" ] || { echo "$library in Debian 11: $message" >&2; exit 1; }
    under "$library" LD_TRACE_LOADED_OBJECTS=1 /bin/true | grep "/opt/vgpu/$library"
    under "$library" /bin/bash -c 'echo "a shell that starts programs: $(/bin/echo works)"'
    # DynaLoader calls dlopen and dlsym: names of the table and others must both be answered.
    under "$library" perl -MDynaLoader -e 'my $c = DynaLoader::dl_load_file("libc.so.6") or die;
        DynaLoader::dl_find_symbol($c, "getpid") or die "getpid\n";
        defined DynaLoader::dl_find_symbol($c, "cuInit", 1) and die "cuInit in libc\n"; print "dlsym works\n"'
done
chroot "$root" /bin/bash -c 'ldd --version | head -n 1'
