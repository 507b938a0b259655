/* The copy and memset calls. Synchronous ones run in the legacy stream, their _ptds twins in the
 * thread's own. */
#include "copy.h"

static int flat(uintptr_t dst, uintptr_t src, size_t bytes, struct sim_stream *stream, bool wait)
{
    struct sim_box box = {src, dst, bytes, bytes, bytes, bytes, bytes, 1, 1};

    return copy_submit(&box, stream, wait);
}

/* symbol(dst, src, bytes), its per-thread twin, and symbol(dst, src, bytes, stream) with its
 * twin. */
#define FLAT(now, now_twin, later, later_twin, dst_type, src_type)                                 \
    API(now, dst_type dst, src_type src, size_t bytes)                                             \
    {                                                                                              \
        ENTER(now);                                                                                \
        return flat((uintptr_t)dst, (uintptr_t)src, bytes, STREAM_LEGACY, true);                   \
    }                                                                                              \
    API(now_twin, dst_type dst, src_type src, size_t bytes)                                        \
    {                                                                                              \
        ENTER(now_twin);                                                                           \
        return flat((uintptr_t)dst, (uintptr_t)src, bytes, STREAM_PER_THREAD, true);               \
    }                                                                                              \
    API(later, dst_type dst, src_type src, size_t bytes, struct sim_stream *stream)                \
    {                                                                                              \
        ENTER(later);                                                                              \
        return flat((uintptr_t)dst, (uintptr_t)src, bytes, stream, false);                         \
    }                                                                                              \
    API(later_twin, dst_type dst, src_type src, size_t bytes, struct sim_stream *stream)           \
    {                                                                                              \
        ENTER(later_twin);                                                                         \
        return flat((uintptr_t)dst, (uintptr_t)src, bytes, PTSZ(stream), false);                   \
    }

FLAT(cuMemcpy, cuMemcpy_ptds, cuMemcpyAsync, cuMemcpyAsync_ptsz, devptr, devptr)
FLAT(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz, devptr,
     const void *)
FLAT(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz, void *,
     devptr)
FLAT(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz, devptr,
     devptr)

API(cuMemcpyPeer, devptr dst, struct sim_context *to, devptr src, struct sim_context *from,
    size_t bytes)
{
    ENTER(cuMemcpyPeer);
    (void)to;
    (void)from;
    return flat((uintptr_t)dst, (uintptr_t)src, bytes, STREAM_LEGACY, true);
}

API(cuMemcpyPeer_ptds, devptr dst, struct sim_context *to, devptr src, struct sim_context *from,
    size_t bytes)
{
    ENTER(cuMemcpyPeer_ptds);
    (void)to;
    (void)from;
    return flat((uintptr_t)dst, (uintptr_t)src, bytes, STREAM_PER_THREAD, true);
}

API(cuMemcpyPeerAsync, devptr dst, struct sim_context *to, devptr src, struct sim_context *from,
    size_t bytes, struct sim_stream *stream)
{
    ENTER(cuMemcpyPeerAsync);
    (void)to;
    (void)from;
    return flat((uintptr_t)dst, (uintptr_t)src, bytes, stream, false);
}

API(cuMemcpyPeerAsync_ptsz, devptr dst, struct sim_context *to, devptr src,
    struct sim_context *from, size_t bytes, struct sim_stream *stream)
{
    ENTER(cuMemcpyPeerAsync_ptsz);
    (void)to;
    (void)from;
    return flat((uintptr_t)dst, (uintptr_t)src, bytes, PTSZ(stream), false);
}

static int boxed(const struct abi_memcpy3d *copy, struct sim_stream *stream, bool wait)
{
    struct sim_box box;

    if (!copy || !copy_box_of(copy, &box))
        return ERR_INVALID_VALUE;
    return copy_submit(&box, stream, wait);
}

static int boxed_2d(const struct abi_memcpy2d *flat_copy, struct sim_stream *stream, bool wait)
{
    if (!flat_copy)
        return ERR_INVALID_VALUE;
    struct abi_memcpy3d copy = {
        .src_x = flat_copy->src_x,
        .src_y = flat_copy->src_y,
        .src_type = flat_copy->src_type,
        .src_host = flat_copy->src_host,
        .src_device = flat_copy->src_device,
        .src_array = flat_copy->src_array,
        .src_pitch = flat_copy->src_pitch,
        .dst_x = flat_copy->dst_x,
        .dst_y = flat_copy->dst_y,
        .dst_type = flat_copy->dst_type,
        .dst_host = flat_copy->dst_host,
        .dst_device = flat_copy->dst_device,
        .dst_array = flat_copy->dst_array,
        .dst_pitch = flat_copy->dst_pitch,
        .width = flat_copy->width,
        .height = flat_copy->height,
        .depth = 1,
    };
    return boxed(&copy, stream, wait);
}

#define BOXED(symbol, type, function, stream_of, waits)                                            \
    API(symbol, const struct type *copy)                                                           \
    {                                                                                              \
        ENTER(symbol);                                                                             \
        return function(copy, stream_of, waits);                                                   \
    }
#define BOXED_ASYNC(symbol, type, function, stream_of)                                             \
    API(symbol, const struct type *copy, struct sim_stream *stream)                                \
    {                                                                                              \
        ENTER(symbol);                                                                             \
        return function(copy, stream_of, false);                                                   \
    }

BOXED(cuMemcpy2D_v2, abi_memcpy2d, boxed_2d, STREAM_LEGACY, true)
BOXED(cuMemcpy2D_v2_ptds, abi_memcpy2d, boxed_2d, STREAM_PER_THREAD, true)
BOXED(cuMemcpy2DUnaligned_v2, abi_memcpy2d, boxed_2d, STREAM_LEGACY, true)
BOXED(cuMemcpy2DUnaligned_v2_ptds, abi_memcpy2d, boxed_2d, STREAM_PER_THREAD, true)
BOXED_ASYNC(cuMemcpy2DAsync_v2, abi_memcpy2d, boxed_2d, stream)
BOXED_ASYNC(cuMemcpy2DAsync_v2_ptsz, abi_memcpy2d, boxed_2d, PTSZ(stream))
BOXED(cuMemcpy3D_v2, abi_memcpy3d, boxed, STREAM_LEGACY, true)
BOXED(cuMemcpy3D_v2_ptds, abi_memcpy3d, boxed, STREAM_PER_THREAD, true)
BOXED_ASYNC(cuMemcpy3DAsync_v2, abi_memcpy3d, boxed, stream)
BOXED_ASYNC(cuMemcpy3DAsync_v2_ptsz, abi_memcpy3d, boxed, PTSZ(stream))
BOXED(cuMemcpy3DPeer, abi_memcpy3d, boxed, STREAM_LEGACY, true)
BOXED(cuMemcpy3DPeer_ptds, abi_memcpy3d, boxed, STREAM_PER_THREAD, true)
BOXED_ASYNC(cuMemcpy3DPeerAsync, abi_memcpy3d, boxed, stream)
BOXED_ASYNC(cuMemcpy3DPeerAsync_ptsz, abi_memcpy3d, boxed, PTSZ(stream))

static int with_array(const struct abi_memcpy3d *ends, size_t bytes, struct sim_stream *stream,
                      bool wait)
{
    struct abi_memcpy3d copy = *ends;

    copy.width = bytes;
    copy.height = copy.depth = 1;
    return boxed(&copy, stream, wait);
}

#define TO_ARRAY(memory, field)                                                                    \
    &(struct abi_memcpy3d)                                                                         \
    {                                                                                              \
        .src_type = memory, .field = src, .dst_type = MEMORY_ARRAY, .dst_array = array,            \
        .dst_x = offset                                                                            \
    }
#define FROM_ARRAY(memory, field)                                                                  \
    &(struct abi_memcpy3d)                                                                         \
    {                                                                                              \
        .src_type = MEMORY_ARRAY, .src_array = array, .src_x = offset, .dst_type = memory,         \
        .field = dst                                                                               \
    }

API(cuMemcpyHtoA_v2, void *array, size_t offset, const void *src, size_t bytes)
{
    ENTER(cuMemcpyHtoA_v2);
    return with_array(TO_ARRAY(MEMORY_HOST, src_host), bytes, STREAM_LEGACY, true);
}

API(cuMemcpyHtoAAsync_v2, void *array, size_t offset, const void *src, size_t bytes,
    struct sim_stream *stream)
{
    ENTER(cuMemcpyHtoAAsync_v2);
    return with_array(TO_ARRAY(MEMORY_HOST, src_host), bytes, stream, false);
}

API(cuMemcpyDtoA_v2, void *array, size_t offset, devptr src, size_t bytes)
{
    ENTER(cuMemcpyDtoA_v2);
    return with_array(TO_ARRAY(MEMORY_DEVICE, src_device), bytes, STREAM_LEGACY, true);
}

API(cuMemcpyAtoH_v2, void *dst, void *array, size_t offset, size_t bytes)
{
    ENTER(cuMemcpyAtoH_v2);
    return with_array(FROM_ARRAY(MEMORY_HOST, dst_host), bytes, STREAM_LEGACY, true);
}

API(cuMemcpyAtoHAsync_v2, void *dst, void *array, size_t offset, size_t bytes,
    struct sim_stream *stream)
{
    ENTER(cuMemcpyAtoHAsync_v2);
    return with_array(FROM_ARRAY(MEMORY_HOST, dst_host), bytes, stream, false);
}

API(cuMemcpyAtoD_v2, devptr dst, void *array, size_t offset, size_t bytes)
{
    ENTER(cuMemcpyAtoD_v2);
    return with_array(FROM_ARRAY(MEMORY_DEVICE, dst_device), bytes, STREAM_LEGACY, true);
}

API(cuMemcpyHtoA_v2_ptds, void *array, size_t offset, const void *src, size_t bytes)
{
    ENTER(cuMemcpyHtoA_v2_ptds);
    return with_array(TO_ARRAY(MEMORY_HOST, src_host), bytes, STREAM_PER_THREAD, true);
}

API(cuMemcpyHtoAAsync_v2_ptsz, void *array, size_t offset, const void *src, size_t bytes,
    struct sim_stream *stream)
{
    ENTER(cuMemcpyHtoAAsync_v2_ptsz);
    return with_array(TO_ARRAY(MEMORY_HOST, src_host), bytes, PTSZ(stream), false);
}

API(cuMemcpyDtoA_v2_ptds, void *array, size_t offset, devptr src, size_t bytes)
{
    ENTER(cuMemcpyDtoA_v2_ptds);
    return with_array(TO_ARRAY(MEMORY_DEVICE, src_device), bytes, STREAM_PER_THREAD, true);
}

API(cuMemcpyAtoH_v2_ptds, void *dst, void *array, size_t offset, size_t bytes)
{
    ENTER(cuMemcpyAtoH_v2_ptds);
    return with_array(FROM_ARRAY(MEMORY_HOST, dst_host), bytes, STREAM_PER_THREAD, true);
}

API(cuMemcpyAtoHAsync_v2_ptsz, void *dst, void *array, size_t offset, size_t bytes,
    struct sim_stream *stream)
{
    ENTER(cuMemcpyAtoHAsync_v2_ptsz);
    return with_array(FROM_ARRAY(MEMORY_HOST, dst_host), bytes, PTSZ(stream), false);
}

API(cuMemcpyAtoD_v2_ptds, devptr dst, void *array, size_t offset, size_t bytes)
{
    ENTER(cuMemcpyAtoD_v2_ptds);
    return with_array(FROM_ARRAY(MEMORY_DEVICE, dst_device), bytes, STREAM_PER_THREAD, true);
}

static int between_arrays(void *dst, size_t dst_offset, void *src, size_t src_offset, size_t bytes,
                          struct sim_stream *stream)
{
    struct abi_memcpy3d copy = {.src_type = MEMORY_ARRAY,
                                .src_array = src,
                                .src_x = src_offset,
                                .dst_type = MEMORY_ARRAY,
                                .dst_array = dst,
                                .dst_x = dst_offset};

    return with_array(&copy, bytes, stream, true);
}

API(cuMemcpyAtoA_v2, void *dst, size_t dst_offset, void *src, size_t src_offset, size_t bytes)
{
    ENTER(cuMemcpyAtoA_v2);
    return between_arrays(dst, dst_offset, src, src_offset, bytes, STREAM_LEGACY);
}

API(cuMemcpyAtoA_v2_ptds, void *dst, size_t dst_offset, void *src, size_t src_offset, size_t bytes)
{
    ENTER(cuMemcpyAtoA_v2_ptds);
    return between_arrays(dst, dst_offset, src, src_offset, bytes, STREAM_PER_THREAD);
}

static int flat_batch(const devptr *dsts, const devptr *srcs, const size_t *sizes, size_t count,
                      size_t attributes, struct sim_stream *stream)
{
    int code = OK;

    if (!dsts || !srcs || !sizes || !count || !attributes || attributes > count ||
        (uintptr_t)stream <= 1)
        return ERR_INVALID_VALUE;
    for (size_t at = 0; at < count && !code; at++)
        code = flat((uintptr_t)dsts[at], (uintptr_t)srcs[at], sizes[at], stream, false);
    return code;
}

#define FLAT_BATCH(symbol, symbol_v2, stream_of)                                                   \
    API(symbol, devptr *dsts, devptr *srcs, size_t *sizes, size_t count, const void *attributes,   \
        const size_t *attribute_indices, size_t attribute_count, size_t *ret_failed,               \
        struct sim_stream *stream)                                                                 \
    {                                                                                              \
        ENTER(symbol);                                                                             \
        (void)attributes;                                                                          \
        (void)attribute_indices;                                                                   \
        int code = flat_batch(dsts, srcs, sizes, count, attribute_count, stream_of);               \
        if (code && ret_failed)                                                                    \
            *ret_failed = SIZE_MAX; /* none in particular */                                       \
        return code;                                                                               \
    }                                                                                              \
    API(symbol_v2, devptr *dsts, devptr *srcs, size_t *sizes, size_t count,                        \
        const void *attributes, const size_t *attribute_indices, size_t attribute_count,           \
        struct sim_stream *stream)                                                                 \
    {                                                                                              \
        ENTER(symbol_v2);                                                                          \
        (void)attributes;                                                                          \
        (void)attribute_indices;                                                                   \
        return flat_batch(dsts, srcs, sizes, count, attribute_count, stream_of);                   \
    }
FLAT_BATCH(cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2, stream)
FLAT_BATCH(cuMemcpyBatchAsync_ptsz, cuMemcpyBatchAsync_v2_ptsz, PTSZ(stream))

static int set(devptr dst, size_t pitch, unsigned value, unsigned element_bytes, size_t width,
               size_t height, struct sim_stream *stream, bool wait)
{
    struct abi_memset_node node = {dst, pitch, value, element_bytes, width, height, NULL};

    return copy_submit_memset(&node, stream, wait);
}

#define SET(name, type, bytes)                                                                     \
    API(cuMemset##name##_v2, devptr dst, type value, size_t count)                                 \
    {                                                                                              \
        ENTER(cuMemset##name##_v2);                                                                \
        return set(dst, 0, value, bytes, count, 1, STREAM_LEGACY, true);                           \
    }                                                                                              \
    API(cuMemset##name##_v2_ptds, devptr dst, type value, size_t count)                            \
    {                                                                                              \
        ENTER(cuMemset##name##_v2_ptds);                                                           \
        return set(dst, 0, value, bytes, count, 1, STREAM_PER_THREAD, true);                       \
    }                                                                                              \
    API(cuMemset##name##Async, devptr dst, type value, size_t count, struct sim_stream *stream)    \
    {                                                                                              \
        ENTER(cuMemset##name##Async);                                                              \
        return set(dst, 0, value, bytes, count, 1, stream, false);                                 \
    }                                                                                              \
    API(cuMemset##name##Async_ptsz, devptr dst, type value, size_t count,                          \
        struct sim_stream *stream)                                                                 \
    {                                                                                              \
        ENTER(cuMemset##name##Async_ptsz);                                                         \
        return set(dst, 0, value, bytes, count, 1, PTSZ(stream), false);                           \
    }
SET(D8, unsigned char, 1)
SET(D16, unsigned short, 2)
SET(D32, unsigned, 4)

#define SET_2D(name, type, bytes)                                                                  \
    API(cuMemset##name##_v2, devptr dst, size_t pitch, type value, size_t width, size_t height)    \
    {                                                                                              \
        ENTER(cuMemset##name##_v2);                                                                \
        return set(dst, pitch, value, bytes, width, height, STREAM_LEGACY, true);                  \
    }                                                                                              \
    API(cuMemset##name##_v2_ptds, devptr dst, size_t pitch, type value, size_t width,              \
        size_t height)                                                                             \
    {                                                                                              \
        ENTER(cuMemset##name##_v2_ptds);                                                           \
        return set(dst, pitch, value, bytes, width, height, STREAM_PER_THREAD, true);              \
    }                                                                                              \
    API(cuMemset##name##Async, devptr dst, size_t pitch, type value, size_t width, size_t height,  \
        struct sim_stream *stream)                                                                 \
    {                                                                                              \
        ENTER(cuMemset##name##Async);                                                              \
        return set(dst, pitch, value, bytes, width, height, stream, false);                        \
    }                                                                                              \
    API(cuMemset##name##Async_ptsz, devptr dst, size_t pitch, type value, size_t width,            \
        size_t height, struct sim_stream *stream)                                                  \
    {                                                                                              \
        ENTER(cuMemset##name##Async_ptsz);                                                         \
        return set(dst, pitch, value, bytes, width, height, PTSZ(stream), false);                  \
    }
SET_2D(D2D8, unsigned char, 1)
SET_2D(D2D16, unsigned short, 2)
SET_2D(D2D32, unsigned, 4)
