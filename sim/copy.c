/*
 * Copies and memsets: real ones between memory that is kept (see address.c), nothing where an end is not. They take no
 * time on the simulated device; a synchronous one waits for the work before it, as on the real driver.
 */
#include "copy.h"

#include <stdlib.h>
#include <string.h>

/* The range's memory can be read and written. False: it is kept by nobody, and a copy does nothing. -1: no memory. */
static int usable(uintptr_t address, uint64_t bytes)
{
    struct sim_range *range = range_find(address), *found;
    devptr base;
    uint64_t size;

    if (!range)
        return address ? 1 : -1;
    if (!memory_find(address, &base, &size, &found))
        return -1;
    if (bytes > base + size - address && range->what != RANGE_RESERVED)
        return -1;
    return memory_touch(range, address, bytes);
}

static uint64_t span(const struct sim_box *box, size_t pitch, size_t slice)
{
    return box->width ? (box->depth - 1) * slice + (box->height - 1) * pitch + box->width : 0;
}

int copy_run_box(const struct sim_box *box)
{
    if (!box->width || !box->height || !box->depth)
        return OK;
    int from = usable(box->src, span(box, box->src_pitch, box->src_slice));
    int to = usable(box->dst, span(box, box->dst_pitch, box->dst_slice));
    if (from < 0 || to < 0)
        return ERR_INVALID_VALUE;
    if (!from || !to)
        return OK;
    for (size_t z = 0; z < box->depth; z++) {
        for (size_t y = 0; y < box->height; y++)
            memmove((char *)box->dst + z * box->dst_slice + y * box->dst_pitch,
                    (const char *)box->src + z * box->src_slice + y * box->src_pitch, box->width);
    }
    return OK;
}

int copy_run_memset(const struct abi_memset_node *set)
{
    size_t rows = set->height ? set->height : 1, bytes = set->width * set->element_bytes;

    if (!set->width)
        return OK;
    int to = usable((uintptr_t)set->dst, (rows - 1) * set->pitch + bytes);
    if (to < 0)
        return ERR_INVALID_VALUE;
    for (size_t y = 0; to && y < rows; y++) {
        char *row = (char *)(uintptr_t)set->dst + y * set->pitch;
        if (set->element_bytes == 1)
            memset(row, (int)set->value, set->width);
        for (size_t x = 0; set->element_bytes == 2 && x < set->width; x++)
            ((uint16_t *)row)[x] = (uint16_t)set->value;
        for (size_t x = 0; set->element_bytes == 4 && x < set->width; x++)
            ((uint32_t *)row)[x] = set->value;
    }
    return OK;
}

struct end {
    int type;
    const void *host;
    devptr device;
    const void *array;
    size_t pitch, height, x, y, z;
};

/* One end of a described copy as an address with a row and a slice step. */
static bool resolve_end(const struct end *end, size_t width, uintptr_t *ret_address, size_t *ret_pitch,
                        size_t *ret_slice)
{
    size_t pitch = end->pitch ? end->pitch : width, height = end->height ? end->height : 1;
    uintptr_t base;

    switch (end->type) {
    case MEMORY_HOST:
        base = (uintptr_t)end->host;
        break;
    case MEMORY_DEVICE:
    case MEMORY_UNIFIED:
        base = (uintptr_t)end->device;
        break;
    case MEMORY_ARRAY:
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

bool copy_box_of(const struct abi_memcpy3d *copy, struct sim_box *ret_box)
{
    struct end src = {copy->src_type,   copy->src_host, copy->src_device, copy->src_array, copy->src_pitch,
                      copy->src_height, copy->src_x,    copy->src_y,      copy->src_z};
    struct end dst = {copy->dst_type,   copy->dst_host, copy->dst_device, copy->dst_array, copy->dst_pitch,
                      copy->dst_height, copy->dst_x,    copy->dst_y,      copy->dst_z};

    ret_box->width = copy->width;
    ret_box->height = copy->height;
    ret_box->depth = copy->depth;
    return resolve_end(&src, copy->width, &ret_box->src, &ret_box->src_pitch, &ret_box->src_slice) &&
           resolve_end(&dst, copy->width, &ret_box->dst, &ret_box->dst_pitch, &ret_box->dst_slice);
}

int copy_run(const struct abi_memcpy3d *copy)
{
    struct sim_box box;

    return copy_box_of(copy, &box) ? copy_run_box(&box) : ERR_INVALID_VALUE;
}

/* A copy or a memset that waits behind what holds its stream. */
struct later {
    bool set;
    struct sim_box box;
    struct abi_memset_node node;
};

static void run_later(void *user)
{
    struct later *later = user;

    sim_lock();
    if (later->set)
        copy_run_memset(&later->node);
    else
        copy_run_box(&later->box);
    sim_unlock();
    free(later);
}

static int submit_locked(struct sim_stream *stream, const struct sim_box *box, const struct abi_memset_node *node)
{
    if (!stream->first)
        return box ? copy_run_box(box) : copy_run_memset(node);
    struct later *later = calloc(1, sizeof(*later));
    if (!later)
        return ERR_OUT_OF_MEMORY;
    later->set = node != NULL;
    if (box)
        later->box = *box;
    else
        later->node = *node;
    int code = work_call(stream, run_later, later);
    if (code)
        free(later);
    return code;
}

static int capture_box(struct sim_stream *stream, const struct sim_box *box)
{
    struct sim_node *node = node_new(stream->capture->graph, NODE_MEMCPY);

    if (!node)
        return ERR_OUT_OF_MEMORY;
    struct abi_memcpy3d *copy = &node->u.copy.copy;
    copy->src_type = copy->dst_type = MEMORY_UNIFIED;
    copy->src_device = box->src;
    copy->dst_device = box->dst;
    copy->src_pitch = box->src_pitch;
    copy->dst_pitch = box->dst_pitch;
    copy->src_height = box->src_pitch ? box->src_slice / box->src_pitch : 1;
    copy->dst_height = box->dst_pitch ? box->dst_slice / box->dst_pitch : 1;
    copy->width = box->width;
    copy->height = box->height;
    copy->depth = box->depth;
    return capture_add(stream, node);
}

static int capture_set(struct sim_stream *stream, const struct abi_memset_node *set)
{
    struct sim_node *node = node_new(stream->capture->graph, NODE_MEMSET);

    if (!node)
        return ERR_OUT_OF_MEMORY;
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

/* The legacy stream comes after the work of all other streams that don't say otherwise. */
static void wait_before(struct sim_stream *stream)
{
    uint64_t number = stream->last;

    if (sim.noop)
        return;
    if (stream->legacy) {
        sim_lock();
        for (struct sim_stream *other = stream->context->streams; other; other = other->next) {
            while (!(other->flags & 1) && other->first)
                work_wait_change();
            if (!(other->flags & 1) && other->last > number)
                number = other->last;
        }
        sim_unlock();
        work_wait_number(stream->context->device, number);
    } else {
        work_wait(stream);
    }
}

int copy_submit(const struct sim_box *box, struct sim_stream *handle, bool wait)
{
    struct sim_stream *stream;

    int code = begin(handle, wait, &stream);
    if (code)
        return code;
    if (wait)
        wait_before(stream);
    sim_lock();
    if (stream_captures(stream)) {
        code = capture_check(stream);
        if (!code)
            code = capture_box(stream, box);
    } else {
        code = submit_locked(stream, box, NULL);
    }
    sim_unlock();
    return code;
}

int copy_submit_memset(const struct abi_memset_node *set, struct sim_stream *handle, bool wait)
{
    struct sim_stream *stream;

    if (set->dst % set->element_bytes || set->pitch % set->element_bytes)
        return ERR_INVALID_VALUE;
    int code = begin(handle, wait, &stream);
    if (code)
        return code;
    sim_lock();
    if (stream_captures(stream)) {
        code = capture_check(stream);
        if (!code)
            code = capture_set(stream, set);
    } else {
        code = submit_locked(stream, NULL, set);
    }
    sim_unlock();
    return code;
}
