/*
 * Copies and memsets. Synchronous ones run in the legacy stream, or as _ptds in the thread's own.
 */
#include "copy.h"

static int flat(uintptr_t dst, uintptr_t src, size_t bytes, struct sim_stream *stream, bool wait)
{
    struct sim_box box = {src, dst, bytes, bytes, bytes, bytes, bytes, 1, 1};

    return copy_submit(&box, stream, wait);
}

#define FLAT(now, later, dst_type, src_type)                                                       \
    API_PTDS(now, flat((uintptr_t)dst, (uintptr_t)src, bytes, stream, true), dst_type dst,         \
             src_type src, size_t bytes)                                                           \
    API_PTSZ(later, flat((uintptr_t)dst, (uintptr_t)src, bytes, stream, false), dst_type dst,      \
             src_type src, size_t bytes, struct sim_stream *stream)
FLAT(cuMemcpy, cuMemcpyAsync, devptr, devptr)
FLAT(cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, devptr, const void *)
FLAT(cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, void *, devptr)
FLAT(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, devptr, devptr)

API_PTDS(cuMemcpyPeer, flat((uintptr_t)dst, (uintptr_t)src, bytes, stream, true), devptr dst,
         struct sim_context *to, devptr src, struct sim_context *from, size_t bytes)
API_PTSZ(cuMemcpyPeerAsync, flat((uintptr_t)dst, (uintptr_t)src, bytes, stream, false), devptr dst,
         struct sim_context *to, devptr src, struct sim_context *from, size_t bytes,
         struct sim_stream *stream)

static int boxed(const CUDA_MEMCPY3D *copy, struct sim_stream *stream, bool wait)
{
    struct sim_box box;

    if (!copy || !copy_box_of(copy, &box))
        return CUDA_ERROR_INVALID_VALUE;
    return copy_submit(&box, stream, wait);
}

static int boxed_2d(const CUDA_MEMCPY2D *flat_copy, struct sim_stream *stream, bool wait)
{
    if (!flat_copy)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D copy = {
        .srcXInBytes = flat_copy->srcXInBytes,
        .srcY = flat_copy->srcY,
        .srcMemoryType = flat_copy->srcMemoryType,
        .srcHost = flat_copy->srcHost,
        .srcDevice = flat_copy->srcDevice,
        .srcArray = flat_copy->srcArray,
        .srcPitch = flat_copy->srcPitch,
        .dstXInBytes = flat_copy->dstXInBytes,
        .dstY = flat_copy->dstY,
        .dstMemoryType = flat_copy->dstMemoryType,
        .dstHost = flat_copy->dstHost,
        .dstDevice = flat_copy->dstDevice,
        .dstArray = flat_copy->dstArray,
        .dstPitch = flat_copy->dstPitch,
        .WidthInBytes = flat_copy->WidthInBytes,
        .Height = flat_copy->Height,
        .Depth = 1,
    };
    return boxed(&copy, stream, wait);
}

/* The layout is the same: contexts have the places of the reserved pointers. */
static int boxed_peer(const CUDA_MEMCPY3D_PEER *copy, struct sim_stream *stream, bool wait)
{
    return boxed((const CUDA_MEMCPY3D *)copy, stream, wait);
}

#define BOXED(now, later, type, function)                                                          \
    API_PTDS(now, function(copy, stream, true), const type *copy)                                  \
    API_PTSZ(later, function(copy, stream, false), const type *copy, struct sim_stream *stream)
BOXED(cuMemcpy2D_v2, cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, boxed_2d)
BOXED(cuMemcpy3D_v2, cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, boxed)
BOXED(cuMemcpy3DPeer, cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER, boxed_peer)
API_PTDS(cuMemcpy2DUnaligned_v2, boxed_2d(copy, stream, true), const CUDA_MEMCPY2D *copy)

static int with_array(const CUDA_MEMCPY3D *ends, size_t bytes, struct sim_stream *stream, bool wait)
{
    CUDA_MEMCPY3D copy = *ends;

    copy.WidthInBytes = bytes;
    copy.Height = copy.Depth = 1;
    return boxed(&copy, stream, wait);
}

#define TO_ARRAY(memory, field)                                                                    \
    &(CUDA_MEMCPY3D)                                                                               \
    {                                                                                              \
        .srcMemoryType = memory, .field = src, .dstMemoryType = CU_MEMORYTYPE_ARRAY,               \
        .dstArray = array, .dstXInBytes = offset                                                   \
    }
#define FROM_ARRAY(memory, field)                                                                  \
    &(CUDA_MEMCPY3D)                                                                               \
    {                                                                                              \
        .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = array, .srcXInBytes = offset,            \
        .dstMemoryType = memory, .field = dst                                                      \
    }

API_PTDS(cuMemcpyHtoA_v2, with_array(TO_ARRAY(CU_MEMORYTYPE_HOST, srcHost), bytes, stream, true),
         CUarray array, size_t offset, const void *src, size_t bytes)
API_PTSZ(cuMemcpyHtoAAsync_v2,
         with_array(TO_ARRAY(CU_MEMORYTYPE_HOST, srcHost), bytes, stream, false), CUarray array,
         size_t offset, const void *src, size_t bytes, struct sim_stream *stream)
API_PTDS(cuMemcpyDtoA_v2,
         with_array(TO_ARRAY(CU_MEMORYTYPE_DEVICE, srcDevice), bytes, stream, true), CUarray array,
         size_t offset, devptr src, size_t bytes)
API_PTDS(cuMemcpyAtoH_v2, with_array(FROM_ARRAY(CU_MEMORYTYPE_HOST, dstHost), bytes, stream, true),
         void *dst, CUarray array, size_t offset, size_t bytes)
API_PTSZ(cuMemcpyAtoHAsync_v2,
         with_array(FROM_ARRAY(CU_MEMORYTYPE_HOST, dstHost), bytes, stream, false), void *dst,
         CUarray array, size_t offset, size_t bytes, struct sim_stream *stream)
API_PTDS(cuMemcpyAtoD_v2,
         with_array(FROM_ARRAY(CU_MEMORYTYPE_DEVICE, dstDevice), bytes, stream, true), devptr dst,
         CUarray array, size_t offset, size_t bytes)

static int between_arrays(void *dst, size_t dst_offset, void *src, size_t src_offset, size_t bytes,
                          struct sim_stream *stream)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = src,
                          .srcXInBytes = src_offset,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = dst,
                          .dstXInBytes = dst_offset};

    return with_array(&copy, bytes, stream, true);
}

API_PTDS(cuMemcpyAtoA_v2, between_arrays(dst, dst_offset, src, src_offset, bytes, stream),
         CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t bytes)

static int flat_batch(const devptr *dsts, const devptr *srcs, const size_t *sizes, size_t count,
                      size_t attributes, struct sim_stream *stream)
{
    int code = CUDA_SUCCESS;

    if (!dsts || !srcs || !sizes || !count || !attributes || attributes > count ||
        (uintptr_t)stream <= 1)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < count && !code; at++)
        code = flat((uintptr_t)dsts[at], (uintptr_t)srcs[at], sizes[at], stream, false);
    return code;
}

/* The first version names the copy that failed; here it is none in particular. */
static int flat_batch_v1(const devptr *dsts, const devptr *srcs, const size_t *sizes, size_t count,
                         size_t attributes, size_t *ret_failed, struct sim_stream *stream)
{
    int code = flat_batch(dsts, srcs, sizes, count, attributes, stream);

    if (code && ret_failed)
        *ret_failed = SIZE_MAX;
    return code;
}

API_PTSZ(cuMemcpyBatchAsync,
         flat_batch_v1(dsts, srcs, sizes, count, attribute_count, ret_failed, stream), devptr *dsts,
         devptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
         size_t *attribute_indices, size_t attribute_count, size_t *ret_failed,
         struct sim_stream *stream)
API_PTSZ(cuMemcpyBatchAsync_v2, flat_batch(dsts, srcs, sizes, count, attribute_count, stream),
         devptr *dsts, devptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
         size_t *attribute_indices, size_t attribute_count, struct sim_stream *stream)

static int set(devptr dst, size_t pitch, unsigned value, unsigned element_bytes, size_t width,
               size_t height, struct sim_stream *stream, bool wait)
{
    CUDA_MEMSET_NODE_PARAMS_v2 node = {dst, pitch, value, element_bytes, width, height, NULL};

    return copy_submit_memset(&node, stream, wait);
}

#define SET(name, type, bytes)                                                                     \
    API_PTDS(cuMemset##name##_v2, set(dst, 0, value, bytes, count, 1, stream, true), devptr dst,   \
             type value, size_t count)                                                             \
    API_PTSZ(cuMemset##name##Async, set(dst, 0, value, bytes, count, 1, stream, false),            \
             devptr dst, type value, size_t count, struct sim_stream *stream)                      \
    API_PTDS(cuMemsetD2##name##_v2, set(dst, pitch, value, bytes, width, height, stream, true),    \
             devptr dst, size_t pitch, type value, size_t width, size_t height)                    \
    API_PTSZ(cuMemsetD2##name##Async, set(dst, pitch, value, bytes, width, height, stream, false), \
             devptr dst, size_t pitch, type value, size_t width, size_t height,                    \
             struct sim_stream *stream)
SET(D8, unsigned char, 1)
SET(D16, unsigned short, 2)
SET(D32, unsigned, 4)
