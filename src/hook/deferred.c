/*
 * Plain memory that was freed in stream order: see deferred.h.
 */
#include "hook/deferred.h"

#include "base/forkwatch.h"
#include "base/mutex.h"
#include "hook/charge.h"
#include "hook/stream_key.h"

#include <pthread.h>
#include <stdlib.h>

/* Which stream a handle means; the default stream of a thread has the same handle in each. */
struct stream_key {
    uintptr_t handle;
    uintptr_t thread;
};

struct deferred {
    struct vgpu_track_entry entry;
    uint64_t address;
    struct stream_key stream;
    struct deferred *next;
};
static _Atomic(struct deferred *) deferred_frees; /* changed under the lock */
static struct vgpu_mutex deferred_lock = VGPU_MUTEX_INIT;

static struct stream_key key_of(CUstream stream, bool per_thread)
{
    bool own = stream_is_own_threads(stream, per_thread);

    return (struct stream_key){stream_handle(stream, per_thread),
                               own ? (uintptr_t)pthread_self() : 0};
}

/* After waiting for a stream; NULL: for all of them. */
static void settle_deferred(const struct stream_key *stream)
{
    struct deferred *kept = NULL, *list, *next;

    if (atomic_load_explicit(&deferred_frees, memory_order_relaxed) == NULL)
        return;
    mutex_lock(&deferred_lock);
    for (list = atomic_load(&deferred_frees); list != NULL; list = next) {
        next = list->next;
        if (stream != NULL &&
            (list->stream.handle != stream->handle || list->stream.thread != stream->thread)) {
            list->next = kept;
            kept = list;
            continue;
        }
        charge_give_back(hook_ledger(), CHARGE_POINTERS, list->address, &list->entry);
        free(list);
    }
    atomic_store(&deferred_frees, kept);
    mutex_unlock(&deferred_lock);
}

void deferred_settle(void)
{
    settle_deferred(NULL);
}

void deferred_settle_stream(CUstream stream, bool per_thread)
{
    struct stream_key key = key_of(stream, per_thread);

    settle_deferred(&key);
}

bool deferred_add(CUdeviceptr address, const struct vgpu_track_entry *entry, CUstream stream,
                  bool per_thread)
{
    struct deferred *deferred = charge_zalloc(sizeof(*deferred));

    if (deferred == NULL)
        return false;
    deferred->entry = *entry;
    deferred->address = address;
    deferred->stream = key_of(stream, per_thread);
    charge_watch_forks();
    fork_check();
    mutex_lock(&deferred_lock);
    deferred->next = atomic_load(&deferred_frees);
    atomic_store(&deferred_frees, deferred);
    mutex_unlock(&deferred_lock);
    return true;
}

void deferred_forked(void)
{
    mutex_init(&deferred_lock);
    atomic_store(&deferred_frees, NULL);
}
