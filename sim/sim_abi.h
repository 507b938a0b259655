/*
 * The driver's types as far as the simulator reads or writes them: sizes, offsets and values of
 * CUDA 13.0. Written down here so that the simulator needs no toolkit, and apart from
 * src/hook/cuda_abi.h on purpose: a mistake in one of them then shows as a difference.
 * sim/selftest/selftest_abi.c compares them with cuda.h where one is installed.
 */
#ifndef SIM_ABI_H
#define SIM_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
    OK = 0,
    ERR_INVALID_VALUE = 1,
    ERR_OUT_OF_MEMORY = 2,
    ERR_NOT_INITIALIZED = 3,
    ERR_NO_DEVICE = 100,
    ERR_INVALID_DEVICE = 101,
    ERR_INVALID_IMAGE = 200,
    ERR_INVALID_CONTEXT = 201,
    ERR_ALREADY_MAPPED = 208,
    ERR_UNSUPPORTED_LIMIT = 215,
    ERR_FILE_NOT_FOUND = 301,
    ERR_OPERATING_SYSTEM = 304,
    ERR_INVALID_HANDLE = 400,
    ERR_ILLEGAL_STATE = 401,
    ERR_NOT_FOUND = 500,
    ERR_NOT_READY = 600,
    ERR_PEER_ACCESS_ALREADY_ENABLED = 704,
    ERR_PEER_ACCESS_NOT_ENABLED = 705,
    ERR_PRIMARY_CONTEXT_ACTIVE = 708,
    ERR_CONTEXT_IS_DESTROYED = 709,
    ERR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    ERR_HOST_MEMORY_NOT_REGISTERED = 713,
    ERR_NOT_PERMITTED = 800,
    ERR_NOT_SUPPORTED = 801,
    ERR_CAPTURE_UNSUPPORTED = 900,
    ERR_CAPTURE_INVALIDATED = 901,
    ERR_CAPTURE_MERGE = 902,
    ERR_CAPTURE_UNMATCHED = 903,
    ERR_CAPTURE_UNJOINED = 904,
    ERR_CAPTURE_ISOLATION = 905,
    ERR_CAPTURE_IMPLICIT = 906,
    ERR_CAPTURED_EVENT = 907,
    ERR_CAPTURE_WRONG_THREAD = 908,
    ERR_GRAPH_EXEC_UPDATE_FAILURE = 910,
    ERR_UNKNOWN = 999,
};

typedef unsigned long long devptr; /* CUdeviceptr */

struct abi_uuid {
    unsigned char bytes[16];
};

enum {
    LIMIT_STACK,
    LIMIT_PRINTF,
    LIMIT_HEAP,
    LIMIT_SYNC_DEPTH,
    LIMIT_PENDING,
    LIMIT_L2_GRANULARITY,
    LIMIT_PERSISTING_L2,
    LIMITS = 9
};

enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_ARRAY = 3, MEMORY_UNIFIED = 4 };

enum {
    LOCATION_DEVICE = 1,
    LOCATION_HOST = 2,
    LOCATION_HOST_NUMA = 3,
    LOCATION_HOST_NUMA_CURRENT = 4
};

enum { HANDLE_POSIX_FD = 1, HANDLE_FABRIC = 8 };

struct abi_location {
    int type;
    int id;
};

struct abi_allocation_prop { /* CUmemAllocationProp */
    int type;
    int handle_types;
    struct abi_location location;
    void *win32_meta;
    unsigned char compression;
    unsigned char gpu_direct_rdma;
    unsigned short usage;
    unsigned char reserved[4];
};

struct abi_pool_props { /* CUmemPoolProps */
    int alloc_type;
    int handle_types;
    struct abi_location location;
    void *win32_security;
    size_t max_size;
    unsigned short usage;
    unsigned char reserved[54];
};

struct abi_access_desc {
    struct abi_location location;
    int flags;
};

struct abi_pool_pointer { /* CUmemPoolPtrExportData */
    uint64_t id;
    uint64_t nonce;
    uint64_t offset;
    uint64_t bytes;
    unsigned char reserved[32];
};

struct abi_ipc_handle { /* CUipcMemHandle, CUipcEventHandle: 64 opaque bytes */
    uint64_t magic;
    uint64_t id;
    uint64_t nonce;
    uint64_t offset;
    uint64_t bytes;
    int32_t pid;
    unsigned char reserved[20];
};

struct abi_array_desc {
    size_t width;
    size_t height;
    int format;
    unsigned channels;
};

struct abi_array3d_desc {
    size_t width;
    size_t height;
    size_t depth;
    int format;
    unsigned channels;
    unsigned flags;
};

enum {
    ARRAY_LAYERED = 0x01,
    ARRAY_CUBEMAP = 0x04,
    ARRAY_SPARSE = 0x40,
    ARRAY_DEFERRED = 0x80,
};

struct abi_array_requirements {
    size_t size;
    size_t alignment;
    unsigned reserved[4];
};

struct abi_external_memory_desc {
    int type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
    } handle;
    unsigned long long size;
    unsigned flags;
    unsigned reserved[16];
};

struct abi_external_buffer_desc {
    unsigned long long offset;
    unsigned long long size;
    unsigned flags;
    unsigned reserved[16];
};

struct abi_memcpy2d {
    size_t src_x, src_y;
    int src_type;
    const void *src_host;
    devptr src_device;
    void *src_array;
    size_t src_pitch;
    size_t dst_x, dst_y;
    int dst_type;
    void *dst_host;
    devptr dst_device;
    void *dst_array;
    size_t dst_pitch;
    size_t width;
    size_t height;
};

struct abi_memcpy3d { /* CUDA_MEMCPY3D; CUDA_MEMCPY3D_PEER has contexts in place of the reserved
                         ones */
    size_t src_x, src_y, src_z, src_lod;
    int src_type;
    const void *src_host;
    devptr src_device;
    void *src_array;
    void *reserved0;
    size_t src_pitch, src_height;
    size_t dst_x, dst_y, dst_z, dst_lod;
    int dst_type;
    void *dst_host;
    devptr dst_device;
    void *dst_array;
    void *reserved1;
    size_t dst_pitch, dst_height;
    size_t width, height, depth;
};

struct abi_launch_config {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    void *stream;
    void *attributes;
    unsigned attribute_count;
};

struct abi_launch_params { /* CUDA_LAUNCH_PARAMS */
    void *function;
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    void *stream;
    void **params;
};

struct abi_kernel_node { /* CUDA_KERNEL_NODE_PARAMS_v2; v1 ends before kernel */
    void *function;
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    void **params;
    void **extra;
    void *kernel;
    void *context;
};

struct abi_memset_node { /* CUDA_MEMSET_NODE_PARAMS_v2; v1 ends before context */
    devptr dst;
    size_t pitch;
    unsigned value;
    unsigned element_bytes;
    size_t width;
    size_t height;
    void *context;
};

struct abi_host_node {
    void (*function)(void *);
    void *user;
};

struct abi_memcpy_node { /* CUDA_MEMCPY_NODE_PARAMS, in CUgraphNodeParams */
    int flags;
    int reserved;
    void *context;
    struct abi_memcpy3d copy;
};

struct abi_memop { /* CUstreamBatchMemOpParams */
    int operation;
    unsigned barrier_flags; /* of operations without an address */
    devptr address;
    uint64_t value;
    unsigned flags;
    devptr alias;
    uint64_t reserved;
};

enum {
    MEMOP_WAIT_32 = 1,
    MEMOP_WRITE_32 = 2,
    MEMOP_FLUSH = 3,
    MEMOP_WAIT_64 = 4,
    MEMOP_WRITE_64 = 5,
    MEMOP_BARRIER = 6,
};

enum { WAIT_GEQ, WAIT_EQ, WAIT_AND, WAIT_NOR, WAIT_FLUSH = 1 << 30 };

struct abi_batch_node { /* CUDA_BATCH_MEM_OP_NODE_PARAMS */
    void *context;
    unsigned count;
    struct abi_memop *operations;
    unsigned flags;
};

struct abi_mem_alloc_node { /* CUDA_MEM_ALLOC_NODE_PARAMS */
    struct abi_pool_props props;
    const struct abi_access_desc *access;
    size_t access_count;
    size_t bytes;
    devptr address;
};

struct abi_node_params { /* CUgraphNodeParams */
    int type;
    int reserved0[3];
    union {
        long long reserved1[29];
        struct abi_kernel_node kernel;
        struct abi_memcpy_node copy;
        struct abi_memset_node set;
        struct abi_host_node host;
        struct {
            void *graph;
        } child;
        struct {
            void *event;
        } event;
        struct abi_mem_alloc_node alloc;
        struct {
            devptr address;
        } release;
        struct abi_batch_node batch;
    } u;
    long long reserved2;
};

enum {
    NODE_KERNEL,
    NODE_MEMCPY,
    NODE_MEMSET,
    NODE_HOST,
    NODE_CHILD,
    NODE_EMPTY,
    NODE_EVENT_WAIT,
    NODE_EVENT_RECORD,
    NODE_SEMAPHORE_SIGNAL,
    NODE_SEMAPHORE_WAIT,
    NODE_MEM_ALLOC,
    NODE_MEM_FREE,
    NODE_BATCH,
};

struct abi_edge_data {
    unsigned char from_port, to_port, type, reserved[5];
};

struct abi_instantiate_params {
    unsigned long long flags;
    void *upload_stream;
    void *error_node;
    int result;
};

struct abi_update_info { /* CUgraphExecUpdateResultInfo */
    int result;
    void *node;
    void *from;
};

struct abi_affinity {
    int type;
    unsigned sms;
};

struct abi_dev_resource { /* CUdevResource */
    int type;
    unsigned char internal[92];
    union {
        unsigned sms;
        unsigned char oversize[48];
    } u;
};

enum { CHECKPOINT_RUNNING, CHECKPOINT_LOCKED, CHECKPOINT_CHECKPOINTED, CHECKPOINT_FAILED };

#endif
