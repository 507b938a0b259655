/* Contexts: created, destroyed, current. */
#include "sim.h"

static int push(struct sim_context *context)
{
    if (sim_thread.depth == SIM_STACK)
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_thread.stack[sim_thread.depth++] = context;
    return CUDA_SUCCESS;
}

static int create(struct sim_context **ret_context, unsigned flags, int ordinal, unsigned version)
{
    struct sim_context *context;

    if (!ret_context || (flags & 7) > 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    int code = context_new(ordinal, flags, version, SIM_CONTEXT_BYTES, &context);
    sim_unlock();
    if (code)
        return code;
    push(context);
    *ret_context = context;
    return CUDA_SUCCESS;
}

API_AS_KERNEL(cuCtxCreate, create(ret_context, flags, ordinal, 2000),
              struct sim_context **ret_context, unsigned flags, int ordinal)
API_AS_KERNEL(cuCtxCreate_v2, create(ret_context, flags, ordinal, 3020),
              struct sim_context **ret_context, unsigned flags, int ordinal)

API(cuCtxCreate_v3, struct sim_context **ret_context, CUexecAffinityParam *parameters, int count,
    unsigned flags, int ordinal)
{
    ENTER_KERNEL(cuCtxCreate_v3);
    if (count < 0 || (count && !parameters))
        return CUDA_ERROR_INVALID_VALUE;
    return create(ret_context, flags, ordinal, 3020);
}

API_AS_KERNEL(cuCtxCreate_v4, create(ret_context, flags, ordinal, 3020),
              struct sim_context **ret_context, CUctxCreateParams *parameters, unsigned flags,
              int ordinal)

static int destroy(struct sim_context *context)
{
    if (!IS(context, MAGIC_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->dead || context->primary || context->green)
        return CUDA_ERROR_INVALID_CONTEXT;
    storage_drop(context);
    sim_lock();
    context_destroy(context);
    sim_unlock();
    if (sim_current() == context)
        sim_thread.depth--;
    return CUDA_SUCCESS;
}

API_TWINS_KERNEL(cuCtxDestroy, cuCtxDestroy_v2, destroy(context), struct sim_context *context)

API(cuCtxAttach, struct sim_context **ret_context, unsigned flags)
{
    ENTER(cuCtxAttach);
    if (!ret_context || flags)
        return CUDA_ERROR_INVALID_VALUE;
    NEED_CONTEXT(context);
    __atomic_fetch_add(&context->references, 1, __ATOMIC_RELAXED);
    *ret_context = context;
    return CUDA_SUCCESS;
}

API(cuCtxDetach, struct sim_context *context)
{
    ENTER_KERNEL(cuCtxDetach);
    if (!IS(context, MAGIC_CONTEXT) || context != sim_current())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->references > 1) {
        __atomic_fetch_sub(&context->references, 1, __ATOMIC_RELAXED);
        return CUDA_SUCCESS;
    }
    return destroy(context);
}

static int push_call(struct sim_context *context)
{
    if (!IS(context, MAGIC_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return push(context);
}

API_TWINS(cuCtxPushCurrent, cuCtxPushCurrent_v2, push_call(context), struct sim_context *context)

static int pop_call(struct sim_context **ret_context)
{
    if (!sim_thread.depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    struct sim_context *context = sim_thread.stack[--sim_thread.depth];
    if (ret_context)
        *ret_context = context;
    return CUDA_SUCCESS;
}

API_TWINS(cuCtxPopCurrent, cuCtxPopCurrent_v2, pop_call(ret_context),
          struct sim_context **ret_context)

API(cuCtxSetCurrent, struct sim_context *context)
{
    ENTER(cuCtxSetCurrent);
    if (context && !IS(context, MAGIC_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (sim_thread.depth)
        sim_thread.depth--;
    return context ? push(context) : CUDA_SUCCESS;
}

API(cuCtxGetCurrent, struct sim_context **ret_context)
{
    ENTER(cuCtxGetCurrent);
    if (!ret_context)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_context = sim_current();
    return CUDA_SUCCESS;
}

API(cuCtxGetDevice, int *ret_device)
{
    struct sim_context *context;

    ENTER(cuCtxGetDevice);
    if (!ret_device)
        return CUDA_ERROR_INVALID_VALUE;
    int code = context_need(&context);
    if (!code)
        *ret_device = context->ordinal;
    return code;
}

API(cuCtxGetDevice_v2, int *ret_device, struct sim_context *context)
{
    ENTER(cuCtxGetDevice_v2);
    if (!ret_device)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(context_named(&context));
    *ret_device = context->ordinal;
    return CUDA_SUCCESS;
}

API(cuCtxGetId, struct sim_context *context, unsigned long long *ret_id)
{
    ENTER(cuCtxGetId);
    if (!ret_id)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(context_named(&context));
    *ret_id = context->id;
    return CUDA_SUCCESS;
}

API(cuCtxGetApiVersion, struct sim_context *context, unsigned *ret_version)
{
    ENTER(cuCtxGetApiVersion);
    if (!ret_version)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(context_named(&context));
    *ret_version = context->api_version;
    return CUDA_SUCCESS;
}

API(cuCtxGetFlags, unsigned *ret_flags)
{
    struct sim_context *context;

    ENTER(cuCtxGetFlags);
    if (!ret_flags)
        return CUDA_ERROR_INVALID_VALUE;
    int code = context_need(&context);
    if (!code)
        *ret_flags = context->flags;
    return code;
}

API(cuCtxSetFlags, unsigned flags)
{
    struct sim_context *context;

    ENTER(cuCtxSetFlags);
    if ((flags & 7) > 4)
        return CUDA_ERROR_INVALID_VALUE;
    int code = context_need(&context);
    if (!code)
        context->flags = flags;
    return code;
}
