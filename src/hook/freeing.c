/*
 * Waiting for what was freed in stream order: see freeing.h.
 */
#include "hook/freeing.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "hook/handlers.h"
#include "hook/capture.h"
#include "hook/compute.h"
#include "hook/pool.h"
#include "hook/stream_key.h"

#include <time.h>

/* With more, the oldest is forgotten: then an allocation is refused sooner. */
#define STREAMS_MAX 16
#define BOUND_NS    (1 * NS_PER_S) /* how long a refusal is put off in all */
#define STEP_NS     (100 * 1000)

static _Atomic uintptr_t streams[STREAMS_MAX]; /* 0: free; changed under the lock */
static unsigned oldest;                        /* under the lock */
static struct vgpu_mutex streams_lock = VGPU_MUTEX_INIT;

/* 0: the default stream of a thread, which only that thread can ask about. */
static uintptr_t key_of(CUstream stream, bool per_thread)
{
    return stream_is_own_threads(stream, per_thread) ? 0 : stream_handle(stream, per_thread);
}

void freeing_note(CUstream stream, bool per_thread)
{
    uintptr_t key = key_of(stream, per_thread);

    if (key == 0)
        return;
    for (unsigned i = 0; i < STREAMS_MAX; i++)
        if (atomic_load_explicit(&streams[i], memory_order_relaxed) == key)
            return;
    mutex_lock(&streams_lock);
    atomic_store_explicit(&streams[oldest++ % STREAMS_MAX], key, memory_order_relaxed);
    mutex_unlock(&streams_lock);
}

static void forget(CUstream stream)
{
    uintptr_t key = key_of(stream, false);

    mutex_lock(&streams_lock);
    for (unsigned i = 0; i < STREAMS_MAX; i++)
        if (atomic_load_explicit(&streams[i], memory_order_relaxed) == key)
            atomic_store_explicit(&streams[i], 0, memory_order_relaxed);
    mutex_unlock(&streams_lock);
}

/*
 * Whether a stream has done its work; then the driver is made to let go of what was freed there, by
 * a synchronisation that finds nothing to wait for. Looks for captures each time: the question
 * would spoil one.
 */
static CUresult ask(CUstream stream, bool per_thread)
{
    enum hook_symbol query = per_thread ? SYMBOL_cuStreamQuery_ptsz : SYMBOL_cuStreamQuery;
    enum hook_symbol synchronize =
        per_thread ? SYMBOL_cuStreamSynchronize_ptsz : SYMBOL_cuStreamSynchronize;
    CUresult result;

    if (hook_real[query] == NULL || hook_real[synchronize] == NULL || capture_running())
        return CUDA_ERROR_NOT_SUPPORTED;
    result = REAL(query, stream_query)(stream);
    if (result == CUDA_SUCCESS && !capture_running())
        result = REAL(synchronize, stream_synchronize)(stream);
    return result;
}

/* Asks about the stream at `place` until it is done. The lock keeps it from being destroyed during
 * a question. */
static bool wait_for_place(unsigned place, uintptr_t key, uint64_t deadline)
{
    const struct timespec step = {.tv_nsec = STEP_NS};
    CUresult result;

    for (;;) {
        mutex_lock(&streams_lock);
        result = CUDA_ERROR_INVALID_VALUE;
        if (atomic_load_explicit(&streams[place], memory_order_relaxed) == key)
            result = ask((CUstream)key, false);
        if (result == CUDA_SUCCESS)
            atomic_store_explicit(&streams[place], 0, memory_order_relaxed);
        mutex_unlock(&streams_lock);
        if (result == CUDA_SUCCESS)
            pool_refresh_after((CUstream)key, false);
        if (result != CUDA_ERROR_NOT_READY || clock_ns() >= deadline)
            return result == CUDA_SUCCESS;
        nanosleep(&step, NULL);
    }
}

bool freeing_wait(CUstream stream, bool per_thread)
{
    const struct timespec step = {.tv_nsec = STEP_NS};
    uint64_t deadline = clock_ns() + BOUND_NS;
    uintptr_t own = key_of(stream, per_thread);
    CUresult result;
    bool any;

    compute_waits();
    while ((result = ask(stream, per_thread)) == CUDA_ERROR_NOT_READY && clock_ns() < deadline)
        nanosleep(&step, NULL);
    any = result == CUDA_SUCCESS;
    if (any)
        pool_refresh_after(stream, per_thread);
    for (unsigned i = 0; i < STREAMS_MAX; i++) {
        uintptr_t key = atomic_load_explicit(&streams[i], memory_order_relaxed);

        if (key != 0 && key != own)
            any = wait_for_place(i, key, deadline) || any;
    }
    return any;
}

CUresult hook_stream_destroy(enum hook_symbol sym, CUstream stream)
{
    forget(stream);
    compute_stream_ends(stream, false);
    return REAL(sym, stream_destroy)(stream);
}

void freeing_forked(void)
{
    mutex_init(&streams_lock);
    for (unsigned i = 0; i < STREAMS_MAX; i++)
        atomic_store(&streams[i], 0);
}
