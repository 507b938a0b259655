/*
 * A libcuda.so.1 as CUDA 10.0 had it: no pools, no VMM, no graphs' memory, no cuGetProcAddress.
 * What it has, it passes to the simulator's libcuda, named by OLDCUDA_REAL. With OLDCUDA_CALLS_BACK
 * its calls first allocate and free memory by the symbols that the whole program sees, so by the
 * hooks: a driver that re-enters them from within. With OLDCUDA_INIT_THREAD its cuInit has a thread
 * call cuInit that way, and waits for it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int (*any_fn)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                      uintptr_t, uintptr_t, uintptr_t, uintptr_t);

static any_fn real(const char *name)
{
    static void *library;
    if (!library)
        library = dlopen(getenv("OLDCUDA_REAL"), RTLD_NOW | RTLD_LOCAL);
    return library ? (any_fn)dlsym(library, name) : NULL;
}

static unsigned callbacks;
unsigned oldcuda_callbacks(void);
unsigned oldcuda_callbacks(void)
{
    return callbacks;
}

static void call_back(const char *symbol)
{
    static __thread int inside;
    int (*take)(uint64_t *, size_t), (*drop)(uint64_t);
    uint64_t address;

    if (inside || !getenv("OLDCUDA_CALLS_BACK") ||
        (strncmp(symbol, "cuMem", 5) != 0 && strncmp(symbol, "cuArr", 5) != 0))
        return;
    inside = 1;
    take = (int (*)(uint64_t *, size_t))dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    drop = (int (*)(uint64_t))dlsym(RTLD_DEFAULT, "cuMemFree_v2");
    if (take && drop && take(&address, 4096) == 0 && drop(address) == 0)
        callbacks++;
    inside = 0;
}

#define FORWARD(symbol)                                                                            \
    int symbol(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f,       \
               uintptr_t g, uintptr_t h, uintptr_t i, uintptr_t j, uintptr_t k);                   \
    int symbol(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f,       \
               uintptr_t g, uintptr_t h, uintptr_t i, uintptr_t j, uintptr_t k)                    \
    {                                                                                              \
        static any_fn function;                                                                    \
        if (!function)                                                                             \
            function = real(#symbol);                                                              \
        call_back(#symbol);                                                                        \
        return function ? function(a, b, c, d, e, f, g, h, i, j, k) : 801;                         \
    }

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
    *version = 10000;
    return 0;
}

static void *init_again(void *arg)
{
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(RTLD_DEFAULT, "cuInit");

    (void)arg;
    return (void *)(intptr_t)(init ? init(0) : -1);
}

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    static int started;
    any_fn function = real("cuInit");
    pthread_t thread;
    void *result = NULL;

    if (getenv("OLDCUDA_INIT_THREAD") && !__atomic_exchange_n(&started, 1, __ATOMIC_SEQ_CST)) {
        if (pthread_create(&thread, NULL, init_again, NULL) || pthread_join(thread, &result) ||
            result)
            return 999;
        callbacks++;
    }
    return function ? function(flags, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) : 801;
}

FORWARD(cuGetErrorName)
FORWARD(cuGetErrorString)
FORWARD(cuDeviceGet)
FORWARD(cuDeviceGetCount)
FORWARD(cuDeviceGetName)
FORWARD(cuDeviceGetUuid)
FORWARD(cuDeviceTotalMem_v2)
FORWARD(cuDeviceGetAttribute)
FORWARD(cuDeviceGetPCIBusId)
FORWARD(cuDeviceGetByPCIBusId)
FORWARD(cuDevicePrimaryCtxRetain)
FORWARD(cuDevicePrimaryCtxRelease)
FORWARD(cuDevicePrimaryCtxReset)
FORWARD(cuDevicePrimaryCtxGetState)
FORWARD(cuCtxCreate_v2)
FORWARD(cuCtxDestroy_v2)
FORWARD(cuCtxSetCurrent)
FORWARD(cuCtxGetCurrent)
FORWARD(cuCtxPushCurrent_v2)
FORWARD(cuCtxPopCurrent_v2)
FORWARD(cuCtxGetDevice)
FORWARD(cuCtxSynchronize)
FORWARD(cuCtxSetLimit)
FORWARD(cuCtxGetLimit)
FORWARD(cuModuleLoadData)
FORWARD(cuModuleUnload)
FORWARD(cuModuleGetFunction)
FORWARD(cuMemGetInfo_v2)
FORWARD(cuMemAlloc_v2)
FORWARD(cuMemAllocPitch_v2)
FORWARD(cuMemAllocManaged)
FORWARD(cuMemFree_v2)
FORWARD(cuMemHostAlloc)
FORWARD(cuMemAllocHost_v2)
FORWARD(cuMemFreeHost)
FORWARD(cuArrayCreate_v2)
FORWARD(cuArray3DCreate_v2)
FORWARD(cuArrayDestroy)
FORWARD(cuStreamCreate)
FORWARD(cuStreamDestroy_v2)
FORWARD(cuStreamSynchronize)
FORWARD(cuLaunchKernel)
