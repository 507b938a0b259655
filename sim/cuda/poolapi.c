/* Driver functions for pools and for memory that is allocated in stream order. */
#include "graph.h"
#include "pool.h"

#include <string.h>

static struct sim_pool *chosen[SIM_MAX_DEVICES];

/* The pool that cuMemAllocAsync uses on the device. */
static struct sim_pool *pool_of_device(int device)
{
    struct sim_pool *pool = chosen[device];

    return IS(pool, MAGIC_POOL) ? pool : pool_default(device);
}

/* During a capture, an allocation becomes a node of the graph; so does a free. */
static int capture_alloc(struct sim_stream *stream, struct sim_pool *pool, uint64_t bytes,
                         devptr *ret_address)
{
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = {.bytesize = bytes};

    sim_lock();
    int code = capture_check(stream);
    struct sim_node *node =
        code ? NULL : node_new(stream->capture->graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    if (node) {
        parameters.poolProps.allocType = 1;
        parameters.poolProps.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, pool->ordinal};
        code = graph_memory_node(node, &parameters);
        if (!code)
            code = capture_add(stream, node);
    } else if (!code) {
        code = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    if (!code)
        *ret_address = parameters.dptr;
    return code;
}

static int alloc_call(devptr *ret_address, uint64_t bytes, struct sim_pool *pool,
                      struct sim_stream *handle)
{
    devptr address;

    NEED_STREAM(stream, handle);
    if (!ret_address)
        return CUDA_ERROR_INVALID_VALUE;
    if (!bytes) {
        *ret_address = 0;
        return CUDA_SUCCESS;
    }
    if (!pool) {
        sim_lock();
        pool = pool_of_device(stream->context->device);
        sim_unlock();
    }
    if (!IS(pool, MAGIC_POOL))
        return pool ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    if (stream_captures(stream))
        return capture_alloc(stream, pool, bytes, ret_address);
    TRY(capture_legacy_check(stream));
    TRY(capture_refuse());
    sim_lock();
    int code = pool_alloc(pool, bytes, &address);
    sim_unlock();
    if (!code)
        *ret_address = address;
    return code;
}

API_PTSZ_KERNEL(cuMemAllocAsync, alloc_call(ret_address, bytes, NULL, stream), devptr *ret_address,
                size_t bytes, struct sim_stream *stream)
API_PTSZ_KERNEL(cuMemAllocFromPoolAsync,
                pool ? alloc_call(ret_address, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE,
                devptr *ret_address, size_t bytes, struct sim_pool *pool, struct sim_stream *stream)

/* As on the real driver, a graph frees only memory that a graph allocated. */
static int capture_free(struct sim_stream *stream, devptr address)
{
    sim_lock();
    int code = capture_check(stream);
    struct sim_range *range = range_find(address);
    if (!code && (!range || range->what != RANGE_GRAPH || range->base != address))
        code = CUDA_ERROR_INVALID_VALUE;
    struct sim_node *node =
        code ? NULL : node_new(stream->capture->graph, CU_GRAPH_NODE_TYPE_MEM_FREE);
    if (node) {
        node->u.release = address;
        code = capture_add(stream, node);
    }
    sim_unlock();
    return code;
}

static int free_call(devptr address, struct sim_stream *handle)
{
    NEED_STREAM(stream, handle);
    if (!address)
        return CUDA_SUCCESS;
    if (stream_captures(stream))
        return capture_free(stream, address);
    TRY(capture_legacy_check(stream));
    TRY(capture_refuse());
    sim_lock();
    int code = address_free(address, stream->id);
    sim_unlock();
    return code;
}

API_PTSZ_KERNEL(cuMemFreeAsync, free_call(address, stream), devptr address,
                struct sim_stream *stream)

API(cuMemPoolCreate, struct sim_pool **ret_pool, const CUmemPoolProps *props)
{
    ENTER_KERNEL(cuMemPoolCreate);
    if (!ret_pool || !props || props->allocType != 1)
        return CUDA_ERROR_INVALID_VALUE;
    bool device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (device && !sim_ordinal_valid(props->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!device && (props->location.type < CU_MEM_LOCATION_TYPE_HOST ||
                    props->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT))
        return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_refuse());
    sim_lock();
    struct sim_pool *pool =
        pool_new(sim.map[device ? props->location.id : 0], device ? SIM_POOL : SIM_HOST);
    if (pool) {
        pool->location = props->location.type;
        pool->handle_types = props->handleTypes;
        pool->max_bytes =
            props->maxSize ? (props->maxSize + SIM_GROW - 1) / SIM_GROW * SIM_GROW : 0;
    }
    sim_unlock();
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_pool = pool;
    return CUDA_SUCCESS;
}

API(cuMemPoolDestroy, struct sim_pool *pool)
{
    ENTER_KERNEL(cuMemPoolDestroy);
    if (!IS(pool, MAGIC_POOL) || pool->standard)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    pool_destroy(pool);
    sim_unlock();
    return CUDA_SUCCESS;
}

API(cuMemPoolTrimTo, struct sim_pool *pool, size_t keep_bytes)
{
    ENTER_KERNEL(cuMemPoolTrimTo);
    if (!IS(pool, MAGIC_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_refuse());
    sim_lock();
    pool_trim(pool, keep_bytes);
    sim_unlock();
    return CUDA_SUCCESS;
}

static uint64_t *wide_attribute(struct sim_pool *pool, int attribute)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high;
    default:
        return NULL;
    }
}

API(cuMemPoolGetAttribute, struct sim_pool *pool, CUmemPool_attribute attribute, void *ret_value)
{
    ENTER(cuMemPoolGetAttribute);
    if (!IS(pool, MAGIC_POOL) || !ret_value ||
        attribute < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
        attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_refuse());
    sim_lock();
    uint64_t *wide = wide_attribute(pool, attribute);
    if (wide)
        *(uint64_t *)ret_value = *wide;
    else
        *(int *)ret_value =
            pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
    sim_unlock();
    return CUDA_SUCCESS;
}

API(cuMemPoolSetAttribute, struct sim_pool *pool, CUmemPool_attribute attribute, void *value)
{
    ENTER(cuMemPoolSetAttribute);
    if (!IS(pool, MAGIC_POOL) || !value ||
        attribute < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
        attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ||
        attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_refuse());
    sim_lock();
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = *(uint64_t *)value;
    else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ||
             attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        *wide_attribute(pool, attribute) = *wide_attribute(pool, attribute - 1);
    else
        pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *)value;
    sim_unlock();
    return CUDA_SUCCESS;
}

API(cuMemPoolSetAccess, struct sim_pool *pool, const CUmemAccessDesc *access, size_t count)
{
    ENTER(cuMemPoolSetAccess);
    if (!IS(pool, MAGIC_POOL) || (count && !access))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

API(cuMemPoolGetAccess, int *ret_flags, struct sim_pool *pool, CUmemLocation *location)
{
    ENTER(cuMemPoolGetAccess);
    if (!ret_flags || !IS(pool, MAGIC_POOL) || !location)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_flags =
        location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == pool->ordinal ? 3 : 0;
    return CUDA_SUCCESS;
}

static int device_pool(struct sim_pool **ret_pool, int ordinal, bool standard)
{
    if (!ret_pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    struct sim_pool *pool =
        standard ? pool_default(sim.map[ordinal]) : pool_of_device(sim.map[ordinal]);
    sim_unlock();
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_pool = pool;
    return CUDA_SUCCESS;
}

API_AS(cuDeviceGetDefaultMemPool, device_pool(ret_pool, ordinal, true), struct sim_pool **ret_pool,
       int ordinal)
API_AS(cuDeviceGetMemPool, device_pool(ret_pool, ordinal, false), struct sim_pool **ret_pool,
       int ordinal)

API(cuDeviceSetMemPool, int ordinal, struct sim_pool *pool)
{
    ENTER(cuDeviceSetMemPool);
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!IS(pool, MAGIC_POOL) || pool->ordinal != ordinal || pool->kind != SIM_POOL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    chosen[sim.map[ordinal]] = pool;
    sim_unlock();
    return CUDA_SUCCESS;
}

static int location_pool(struct sim_pool **ret_pool, CUmemLocation *location, int type,
                         bool standard)
{
    if (!location || type != 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    return device_pool(ret_pool, location->id, standard);
}

API_AS(cuMemGetDefaultMemPool, location_pool(ret_pool, location, type, true),
       struct sim_pool **ret_pool, CUmemLocation *location, CUmemAllocationType type)
API_AS(cuMemGetMemPool, location_pool(ret_pool, location, type, false), struct sim_pool **ret_pool,
       CUmemLocation *location, int type)
