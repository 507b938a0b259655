/* Prototypes that the self-test uses, with handles as plain pointers. */
#ifndef SIM_SELFTEST_H
#define SIM_SELFTEST_H

#include "abi.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ULL << 20)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
            fflush(stdout);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static inline uint64_t time_of(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static inline uint64_t now_ns(void)
{
    return time_of(CLOCK_MONOTONIC);
}

static inline uint64_t cpu_ns(void)
{
    return time_of(CLOCK_PROCESS_CPUTIME_ID);
}

/* A wait or a write of a batch. */
#define MEMOP(kind, at, number)                                                                    \
    {                                                                                              \
        .waitValue = { CU_STREAM_MEM_OP_##kind, at, {.value64 = number}, 0, 0 }                    \
    }

struct selftest {
    const char *name;
    void (*function)(void);
};

/* Runs each case in a process and on a state file of its own; SELFTEST_ONLY names one. What main()
 * returns. */
int selftest_run(const struct selftest *cases, size_t count);
/* cuInit and a context. */
void *begin(void);
pid_t start(void (*function)(void));
/* Waits for it; its exit status, 128 + signal where it was killed. */
int finish(pid_t pid);

enum { NOT_READY = 600, BLOCKING = 0, NON_BLOCKING = 1 };

void *new_stream(unsigned flags);
/* A function of a module of its own. */
void *kernel(const char *name);
/* Launches simgpu_busy. */
void launch_busy(void *function, void *stream, uint64_t duration_ns);
/* A number of the ledger, by simctl: the one behind key= in the last line that begins so;
 * UINT64_MAX: none. */
uint64_t ledger(const char *line_start, const char *key);

static inline void *symbol_address(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret_device);
int nvmlDeviceGetMemoryInfo(void *device, void *ret_memory);
int nvmlDeviceGetClockInfo(void *device, unsigned type, unsigned *ret_mhz);
int nvmlDeviceGetMaxClockInfo(void *device, unsigned type, unsigned *ret_mhz);
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *ret_generation);
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *ret_generation);
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *ret_width);
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *ret_width);
int nvmlDeviceGetPcieThroughput(void *device, unsigned counter, unsigned *ret_rate);
int nvmlDeviceGetEncoderUtilization(void *device, unsigned *ret_percent, unsigned *ret_period_us);
int nvmlDeviceGetDecoderUtilization(void *device, unsigned *ret_percent, unsigned *ret_period_us);
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *ret_degrees);
int nvmlDeviceGetTemperatureThreshold(void *device, unsigned type, unsigned *ret_degrees);
int nvmlDeviceGetFanSpeed(void *device, unsigned *ret_percent);
int nvmlDeviceGetPowerUsage(void *device, unsigned *ret_milliwatt);
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *ret_milliwatt);

int cuInit(unsigned flags);
int cuDeviceGetCount(int *ret_count);
int cuGetProcAddress(const char *name, void **ret_entry, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *name, void **ret_entry, int version, uint64_t flags,
                        int *ret_status);
int cuCtxCreate_v2(void **ret_context, unsigned flags, int ordinal);
int cuCtxSynchronize(void);
int cuGetExportTable(const void **ret_table, const CUuuid *uuid);
int cuDevicePrimaryCtxRetain(void **ret_context, int ordinal);
int cuDevicePrimaryCtxRelease_v2(int ordinal);
int cuDevicePrimaryCtxReset_v2(int ordinal);
int cuDevicePrimaryCtxGetState(int ordinal, unsigned *ret_flags, int *ret_active);
int cuLibraryLoadData(void **ret_library, const void *image, int *jit, void **jit_values,
                      unsigned jit_count, int *options, void **values, unsigned count);
int cuLibraryGetKernel(void **ret_kernel, void *library, const char *name);
int cuLibraryUnload(void *library);
int cuLibraryGetGlobal(devptr *ret_address, size_t *ret_bytes, void *library, const char *name);
int cuLibraryGetModule(void **ret_module, void *library);
int cuLibraryGetManaged(devptr *ret_address, size_t *ret_bytes, void *library, const char *name);
int cuModuleUnload(void *module);
int cuModuleGetGlobal_v2(devptr *ret_address, size_t *ret_bytes, void *module, const char *name);
int cuFuncGetParamInfo(void *function, size_t index, size_t *ret_offset, size_t *ret_bytes);
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
int cuMemPoolCreate(void **ret_pool, const CUmemPoolProps *props);
int cuMemPoolDestroy(void *pool);
int cuMemAllocFromPoolAsync(devptr *ret_address, size_t bytes, void *pool, void *stream);
int cuMemAllocAsync(devptr *ret_address, size_t bytes, void *stream);
int cuMemFreeAsync(devptr address, void *stream);
int cuArray3DCreate_v2(void **ret_array, const CUDA_ARRAY3D_DESCRIPTOR *desc);
int cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret_needs, void *array,
                                 int ordinal);
int cuMipmappedArrayCreate(void **ret_array, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels);
int cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret_needs, void *array,
                                          int ordinal);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **ret_graph);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cuGraphInstantiateWithFlags(void **ret_exec, void *graph, unsigned long long flags);
int cuGraphLaunch(void *exec, void *stream);
int cuGraphExecDestroy(void *exec);
int cuDeviceGraphMemTrim(int ordinal);
int cuModuleLoadData(void **ret_module, const void *image);
int cuModuleGetFunction(void **ret_function, void *module, const char *name);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared_bytes, void *stream, void **params, void **extra);
int cuLaunchHostFunc(void *stream, void (*function)(void *), void *user);
int cuMemCreate(uint64_t *ret_handle, size_t bytes, const CUmemAllocationProp *prop,
                unsigned long long flags);
int cuMemRelease(uint64_t handle);
int cuMemAddressReserve(devptr *ret_address, size_t bytes, size_t alignment, devptr wanted,
                        unsigned long long flags);
int cuMemMap(devptr address, size_t bytes, size_t offset, uint64_t handle,
             unsigned long long flags);
int cuMemUnmap(devptr address, size_t bytes);
int cuMemExportToShareableHandle(void *ret_shareable, uint64_t handle, int type,
                                 unsigned long long flags);
int cuMemImportFromShareableHandle(uint64_t *ret_handle, void *shareable, int type);
int cuCtxDestroy_v2(void *context);
int cuCtxSetCurrent(void *context);
int cuDeviceGetAttribute(int *ret_value, int number, int ordinal);
int cuMemHostAlloc(void **ret_memory, size_t bytes, unsigned flags);
int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
int cuMemHostUnregister(void *memory);
int cuMemHostGetDevicePointer_v2(devptr *ret_address, void *memory, unsigned flags);
int cuMemcpyHtoDAsync_v2(devptr dst, const void *src, size_t bytes, void *stream);
int cuMemcpyDtoHAsync_v2(void *dst, devptr src, size_t bytes, void *stream);
int cuMemcpyDtoDAsync_v2(devptr dst, devptr src, size_t bytes, void *stream);
int cuMemcpyBatchAsync_v2(devptr *dsts, devptr *srcs, size_t *sizes, size_t count, void *attributes,
                          size_t *indices, size_t attribute_count, void *stream);
int cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, void *stream);
int cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, void *stream);
int cuMemsetD8Async(devptr dst, unsigned char value, size_t count, void *stream);
int cuMemsetD16Async(devptr dst, unsigned short value, size_t count, void *stream);
int cuMemsetD32Async(devptr dst, unsigned value, size_t count, void *stream);
int cuMemsetD32Async_ptsz(devptr dst, unsigned value, size_t count, void *stream);
int cuMemsetD2D8Async(devptr dst, size_t pitch, unsigned char value, size_t width, size_t height,
                      void *stream);
int cuMemsetD2D32Async(devptr dst, size_t pitch, unsigned value, size_t width, size_t height,
                       void *stream);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuStreamWaitValue32(void *stream, devptr address, uint32_t value, unsigned flags);
int cuStreamWaitValue32_v2(void *stream, devptr address, uint32_t value, unsigned flags);
int cuStreamWaitValue32_v2_ptsz(void *stream, devptr address, uint32_t value, unsigned flags);
int cuStreamWaitValue64_v2(void *stream, devptr address, uint64_t value, unsigned flags);
int cuStreamWriteValue32_v2(void *stream, devptr address, uint32_t value, unsigned flags);
int cuStreamWriteValue32_v2_ptsz(void *stream, devptr address, uint32_t value, unsigned flags);
int cuStreamWriteValue64_v2(void *stream, devptr address, uint64_t value, unsigned flags);
int cuStreamBatchMemOp_v2(void *stream, unsigned count, CUstreamBatchMemOpParams *operations,
                          unsigned flags);
int cuLaunchKernel_ptsz(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared_bytes, void *stream,
                        void **params, void **extra);
int cuLaunchKernelEx(const CUlaunchConfig *config, void *function, void **params, void **extra);
int cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, void *function, void **params,
                          void **extra);
int cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared_bytes, void *stream,
                              void **params);
int cuLaunchCooperativeKernel_ptsz(void *function, unsigned gx, unsigned gy, unsigned gz,
                                   unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
                                   void *stream, void **params);
int cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches, unsigned count,
                                         unsigned flags);
int cuFuncSetBlockShape(void *function, int x, int y, int z);
int cuParamSetSize(void *function, unsigned bytes);
int cuParamSeti(void *function, int offset, unsigned value);
int cuParamSetv(void *function, int offset, void *from, unsigned bytes);
int cuLaunch(void *function);
int cuLaunchGrid(void *function, int width, int height);
int cuLaunchGridAsync(void *function, int width, int height, void *stream);
int cuGraphCreate(void **ret_graph, unsigned flags);
int cuGraphAddKernelNode_v2(void **ret_node, void *graph, void *const *needs, size_t count,
                            const CUDA_KERNEL_NODE_PARAMS *parameters);
int cuGraphAddMemsetNode(void **ret_node, void *graph, void *const *needs, size_t count,
                         const CUDA_MEMSET_NODE_PARAMS_v2 *parameters, void *context);
int cuGraphExecKernelNodeSetParams_v2(void *exec, void *node,
                                      const CUDA_KERNEL_NODE_PARAMS *parameters);
int cuGraphKernelNodeSetParams_v2(void *node, const CUDA_KERNEL_NODE_PARAMS *parameters);
int cuGraphKernelNodeGetParams_v2(void *node, CUDA_KERNEL_NODE_PARAMS *ret_parameters);
int cuGraphExecUpdate_v2(void *exec, void *graph, CUgraphExecUpdateResultInfo *ret_info);
int cuGraphExecBatchMemOpNodeSetParams(void *exec, void *node,
                                       const CUDA_BATCH_MEM_OP_NODE_PARAMS *parameters);
int cuGraphBatchMemOpNodeGetParams(void *node, CUDA_BATCH_MEM_OP_NODE_PARAMS *ret_parameters);
int cuGraphGetNodes(void *graph, void **ret_nodes, size_t *count);
int cuGraphNodeGetType(void *node, int *ret_type);

#endif
