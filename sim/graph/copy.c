/*
 * Copies and memsets. They change memory that keeps its contents (see core/address.c), and nothing
 * else. Memsets and copies within the device take device time, by SIMGPU_BANDWIDTH. Copies from and
 * to the host take no device time, but that of an engine for their direction, by
 * SIMGPU_COPY_BANDWIDTH. Contents change at the call or, in a held stream, when the stream comes to
 * the copy.
 */
#include "copy.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_NS 1000 /* the shortest time of work on the device */

/* 1: the memory can be read and written. 0: its contents are not kept, and a copy does nothing. -1:
 * it is no memory. */
static int usable(uintptr_t address, uint64_t bytes)
{
    struct sim_range *range = range_find(address), *found;
    devptr base;
    uint64_t size;

    if (!range)
        return address ? 1 : -1;
    if (!address_find(address, &base, &size, &found))
        return -1;
    if (bytes > base + size - address && range->what != RANGE_RESERVED)
        return -1;
    return address_touch(range, address, bytes);
}

static uint64_t span(const struct sim_box *box, size_t pitch, size_t slice)
{
    return box->width ? (box->depth - 1) * slice + (box->height - 1) * pitch + box->width : 0;
}

static int run_box(const struct sim_box *box)
{
    if (!box->width || !box->height || !box->depth)
        return CUDA_SUCCESS;
    int from = usable(box->src, span(box, box->src_pitch, box->src_slice));
    int to = usable(box->dst, span(box, box->dst_pitch, box->dst_slice));
    if (from < 0 || to < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!from || !to)
        return CUDA_SUCCESS;
    for (size_t z = 0; z < box->depth; z++) {
        for (size_t y = 0; y < box->height; y++)
            memmove((char *)box->dst + z * box->dst_slice + y * box->dst_pitch,
                    (const char *)box->src + z * box->src_slice + y * box->src_pitch, box->width);
    }
    return CUDA_SUCCESS;
}

static int run_memset(const CUDA_MEMSET_NODE_PARAMS_v2 *set)
{
    size_t rows = set->height ? set->height : 1, bytes = set->width * set->elementSize;

    if (!set->width)
        return CUDA_SUCCESS;
    int to = usable((uintptr_t)set->dst, (rows - 1) * set->pitch + bytes);
    if (to < 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t y = 0; to && y < rows; y++) {
        char *row = (char *)(uintptr_t)set->dst + y * set->pitch;
        if (set->elementSize == 1)
            memset(row, (int)set->value, set->width);
        for (size_t x = 0; set->elementSize == 2 && x < set->width; x++)
            ((uint16_t *)row)[x] = (uint16_t)set->value;
        for (size_t x = 0; set->elementSize == 4 && x < set->width; x++)
            ((uint32_t *)row)[x] = set->value;
    }
    return CUDA_SUCCESS;
}

struct end {
    int type;
    const void *host;
    devptr device;
    const void *array;
    size_t pitch, height, x, y, z;
};

/* One end of a described copy as an address with a row and a slice step. */
static bool resolve_end(const struct end *end, size_t width, uintptr_t *ret_address,
                        size_t *ret_pitch, size_t *ret_slice)
{
    size_t pitch = end->pitch ? end->pitch : width, height = end->height ? end->height : 1;
    uintptr_t base;

    switch (end->type) {
    case CU_MEMORYTYPE_HOST:
        base = (uintptr_t)end->host;
        break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        base = (uintptr_t)end->device;
        break;
    case CU_MEMORYTYPE_ARRAY:
        base = (uintptr_t)array_memory(end->array, &pitch, &height);
        break;
    default:
        return false;
    }
    if (!base)
        return false;
    *ret_address = base + end->z * pitch * height + end->y * pitch + end->x;
    *ret_pitch = pitch;
    *ret_slice = pitch * height;
    return true;
}

bool copy_box_of(const CUDA_MEMCPY3D *copy, struct sim_box *ret_box)
{
    struct end src = {copy->srcMemoryType, copy->srcHost,  copy->srcDevice,
                      copy->srcArray,      copy->srcPitch, copy->srcHeight,
                      copy->srcXInBytes,   copy->srcY,     copy->srcZ};
    struct end dst = {copy->dstMemoryType, copy->dstHost,  copy->dstDevice,
                      copy->dstArray,      copy->dstPitch, copy->dstHeight,
                      copy->dstXInBytes,   copy->dstY,     copy->dstZ};

    ret_box->width = copy->WidthInBytes;
    ret_box->height = copy->Height;
    ret_box->depth = copy->Depth;
    return resolve_end(&src, copy->WidthInBytes, &ret_box->src, &ret_box->src_pitch,
                       &ret_box->src_slice) &&
           resolve_end(&dst, copy->WidthInBytes, &ret_box->dst, &ret_box->dst_pitch,
                       &ret_box->dst_slice);
}

enum way { WAY_TO_DEVICE = SIM_TO_DEVICE, WAY_TO_HOST = SIM_TO_HOST, WAY_WITHIN, WAY_HOST };

/* A copy or, without a box, a memset. */
struct data {
    bool set;
    union {
        struct sim_box box;
        CUDA_MEMSET_NODE_PARAMS_v2 node;
    };
    void *kept; /* contents of the program's memory at the call */
};

static bool on_device(uintptr_t address)
{
    const struct sim_range *range = range_find(address);

    return range && range->kind != SIM_HOST;
}

static enum way way_of(const struct data *data)
{
    if (data->set)
        return WAY_WITHIN;
    bool from = on_device(data->box.src), to = on_device(data->box.dst);
    return from && to ? WAY_WITHIN : to ? WAY_TO_DEVICE : from ? WAY_TO_HOST : WAY_HOST;
}

static uint64_t bytes_of(const struct data *data)
{
    if (!data->set)
        return (uint64_t)data->box.width * data->box.height * data->box.depth;
    return (uint64_t)data->node.width * data->node.elementSize *
           (data->node.height ? data->node.height : 1);
}

static int check(const struct data *data)
{
    const struct sim_box *box = &data->box;
    const CUDA_MEMSET_NODE_PARAMS_v2 *set = &data->node;

    if (!bytes_of(data))
        return CUDA_SUCCESS;
    if (data->set) {
        size_t rows = set->height ? set->height : 1;
        return usable(set->dst, (rows - 1) * set->pitch + set->width * set->elementSize) < 0
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_SUCCESS;
    }
    return usable(box->src, span(box, box->src_pitch, box->src_slice)) < 0 ||
                   usable(box->dst, span(box, box->dst_pitch, box->dst_slice)) < 0
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

static int run(const struct data *data)
{
    return data->set ? run_memset(&data->node) : run_box(&data->box);
}

static void run_later(void *user)
{
    struct data *data = user;

    run(data);
    free(data->kept);
    free(data);
}

/* Copies a source that is not pinned, as the real driver does: it may change after the call. */
static int keep_source(struct data *data)
{
    struct sim_box *box = &data->box;
    devptr base;
    uint64_t bytes;

    if (host_find(box->src, &base, &bytes) ||
        !usable(box->dst, span(box, box->dst_pitch, box->dst_slice)))
        return CUDA_SUCCESS;
    data->kept = malloc(bytes_of(data));
    if (!data->kept)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_box take = *box;
    take.dst = box->src = (uintptr_t)data->kept;
    take.dst_pitch = box->src_pitch = box->width;
    take.dst_slice = box->src_slice = box->width * box->height;
    return run_box(&take);
}

/* Changes contents later, when the held stream comes to the copy. */
static int do_later(struct sim_stream *stream, const struct data *data, bool keep)
{
    struct data *later = malloc(sizeof(*later));

    if (!later)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *later = *data;
    int code = keep ? keep_source(later) : CUDA_SUCCESS;
    if (!code)
        code = work_submit(stream,
                           (struct sim_op){.kind = OP_DO, .function = run_later, .user = later});
    if (code) {
        free(later->kept);
        free(later);
    }
    return code;
}

static uint64_t device_ns(const struct data *data)
{
    double bytes = (double)bytes_of(data) * (data->set ? 1 : 2); /* a copy reads and writes */
    double time_ns = bytes * 1e9 / (double)sim.bandwidth;

    return time_ns < LEAST_NS ? LEAST_NS : (uint64_t)time_ns;
}

static int submit_within(struct sim_stream *stream, const struct data *data, bool is_free)
{
    int code = is_free ? run(data) : do_later(stream, data, false);

    if (code || !sim.bandwidth || !bytes_of(data))
        return code;
    struct sim_kernel kernel = {.duration_ns = device_ns(data)};
    return work_submit(stream, (struct sim_op){.kind = OP_KERNEL, .kernel = kernel});
}

static int submit_host(struct sim_stream *stream, const struct data *data, bool is_free)
{
    bool to_device = way_of(data) == WAY_TO_DEVICE, early = is_free && to_device;
    struct sim_op op = {
        .kind = OP_COPY,
        .copy = {bytes_of(data), to_device ? SIM_TO_DEVICE : SIM_TO_HOST, sim_now_ns(), 0}};

    int code = early ? run(data) : CUDA_SUCCESS;
    if (!code)
        code = work_submit(stream, op);
    if (code || early)
        return code;
    return stream->first ? do_later(stream, data, to_device) : run(data);
}

/* In the stream's order; sim.mutex is held. */
static int submit(struct sim_stream *stream, const struct data *data)
{
    bool is_free = !stream->first;

    TRY(check(data));
    if (!sim.noop)
        TRY(work_begin(stream, &is_free));
    switch (sim.noop ? WAY_HOST : way_of(data)) {
    case WAY_WITHIN:
        return submit_within(stream, data, is_free);
    case WAY_HOST:
        return is_free ? run(data) : do_later(stream, data, false);
    default:
        return submit_host(stream, data, is_free);
    }
}

int copy_run_node(const struct sim_node *node, struct sim_stream *stream)
{
    struct data data = {.set = node->type == CU_GRAPH_NODE_TYPE_MEMSET};

    if (data.set)
        data.node = node->u.set;
    else if (!copy_box_of(&node->u.copy.copyParams, &data.box))
        return CUDA_ERROR_INVALID_VALUE;
    return submit(stream, &data);
}

static int capture_box(struct sim_stream *stream, const struct sim_box *box)
{
    struct sim_node *node = node_new(stream->capture->graph, CU_GRAPH_NODE_TYPE_MEMCPY);

    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUDA_MEMCPY3D *copy = &node->u.copy.copyParams;
    copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy->srcDevice = box->src;
    copy->dstDevice = box->dst;
    copy->srcPitch = box->src_pitch;
    copy->dstPitch = box->dst_pitch;
    copy->srcHeight = box->src_pitch ? box->src_slice / box->src_pitch : 1;
    copy->dstHeight = box->dst_pitch ? box->dst_slice / box->dst_pitch : 1;
    copy->WidthInBytes = box->width;
    copy->Height = box->height;
    copy->Depth = box->depth;
    return capture_add(stream, node);
}

static int capture_set(struct sim_stream *stream, const CUDA_MEMSET_NODE_PARAMS_v2 *set)
{
    struct sim_node *node = node_new(stream->capture->graph, CU_GRAPH_NODE_TYPE_MEMSET);

    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->u.set = *set;
    return capture_add(stream, node);
}

static int begin(struct sim_stream *handle, bool wait, struct sim_stream **ret_stream)
{
    int code = stream_resolve(handle, ret_stream);

    if (!code)
        code = capture_legacy_check(*ret_stream);
    if (!code && wait)
        code = capture_refuse();
    return code;
}

/*
 * Waits for the work before a synchronous copy: in the legacy stream, that of all blocking streams.
 */
static void wait_before(struct sim_stream *stream)
{
    uint64_t number = stream->last;

    if (sim.noop)
        return;
    if (stream->legacy) {
        sim_lock();
        for (struct sim_stream *other = stream->context->streams; other; other = other->next) {
            while (!(other->flags & 1) && other->first)
                worker_wait();
            if (!(other->flags & 1) && other->last > number)
                number = other->last;
        }
        sim_unlock();
        done_wait(stream->context->device, number);
    } else {
        work_wait(stream);
    }
}

/* A synchronous copy from or to the host: waits, copies, and takes the engine's time. */
static int copy_now(struct sim_stream *stream, const struct data *data, enum way way)
{
    uint64_t end_ns = 0;

    wait_before(stream);
    sim_lock();
    int code = check(data);
    if (!code && way != WAY_HOST && !sim.noop)
        end_ns = op_copy_begin(stream->context->device,
                               way == WAY_TO_DEVICE ? SIM_TO_DEVICE : SIM_TO_HOST, bytes_of(data),
                               sim_now_ns());
    if (!code)
        code = run(data);
    sim_unlock();
    sim_sleep_until(end_ns);
    return code;
}

static bool pinned(uintptr_t address)
{
    devptr base;
    uint64_t bytes;

    return host_find(address, &base, &bytes) || range_find(address);
}

/* As on the real driver, even synchronous copies within the device do not wait. */
int copy_submit(const struct sim_box *box, struct sim_stream *handle, bool wait)
{
    struct data data = {.box = *box};
    struct sim_stream *stream;

    TRY(begin(handle, wait, &stream));
    int code = CUDA_SUCCESS;
    sim_lock();
    enum way way = way_of(&data);
    bool captures = stream_captures(stream), waits = false;
    if (captures) {
        code = capture_check(stream);
        if (!code)
            code = capture_box(stream, box);
    } else if (!wait || way == WAY_WITHIN) {
        code = submit(stream, &data);
        /* pageable memory must have all bytes when the call returns */
        waits = !code && way == WAY_TO_HOST && !sim.noop && !pinned(box->dst);
    }
    sim_unlock();
    if (!captures && wait && way != WAY_WITHIN)
        return copy_now(stream, &data, way);
    if (waits)
        work_wait(stream);
    return code;
}

int copy_submit_memset(const CUDA_MEMSET_NODE_PARAMS_v2 *set, struct sim_stream *handle, bool wait)
{
    struct data data = {.set = true, .node = *set};
    struct sim_stream *stream;

    if (set->dst % set->elementSize || set->pitch % set->elementSize)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(begin(handle, wait, &stream));
    int code;
    sim_lock();
    const struct sim_range *range = range_find(set->dst);
    bool captures = stream_captures(stream),
         waits = wait && (!range || range->kind == SIM_MANAGED || range->kind == SIM_HOST);
    if (captures) {
        code = capture_check(stream);
        if (!code)
            code = capture_set(stream, set);
    } else {
        code = submit(stream, &data);
    }
    sim_unlock();
    if (!code && !captures && !sim.noop && waits)
        work_wait(stream);
    return code;
}
