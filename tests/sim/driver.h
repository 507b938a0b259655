/*
 * The part of the CUDA driver API that the test programs call, declared independently of src/hook
 * (so that a wrong declaration there shows) and without a CUDA toolkit. With DRIVER_CUDA_H the
 * types come from a real cuda.h instead: driver_check.c compares every prototype with it where one
 * is installed.
 *
 * Programs call cu.cuMemAlloc_v2(...). driver_load() fills `cu` in one of three ways, as TEST_REACH
 * says:
 *   link      the addresses that the loader bound (programs linked with libcuda.so.1 only)
 *   dlsym     dlopen("libcuda.so.1") and dlsym()
 *   getproc   cuGetProcAddress_v2(), itself found by dlsym(), with base name and version as the
 *             CUDA runtime does it
 * A function that the driver does not have is NULL.
 */
#ifndef TESTS_SIM_DRIVER_H
#define TESTS_SIM_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef DRIVER_CUDA_H
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#else

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUkern_st *CUkernel;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct {
    char bytes[16];
} CUuuid;
typedef struct {
    char reserved[64];
} CUipcMemHandle;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_OPERATING_SYSTEM = 304,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
};

/* Enumerated arguments: all of them are ints to the ABI. */
typedef int CUlimit, CUdevice_attribute, CUmemPool_attribute, CUgraphMem_attribute,
    CUstreamCaptureMode, CUstreamCaptureStatus, CUmemAllocationType, CUmemAllocationHandleType,
    CUmemLocationType, CUmemAccess_flags, CUmemAllocationGranularity_flags, CUarray_format,
    CUexternalMemoryHandleType, CUdevResourceType, CUdriverProcAddressQueryResult,
    CUpointer_attribute, CUjit_option, CUlibraryOption, CUgraphNodeType, CUgraphExecUpdateResult,
    CUmemorytype;

enum {
    CU_LIMIT_STACK_SIZE = 0,
    CU_LIMIT_PRINTF_FIFO_SIZE = 1,
    CU_LIMIT_MALLOC_HEAP_SIZE = 2,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
    CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
    CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
    CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT = 2,
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_GRAPH_NODE_TYPE_KERNEL = 0,
    CU_MEMORYTYPE_DEVICE = 2,
    CU_MEM_ALLOCATION_TYPE_PINNED = 1,
    CU_MEM_HANDLE_TYPE_NONE = 0,
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
    CU_MEM_LOCATION_TYPE_DEVICE = 1,
    CU_MEM_LOCATION_TYPE_HOST = 2,
    CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
    CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 4,
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
    CU_MEM_ATTACH_GLOBAL = 1,
    CU_AD_FORMAT_FLOAT = 0x20,
    CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD = 1,
    CU_DEV_RESOURCE_TYPE_SM = 1,
    CU_GREEN_CTX_DEFAULT_STREAM = 1,
    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1,
};

typedef struct {
    CUmemLocationType type;
    int id;
} CUmemLocation;

typedef struct {
    CUmemAllocationType allocType;
    CUmemAllocationHandleType handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;

typedef struct {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;

typedef struct {
    CUmemLocation location;
    CUmemAccess_flags flags;
} CUmemAccessDesc;

typedef struct {
    size_t Width, Height;
    CUarray_format Format;
    unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR;

typedef struct {
    size_t Width, Height, Depth;
    CUarray_format Format;
    unsigned int NumChannels;
    unsigned int Flags;
} CUDA_ARRAY3D_DESCRIPTOR;

typedef struct {
    CUmemPoolProps poolProps;
    const CUmemAccessDesc *accessDescs;
    size_t accessDescCount;
    size_t bytesize;
    CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;

typedef struct {
    CUexternalMemoryHandleType type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
        const void *nvSciBufObject;
    } handle;
    unsigned long long size;
    unsigned int flags;
    unsigned int reserved[16];
} CUDA_EXTERNAL_MEMORY_HANDLE_DESC;

typedef struct {
    unsigned long long offset;
    unsigned long long size;
    unsigned int flags;
    unsigned int reserved[16];
} CUDA_EXTERNAL_MEMORY_BUFFER_DESC;

typedef struct {
    unsigned int smCount, minSmPartitionSize, smCoscheduledAlignment;
} CUdevSmResource;

typedef struct {
    CUdevResourceType type;
    unsigned char _internal_padding[92];
    union {
        CUdevSmResource sm;
        unsigned char _oversize[48];
    };
} CUdevResource;

typedef struct {
    void *execAffinityParams;
    int numExecAffinityParams;
    void *cigParams;
} CUctxCreateParams;

typedef struct {
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    void *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;

typedef struct {
    CUfunction function;
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    void **kernelParams;
} CUDA_LAUNCH_PARAMS;

typedef struct {
    CUfunction func;
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams;
    void **extra;
    CUkernel kern;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

typedef struct {
    CUgraphExecUpdateResult result;
    CUgraphNode errorNode, errorFromNode;
} CUgraphExecUpdateResultInfo;

typedef struct {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch, dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch, WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef void (*CUhostFn)(void *user);

#endif /* DRIVER_CUDA_H */

/* F(symbol, base name, CUDA version to ask for, parameters) */
#define DRIVER_CALLS(F)                                                                            \
    F(cuInit, cuInit, 2000, (unsigned int flags))                                                  \
    F(cuDriverGetVersion, cuDriverGetVersion, 2020, (int *version))                                \
    F(cuGetErrorName, cuGetErrorName, 6000, (CUresult result, const char **name))                  \
    F(cuGetExportTable, cuGetExportTable, 3000, (const void **table, const CUuuid *id))            \
    F(cuDeviceGet, cuDeviceGet, 2000, (CUdevice * device, int ordinal))                            \
    F(cuDeviceGetCount, cuDeviceGetCount, 2000, (int *count))                                      \
    F(cuDeviceGetName, cuDeviceGetName, 2000, (char *name, int len, CUdevice device))              \
    F(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, (CUuuid * uuid, CUdevice device))                \
    F(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, (size_t * bytes, CUdevice device))              \
    F(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000,                                            \
      (int *value, CUdevice_attribute attribute, CUdevice device))                                 \
    F(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, (char *id, int len, CUdevice device))        \
    F(cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, 4010, (CUdevice * device, const char *id))     \
    F(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020,                                 \
      (CUmemoryPool * pool, CUdevice device))                                                      \
    F(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, (CUmemoryPool * pool, CUdevice device))       \
    F(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, (CUdevice device, CUmemoryPool pool))         \
    F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000,                                    \
      (CUcontext * context, CUdevice device))                                                      \
    F(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, (CUdevice device))           \
    F(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, (CUdevice device))               \
    F(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000,                                \
      (CUdevice device, unsigned int *flags, int *active))                                         \
    F(cuCtxCreate_v2, cuCtxCreate, 3020,                                                           \
      (CUcontext * context, unsigned int flags, CUdevice device))                                  \
    F(cuCtxCreate_v4, cuCtxCreate, 13000,                                                          \
      (CUcontext * context, CUctxCreateParams * params, unsigned int flags, CUdevice device))      \
    F(cuCtxDestroy_v2, cuCtxDestroy, 4000, (CUcontext context))                                    \
    F(cuCtxSetCurrent, cuCtxSetCurrent, 4000, (CUcontext context))                                 \
    F(cuCtxGetCurrent, cuCtxGetCurrent, 4000, (CUcontext * context))                               \
    F(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, (CUcontext context))                            \
    F(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, (CUcontext * context))                            \
    F(cuCtxGetDevice, cuCtxGetDevice, 2000, (CUdevice * device))                                   \
    F(cuCtxSynchronize, cuCtxSynchronize, 2000, (void))                                            \
    F(cuCtxSetLimit, cuCtxSetLimit, 3010, (CUlimit limit, size_t value))                           \
    F(cuCtxGetLimit, cuCtxGetLimit, 3010, (size_t * value, CUlimit limit))                         \
    F(cuDeviceGetDevResource, cuDeviceGetDevResource, 12040,                                       \
      (CUdevice device, CUdevResource * resource, CUdevResourceType type))                         \
    F(cuDevResourceGenerateDesc, cuDevResourceGenerateDesc, 12040,                                 \
      (CUdevResourceDesc * desc, CUdevResource * resources, unsigned int count))                   \
    F(cuGreenCtxCreate, cuGreenCtxCreate, 12040,                                                   \
      (CUgreenCtx * context, CUdevResourceDesc desc, CUdevice device, unsigned int flags))         \
    F(cuGreenCtxDestroy, cuGreenCtxDestroy, 12040, (CUgreenCtx context))                           \
    F(cuCtxFromGreenCtx, cuCtxFromGreenCtx, 12040, (CUcontext * context, CUgreenCtx green))        \
    F(cuModuleLoadData, cuModuleLoadData, 2000, (CUmodule * module, const void *image))            \
    F(cuModuleUnload, cuModuleUnload, 2000, (CUmodule module))                                     \
    F(cuModuleGetFunction, cuModuleGetFunction, 2000,                                              \
      (CUfunction * function, CUmodule module, const char *name))                                  \
    F(cuLibraryLoadData, cuLibraryLoadData, 12000,                                                 \
      (CUlibrary * library, const void *code, CUjit_option *jit_options, void **jit_values,        \
       unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count))       \
    F(cuLibraryUnload, cuLibraryUnload, 12000, (CUlibrary library))                                \
    F(cuMemGetInfo_v2, cuMemGetInfo, 3020, (size_t * free_bytes, size_t * total_bytes))            \
    F(cuMemAlloc_v2, cuMemAlloc, 3020, (CUdeviceptr * address, size_t bytes))                      \
    F(cuMemAllocPitch_v2, cuMemAllocPitch, 3020,                                                   \
      (CUdeviceptr * address, size_t * pitch, size_t width, size_t height, unsigned int element))  \
    F(cuMemAllocManaged, cuMemAllocManaged, 6000,                                                  \
      (CUdeviceptr * address, size_t bytes, unsigned int flags))                                   \
    F(cuMemFree_v2, cuMemFree, 3020, (CUdeviceptr address))                                        \
    F(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020,                                         \
      (CUdeviceptr * base, size_t * bytes, CUdeviceptr address))                                   \
    F(cuPointerGetAttribute, cuPointerGetAttribute, 4000,                                          \
      (void *data, CUpointer_attribute attribute, CUdeviceptr address))                            \
    F(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, (CUdeviceptr to, const void *from, size_t bytes))       \
    F(cuMemsetD8_v2, cuMemsetD8, 3020, (CUdeviceptr to, unsigned char value, size_t count))        \
    F(cuMemAllocHost_v2, cuMemAllocHost, 3020, (void **address, size_t bytes))                     \
    F(cuMemHostAlloc, cuMemHostAlloc, 2020, (void **address, size_t bytes, unsigned int flags))    \
    F(cuMemFreeHost, cuMemFreeHost, 2000, (void *address))                                         \
    F(cuMemHostRegister_v2, cuMemHostRegister, 6050,                                               \
      (void *address, size_t bytes, unsigned int flags))                                           \
    F(cuMemHostUnregister, cuMemHostUnregister, 4000, (void *address))                             \
    F(cuMemAllocAsync, cuMemAllocAsync, 11020,                                                     \
      (CUdeviceptr * address, size_t bytes, CUstream stream))                                      \
    F(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020,                                     \
      (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream))                   \
    F(cuMemFreeAsync, cuMemFreeAsync, 11020, (CUdeviceptr address, CUstream stream))               \
    F(cuMemPoolCreate, cuMemPoolCreate, 11020, (CUmemoryPool * pool, const CUmemPoolProps *props)) \
    F(cuMemPoolDestroy, cuMemPoolDestroy, 11020, (CUmemoryPool pool))                              \
    F(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, (CUmemoryPool pool, size_t keep_bytes))             \
    F(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020,                                         \
      (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))                             \
    F(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020,                                         \
      (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))                             \
    F(cuArrayCreate_v2, cuArrayCreate, 3020, (CUarray * array, const CUDA_ARRAY_DESCRIPTOR *desc)) \
    F(cuArray3DCreate_v2, cuArray3DCreate, 3020,                                                   \
      (CUarray * array, const CUDA_ARRAY3D_DESCRIPTOR *desc))                                      \
    F(cuArrayDestroy, cuArrayDestroy, 2000, (CUarray array))                                       \
    F(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000,                                        \
      (CUmipmappedArray * array, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels))        \
    F(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, (CUmipmappedArray array))            \
    F(cuMemCreate, cuMemCreate, 10020,                                                             \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *prop,       \
       unsigned long long flags))                                                                  \
    F(cuMemRelease, cuMemRelease, 10020, (CUmemGenericAllocationHandle handle))                    \
    F(cuMemMap, cuMemMap, 10020,                                                                   \
      (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,      \
       unsigned long long flags))                                                                  \
    F(cuMemUnmap, cuMemUnmap, 10020, (CUdeviceptr address, size_t bytes))                          \
    F(cuMemAddressReserve, cuMemAddressReserve, 10020,                                             \
      (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr hint,                    \
       unsigned long long flags))                                                                  \
    F(cuMemAddressFree, cuMemAddressFree, 10020, (CUdeviceptr address, size_t bytes))              \
    F(cuMemSetAccess, cuMemSetAccess, 10020,                                                       \
      (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *desc, size_t count))              \
    F(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020,                         \
      (size_t * granularity, const CUmemAllocationProp *prop,                                      \
       CUmemAllocationGranularity_flags option))                                                   \
    F(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000,                             \
      (CUmemGenericAllocationHandle * handle, void *address))                                      \
    F(cuMemExportToShareableHandle, cuMemExportToShareableHandle, 10020,                           \
      (void *shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,       \
       unsigned long long flags))                                                                  \
    F(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 10020,                       \
      (CUmemGenericAllocationHandle * handle, void *os_handle, CUmemAllocationHandleType type))    \
    F(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, (CUipcMemHandle * handle, CUdeviceptr address))  \
    F(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000,                                            \
      (CUdeviceptr * address, CUipcMemHandle handle, unsigned int flags))                          \
    F(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, (CUdeviceptr address))                       \
    F(cuImportExternalMemory, cuImportExternalMemory, 10000,                                       \
      (CUexternalMemory * memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc))                   \
    F(cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer, 10000,                     \
      (CUdeviceptr * address, CUexternalMemory memory,                                             \
       const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc))                                              \
    F(cuDestroyExternalMemory, cuDestroyExternalMemory, 10000, (CUexternalMemory memory))          \
    F(cuStreamCreate, cuStreamCreate, 2000, (CUstream * stream, unsigned int flags))               \
    F(cuStreamDestroy_v2, cuStreamDestroy, 4000, (CUstream stream))                                \
    F(cuStreamSynchronize, cuStreamSynchronize, 2000, (CUstream stream))                           \
    F(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010,                                        \
      (CUstream stream, CUstreamCaptureMode mode))                                                 \
    F(cuStreamEndCapture, cuStreamEndCapture, 10000, (CUstream stream, CUgraph * graph))           \
    F(cuStreamIsCapturing, cuStreamIsCapturing, 10000,                                             \
      (CUstream stream, CUstreamCaptureStatus * status))                                           \
    F(cuEventCreate, cuEventCreate, 2000, (CUevent * event, unsigned int flags))                   \
    F(cuEventDestroy_v2, cuEventDestroy, 4000, (CUevent event))                                    \
    F(cuEventRecord, cuEventRecord, 2000, (CUevent event, CUstream stream))                        \
    F(cuEventSynchronize, cuEventSynchronize, 2000, (CUevent event))                               \
    F(cuLaunchKernel, cuLaunchKernel, 4000,                                                        \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,         \
       unsigned int block_x, unsigned int block_y, unsigned int block_z,                           \
       unsigned int shared_bytes, CUstream stream, void **params, void **extra))                   \
    F(cuLaunchKernelEx, cuLaunchKernelEx, 11060,                                                   \
      (const CUlaunchConfig *config, CUfunction function, void **params, void **extra))            \
    F(cuGraphCreate, cuGraphCreate, 10000, (CUgraph * graph, unsigned int flags))                  \
    F(cuGraphDestroy, cuGraphDestroy, 10000, (CUgraph graph))                                      \
    F(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, 11040,                                       \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *deps, size_t count,                   \
       CUDA_MEM_ALLOC_NODE_PARAMS *params))                                                        \
    F(cuGraphAddMemFreeNode, cuGraphAddMemFreeNode, 11040,                                         \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *deps, size_t count,                   \
       CUdeviceptr address))                                                                       \
    F(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040,                             \
      (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                               \
    F(cuGraphLaunch, cuGraphLaunch, 10000, (CUgraphExec exec, CUstream stream))                    \
    F(cuGraphExecDestroy, cuGraphExecDestroy, 10000, (CUgraphExec exec))                           \
    F(cuMemsetD8Async, cuMemsetD8Async, 3020,                                                      \
      (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))                        \
    F(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020,                                                \
      (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,              \
       CUstream stream))                                                                           \
    F(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, (CUdeviceptr to, CUdeviceptr from, size_t bytes))       \
    F(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020,                                               \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                           \
    F(cuMemcpyAsync, cuMemcpyAsync, 4000,                                                          \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                           \
    F(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, (const CUDA_MEMCPY2D *copy, CUstream stream))     \
    F(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, (void *to, CUdeviceptr from, size_t bytes))             \
    F(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020,                                               \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                           \
    F(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020,                                               \
      (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                                 \
    F(cuStreamQuery, cuStreamQuery, 2000, (CUstream stream))                                       \
    F(cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070,                                        \
      (CUstream stream, CUdeviceptr address, uint32_t value, unsigned int flags))                  \
    F(cuStreamWaitValue32_v2, cuStreamWaitValue32, 11070,                                          \
      (CUstream stream, CUdeviceptr address, uint32_t value, unsigned int flags))                  \
    F(cuStreamWaitEvent, cuStreamWaitEvent, 3020,                                                  \
      (CUstream stream, CUevent event, unsigned int flags))                                        \
    F(cuLaunchKernel_ptsz, cuLaunchKernel, 7000,                                                   \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,         \
       unsigned int block_x, unsigned int block_y, unsigned int block_z,                           \
       unsigned int shared_bytes, CUstream stream, void **params, void **extra))                   \
    F(cuLaunchKernelEx_ptsz, cuLaunchKernelEx, 11060,                                              \
      (const CUlaunchConfig *config, CUfunction function, void **params, void **extra))            \
    F(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000,                                  \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,         \
       unsigned int block_x, unsigned int block_y, unsigned int block_z,                           \
       unsigned int shared_bytes, CUstream stream, void **params))                                 \
    F(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel, 9000,                             \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,         \
       unsigned int block_x, unsigned int block_y, unsigned int block_z,                           \
       unsigned int shared_bytes, CUstream stream, void **params))                                 \
    F(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, 9000,            \
      (CUDA_LAUNCH_PARAMS * launches, unsigned int count, unsigned int flags))                     \
    F(cuLaunchHostFunc, cuLaunchHostFunc, 10000, (CUstream stream, CUhostFn function, void *user)) \
    F(cuFuncSetBlockShape, cuFuncSetBlockShape, 2000, (CUfunction function, int x, int y, int z))  \
    F(cuParamSetSize, cuParamSetSize, 2000, (CUfunction function, unsigned int bytes))             \
    F(cuParamSetv, cuParamSetv, 2000,                                                              \
      (CUfunction function, int offset, void *from, unsigned int bytes))                           \
    F(cuLaunch, cuLaunch, 2000, (CUfunction function))                                             \
    F(cuLaunchGrid, cuLaunchGrid, 2000, (CUfunction function, int width, int height))              \
    F(cuLaunchGridAsync, cuLaunchGridAsync, 2000,                                                  \
      (CUfunction function, int width, int height, CUstream stream))                               \
    F(cuGraphGetNodes, cuGraphGetNodes, 10000,                                                     \
      (CUgraph graph, CUgraphNode * nodes, size_t * count))                                        \
    F(cuGraphNodeGetType, cuGraphNodeGetType, 10000, (CUgraphNode node, CUgraphNodeType * type))   \
    F(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000,                                        \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *deps, size_t count,                   \
       const CUDA_KERNEL_NODE_PARAMS *params))                                                     \
    F(cuGraphKernelNodeSetParams_v2, cuGraphKernelNodeSetParams, 12000,                            \
      (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params))                                   \
    F(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams, 12000,                    \
      (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params))                 \
    F(cuGraphExecUpdate_v2, cuGraphExecUpdate, 12000,                                              \
      (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo * info))                       \
    F(cuGraphLaunch_ptsz, cuGraphLaunch, 10000, (CUgraphExec exec, CUstream stream))               \
    F(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, 11040,                           \
      (CUdevice device, CUgraphMem_attribute attribute, void *value))                              \
    F(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, (CUdevice device))

struct driver {
#define F(symbol, base, version, params) CUresult(*symbol) params;
    DRIVER_CALLS(F)
#undef F
};

extern struct driver cu;

/* The library handle, and cuGetProcAddress_v2 (NULL where the driver is older than 12.0). */
extern void *driver_handle;
extern CUresult (*driver_get_proc_address)(const char *name, void **ret_address, int version,
                                           uint64_t flags,
                                           CUdriverProcAddressQueryResult *ret_status);

void driver_load(void); /* ends the test where the driver can't be found */
const char *driver_reach(void);

#endif
