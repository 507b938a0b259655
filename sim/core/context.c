/* Contexts, made and destroyed. A context takes device memory as long as it exists. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static const size_t default_limits[LIMITS] = {
    [CU_LIMIT_STACK_SIZE] = 1024,
    [CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752,
    [CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608,
    [CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
    [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
    [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
    [CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 11796480,
};

static const struct context_part *parts;
static size_t part_count;

void context_set_parts(const struct context_part *all, size_t count)
{
    parts = all;
    part_count = count;
}

int context_need(struct sim_context **ret_context)
{
    struct sim_context *context = sim_current();

    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->dead)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *ret_context = context;
    return CUDA_SUCCESS;
}

int context_named(struct sim_context **context)
{
    int code = *context ? CUDA_SUCCESS : context_need(context);

    if (code)
        return code;
    return IS(*context, MAGIC_CONTEXT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static void count_context(int change)
{
    sim_lock_state();
    if (change > 0)
        sim.self->contexts_created++;
    sim.self->contexts_live += (uint64_t)change;
    state_unlock(sim.state);
}

int context_start(struct sim_context *context, int ordinal, unsigned flags, unsigned version,
                  uint64_t bytes, bool primary)
{
    if (sim_charge(sim.map[ordinal], SIM_CONTEXT, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(context, 0, sizeof(*context));
    context->magic = MAGIC_CONTEXT;
    context->charged = bytes;
    context->device = sim.map[ordinal];
    context->ordinal = ordinal;
    context->primary = primary;
    context->flags = flags;
    context->api_version = version;
    context->references = 1;
    context->id = sim_number();
    memcpy(context->limits, default_limits, sizeof(default_limits));
    for (size_t at = 0; at < part_count; at++) {
        if (parts[at].begin)
            parts[at].begin(context);
    }
    context->next = sim.contexts;
    sim.contexts = context;
    count_context(1);
    return CUDA_SUCCESS;
}

int context_new(int ordinal, unsigned flags, unsigned version, uint64_t bytes,
                struct sim_context **ret_context)
{
    struct sim_context *context = sim_object(sizeof(*context), MAGIC_CONTEXT);

    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int code = context_start(context, ordinal, flags, version, bytes, false);
    if (code)
        free(context);
    else
        *ret_context = context;
    return code;
}

struct sim_context *context_primary(int ordinal)
{
    struct sim_context **handle = &sim.primary_handle[ordinal];

    if (!*handle) {
        *handle = sim_object(sizeof(**handle), MAGIC_CONTEXT);
        if (*handle) {
            (*handle)->primary = (*handle)->dead = true;
            (*handle)->ordinal = ordinal;
            (*handle)->device = sim.map[ordinal];
        }
    }
    return *handle;
}

/* The struct stays: other threads that have it current get an error that says so. */
void context_destroy(struct sim_context *context)
{
    context->dead = true;
    for (size_t at = 0; at < part_count; at++)
        parts[at].end(context);
    sim_release(context->device, SIM_CONTEXT, context->charged);
    context->charged = 0;
    LIST_REMOVE(sim.contexts, context);
    count_context(-1);
}
