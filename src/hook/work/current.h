/*
 * Calls of vgpu's own in another context than the calling thread's.
 */
#ifndef VGPU_HOOK_WORK_CURRENT_H
#define VGPU_HOOK_WORK_CURRENT_H

#include "hook/loader/hook.h"

/* Makes a context current until context_leave(). False: it cannot be made current. */
static inline bool context_enter(CUcontext context, bool *ret_pushed)
{
    CUcontext current = NULL;

    *ret_pushed = false;
    if (DRIVER(cuCtxGetCurrent)(&current) == CUDA_SUCCESS && current == context)
        return true;
    *ret_pushed = HAVE(cuCtxPopCurrent_v2) && DRIVER(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS;
    return *ret_pushed;
}

static inline void context_leave(bool pushed)
{
    CUcontext popped;

    if (pushed)
        DRIVER(cuCtxPopCurrent_v2)(&popped);
}

#endif
