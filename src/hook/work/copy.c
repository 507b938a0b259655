/* Copies. On the device they are work like kernels. Between host and device vgpu counts them and
 * holds them to a rate. */
#include "hook/work/capture.h"
#include "hook/work/work.h"

/* Bytes by direction; a batch may have all of them. Copies from host to host are not the
 * device's. */
struct copy {
    uint64_t on_device;
    uint64_t to_device;
    uint64_t to_host;
    uint64_t row_bytes; /* see work.h */
};

static void copy_add(struct copy *copy, bool from_host, bool to_host, uint64_t bytes)
{
    if (!from_host && !to_host)
        copy->on_device += bytes;
    else if (!to_host)
        copy->to_device += bytes;
    else if (!from_host)
        copy->to_host += bytes;
}

static bool address_on_host(CUdeviceptr address)
{
    CUmemorytype type = CU_MEMORYTYPE_DEVICE;
    CUresult result;

    if (!HAVE(cuPointerGetAttribute))
        return false;
    result = DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    if (result == CUDA_SUCCESS)
        return type == CU_MEMORYTYPE_HOST;     /* managed memory is on the device */
    return result == CUDA_ERROR_INVALID_VALUE; /* memory that CUDA does not know */
}

/* An end of a strided copy; `address` is its `...Device`. */
static bool end_on_host(CUmemorytype type, CUdeviceptr address)
{
    return type == CU_MEMORYTYPE_HOST ||
           (type == CU_MEMORYTYPE_UNIFIED && address_on_host(address));
}

static void copy_between(struct copy *copy, CUdeviceptr dst, CUdeviceptr src, uint64_t bytes)
{
    if (bytes > 0)
        copy_add(copy, address_on_host(src), address_on_host(dst), bytes);
}

static void copy_batch(struct copy *copy, const CUdeviceptr *dsts, const CUdeviceptr *srcs,
                       const size_t *sizes, size_t count)
{
    if (dsts == NULL || srcs == NULL || sizes == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        copy_between(copy, dsts[i], srcs[i], sizes[i]);
}

static void copy_box(struct copy *copy, bool from_host, bool to_host, uint64_t row_bytes,
                     uint64_t rows, uint64_t slices)
{
    copy->row_bytes = row_bytes;
    copy_add(copy, from_host, to_host, row_bytes * rows * slices);
}

static bool operand_on_host(const CUmemcpy3DOperand *operand)
{
    return operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER && address_on_host(operand->op.ptr.ptr);
}

static void copy_batch_3d(struct copy *copy, const CUDA_MEMCPY3D_BATCH_OP *copies, size_t count)
{
    for (size_t i = 0; copies != NULL && i < count; i++) {
        const CUDA_MEMCPY3D_BATCH_OP *one = &copies[i];
        bool flat = one->src.type == CU_MEMCPY_OPERAND_TYPE_POINTER &&
                    one->dst.type == CU_MEMCPY_OPERAND_TYPE_POINTER;
        uint64_t unit = flat ? 1 : 4; /* the elements of an array may be larger */

        copy_add(copy, operand_on_host(&one->src), operand_on_host(&one->dst),
                 unit * one->extent.width * one->extent.height * one->extent.depth);
    }
}

/* After compute_off() has said no. Begins nothing unless the device has work to do. */
static void copy_begin(enum hook_symbol sym, struct work *work, const struct copy *copy,
                       CUstream stream)
{
    unsigned weight =
        compute_copies_limited() ? 1 : compute_weight(); /* limited, each comes here */

    if (copy->to_device > 0)
        compute_host_copy(VGPU_WORK_HTOD, copy->to_device, weight);
    if (copy->to_host > 0)
        compute_host_copy(VGPU_WORK_DTOH, copy->to_host, weight);
    if (copy->on_device == 0)
        return;
    *work = work_of_bytes(sym, VGPU_WORK_COPY, stream, copy->on_device, copy->row_bytes);
    work->weight = weight;
    compute_begin(work);
}

static void copy_end(struct work *work, CUresult result)
{
    if (work->key != 0)
        compute_end(work, result);
}

/* Copies whose arguments tell the direction */

#define DEVICE_COPY(handler, stream, waits)                                                        \
    WORK(handler, work_begins(sym, waits, bytes), bytes == 0,                                      \
         work_of_bytes(sym, VGPU_WORK_COPY, stream, bytes, 0))

/* What a capture records is not a copy yet. */
#define RECORDED(stream) (capture_running() && capture_records(stream, hook_symbol_per_thread(sym)))

#define HOST_COPY(handler, direction, stream, waits)                                               \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        work_begins(sym, waits, bytes);                                                            \
        if (waits || !RECORDED(stream))                                                            \
            compute_host_copy(direction, bytes, 1);                                                \
        return FORWARD(sym, handler);                                                              \
    }

DEVICE_COPY(memcpy_dtod_v1, NULL, true)
DEVICE_COPY(memcpy_dtod, NULL, true)
DEVICE_COPY(memcpy_dtod_async_v1, stream, false)
DEVICE_COPY(memcpy_dtod_async, stream, false)
DEVICE_COPY(memcpy_dtoa_v1, NULL, true)
DEVICE_COPY(memcpy_dtoa, NULL, true)
DEVICE_COPY(memcpy_atod_v1, NULL, true)
DEVICE_COPY(memcpy_atod, NULL, true)
DEVICE_COPY(memcpy_atoa_v1, NULL, true)
DEVICE_COPY(memcpy_atoa, NULL, true)

HOST_COPY(memcpy_htod_v1, VGPU_WORK_HTOD, NULL, true)
HOST_COPY(memcpy_htod, VGPU_WORK_HTOD, NULL, true)
HOST_COPY(memcpy_htod_async_v1, VGPU_WORK_HTOD, stream, false)
HOST_COPY(memcpy_htod_async, VGPU_WORK_HTOD, stream, false)
HOST_COPY(memcpy_htoa_v1, VGPU_WORK_HTOD, NULL, true)
HOST_COPY(memcpy_htoa, VGPU_WORK_HTOD, NULL, true)
HOST_COPY(memcpy_htoa_async_v1, VGPU_WORK_HTOD, stream, false)
HOST_COPY(memcpy_htoa_async, VGPU_WORK_HTOD, stream, false)
HOST_COPY(memcpy_dtoh_v1, VGPU_WORK_DTOH, NULL, true)
HOST_COPY(memcpy_dtoh, VGPU_WORK_DTOH, NULL, true)
HOST_COPY(memcpy_dtoh_async_v1, VGPU_WORK_DTOH, stream, false)
HOST_COPY(memcpy_dtoh_async, VGPU_WORK_DTOH, stream, false)
HOST_COPY(memcpy_atoh_v1, VGPU_WORK_DTOH, NULL, true)
HOST_COPY(memcpy_atoh, VGPU_WORK_DTOH, NULL, true)
HOST_COPY(memcpy_atoh_async_v1, VGPU_WORK_DTOH, stream, false)
HOST_COPY(memcpy_atoh_async, VGPU_WORK_DTOH, stream, false)

/* Copies whose direction depends on the addresses: asked about only if it matters */

#define SEEN_COPY(handler, stream, waits, traced, seen, look)                                      \
    static __attribute__((noinline)) HANDLER_PART(handler, _limited)                               \
    {                                                                                              \
        struct copy way = {0};                                                                     \
        struct work work = {.key = 0};                                                             \
        CUresult result;                                                                           \
                                                                                                   \
        if ((seen) && (waits || !RECORDED(stream)))                                                \
            look;                                                                                  \
        copy_begin(sym, &work, &way, stream);                                                      \
        result = FORWARD(sym, handler);                                                            \
        copy_end(&work, result);                                                                   \
        return result;                                                                             \
    }                                                                                              \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        work_begins(sym, waits, traced);                                                           \
        if (compute_off() && !compute_copies_limited())                                            \
            return FORWARD(sym, handler);                                                          \
        return hook_##handler##_limited ARGUMENTS_WITH(sym, PARAMS(handler));                      \
    }

#define FLAT(handler, stream, waits)                                                               \
    SEEN_COPY(handler, stream, waits, bytes, true, copy_between(&way, dst, src, bytes))

/* The structures differ in their types only. */
#define BOX(handler, stream, waits, depth)                                                         \
    SEEN_COPY(handler, stream, waits, 0, copy != NULL,                                             \
              copy_box(&way, end_on_host(copy->srcMemoryType, copy->srcDevice),                    \
                       end_on_host(copy->dstMemoryType, copy->dstDevice), copy->WidthInBytes,      \
                       copy->Height, depth))
#define BATCH(handler)                                                                             \
    SEEN_COPY(handler, stream, false, 0, true, copy_batch(&way, dsts, srcs, sizes, count))
#define BATCH_3D(handler)                                                                          \
    SEEN_COPY(handler, stream, false, 0, true, copy_batch_3d(&way, copies, count))

FLAT(memcpy_any, NULL, true)
FLAT(memcpy_any_async, stream, false)
FLAT(memcpy_peer, NULL, true)
FLAT(memcpy_peer_async, stream, false)
BOX(memcpy_2d_v1, NULL, true, 1)
BOX(memcpy_2d, NULL, true, 1)
BOX(memcpy_2d_async_v1, stream, false, 1)
BOX(memcpy_2d_async, stream, false, 1)
BOX(memcpy_3d_v1, NULL, true, copy->Depth)
BOX(memcpy_3d, NULL, true, copy->Depth)
BOX(memcpy_3d_async_v1, stream, false, copy->Depth)
BOX(memcpy_3d_async, stream, false, copy->Depth)
BOX(memcpy_3d_peer, NULL, true, copy->Depth)
BOX(memcpy_3d_peer_async, stream, false, copy->Depth)
BATCH(memcpy_batch_async_v1)
BATCH(memcpy_batch_async)
BATCH_3D(memcpy_3d_batch_async_v1)
BATCH_3D(memcpy_3d_batch_async)

/* Prefetches of managed memory are counted only. */

HANDLER(mem_prefetch)
{
    trace_bytes(sym, bytes);
    return FORWARD(sym, mem_prefetch);
}

HANDLER(mem_prefetch_v2)
{
    trace_bytes(sym, bytes);
    return FORWARD(sym, mem_prefetch_v2);
}
