/*
 * A libcuda.so.1 whose calls return at once, for measuring what the hooks add. Outputs are
 * plausible and pointers unique; nothing is allocated. bench_real() hands out a function's own
 * address, so that one process can compare the driver's call with the hooked one in turn.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define CALL(symbol, ...)                                                                          \
    EXPORT int symbol(__VA_ARGS__);                                                                \
    int symbol(__VA_ARGS__)

/* Answered by noop_defaults.c. */
int cuLaunchKernel(void), cuLaunchKernelEx(void), cuGraphLaunch(void), cuMemFree_v2(void),
    cuMemFreeAsync(void), cuMemcpyHtoDAsync_v2(void), cuMemcpyDtoDAsync_v2(void),
    cuMemsetD8Async(void), cuFuncGetAttribute(void);

#define CARD_BYTES (1ULL << 40)

static char context[64], pool[64];
static _Atomic uint64_t small_next = 0x700000000000, large_next = 0x600000000000;

static uint64_t next_address(size_t bytes)
{
    if (bytes <= 1 << 20)
        return atomic_fetch_add(&small_next, (bytes + 511) & ~511ULL);
    return atomic_fetch_add(&large_next, (bytes + (2 << 20) - 1) & ~((2ULL << 20) - 1));
}

CALL(cuInit, unsigned flags)
{
    return flags ? 1 : 0;
}

CALL(cuDriverGetVersion, int *version)
{
    *version = 13000;
    return 0;
}

CALL(cuDeviceGetCount, int *count)
{
    *count = 1;
    return 0;
}

CALL(cuDeviceGet, int *device, int ordinal)
{
    *device = ordinal;
    return ordinal ? 101 : 0;
}

CALL(cuDeviceGetUuid_v2, char *uuid, int device)
{
    (void)device;
    memset(uuid, 7, 16);
    return 0;
}

CALL(cuDeviceGetPCIBusId, char *id, int length, int device)
{
    (void)device;
    snprintf(id, (size_t)length, "0000:01:00.0");
    return 0;
}

CALL(cuDeviceGetAttribute, int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 16 ? 132 : 1;
    return 0;
}

CALL(cuDeviceTotalMem_v2, size_t *bytes, int device)
{
    (void)device;
    *bytes = CARD_BYTES;
    return 0;
}

CALL(cuMemGetInfo_v2, size_t *free_bytes, size_t *total_bytes)
{
    if (free_bytes)
        *free_bytes = CARD_BYTES;
    if (total_bytes)
        *total_bytes = CARD_BYTES;
    return 0;
}

CALL(cuDevicePrimaryCtxRetain, void **ret, int device)
{
    (void)device;
    *ret = context;
    return 0;
}

CALL(cuDevicePrimaryCtxGetState, int device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = 1;
    return 0;
}

CALL(cuCtxGetCurrent, void **ret)
{
    *ret = context;
    return 0;
}

CALL(cuCtxGetDevice, int *device)
{
    *device = 0;
    return 0;
}

CALL(cuCtxGetLimit, size_t *value, int limit)
{
    (void)limit;
    *value = 1024;
    return 0;
}

CALL(cuMemAlloc_v2, uint64_t *address, size_t bytes)
{
    *address = next_address(bytes);
    return 0;
}

CALL(cuMemAllocAsync, uint64_t *address, size_t bytes, void *stream)
{
    (void)stream;
    *address = next_address(bytes);
    return 0;
}

CALL(cuDeviceGetMemPool, void **ret, int device)
{
    (void)device;
    *ret = pool;
    return 0;
}

CALL(cuDeviceGetDefaultMemPool, void **ret, int device)
{
    (void)device;
    *ret = pool;
    return 0;
}

CALL(cuMemPoolGetAttribute, void *of, int attribute, uint64_t *value)
{
    (void)of;
    *value =
        attribute == 5 ? 64ULL << 20 : 0; /* the pool is warm: 64 MiB reserved, and it stays so */
    return 0;
}

CALL(cuDeviceGetGraphMemAttribute, int device, int attribute, uint64_t *value)
{
    (void)device;
    (void)attribute;
    *value = 0;
    return 0;
}

CALL(cuStreamIsCapturing, void *stream, int *status)
{
    (void)stream;
    *status = 0;
    return 0;
}

CALL(cuStreamGetDevice, void *stream, int *device)
{
    (void)stream;
    *device = 0;
    return 0;
}

CALL(cuStreamGetCtx, void *stream, void **ret)
{
    (void)stream;
    *ret = context;
    return 0;
}

CALL(cuEventCreate, void **ret, unsigned flags)
{
    static _Atomic uintptr_t next = 4096;
    (void)flags;
    *ret = (void *)atomic_fetch_add(&next, 64);
    return 0;
}

/* Nothing takes any time worth mentioning, so a cap is not reached soon. */
CALL(cuEventElapsedTime, float *ms, void *from, void *to)
{
    (void)from;
    (void)to;
    *ms = 0.0005F;
    return 0;
}

CALL(cuEventElapsedTime_v2, float *ms, void *from, void *to)
{
    return cuEventElapsedTime(ms, from, to);
}

CALL(cuMemHostGetDevicePointer_v2, uint64_t *address, void *host, unsigned flags)
{
    (void)flags;
    *address = (uint64_t)(uintptr_t)host;
    return 0;
}

/* Streams are done with everything at once. */
CALL(cuStreamWriteValue32_v2, void *stream, uint64_t address, uint32_t value, unsigned flags)
{
    (void)stream;
    (void)flags;
    atomic_store((_Atomic uint32_t *)(uintptr_t)address, value);
    return 0;
}

CALL(cuGetProcAddress_v2, const char *name, void **address, int version, uint64_t flags,
     int *status)
{
    char versioned[128];
    (void)version;
    (void)flags;
    snprintf(versioned, sizeof versioned, "%s_v2", name);
    void *self = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    *address = dlsym(self, versioned);
    if (!*address)
        *address = dlsym(self, name);
    if (status)
        *status = *address ? 0 : 1;
    return 0;
}

/* The driver's own address of the few calls that are measured. */
EXPORT void *bench_real(const char *name);
EXPORT void *bench_real(const char *name)
{
    static const struct {
        const char *name;
        void *address;
    } table[] = {
        {"cuLaunchKernel", (void *)cuLaunchKernel},
        {"cuMemAlloc_v2", (void *)cuMemAlloc_v2},
        {"cuMemFree_v2", (void *)cuMemFree_v2},
        {"cuMemAllocAsync", (void *)cuMemAllocAsync},
        {"cuMemFreeAsync", (void *)cuMemFreeAsync},
        {"cuMemcpyHtoDAsync_v2", (void *)cuMemcpyHtoDAsync_v2},
        {"cuMemcpyDtoDAsync_v2", (void *)cuMemcpyDtoDAsync_v2},
        {"cuMemsetD8Async", (void *)cuMemsetD8Async},
        {"cuLaunchKernelEx", (void *)cuLaunchKernelEx},
        {"cuGraphLaunch", (void *)cuGraphLaunch},
        {"cuFuncGetAttribute", (void *)cuFuncGetAttribute},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name))
            return table[i].address;
    return NULL;
}
