/* Primary contexts, one a device, and green contexts, which are parts of a primary one. */
#include "memory.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#define GREEN_BYTES (6ULL << 20)

static int retain_locked(int ordinal, struct sim_context **ret_context)
{
    struct sim_context *context = context_primary(ordinal);

    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!sim.primary[ordinal]) {
        int code = context_start(context, ordinal, sim.primary_flags[ordinal], 3020,
                                 SIM_CONTEXT_BYTES, true);
        if (code)
            return code;
        context->references = 0;
        sim.primary[ordinal] = context;
    }
    context->references++;
    *ret_context = context;
    return CUDA_SUCCESS;
}

API(cuDevicePrimaryCtxRetain, struct sim_context **ret_context, int ordinal)
{
    struct sim_context *context;

    ENTER_KERNEL(cuDevicePrimaryCtxRetain);
    if (!ret_context)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    int code = retain_locked(ordinal, &context);
    sim_unlock();
    if (!code)
        *ret_context = context;
    return code;
}

static int release(int ordinal, bool reset)
{
    int code = CUDA_SUCCESS;

    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    struct sim_context *context = sim.primary[ordinal];
    bool ends = context && (reset || context->references == 1);
    sim_unlock();
    if (ends)
        storage_drop(context);
    sim_lock();
    context = sim.primary[ordinal];
    if (!context)
        code = reset ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    else if (reset || --context->references == 0) {
        sim.primary[ordinal] = NULL;
        context_destroy(context);
        if (reset)
            pool_reset_device(sim.map[ordinal]);
    }
    sim_unlock();
    return code;
}

API_TWINS_KERNEL(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, release(ordinal, false),
                 int ordinal)
API_TWINS_KERNEL(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, release(ordinal, true),
                 int ordinal)

API(cuDevicePrimaryCtxGetState, int ordinal, unsigned *ret_flags, int *ret_active)
{
    ENTER(cuDevicePrimaryCtxGetState);
    if (!ret_flags && !ret_active)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_context *context = sim.primary[ordinal];
    if (ret_flags)
        *ret_flags = context ? context->flags : sim.primary_flags[ordinal];
    if (ret_active)
        *ret_active = context != NULL;
    return CUDA_SUCCESS;
}

static int set_flags(int ordinal, unsigned flags)
{
    if ((flags & 7) > 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    sim.primary_flags[ordinal] = flags;
    if (sim.primary[ordinal])
        sim.primary[ordinal]->flags = flags;
    return CUDA_SUCCESS;
}

API_TWINS(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, set_flags(ordinal, flags),
          int ordinal, unsigned flags)

static void sm_resource(CUdevResource *resource, unsigned sms)
{
    memset(resource, 0, sizeof(*resource));
    resource->type = CU_DEV_RESOURCE_TYPE_SM;
    resource->sm.smCount = sms;
}

API(cuDeviceGetDevResource, int ordinal, CUdevResource *ret_resource, CUdevResourceType type)
{
    ENTER(cuDeviceGetDevResource);
    if (!ret_resource)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    sm_resource(ret_resource, SIM_SMS);
    return CUDA_SUCCESS;
}

/* Groups of at least min_count multiprocessors, in steps of 8. */
API(cuDevSmResourceSplitByCount, CUdevResource *ret_groups, unsigned *count,
    const CUdevResource *input, CUdevResource *ret_remaining, unsigned flags, unsigned min_count)
{
    ENTER(cuDevSmResourceSplitByCount);
    (void)flags;
    if (!count || !input || input->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned each = min_count < 8 ? 8 : (min_count + 7) / 8 * 8, fit = input->sm.smCount / each;
    if (!ret_groups) {
        *count = fit;
        return CUDA_SUCCESS;
    }
    if (!fit)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned groups = *count < fit ? *count : fit;
    for (unsigned at = 0; at < groups; at++)
        sm_resource(&ret_groups[at], each);
    if (ret_remaining)
        sm_resource(ret_remaining, input->sm.smCount - groups * each);
    *count = groups;
    return CUDA_SUCCESS;
}

API(cuDevResourceGenerateDesc, CUdevResourceDesc *ret_desc, CUdevResource *resources,
    unsigned count)
{
    ENTER(cuDevResourceGenerateDesc);
    if (!ret_desc || !resources || count != 1 || resources->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    CUdevResource *copy = malloc(sizeof(*copy));
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *copy = *resources;
    *ret_desc = (CUdevResourceDesc)copy;
    return CUDA_SUCCESS;
}

static int green_new(int ordinal, const CUdevResource *resource, struct sim_green **ret_green)
{
    struct sim_context *primary;

    TRY(retain_locked(ordinal, &primary));
    struct sim_green *green = sim_object(sizeof(*green), MAGIC_GREEN);
    if (!green || sim_charge(sim.map[ordinal], SIM_CONTEXT, GREEN_BYTES)) {
        free(green);
        if (--primary->references == 0) {
            sim.primary[ordinal] = NULL;
            context_destroy(primary);
        }
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    green->ordinal = ordinal;
    green->charged = GREEN_BYTES;
    green->resource = *resource;
    green->id = sim_number();
    *ret_green = green;
    return CUDA_SUCCESS;
}

API(cuGreenCtxCreate, struct sim_green **ret_green, CUdevResourceDesc desc, int ordinal,
    unsigned flags)
{
    struct sim_green *green;

    ENTER_KERNEL(cuGreenCtxCreate);
    if (!ret_green || !desc || flags != 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    int code = green_new(ordinal, (const CUdevResource *)desc, &green);
    sim_unlock();
    if (!code)
        *ret_green = green;
    return code;
}

API(cuGreenCtxDestroy, struct sim_green *green)
{
    ENTER_KERNEL(cuGreenCtxDestroy);
    if (!IS(green, MAGIC_GREEN))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    green->magic = 0;
    struct sim_context *context = green->context, *primary = sim.primary[green->ordinal];
    if (context) {
        context_destroy(context);
        if (sim_current() == context)
            sim_thread.depth--;
    }
    sim_release(sim.map[green->ordinal], SIM_CONTEXT, green->charged);
    if (primary && --primary->references == 0) {
        sim.primary[green->ordinal] = NULL;
        context_destroy(primary);
    }
    sim_unlock();
    return CUDA_SUCCESS;
}

/* The context of a green context takes no further memory. */
static int view_of(struct sim_green *green, struct sim_context **ret_context)
{
    int code = CUDA_SUCCESS;

    if (!green->context) {
        code = context_new(green->ordinal, 0, 3020, 0, &green->context);
        if (!code)
            green->context->green = green;
    }
    *ret_context = green->context;
    return code;
}

API(cuCtxFromGreenCtx, struct sim_context **ret_context, struct sim_green *green)
{
    ENTER(cuCtxFromGreenCtx);
    if (!ret_context || !IS(green, MAGIC_GREEN))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = view_of(green, ret_context);
    sim_unlock();
    return code;
}

API(cuGreenCtxStreamCreate, struct sim_stream **ret_stream, struct sim_green *green, unsigned flags,
    int priority)
{
    struct sim_context *context;

    ENTER(cuGreenCtxStreamCreate);
    if (!ret_stream || !IS(green, MAGIC_GREEN) || flags != 1)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = view_of(green, &context);
    struct sim_stream *stream = code ? NULL : stream_new(context, flags, priority);
    sim_unlock();
    if (!stream)
        return code ? code : CUDA_ERROR_OUT_OF_MEMORY;
    *ret_stream = stream;
    return CUDA_SUCCESS;
}
