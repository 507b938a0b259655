"""Calls a bit of everything, by ctypes; what is missing or refused is counted, and does no harm."""
import ctypes
from ctypes import byref, c_char, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p

MIB = 1 << 20
failed = missing = 0


class Library:
    def __init__(self, name):
        self.library = ctypes.CDLL(name)

    def __getattr__(self, symbol):
        def call(*args):
            global failed, missing
            try:
                function = getattr(self.library, symbol)
            except AttributeError:
                missing += 1
                return -1
            result = function(*args)
            if result:
                failed += 1
                print(f"{symbol}: {result}")
            return result

        return call


def memory(cu, stream):
    address, other, pitch = c_uint64(), c_uint64(), c_size_t()
    if not cu.cuMemAlloc_v2(byref(address), c_size_t(10 * MIB)):
        cu.cuMemsetD8_v2(address, 1, c_size_t(MIB))
        cu.cuMemcpyDtoD_v2(address, c_uint64(address.value + MIB), c_size_t(MIB))
        cu.cuMemFree_v2(address)
    if not cu.cuMemAllocPitch_v2(byref(address), byref(pitch), c_size_t(100), c_size_t(100), 4):
        cu.cuMemFree_v2(address)
    if not cu.cuMemAllocManaged(byref(address), c_size_t(4 * MIB), 1):
        cu.cuMemFree_v2(address)
    if not cu.cuMemAllocAsync(byref(other), c_size_t(8 * MIB), stream):
        cu.cuMemFreeAsync(other, stream)
    cu.cuStreamSynchronize(stream)
    host = c_void_p()
    if not cu.cuMemHostAlloc(byref(host), c_size_t(4096), 0):
        cu.cuMemFreeHost(host)
    descriptor = (c_size_t * 3)(1000, 1000, 1 << 32 | 0x20)
    array = c_void_p()
    if not cu.cuArrayCreate_v2(byref(array), descriptor):
        cu.cuArrayDestroy(array)
    refused = c_uint64()
    assert ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(byref(refused), c_size_t(1 << 40)) == 2


def physical(cu):
    prop = (c_int * 8)(1, 1, 1, 0)
    handle, fd, again, address = c_uint64(), c_int(), c_uint64(), c_uint64()
    if cu.cuMemCreate(byref(handle), c_size_t(4 * MIB), prop, c_ulonglong(0)):
        return
    if not cu.cuMemExportToShareableHandle(byref(fd), handle, 1, c_ulonglong(0)):
        if not cu.cuMemImportFromShareableHandle(byref(again), c_void_p(fd.value), 1):
            cu.cuMemRelease(again)
    if not cu.cuMemAddressReserve(byref(address), c_size_t(4 * MIB), c_size_t(0), c_uint64(0), c_ulonglong(0)):
        if not cu.cuMemMap(address, c_size_t(4 * MIB), c_size_t(0), handle, c_ulonglong(0)):
            cu.cuMemUnmap(address, c_size_t(4 * MIB))
        cu.cuMemAddressFree(address, c_size_t(4 * MIB))
    cu.cuMemRelease(handle)


def work(cu, stream):
    module, kernel, graph, runnable = c_void_p(), c_void_p(), c_void_p(), c_void_p()
    if cu.cuModuleLoadData(byref(module), b"simgpu"):
        return
    if not cu.cuModuleGetFunction(byref(kernel), module, b"simgpu_busy"):
        duration = c_uint64(50000)
        args = (c_void_p * 1)(ctypes.cast(byref(duration), c_void_p))
        for _ in range(40):
            cu.cuLaunchKernel(kernel, 4, 1, 1, 32, 1, 1, 0, stream, args, None)
        cu.cuStreamSynchronize(stream)
        if not cu.cuStreamBeginCapture_v2(stream, 2):
            cu.cuLaunchKernel(kernel, 4, 1, 1, 32, 1, 1, 0, stream, args, None)
            if not cu.cuStreamEndCapture(stream, byref(graph)):
                if not cu.cuGraphInstantiateWithFlags(byref(runnable), graph, c_ulonglong(0)):
                    cu.cuGraphLaunch(runnable, stream)
                    cu.cuStreamSynchronize(stream)
                    cu.cuGraphExecDestroy(runnable)
                cu.cuGraphDestroy(graph)
    cu.cuModuleUnload(module)


def views(nvml):
    device, count, index = c_void_p(), c_uint(), c_uint()
    buffer = (c_char * 4096)()
    nvml.nvmlInit_v2()
    nvml.nvmlDeviceGetCount_v2(byref(count))
    if not nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(device)) and device:
        nvml.nvmlDeviceGetIndex(device, byref(index))
        nvml.nvmlDeviceGetMemoryInfo(device, buffer)
        nvml.nvmlDeviceGetUUID(device, buffer, 96)
        nvml.nvmlDeviceGetHandleByUUID(buffer, byref(device))
        for symbol in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2",
                       "nvmlDeviceGetComputeRunningProcesses_v3"):
            count.value = 8
            getattr(nvml, symbol)(device, byref(count), buffer)
        nvml.nvmlDeviceGetUtilizationRates(device, buffer)
    nvml.nvmlShutdown()


def main():
    cu = Library("libcuda.so.1")
    context, own, stream = c_void_p(), c_void_p(), c_void_p()
    free, total = c_size_t(), c_size_t()
    cu.cuInit(0)
    if not cu.cuDevicePrimaryCtxRetain(byref(context), 0):
        cu.cuCtxSetCurrent(context)
        cu.cuMemGetInfo_v2(byref(free), byref(total))
        if not cu.cuStreamCreate(byref(stream), 1):
            memory(cu, stream)
            physical(cu)
            work(cu, stream)
            cu.cuStreamDestroy_v2(stream)
        if not cu.cuCtxCreate_v2(byref(own), 0, 0):
            cu.cuCtxSetLimit(0, c_size_t(4096))
            cu.cuCtxDestroy_v2(own)
        views(Library("libnvidia-ml.so.1"))
        cu.cuDevicePrimaryCtxRelease_v2(0)
    print(f"failed: {failed} missing: {missing}")


main()
