#include "hook/memory/pending_free.h"

#include "base/clock.h"
#include "base/forkwatch.h"
#include "base/mutex.h"
#include "base/nocancel.h"
#include "hook/work/capture.h"
#include "hook/work/compute.h"
#include "hook/loader/sources.h"
#include "hook/work/stream_key.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* With more streams, the oldest is forgotten: then an allocation is refused sooner. */
#define STREAMS_MAX 16
#define BOUND_NS    (1 * NS_PER_S) /* how long a refusal is put off in all */
#define STEP_NS     (100 * 1000)

/* The default stream of a thread has the same handle in each. */
struct stream_key {
    uintptr_t handle;
    uintptr_t thread; /* 0 for other streams */
};

struct pending_free {
    struct mem_free freeing;
    struct stream_key stream;
    struct pending_free *next;
};
static _Atomic(struct pending_free *) frees; /* changed under the lock */
static struct vgpu_mutex frees_lock = VGPU_MUTEX_INIT;

static _Atomic uintptr_t streams[STREAMS_MAX]; /* 0: free; changed under the lock */
static unsigned oldest;                        /* under the lock */
static struct vgpu_mutex streams_lock = VGPU_MUTEX_INIT;

static void pending_free_context_gone(CUcontext context)
{
    (void)context;
    pending_free_settle();
}

static void pending_free_forget(void)
{
    mutex_init(&frees_lock);
    atomic_store(&frees, NULL);
    mutex_init(&streams_lock);
    for (unsigned i = 0; i < STREAMS_MAX; i++)
        atomic_store(&streams[i], 0);
}

static struct memory_source source = {.context_gone = pending_free_context_gone,
                                      .forked = pending_free_forget};

/* Plain memory */

static struct stream_key pending_free_key(CUstream stream, bool per_thread)
{
    bool own = stream_is_own_threads(stream, per_thread);

    return (struct stream_key){stream_handle(stream, per_thread),
                               own ? (uintptr_t)pthread_self() : 0};
}

/* NULL: of all streams. */
static void pending_free_settle_of(const struct stream_key *stream)
{
    struct pending_free *kept = NULL, *list, *next;

    if (atomic_load_explicit(&frees, memory_order_relaxed) == NULL)
        return;
    mutex_lock(&frees_lock);
    for (list = atomic_load(&frees); list != NULL; list = next) {
        next = list->next;
        if (stream != NULL &&
            (list->stream.handle != stream->handle || list->stream.thread != stream->thread)) {
            list->next = kept;
            kept = list;
            continue;
        }
        mem_free_end(&list->freeing, CUDA_SUCCESS);
        free(list);
    }
    atomic_store(&frees, kept);
    mutex_unlock(&frees_lock);
}

void pending_free_settle(void)
{
    pending_free_settle_of(NULL);
}

void pending_free_settle_stream(CUstream stream, bool per_thread)
{
    struct stream_key key = pending_free_key(stream, per_thread);

    pending_free_settle_of(&key);
}

bool pending_free_add(const struct mem_free *freeing, CUstream stream, bool per_thread)
{
    struct pending_free *pending = hook_zalloc(sizeof(*pending));

    if (pending == NULL)
        return false;
    pending->freeing = *freeing;
    pending->stream = pending_free_key(stream, per_thread);
    sources_register(&source);
    fork_check();
    mutex_lock(&frees_lock);
    pending->next = atomic_load(&frees);
    atomic_store(&frees, pending);
    mutex_unlock(&frees_lock);
    return true;
}

/* Streams */

void pending_free_note_stream(CUstream stream, bool per_thread)
{
    uintptr_t handle = stream_handle(stream, per_thread);

    if (handle == STREAM_PER_THREAD) /* only its own thread can ask about it */
        return;
    for (unsigned i = 0; i < STREAMS_MAX; i++)
        if (atomic_load_explicit(&streams[i], memory_order_relaxed) == handle)
            return;
    sources_register(&source);
    mutex_lock(&streams_lock);
    atomic_store_explicit(&streams[oldest++ % STREAMS_MAX], handle, memory_order_relaxed);
    mutex_unlock(&streams_lock);
}

void pending_free_forget_stream(CUstream stream)
{
    uintptr_t handle = stream_handle(stream, false);

    mutex_lock(&streams_lock);
    for (unsigned i = 0; i < STREAMS_MAX; i++)
        if (atomic_load_explicit(&streams[i], memory_order_relaxed) == handle)
            atomic_store_explicit(&streams[i], 0, memory_order_relaxed);
    mutex_unlock(&streams_lock);
}

/*
 * Whether a stream has done its work; then a synchronisation, which finds nothing to wait for, has
 * the driver let go of what was freed there. Looks for captures each time: the question would spoil
 * one.
 */
static CUresult pending_free_ask(CUstream stream, bool per_thread)
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

/* Asks about the stream at `place`. The lock keeps it from being destroyed during the question. */
static CUresult pending_free_ask_at(unsigned place, uintptr_t handle)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    mutex_lock(&streams_lock);
    if (atomic_load_explicit(&streams[place], memory_order_relaxed) == handle)
        result = pending_free_ask((CUstream)handle, false);
    if (result == CUDA_SUCCESS)
        atomic_store_explicit(&streams[place], 0, memory_order_relaxed);
    mutex_unlock(&streams_lock);
    return result;
}

static void pending_free_arrived(CUstream stream, bool per_thread)
{
    NO_CANCEL;

    pending_free_settle_stream(stream, per_thread);
    sources_refresh();
}

/* `place`: where the stream is noted; STREAMS_MAX: it is the calling thread's. */
static bool pending_free_wait_for(unsigned place, CUstream stream, bool per_thread,
                                  uint64_t deadline)
{
    const struct timespec step = {.tv_nsec = STEP_NS};
    CUresult result;

    for (;;) {
        result = place < STREAMS_MAX ? pending_free_ask_at(place, (uintptr_t)stream)
                                     : pending_free_ask(stream, per_thread);
        if (result != CUDA_ERROR_NOT_READY || clock_ns() >= deadline)
            break;
        nanosleep(&step, NULL);
    }
    if (result == CUDA_SUCCESS)
        pending_free_arrived(stream, per_thread);
    return result == CUDA_SUCCESS;
}

bool pending_free_wait(CUstream stream, bool per_thread)
{
    uint64_t deadline = clock_ns() + BOUND_NS;
    bool any;

    compute_waits();
    any = pending_free_wait_for(STREAMS_MAX, stream, per_thread, deadline);
    for (unsigned i = 0; i < STREAMS_MAX; i++) {
        uintptr_t handle = atomic_load_explicit(&streams[i], memory_order_relaxed);

        if (handle != 0 && handle != stream_handle(stream, per_thread))
            any = pending_free_wait_for(i, (CUstream)handle, false, deadline) || any;
    }
    return any;
}
