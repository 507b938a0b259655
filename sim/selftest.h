/* Prototypes that the self-test uses, with handles as plain pointers. */
#ifndef SIM_SELFTEST_H
#define SIM_SELFTEST_H

#include "sim_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                     \
            fflush(stdout);                                                                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static inline uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static inline void *symbol_address(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret_device);
int nvmlDeviceGetMemoryInfo(void *device, void *ret_memory);

int cuInit(unsigned flags);
int cuDeviceGetCount(int *ret_count);
int cuGetProcAddress(const char *name, void **ret_entry, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *name, void **ret_entry, int version, uint64_t flags, int *ret_status);
int cuCtxCreate_v2(void **ret_context, unsigned flags, int ordinal);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(devptr *ret_address, size_t bytes);
int cuMemAllocManaged(devptr *ret_address, size_t bytes, unsigned flags);
int cuMemFree_v2(devptr address);
int cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total);
int cuMemcpyHtoD_v2(devptr dst, const void *src, size_t bytes);
int cuMemcpyDtoH_v2(void *dst, devptr src, size_t bytes);
int cuMemcpyDtoD_v2(devptr dst, devptr src, size_t bytes);
int cuMemsetD8_v2(devptr dst, unsigned char value, size_t bytes);
int cuStreamCreate(void **ret_stream, unsigned flags);
int cuStreamQuery(void *stream);
int cuStreamSynchronize(void *stream);
int cuEventCreate(void **ret_event, unsigned flags);
int cuEventRecord(void *event, void *stream);
int cuEventQuery(void *event);
int cuEventSynchronize(void *event);
int cuEventElapsedTime(float *ret_ms, void *start, void *end);
int cuDeviceGetMemPool(void **ret_pool, int ordinal);
int cuMemPoolGetAttribute(void *pool, int attribute, void *ret_value);
int cuMemAllocAsync(devptr *ret_address, size_t bytes, void *stream);
int cuMemFreeAsync(devptr address, void *stream);
int cuArray3DCreate_v2(void **ret_array, const struct abi_array3d_desc *desc);
int cuArrayGetMemoryRequirements(struct abi_array_requirements *ret_needs, void *array, int ordinal);
int cuMipmappedArrayCreate(void **ret_array, const struct abi_array3d_desc *desc, unsigned levels);
int cuMipmappedArrayGetMemoryRequirements(struct abi_array_requirements *ret_needs, void *array, int ordinal);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **ret_graph);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cuGraphInstantiateWithFlags(void **ret_exec, void *graph, unsigned long long flags);
int cuGraphLaunch(void *exec, void *stream);
int cuGraphExecDestroy(void *exec);
int cuDeviceGraphMemTrim(int ordinal);
int cuModuleLoadData(void **ret_module, const void *image);
int cuModuleGetFunction(void **ret_function, void *module, const char *name);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared_bytes, void *stream, void **params, void **extra);
int cuLaunchHostFunc(void *stream, void (*function)(void *), void *user);
int cuMemCreate(uint64_t *ret_handle, size_t bytes, const struct abi_allocation_prop *prop, unsigned long long flags);
int cuMemRelease(uint64_t handle);
int cuMemAddressReserve(devptr *ret_address, size_t bytes, size_t alignment, devptr wanted, unsigned long long flags);
int cuMemMap(devptr address, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags);
int cuMemUnmap(devptr address, size_t bytes);
int cuMemExportToShareableHandle(void *ret_shareable, uint64_t handle, int type, unsigned long long flags);
int cuMemImportFromShareableHandle(uint64_t *ret_handle, void *shareable, int type);

#endif
