#include "hook/work/semaphore_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "sched/gang.h"
#include "hook/loader/handlers.h"
#include "hook/work/capture.h"
#include "hook/work/current.h"
#include "hook/work/stream_key.h"
#include "sched/sched_params.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define CU_STREAM_NON_BLOCKING 1u
#define WAIT_GEQ               0u

static bool driver_can(void)
{
    return HAVE(cuStreamWaitValue32_v2) && HAVE(cuStreamWriteValue32_v2) &&
           HAVE(cuMemHostRegister_v2) && HAVE(cuMemHostGetDevicePointer_v2) &&
           HAVE(cuCtxGetCurrent);
}

static bool locked_here(const struct semaphore *semaphore)
{
    return atomic_load_explicit(&semaphore->owner, memory_order_relaxed) == pthread_self();
}

static void lock_semaphore(struct semaphore *semaphore)
{
    mutex_lock(&semaphore->mutex);
    atomic_store_explicit(&semaphore->owner, pthread_self(), memory_order_relaxed);
}

static void unlock_semaphore(struct semaphore *semaphore)
{
    atomic_store_explicit(&semaphore->owner, (pthread_t)0, memory_order_relaxed);
    mutex_unlock(&semaphore->mutex);
}

static void unlock_scope(struct semaphore *const *semaphore)
{
    unlock_semaphore(*semaphore);
}

/* Holds the mutex until the end of the function, unless the thread has it: a driver may call the
 * hooks back. */
#define SEMAPHORE_SCOPE(semaphore)                                                                 \
    if (locked_here(semaphore))                                                                    \
        return;                                                                                    \
    lock_semaphore(semaphore);                                                                     \
    struct semaphore *semaphore_scope_ CLEANUP(unlock_scope) __attribute__((unused)) = (semaphore)

/* A setting of the device: the last one that any instance asks for holds. */
static void set_policy(struct semaphore *semaphore, uint32_t turn_policy)
{
    if (turn_policy == semaphore->turn_policy)
        return;
    semaphore->turn_policy = turn_policy;
    if (turn_policy > 0)
        atomic_store(&semaphore->client.arena->layout->policy, turn_policy - 1);
}

bool semaphore_join(struct semaphore *semaphore, const char *uuid,
                    const struct sched_identity *self, uint32_t turn_policy)
{
    struct vgpu_arena *arena;
    char text[64];
    int rc;

    MUTEX_SCOPE(&semaphore->mutex);
    if (atomic_load(&semaphore->joined))
        return true;
    if (semaphore->failed)
        return false;
    rc = driver_can() ? arena_open(uuid, true, &arena) : -EOPNOTSUPP;
    if (rc == 0)
        rc = sched_client_join(arena, self, &semaphore->client);
    if (rc < 0) {
        semaphore->failed = true;
        log_info("no turns on device %s: %s; instances share it as the driver does", uuid,
                 rc == -EOPNOTSUPP ? "the driver has no memory operations for streams"
                                   : arena_error_text(rc, text, sizeof(text)));
        return false;
    }
    set_policy(semaphore, turn_policy);
    atomic_store(&semaphore->joined, true);
    return true;
}

static bool holds_page(struct semaphore *semaphore)
{
    if (!arena_holds(semaphore->client.arena, semaphore->client.index))
        semaphore_give_up(semaphore, "its page of the arena is another's now", 0);
    return atomic_load(&semaphore->joined);
}

void semaphore_settings(struct semaphore *semaphore, const struct vgpu_compute *settings,
                        uint64_t *ret_turns, uint64_t *ret_waited_ns)
{
    *ret_turns = *ret_waited_ns = 0;
    SEMAPHORE_SCOPE(semaphore);
    if (!holds_page(semaphore))
        return;
    sched_client_settings(&semaphore->client, settings->weight, settings->priority);
    set_policy(semaphore, settings->turn_policy);
    sched_client_take_counts(&semaphore->client, ret_turns, ret_waited_ns);
}

void semaphore_set_others(struct semaphore *semaphore, struct vgpu_arena *const *others,
                          unsigned count)
{
    SEMAPHORE_SCOPE(semaphore);
    if (atomic_load(&semaphore->joined))
        gang_set(&semaphore->client, others, count);
}

void semaphore_resume(struct semaphore *semaphore, uint64_t now_ns)
{
    SEMAPHORE_SCOPE(semaphore);
    if (holds_page(semaphore))
        sched_client_resume(&semaphore->client, now_ns);
}

/*
 * Operations on streams, under the semaphore's mutex. So it is held while the driver is called:
 * fences of a stream must get into it in their order, and a semaphore before the launch of the
 * thread that comes second. The driver may block there, but no longer than until the semaphores
 * open, and nobody takes a mutex to open them.
 */

/* Only its own thread can name a thread's default stream. */
static bool nameable(const struct stream_slot *slot)
{
    return slot->thread == 0 || slot->thread == (uintptr_t)pthread_self();
}

/* With the slot's context current. */
static bool write_fence(struct semaphore *semaphore, unsigned index)
{
    struct stream_slot *slot = &semaphore->slots[index];
    CUresult result;
    uint32_t fence;

    if (capture_touches((CUstream)slot->stream))
        return false;
    atomic_store(&slot->launched, false);
    fence = sched_client_fence(&semaphore->client, index, slot->work_turn);
    result = DRIVER(cuStreamWriteValue32_v2)(
        (CUstream)slot->stream,
        slot->map->address + offsetof(struct arena_page, fence_completed) + 4 * index, fence, 0);
    if (result != CUDA_SUCCESS)
        sched_client_drop_fence(&semaphore->client, index);
    return result == CUDA_SUCCESS;
}

static bool fence_stream(struct semaphore *semaphore, unsigned index)
{
    struct stream_slot *slot = &semaphore->slots[index];
    bool pushed, fenced;

    if (!atomic_load(&slot->launched))
        return true;
    if (!nameable(slot) || !context_enter(slot->map->context, &pushed))
        return false;
    fenced = write_fence(semaphore, index);
    context_leave(pushed);
    return fenced;
}

/*
 * Fences the legacy stream before something else is launched, for a fence is a barrier there.
 * Blocking streams may have work that waits for something the program does later: behind that, the
 * fence would stop everything for good.
 */
static void fence_legacy(struct semaphore *semaphore, const struct page_map *map)
{
    for (unsigned i = 0; i < ARENA_STREAMS; i++)
        if (semaphore->slots[i].stream == STREAM_LEGACY && semaphore->slots[i].map == map &&
            !fence_stream(semaphore, i))
            sched_client_launched(&semaphore->client, semaphore->slots[i].work_turn);
}

static void fence_all(struct semaphore *semaphore)
{
    /* Before the fences: a launch that comes between says so again. */
    sched_client_fences(&semaphore->client);
    for (unsigned i = 0; i < ARENA_STREAMS; i++)
        if (semaphore->slots[i].stream && !fence_stream(semaphore, i))
            sched_client_launched(&semaphore->client, semaphore->slots[i].work_turn);
}

/* Slots of streams */

static void forget_stream_slot(struct semaphore *semaphore, unsigned index)
{
    semaphore->slots[index].stream = 0;
    atomic_store(&semaphore->slots[index].launched, false);
    sched_client_drop_fence(&semaphore->client, index);
}

static bool stream_slot_idle(const struct semaphore *semaphore, unsigned index)
{
    const struct arena_page *page = semaphore->client.page;

    return !atomic_load(&semaphore->slots[index].launched) &&
           !atomic_load(&semaphore->slots[index].inside) &&
           atomic_load(&page->fence_completed[index]) == atomic_load(&page->fence_issued[index]);
}

static int idle_stream_slot(const struct semaphore *semaphore)
{
    int idle = -1;

    for (int i = 0; i < ARENA_STREAMS; i++) {
        if (!stream_slot_idle(semaphore, (unsigned)i))
            continue;
        if (!semaphore->slots[i].stream)
            return i;
        if (idle < 0)
            idle = i;
    }
    return idle;
}

/* Nobody can fence the default streams of threads that are gone. */
static void forget_dead_threads(struct semaphore *semaphore)
{
    for (unsigned i = 0; i < ARENA_STREAMS; i++) {
        const struct stream_slot *slot = &semaphore->slots[i];

        if (slot->stream && slot->thread && syscall(SYS_tgkill, getpid(), slot->thread_id, 0) < 0 &&
            errno == ESRCH)
            forget_stream_slot(semaphore, i);
    }
}

/* Whether the legacy stream and this one never wait for each other. With the context current. */
static bool is_apart(uintptr_t stream)
{
    unsigned flags = 0;

    return stream != STREAM_LEGACY && HAVE(cuStreamGetFlags) &&
           DRIVER(cuStreamGetFlags)((CUstream)stream, &flags) == CUDA_SUCCESS &&
           (flags & CU_STREAM_NON_BLOCKING);
}

/* -1: none is idle. Then they are fenced, so that some soon are. */
static int take_stream_slot(struct semaphore *semaphore, uintptr_t stream, uintptr_t thread,
                            const struct page_map *map)
{
    int index = idle_stream_slot(semaphore);

    if (index < 0) {
        forget_dead_threads(semaphore);
        index = idle_stream_slot(semaphore);
    }
    if (index < 0) {
        fence_all(semaphore);
        return -1;
    }
    semaphore->slots[index].stream = stream;
    semaphore->slots[index].map = map;
    semaphore->slots[index].thread = thread;
    semaphore->slots[index].apart = is_apart(stream);
    semaphore->slots[index].thread_id = thread ? (pid_t)syscall(SYS_gettid) : 0;
    semaphore->slots[index].turn = atomic_load(&semaphore->client.page->granted_turn);
    return index;
}

static int find_stream_slot(struct semaphore *semaphore, uintptr_t stream, uintptr_t thread,
                            const struct page_map *map)
{
    for (int i = 0; i < ARENA_STREAMS; i++) {
        const struct stream_slot *slot = &semaphore->slots[i];

        if (slot->stream == stream && slot->map == map && slot->thread == thread)
            return i;
    }
    return take_stream_slot(semaphore, stream, thread, map);
}

static bool put_semaphore(struct semaphore *semaphore, const struct page_map *map, uintptr_t stream,
                          uint32_t turn)
{
    CUresult result = DRIVER(cuStreamWaitValue32_v2)(
        (CUstream)stream, map->address + offsetof(struct arena_page, granted_turn), turn, WAIT_GEQ);

    if (result == CUDA_ERROR_NOT_SUPPORTED)
        semaphore_give_up(semaphore, "streams cannot wait for memory", result);
    return result == CUDA_SUCCESS;
}

/* Launches */

/* Waits, in the launching thread, while more than a turn's worth of work stands at the
 * semaphore. */
static void wait_ahead(struct semaphore *semaphore, uint32_t turn, uint64_t now_ns)
{
    struct arena_page *page = semaphore->client.page;
    uint64_t until_ns = now_ns + SEMAPHORE_AHEAD_BOUND_NS;

    while (!sched_client_open(&semaphore->client, turn) && clock_ns() < until_ns) {
        uint32_t open = atomic_load(&page->granted_turn);

        if ((int32_t)(open - turn) < 0)
            futex_wait(&page->granted_turn, open, SEMAPHORE_AHEAD_STEP_NS, 1);
    }
}

/* Takes the semaphore's mutex. While the client wants no more launches it waits without the mutex;
 * the client bounds that. NULL: the context has no page; the mutex is held then, too. */
static const struct page_map *enter(struct semaphore *semaphore, CUcontext context,
                                    uint64_t cost_ns, uint64_t now_ns,
                                    struct sched_ticket *ret_ticket)
{
    const struct timespec nap = {.tv_nsec = SCHED_NAP_NS};
    const struct page_map *map;

    for (;;) {
        lock_semaphore(semaphore);
        map = semaphore_page_map_of(semaphore, context);
        if (!map)
            return NULL;
        sched_client_tidy(&semaphore->client, now_ns);
        sched_client_launch(&semaphore->client, cost_ns, now_ns, ret_ticket);
        if (!ret_ticket->ahead)
            return map;
        unlock_semaphore(semaphore);
        nanosleep(&nap, NULL);
        now_ns = clock_ns();
    }
}

/* Does what the ticket says. True: it put a semaphore into the stream just now. */
static bool prepare(struct semaphore *semaphore, const struct page_map *map, uintptr_t stream,
                    int index, const struct sched_ticket *ticket)
{
    struct stream_slot *slot = index < 0 ? NULL : &semaphore->slots[index];
    bool queued = ticket->queued && (!slot || (int32_t)(ticket->turn - slot->turn) > 0);

    if (ticket->fences)
        fence_all(semaphore);
    else if (stream != STREAM_LEGACY && !(slot && slot->apart))
        fence_legacy(semaphore, map);
    queued = queued && put_semaphore(semaphore, map, stream, ticket->turn);
    if (slot) {
        if (queued)
            slot->turn = ticket->turn;
        slot->work_turn = ticket->turn;
        slot->launches++;
        atomic_fetch_add(&slot->inside, 1);
        atomic_store(&slot->launched, true);
    }
    sched_client_launched(&semaphore->client, ticket->turn);
    return queued;
}

int semaphore_enter(struct semaphore *semaphore, CUstream stream, bool per_thread, uint64_t cost_ns,
                    uint64_t now_ns)
{
    uintptr_t handle = stream_handle(stream, per_thread);
    uintptr_t thread = stream_is_own_threads(stream, per_thread) ? (uintptr_t)pthread_self() : 0;
    const struct page_map *map;
    struct sched_ticket ticket;
    CUcontext context = NULL;
    bool queued = false;
    int index = -1;

    if (locked_here(semaphore) || DRIVER(cuCtxGetCurrent)(&context) != CUDA_SUCCESS ||
        context == NULL)
        return -1;
    map = enter(semaphore, context, cost_ns, now_ns, &ticket);
    if (map) {
        index = find_stream_slot(semaphore, handle, thread, map);
        queued = prepare(semaphore, map, handle, index, &ticket);
    }
    unlock_semaphore(semaphore);
    if (queued)
        semaphore_wake_helper(semaphore);
    if (map && ticket.queued && ticket.full)
        wait_ahead(semaphore, ticket.turn, now_ns);
    return index;
}

/* A fence that another thread made between enter and the launch is not behind the launch. */
void semaphore_leave(struct semaphore *semaphore, int index)
{
    struct stream_slot *slot;

    if (index < 0)
        return;
    slot = &semaphore->slots[index];
    if (!atomic_load(&slot->launched)) {
        lock_semaphore(semaphore);
        if (slot->stream) { /* it has not been destroyed meanwhile */
            atomic_store(&slot->launched, true);
            sched_client_launched(&semaphore->client, slot->work_turn);
        }
        unlock_semaphore(semaphore);
    }
    atomic_fetch_sub(&slot->inside, 1);
}

void semaphore_fence(struct semaphore *semaphore, bool blocks)
{
    SEMAPHORE_SCOPE(semaphore);
    if (blocks)
        sched_client_waits(&semaphore->client);
    /*
     * A program that only asks will ask again, and a fence for nobody costs the GPU two
     * microseconds. One that waits may do so for long. A process that comes meanwhile would have
     * nothing but an estimate to go by.
     */
    if ((atomic_load(&semaphore->client.page->unfenced) ||
         atomic_load(&semaphore->client.page->queued_unfenced)) &&
        (blocks || atomic_load(&semaphore->client.arena->layout->waiting) > 0))
        fence_all(semaphore);
}

/* The only slot with launches since its last fence, if it is of the current context and of `stream`
 * (0: of any). Otherwise -1. */
static int only_launched(const struct semaphore *semaphore, uintptr_t stream)
{
    CUcontext context = NULL;
    int only = -1;

    for (int i = 0; i < ARENA_STREAMS; i++) {
        if (!atomic_load(&semaphore->slots[i].launched))
            continue;
        if (only >= 0)
            return -1;
        only = i;
    }
    if (only < 0 || (stream && semaphore->slots[only].stream != stream) ||
        !nameable(&semaphore->slots[only]) || DRIVER(cuCtxGetCurrent)(&context) != CUDA_SUCCESS ||
        context != semaphore->slots[only].map->context)
        return -1;
    return only;
}

void semaphore_wait_begins(struct semaphore *semaphore, uintptr_t stream,
                           struct semaphore_wait *ret_wait)
{
    *ret_wait = (struct semaphore_wait){.slot = -1};
    SEMAPHORE_SCOPE(semaphore);
    sched_client_waits(&semaphore->client);
    if (sched_client_left_ns(&semaphore->client, clock_ns()) < SEMAPHORE_SHORT_WAIT_NS)
        ret_wait->slot = only_launched(semaphore, stream);
    if (ret_wait->slot >= 0)
        ret_wait->launches = semaphore->slots[ret_wait->slot].launches;
    else
        fence_all(semaphore);
}

void semaphore_wait_ends(struct semaphore *semaphore, const struct semaphore_wait *wait)
{
    struct stream_slot *slot;

    if (wait->slot < 0)
        return;
    slot = &semaphore->slots[wait->slot];
    SEMAPHORE_SCOPE(semaphore);
    if (!slot->stream || slot->launches != wait->launches ||
        only_launched(semaphore, slot->stream) != wait->slot)
        return;
    atomic_store(&slot->launched, false);
    sched_client_fences(&semaphore->client);
}

void semaphore_pause(struct semaphore *semaphore, bool pausing)
{
    if (locked_here(semaphore))
        return;
    lock_semaphore(semaphore);
    sched_client_pauses(&semaphore->client, pausing, clock_ns());
    unlock_semaphore(semaphore);
    if (pausing)
        semaphore_fence(semaphore, false);
}

void semaphore_stream_ends(struct semaphore *semaphore, CUstream stream, bool per_thread)
{
    uintptr_t handle = stream_handle(stream, per_thread);

    SEMAPHORE_SCOPE(semaphore);
    for (unsigned i = 0; i < ARENA_STREAMS; i++) {
        struct stream_slot *slot = &semaphore->slots[i];

        if (slot->stream != handle || !nameable(slot))
            continue;
        fence_stream(semaphore, i);
        slot->stream = 0;
        atomic_store(&slot->launched, false);
    }
}

/* What ran in the context ends with it, fences or not; so does what was registered there. */
void semaphore_context_ends(struct semaphore *semaphore, CUcontext context)
{
    SEMAPHORE_SCOPE(semaphore);
    for (unsigned i = 0; i < ARENA_STREAMS; i++)
        if (semaphore->slots[i].stream && semaphore->slots[i].map->context == context)
            forget_stream_slot(semaphore, i);
    for (unsigned i = 0; i < SEMAPHORE_CONTEXTS; i++)
        if (semaphore->maps[i].context == context)
            semaphore->maps[i].context = NULL;
}

void semaphore_forked(struct semaphore *semaphore)
{
    memset(semaphore, 0, sizeof(*semaphore));
}
