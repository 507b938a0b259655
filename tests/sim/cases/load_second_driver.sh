#!/usr/bin/env bash
# A program that loads the driver a second time, from another folder or into another namespace of the dynamic linker,
# keeps to its quota by whatever copy it looks things up in; where that cannot be, it is told.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "no python3"
mkdir "$TEST_WORK/other"
cp "$TEST_BUILD/sim/"*.so.1 "$TEST_WORK/other"
cat >"$TEST_WORK/twice.py" <<'P'
import ctypes, os, sys
way, path = sys.argv[1:3]
libc = ctypes.CDLL(None)
libc.dlmopen.restype = ctypes.c_void_p
if way != "alone":
    ctypes.CDLL("libcuda.so.1")
if way == "path":
    cu = ctypes.CDLL(path)
else:
    handle = libc.dlmopen(ctypes.c_long(-1), path.encode(), os.RTLD_NOW)
    assert handle, "dlmopen"
    cu = ctypes.CDLL(path, handle=handle)
context, address = ctypes.c_void_p(), ctypes.c_uint64()
total = ctypes.c_size_t()
free = ctypes.c_size_t()
if way == "alone":
    cu.cuInit
    sys.exit(0)
assert cu.cuInit(0) == 0
assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cu.cuCtxSetCurrent(context) == 0
assert cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
assert total.value == 1 << 30, total.value
assert cu.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 30)) == 2
assert cu.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20)) == 0
assert cu.cuMemFree_v2(address) == 0
assert cu.cuDevicePrimaryCtxRelease_v2(0) == 0
P
for way in path namespace alone; do
    with_instance python3 "$TEST_WORK/twice.py" "$way" "$TEST_WORK/other/libcuda.so.1" 2>"$TEST_WORK/err" ||
        { cat "$TEST_WORK/err"; die "$way: a second driver is not bound"; }
    case $way in
    alone) wanted='other/libcuda.so.1 was loaded where the library is not' ;;
    *) wanted='other/libcuda.so.1 is a second libcuda.so.1' ;;
    esac
    if [ "$(grep -c 'libcuda.so.1' "$TEST_WORK/err")" -ne 1 ] || ! grep -q "$wanted" "$TEST_WORK/err"; then
        cat "$TEST_WORK/err"
        die "$way: not said, or not once"
    fi
done
