"""A CUDA program in Python: the driver by ctypes, as PyTorch's own loaders do it."""
import ctypes
import multiprocessing
import subprocess
import sys

QUOTA = 1 << 30
STEP = 32 << 20


def check(what, result, expected=0):
    if result != expected:
        sys.exit(f"{what}: {result}, not {expected}")


def driver():
    cu = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    check("cuInit", cu.cuInit(0))
    check("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check("cuCtxSetCurrent", cu.cuCtxSetCurrent(context))
    return cu


def view(cu):
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    check("cuMemGetInfo", cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value, total.value


def fill():
    cu = driver()
    before, total = view(cu)
    check("total", total, QUOTA)
    held = []
    while True:
        address = ctypes.c_uint64()
        result = cu.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(STEP))
        if result:
            break
        held.append(address.value)
    check("refusal", result, 2)
    free, _ = view(cu)
    check("free after filling", before - len(held) * STEP, free)
    if not held or free >= STEP:
        sys.exit(f"stopped {free} bytes before the quota")
    for address in held:
        check("cuMemFree", cu.cuMemFree_v2(ctypes.c_uint64(address)))
    check("free after all", view(cu)[0], before)
    check("cuDevicePrimaryCtxRelease", cu.cuDevicePrimaryCtxRelease_v2(0))


if __name__ == "__main__":
    if sys.argv[1:] == ["child"]:
        fill()
        sys.exit(0)
    for method in ("spawn", "forkserver", "fork"):
        process = multiprocessing.get_context(method).Process(target=fill)
        process.start()
        process.join()
        check(f"child by {method}", process.exitcode)
    check("subprocess", subprocess.run([sys.executable, __file__, "child"]).returncode)
    fill()
