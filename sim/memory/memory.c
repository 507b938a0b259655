/*
 * cuMemAlloc and similar functions. As on the real driver, an allocation of at most 1 MiB shares a
 * block of 2 MiB with others of its kind and context. A larger one is rounded up to whole blocks.
 * An empty block goes back to the device at once.
 */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

static void block_free(struct sim_block *block)
{
    if (block->next)
        block->next->previous = block->previous;
    if (block->previous)
        block->previous->next = block->next;
    else
        *block->list = block->next;
    range_free(block->range);
    free(block);
}

static void mark(struct sim_block *block, unsigned first, unsigned count, bool used)
{
    for (unsigned unit = first; unit < first + count;) {
        unsigned bit = unit % 64,
                 run = 64 - bit < first + count - unit ? 64 - bit : first + count - unit;
        uint64_t mask = (run == 64 ? ~0ULL : (1ULL << run) - 1) << bit;
        if (used)
            block->used[unit / 64] |= mask;
        else
            block->used[unit / 64] &= ~mask;
        unit += run;
    }
}

static int small_free(struct sim_range *range, devptr address, uint64_t order)
{
    struct sim_block *block = range->block;
    uint64_t offset = address - block->range->base;
    unsigned unit = (unsigned)(offset / block->unit_bytes);

    (void)order;
    if (offset % block->unit_bytes || !block->units[unit])
        return CUDA_ERROR_INVALID_VALUE;
    mark(block, unit, block->units[unit], false);
    block->free_units += block->units[unit];
    block->units[unit] = 0;
    if (block->free_units == SIM_BLOCK / block->unit_bytes)
        block_free(block);
    return CUDA_SUCCESS;
}

static bool small_find(struct sim_range *range, devptr address, devptr *ret_base,
                       uint64_t *ret_bytes)
{
    struct sim_block *block = range->block;
    for (int unit = (int)((address - range->base) / block->unit_bytes); unit >= 0; unit--) {
        if (!block->units[unit])
            continue;
        *ret_base = range->base + (unsigned)unit * block->unit_bytes;
        *ret_bytes = block->bytes[unit];
        return address < *ret_base + *ret_bytes;
    }
    return false;
}

static const struct range_ops block_ops = {small_find, range_touch_whole, small_free};

static struct sim_block *block_new(struct sim_context *context, enum sim_kind kind)
{
    struct sim_range *range = range_new(SIM_BLOCK, RANGE_BLOCK);
    struct sim_block *block = calloc(1, sizeof(*block));

    if (!range || !block || range_charge(range, context->device, kind, SIM_BLOCK)) {
        if (range)
            range_free(range);
        free(block);
        return NULL;
    }
    block->range = range;
    block->unit_bytes = kind == SIM_MANAGED ? 1024 : BLOCK_UNIT_MIN;
    block->free_units = (unsigned)SIM_BLOCK / block->unit_bytes;
    block->list = &context->blocks[kind];
    block->next = *block->list;
    if (block->next)
        block->next->previous = block;
    *block->list = block;
    range->block = block;
    range->ops = &block_ops;
    range_link(range, context);
    if (kind == SIM_MANAGED)
        range_touch(range);
    return block;
}

/* First run of count free units; -1: none. */
static int block_search(const struct sim_block *block, unsigned count)
{
    unsigned units = (unsigned)SIM_BLOCK / block->unit_bytes, run = 0;

    if (block->free_units < count)
        return -1;
    for (unsigned unit = 0; unit < units;) {
        uint64_t word = block->used[unit / 64] >> (unit % 64);
        if (word & 1) {
            uint64_t inverted = ~word;
            unsigned skip = inverted ? (unsigned)__builtin_ctzll(inverted) : 64;
            unsigned left = 64 - unit % 64;
            unit += skip < left ? skip : left;
            run = 0;
            continue;
        }
        unsigned left = 64 - unit % 64, step = word ? (unsigned)__builtin_ctzll(word) : left;
        if (step > left)
            step = left;
        run += step;
        unit += step;
        if (run >= count)
            return (int)(unit - run);
    }
    return -1;
}

static int small_alloc(struct sim_context *context, enum sim_kind kind, uint64_t bytes,
                       devptr *ret_address)
{
    unsigned unit_bytes = kind == SIM_MANAGED ? 1024 : BLOCK_UNIT_MIN;
    unsigned count = (unsigned)((bytes + unit_bytes - 1) / unit_bytes);
    struct sim_block *block = context->blocks[kind];
    int first = -1;

    while (block && (first = block_search(block, count)) < 0)
        block = block->next;
    if (!block) {
        block = block_new(context, kind);
        if (!block)
            return CUDA_ERROR_OUT_OF_MEMORY;
        first = 0;
    }
    mark(block, (unsigned)first, count, true);
    block->free_units -= count;
    block->units[first] = (uint16_t)count;
    block->bytes[first] = (uint32_t)bytes;
    *ret_address = block->range->base + (unsigned)first * block->unit_bytes;
    return CUDA_SUCCESS;
}

int memory_alloc(struct sim_context *context, enum sim_kind kind, uint64_t bytes,
                 devptr *ret_address)
{
    if (bytes <= SIM_SMALL)
        return small_alloc(context, kind, bytes, ret_address);
    if (bytes > 1ULL << 46)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_range *range = range_new(bytes, RANGE_DATA);
    if (!range)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int code = range_charge(range, context->device, kind, range->bytes);
    if (code) {
        range_free(range);
        return code;
    }
    range_link(range, context);
    if (kind == SIM_MANAGED)
        range_touch(range);
    *ret_address = range->base;
    return CUDA_SUCCESS;
}

void memory_context_end(struct sim_context *context)
{
    while (context->ranges) {
        struct sim_range *range = context->ranges;
        if (range->what == RANGE_BLOCK)
            block_free(range->block);
        else
            range_free(range);
    }
}

static int alloc_call(enum sim_kind kind, devptr *ret_address, uint64_t bytes)
{
    devptr address = 0;

    NEED_CONTEXT(context);
    if (!ret_address || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_refuse());
    sim_lock();
    int code = memory_alloc(context, kind, bytes, &address);
    sim_unlock();
    if (!code)
        *ret_address = address;
    return code;
}

API_AS_KERNEL(cuMemAlloc_v2, alloc_call(SIM_DATA, ret_address, bytes), devptr *ret_address,
              size_t bytes)

API(cuMemAllocManaged, devptr *ret_address, size_t bytes, unsigned flags)
{
    ENTER_KERNEL(cuMemAllocManaged);
    if (flags != 1 && flags != 2)
        return CUDA_ERROR_INVALID_VALUE;
    return alloc_call(SIM_MANAGED, ret_address, bytes);
}

API(cuMemAllocPitch_v2, devptr *ret_address, size_t *ret_pitch, size_t width, size_t height,
    unsigned element_bytes)
{
    ENTER_KERNEL(cuMemAllocPitch_v2);
    size_t pitch = (width + 511) / 512 * 512;

    if (!ret_pitch || (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) ||
        pitch < width)
        return CUDA_ERROR_INVALID_VALUE;
    if (height && pitch > SIZE_MAX / height)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int code = alloc_call(SIM_DATA, ret_address, pitch * height);
    if (!code)
        *ret_pitch = pitch;
    return code;
}

API(cuMemFree_v2, devptr address)
{
    ENTER_KERNEL(cuMemFree_v2);
    if (!address)
        return sim_current() && sim_current()->dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                    : CUDA_SUCCESS;
    TRY(capture_refuse());
    sim_lock();
    int code = address_free(address, NO_ORDER);
    sim_unlock();
    return code;
}

API(cuMemGetInfo_v2, size_t *ret_free, size_t *ret_total)
{
    ENTER(cuMemGetInfo_v2);
    NEED_CONTEXT(context);
    sim_lock_state();
    state_reap_locked(sim.state);
    struct sim_device *device = &sim.state->device[context->device];
    if (ret_free)
        *ret_free = device->bytes - device->used;
    if (ret_total)
        *ret_total = device->bytes;
    state_unlock(sim.state);
    return CUDA_SUCCESS;
}

API(cuMemGetAddressRange_v2, devptr *ret_base, size_t *ret_bytes, devptr address)
{
    struct sim_range *range;
    devptr base;
    uint64_t bytes;

    ENTER(cuMemGetAddressRange_v2);
    NEED_CONTEXT(context);
    sim_lock();
    bool found = address_find(address, &base, &bytes, &range) || host_find(address, &base, &bytes);
    sim_unlock();
    if (!found)
        return CUDA_ERROR_NOT_FOUND;
    if (ret_base)
        *ret_base = base;
    if (ret_bytes)
        *ret_bytes = bytes;
    return CUDA_SUCCESS;
}
