/* Which stream a handle means. NULL is the legacy stream or the calling thread's own, depending on
 * the entry point. The name of a thread's own stream means another stream in each thread. */
#ifndef VGPU_HOOK_WORK_STREAM_KEY_H
#define VGPU_HOOK_WORK_STREAM_KEY_H

#include "abi/cuda.h"

#include <stdbool.h>
#include <stdint.h>

/* CU_STREAM_LEGACY and CU_STREAM_PER_THREAD. Handles up to the latter are streams of the current
 * context. */
#define STREAM_LEGACY     1
#define STREAM_PER_THREAD 2

/* The handle, never NULL. `per_thread`: it came through a _ptsz entry point. */
static inline uintptr_t stream_handle(CUstream stream, bool per_thread)
{
    if (stream == NULL)
        return per_thread ? STREAM_PER_THREAD : STREAM_LEGACY;
    return (uintptr_t)stream;
}

static inline bool stream_is_own_threads(CUstream stream, bool per_thread)
{
    return stream_handle(stream, per_thread) == STREAM_PER_THREAD;
}

#endif
