/* The copy and memset calls. Synchronous ones run in the legacy stream, their _ptds twins in the
 * thread's own. */
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

#define BOXED(now, later, type, function)                                                          \
    API_PTDS(now, function(copy, stream, true), const struct type *copy)                           \
    API_PTSZ(later, function(copy, stream, false), const struct type *copy,                        \
             struct sim_stream *stream)
BOXED(cuMemcpy2D_v2, cuMemcpy2DAsync_v2, abi_memcpy2d, boxed_2d)
BOXED(cuMemcpy3D_v2, cuMemcpy3DAsync_v2, abi_memcpy3d, boxed)
BOXED(cuMemcpy3DPeer, cuMemcpy3DPeerAsync, abi_memcpy3d, boxed)
API_PTDS(cuMemcpy2DUnaligned_v2, boxed_2d(copy, stream, true), const struct abi_memcpy2d *copy)

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

API_PTDS(cuMemcpyHtoA_v2, with_array(TO_ARRAY(MEMORY_HOST, src_host), bytes, stream, true),
         void *array, size_t offset, const void *src, size_t bytes)
API_PTSZ(cuMemcpyHtoAAsync_v2, with_array(TO_ARRAY(MEMORY_HOST, src_host), bytes, stream, false),
         void *array, size_t offset, const void *src, size_t bytes, struct sim_stream *stream)
API_PTDS(cuMemcpyDtoA_v2, with_array(TO_ARRAY(MEMORY_DEVICE, src_device), bytes, stream, true),
         void *array, size_t offset, devptr src, size_t bytes)
API_PTDS(cuMemcpyAtoH_v2, with_array(FROM_ARRAY(MEMORY_HOST, dst_host), bytes, stream, true),
         void *dst, void *array, size_t offset, size_t bytes)
API_PTSZ(cuMemcpyAtoHAsync_v2, with_array(FROM_ARRAY(MEMORY_HOST, dst_host), bytes, stream, false),
         void *dst, void *array, size_t offset, size_t bytes, struct sim_stream *stream)
API_PTDS(cuMemcpyAtoD_v2, with_array(FROM_ARRAY(MEMORY_DEVICE, dst_device), bytes, stream, true),
         devptr dst, void *array, size_t offset, size_t bytes)

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

API_PTDS(cuMemcpyAtoA_v2, between_arrays(dst, dst_offset, src, src_offset, bytes, stream),
         void *dst, size_t dst_offset, void *src, size_t src_offset, size_t bytes)

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
         devptr *srcs, size_t *sizes, size_t count, const void *attributes,
         const size_t *attribute_indices, size_t attribute_count, size_t *ret_failed,
         struct sim_stream *stream)
API_PTSZ(cuMemcpyBatchAsync_v2, flat_batch(dsts, srcs, sizes, count, attribute_count, stream),
         devptr *dsts, devptr *srcs, size_t *sizes, size_t count, const void *attributes,
         const size_t *attribute_indices, size_t attribute_count, struct sim_stream *stream)

static int set(devptr dst, size_t pitch, unsigned value, unsigned element_bytes, size_t width,
               size_t height, struct sim_stream *stream, bool wait)
{
    struct abi_memset_node node = {dst, pitch, value, element_bytes, width, height, NULL};

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
