/* Settings of a context: limits, some of which take memory, cache configuration, peers. */
#include "sim.h"

#define THREADS_PER_SM 2048ULL

/* Device memory that a limit takes; the simulator takes it at the call. */
static uint64_t limit_bytes(int limit, size_t value)
{
    switch (limit) {
    case CU_LIMIT_STACK_SIZE:
        return SIM_SMS * THREADS_PER_SM * value;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
    case CU_LIMIT_MALLOC_HEAP_SIZE:
        return value;
    default:
        return 0;
    }
}

static int set_limit(struct sim_context *context, int limit, size_t value)
{
    uint64_t old = limit_bytes(limit, context->limits[limit]), new = limit_bytes(limit, value);

    if (new > old) {
        if (sim_charge(context->device, SIM_CONTEXT, new - old))
            return CUDA_ERROR_OUT_OF_MEMORY;
        context->charged += new - old;
    } else {
        /* A context's own size includes the memory of default limits. A green one's has none. */
        uint64_t own = context->green ? 0 : SIM_CONTEXT_BYTES, extra = context->charged - own,
                 less = old - new < extra ? old - new : extra;
        sim_release(context->device, SIM_CONTEXT, less);
        context->charged -= less;
    }
    context->limits[limit] = value;
    return CUDA_SUCCESS;
}

API(cuCtxSetLimit, CUlimit limit, size_t value)
{
    ENTER_KERNEL(cuCtxSetLimit);
    NEED_CONTEXT(context);
    if ((unsigned)limit >= LIMITS)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_refuse());
    if (limit == CU_LIMIT_STACK_SIZE) {
        if (value > 512 * 1024)
            return CUDA_ERROR_INVALID_VALUE;
        value = (value + 15) / 16 * 16;
    }
    if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH || limit > CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    sim_lock();
    int code = set_limit(context, limit, value);
    sim_unlock();
    return code;
}

API(cuCtxGetLimit, size_t *ret_value, CUlimit limit)
{
    ENTER(cuCtxGetLimit);
    NEED_CONTEXT(context);
    if (!ret_value || (unsigned)limit >= LIMITS)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *ret_value = context->limits[limit];
    return CUDA_SUCCESS;
}

static int get_setting(int *ret_value, size_t offset)
{
    NEED_CONTEXT(context);
    if (!ret_value)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_value = *(int *)((char *)context + offset);
    return CUDA_SUCCESS;
}

static int set_setting(int value, size_t offset)
{
    NEED_CONTEXT(context);
    if (value < 0 || value > 3)
        return CUDA_ERROR_INVALID_VALUE;
    *(int *)((char *)context + offset) = value;
    return CUDA_SUCCESS;
}

API_AS(cuCtxGetCacheConfig, get_setting(ret_config, offsetof(struct sim_context, cache_config)),
       int *ret_config)
API_AS(cuCtxSetCacheConfig, set_setting(config, offsetof(struct sim_context, cache_config)),
       int config)
API_AS(cuCtxGetSharedMemConfig,
       get_setting(ret_config, offsetof(struct sim_context, shared_config)), int *ret_config)
API_AS(cuCtxSetSharedMemConfig, set_setting(config, offsetof(struct sim_context, shared_config)),
       int config)

API(cuCtxGetStreamPriorityRange, int *ret_least, int *ret_greatest)
{
    ENTER(cuCtxGetStreamPriorityRange);
    NEED_CONTEXT(context);
    if (ret_least)
        *ret_least = 0;
    if (ret_greatest)
        *ret_greatest = -5;
    return CUDA_SUCCESS;
}

API(cuCtxEnablePeerAccess, struct sim_context *peer, unsigned flags)
{
    ENTER_KERNEL(cuCtxEnablePeerAccess);
    NEED_CONTEXT(context);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!IS(peer, MAGIC_CONTEXT) || peer->dead || peer->ordinal == context->ordinal)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->peers & 1u << peer->ordinal)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    context->peers |= 1u << peer->ordinal;
    return CUDA_SUCCESS;
}

API(cuCtxDisablePeerAccess, struct sim_context *peer)
{
    ENTER_KERNEL(cuCtxDisablePeerAccess);
    NEED_CONTEXT(context);
    if (!IS(peer, MAGIC_CONTEXT) || peer->dead)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!(context->peers & 1u << peer->ordinal))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers &= ~(1u << peer->ordinal);
    return CUDA_SUCCESS;
}
