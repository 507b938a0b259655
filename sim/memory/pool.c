/* Pools: how they take memory, divide it and give it back. The calls are in cuda/poolapi.c. */
#include "pool.h"

#include <stdlib.h>
#include <sys/mman.h>

#define ALIGN     512
#define MOST      (256ULL << 30) /* addresses of a pool */
#define CHUNK     SIM_GROW
#define PAST(end) (((end) + CHUNK - 1) / CHUNK)

static struct sim_pool *pools;
static struct sim_pool *standard[SIM_MAX_DEVICES];

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

struct sim_pool *pool_new(int device, enum sim_kind kind)
{
    struct sim_pool *pool = sim_object(sizeof(*pool), MAGIC_POOL);

    if (!pool)
        return NULL;
    pool->device = device;
    pool->location = CU_MEM_LOCATION_TYPE_DEVICE;
    pool->kind = kind;
    for (int ordinal = 0; ordinal < sim.device_count; ordinal++) {
        if (sim.map[ordinal] == device)
            pool->ordinal = ordinal;
    }
    for (int at = 0; at < 3; at++)
        pool->reuse[at] = 1;
    pool->next = pools;
    pools = pool;
    return pool;
}

struct sim_pool *pool_default(int device)
{
    if (!standard[device]) {
        standard[device] = pool_new(device, SIM_POOL);
        if (standard[device])
            standard[device]->standard = true;
    }
    return standard[device];
}

static void use_chunks(struct sim_pool *pool, const struct sim_extent *extent, int change)
{
    for (uint64_t chunk = extent->offset / CHUNK; chunk < PAST(extent->offset + extent->bytes);
         chunk++)
        pool->chunks[chunk].users += (uint32_t)change;
}

static void hold_chunks(struct sim_pool *pool, const struct sim_extent *extent, uint64_t order)
{
    for (uint64_t chunk = extent->offset / CHUNK; chunk < PAST(extent->offset + extent->bytes);
         chunk++) {
        if (order && order != NO_ORDER)
            pool->chunks[chunk].freed_in = order;
    }
}

static void let_go(struct sim_pool *pool, uint64_t stream)
{
    for (uint64_t chunk = 0; pool->range && chunk < PAST(pool->top); chunk++) {
        if (!stream || pool->chunks[chunk].freed_in == stream)
            pool->chunks[chunk].freed_in = 0;
    }
}

void pool_waited(int device, uint64_t stream)
{
    for (struct sim_pool *pool = pools; pool; pool = pool->next) {
        if (pool->device == device)
            let_go(pool, stream);
    }
}

static struct sim_extent *extent_of(const struct sim_pool *pool, uint64_t offset)
{
    for (struct sim_extent *extent = pool->extents; extent; extent = extent->next) {
        if (offset >= extent->offset && offset < extent->offset + extent->bytes)
            return extent;
    }
    return NULL;
}

static void merge(struct sim_pool *pool)
{
    for (struct sim_extent *extent = pool->extents; extent;) {
        struct sim_extent *next = extent->next;
        if (!next || extent->asked || next->asked) {
            extent = next;
            continue;
        }
        extent->bytes += next->bytes;
        extent->next = next->next;
        free(next);
    }
}

static void release_chunk(struct sim_pool *pool, uint64_t index)
{
    struct sim_chunk *chunk = &pool->chunks[index];

    if (chunk->touched)
        mmap((void *)(uintptr_t)(pool->range->base + index * CHUNK), CHUNK, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    chunk->touched = chunk->resident = false;
    sim_release(pool->device, pool->kind, CHUNK);
    pool->reserved -= CHUNK;
}

void pool_trim(struct sim_pool *pool, uint64_t keep_bytes)
{
    uint64_t chunks = pool->range ? pool->range->bytes / CHUNK : 0;

    while (chunks-- && pool->reserved > keep_bytes) {
        struct sim_chunk *chunk = &pool->chunks[chunks];
        if (chunk->resident && !chunk->users && !chunk->freed_in)
            release_chunk(pool, chunks);
    }
}

/* Gives all unused memory back, as if all streams had been waited for. */
static void release_all(struct sim_pool *pool)
{
    let_go(pool, 0);
    pool_trim(pool, 0);
}

static void pool_delete(struct sim_pool *pool)
{
    LIST_REMOVE(pools, pool);
    while (pool->extents) {
        struct sim_extent *next = pool->extents->next;
        free(pool->extents);
        pool->extents = next;
    }
    free(pool->chunks);
    if (pool->range)
        range_free(pool->range);
    handle_retire(pool);
}

/* As on the real driver, only a free in stream order lowers the pool's figure of used bytes. */
static int pool_free(struct sim_range *range, devptr address, uint64_t order)
{
    struct sim_pool *pool = range->owner;
    struct sim_extent *extent = extent_of(pool, address - range->base);

    if (!extent || !extent->asked || address != range->base + extent->offset)
        return CUDA_ERROR_INVALID_VALUE;
    if (order != NO_ORDER)
        pool->used -= extent->asked;
    extent->asked = 0;
    use_chunks(pool, extent, -1);
    hold_chunks(pool, extent, order);
    pool->allocations--;
    merge(pool);
    if (pool->doomed) {
        release_all(pool);
        if (!pool->allocations)
            pool_delete(pool);
    }
    return CUDA_SUCCESS;
}

static bool pool_find(struct sim_range *range, devptr address, devptr *ret_base,
                      uint64_t *ret_bytes)
{
    struct sim_extent *extent = extent_of(range->owner, address - range->base);

    if (!extent || !extent->asked)
        return false;
    *ret_base = range->base + extent->offset;
    *ret_bytes = extent->asked;
    return address < *ret_base + *ret_bytes;
}

static bool pool_touch(struct sim_range *range, devptr address, uint64_t bytes)
{
    struct sim_pool *pool = range->owner;
    uint64_t offset = address - range->base;

    if (bytes > SIM_BACKED && pool->kind != SIM_HOST)
        return false;
    for (uint64_t chunk = offset / CHUNK; chunk < PAST(offset + bytes); chunk++) {
        if (pool->chunks[chunk].touched)
            continue;
        if (mprotect((void *)(uintptr_t)(range->base + chunk * CHUNK), CHUNK,
                     PROT_READ | PROT_WRITE))
            return false;
        pool->chunks[chunk].touched = true;
    }
    return true;
}

static const struct range_ops pool_ops = {pool_find, pool_touch, pool_free};

static bool take_addresses(struct sim_pool *pool)
{
    uint64_t bytes = round_up(sim.state->device[pool->device].bytes * 2, CHUNK);

    if (pool->range)
        return true;
    if (bytes > MOST)
        bytes = MOST;
    pool->extents = calloc(1, sizeof(*pool->extents));
    pool->chunks = calloc(bytes / CHUNK, sizeof(*pool->chunks));
    pool->range = range_new_at(0, bytes, CHUNK, RANGE_POOL);
    if (!pool->extents || !pool->chunks || !pool->range) {
        free(pool->extents);
        free(pool->chunks);
        pool->extents = NULL;
        pool->chunks = NULL;
        if (pool->range)
            range_free(pool->range);
        pool->range = NULL;
        return false;
    }
    pool->range->device = pool->device;
    pool->range->kind = pool->kind;
    pool->range->owner = pool;
    pool->range->ops = &pool_ops;
    pool->extents->bytes = bytes;
    return true;
}

/* Bytes that the pool must take for an allocation at that place. */
static uint64_t missing(const struct sim_pool *pool, uint64_t offset, uint64_t bytes)
{
    uint64_t sum = 0;

    for (uint64_t chunk = offset / CHUNK; chunk < PAST(offset + bytes); chunk++)
        sum += pool->chunks[chunk].resident ? 0 : CHUNK;
    return sum;
}

/* The place for an allocation: the first that needs no further memory, or else the first. */
static struct sim_extent *find_place(const struct sim_pool *pool, uint64_t bytes,
                                     uint64_t *ret_offset)
{
    struct sim_extent *first = NULL;

    for (struct sim_extent *extent = pool->extents; extent; extent = extent->next) {
        if (extent->asked || extent->bytes < bytes)
            continue;
        if (!first) {
            first = extent;
            *ret_offset = extent->offset;
        }
        uint64_t end = extent->offset + extent->bytes;
        for (uint64_t offset = extent->offset; offset + bytes <= end && offset < pool->top;
             offset = (offset / CHUNK + 1) * CHUNK) {
            if (!missing(pool, offset, bytes)) {
                *ret_offset = offset;
                return extent;
            }
        }
    }
    return first;
}

/* Splits a free extent so that one of exactly these addresses comes out. */
static struct sim_extent *cut(struct sim_extent *extent, uint64_t offset, uint64_t bytes)
{
    struct sim_extent *before = extent;

    if (offset > extent->offset) {
        struct sim_extent *rest = calloc(1, sizeof(*rest));
        if (!rest)
            return NULL;
        rest->offset = offset;
        rest->bytes = before->offset + before->bytes - offset;
        rest->next = before->next;
        before->next = rest;
        before->bytes = offset - before->offset;
        extent = rest;
    }
    if (extent->bytes > bytes) {
        struct sim_extent *rest = calloc(1, sizeof(*rest));
        if (!rest)
            return NULL;
        rest->offset = offset + bytes;
        rest->bytes = extent->bytes - bytes;
        rest->next = extent->next;
        extent->next = rest;
        extent->bytes = bytes;
    }
    return extent;
}

static int grow(struct sim_pool *pool, uint64_t offset, uint64_t bytes)
{
    uint64_t more = missing(pool, offset, bytes);

    if (pool->max_bytes && pool->reserved + more > pool->max_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    TRY(sim_charge(pool->device, pool->kind, more));
    for (uint64_t chunk = offset / CHUNK; chunk < PAST(offset + bytes); chunk++)
        pool->chunks[chunk].resident = true;
    if (pool->top < PAST(offset + bytes) * CHUNK)
        pool->top = PAST(offset + bytes) * CHUNK;
    pool->reserved += more;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    return CUDA_SUCCESS;
}

int pool_alloc(struct sim_pool *pool, uint64_t bytes, devptr *ret_address)
{
    uint64_t rounded = round_up(bytes, ALIGN), offset = 0;

    if (bytes > MOST || !take_addresses(pool))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_extent *extent = find_place(pool, rounded, &offset);
    int code = extent ? grow(pool, offset, rounded) : CUDA_ERROR_OUT_OF_MEMORY;
    if (code && extent) {
        /* give all unused memory back, as if the streams had been waited for, then try again */
        release_all(pool);
        extent = find_place(pool, rounded, &offset);
        code = extent ? grow(pool, offset, rounded) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    extent = code ? NULL : cut(extent, offset, rounded);
    if (!extent)
        return CUDA_ERROR_OUT_OF_MEMORY;
    extent->asked = bytes;
    use_chunks(pool, extent, 1);
    pool->allocations++;
    pool->used += bytes;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    if (pool->kind == SIM_HOST)
        pool_touch(pool->range, pool->range->base + offset, bytes);
    *ret_address = pool->range->base + offset;
    return CUDA_SUCCESS;
}

void pool_trim_device(int device)
{
    for (struct sim_pool *pool = pools; pool; pool = pool->next) {
        if (pool->device == device && pool->reserved > pool->threshold)
            pool_trim(pool, pool->threshold);
    }
}

void pool_destroy(struct sim_pool *pool)
{
    release_all(pool);
    pool->magic = 0;
    pool->doomed = true;
    if (!pool->allocations)
        pool_delete(pool);
}

void pool_context_end(struct sim_context *context)
{
    pool_waited(context->device, 0);
    pool_trim_device(context->device);
}

/* A device reset frees what was allocated from the device's own pool. */
void pool_reset_device(int device)
{
    struct sim_pool *pool = standard[device];

    if (!pool || !pool->range)
        return;
    for (struct sim_extent *extent = pool->extents; extent; extent = extent->next) {
        if (extent->asked)
            use_chunks(pool, extent, -1);
        extent->asked = 0;
    }
    merge(pool);
    pool->used = 0;
    pool->allocations = 0;
    release_all(pool);
}
