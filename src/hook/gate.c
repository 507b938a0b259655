#include "hook/gate_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/gang.h"
#include "hook/handlers.h"
#include "hook/capture.h"
#include "hook/stream_key.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define CU_STREAM_NON_BLOCKING 1u
#define WAIT_GEQ               0u
#define REGISTER_MAPPED        2u

#define SHORT_WAIT_NS  500000ULL
#define AHEAD_STEP_NS  5000000ULL
#define AHEAD_BOUND_NS (SCHED_RESCUE_NS + SCHED_RESCUE_NS / 4)

static bool driver_can(void)
{
    return HAVE(cuStreamWaitValue32_v2) && HAVE(cuStreamWriteValue32_v2) && HAVE(cuMemHostRegister_v2) &&
           HAVE(cuMemHostGetDevicePointer_v2) && HAVE(cuCtxGetCurrent);
}

static bool locked_here(const struct gate *gate)
{
    return atomic_load_explicit(&gate->owner, memory_order_relaxed) == pthread_self();
}

static void lock_gate(struct gate *gate)
{
    mutex_lock(&gate->mutex);
    atomic_store_explicit(&gate->owner, pthread_self(), memory_order_relaxed);
}

static void unlock_gate(struct gate *gate)
{
    atomic_store_explicit(&gate->owner, (pthread_t)0, memory_order_relaxed);
    mutex_unlock(&gate->mutex);
}

static void unlock_scope(struct gate *const *gate)
{
    unlock_gate(*gate);
}

/* Holds the mutex until the end of the function, unless the thread has it: a driver may call the hooks back. */
#define GATE_SCOPE(gate)                                                                                               \
    if (locked_here(gate))                                                                                             \
        return;                                                                                                        \
    lock_gate(gate);                                                                                                   \
    struct gate *gate_scope_ CLEANUP(unlock_scope) __attribute__((unused)) = (gate)

/* A setting of the device: whoever asks for one last has it. */
static void set_policy(struct gate *gate, uint32_t turn_policy)
{
    if (turn_policy == gate->turn_policy)
        return;
    gate->turn_policy = turn_policy;
    if (turn_policy > 0)
        atomic_store(&gate->client.arena->layout->policy, turn_policy - 1);
}

bool gate_join(struct gate *gate, const char *uuid, const struct sched_identity *self, uint32_t turn_policy)
{
    struct vgpu_arena *arena;
    char text[64];
    int rc;

    MUTEX_SCOPE(&gate->mutex);
    if (atomic_load(&gate->joined))
        return true;
    if (gate->failed)
        return false;
    rc = driver_can() ? arena_open(uuid, true, &arena) : -EOPNOTSUPP;
    if (rc == 0)
        rc = sched_client_join(arena, self, &gate->client);
    if (rc < 0) {
        gate->failed = true;
        log_info("no turns on device %s: %s; instances share it as the driver does", uuid,
                 rc == -EOPNOTSUPP ? "the driver has no memory operations for streams"
                                   : arena_error_text(rc, text, sizeof(text)));
        return false;
    }
    set_policy(gate, turn_policy);
    atomic_store(&gate->joined, true);
    return true;
}

/* From here on the process shares the device as the driver does. Its page stays its own: streams may look at it. */
static void give_up(struct gate *gate, const char *why, int code)
{
    if (!atomic_exchange(&gate->joined, false))
        return;
    gate->failed = true;
    gate_stay_away(&gate->client);
    log_info("no turns for process %d: %s (error %d); it shares the device as the driver does", (int)getpid(), why,
             code);
}

static bool holds_page(struct gate *gate)
{
    if (!arena_holds(gate->client.arena, gate->client.index))
        give_up(gate, "its page of the arena is another's now", 0);
    return atomic_load(&gate->joined);
}

void gate_settings(struct gate *gate, const struct vgpu_compute *settings, uint64_t *ret_turns, uint64_t *ret_waited_ns)
{
    *ret_turns = *ret_waited_ns = 0;
    GATE_SCOPE(gate);
    if (!holds_page(gate))
        return;
    sched_client_settings(&gate->client, settings->weight, settings->priority);
    set_policy(gate, settings->turn_policy);
    sched_client_take_counts(&gate->client, ret_turns, ret_waited_ns);
}

void gate_set_others(struct gate *gate, struct vgpu_arena *const *others, unsigned count)
{
    GATE_SCOPE(gate);
    if (atomic_load(&gate->joined))
        gang_set(&gate->client, others, count);
}

void gate_resume(struct gate *gate, uint64_t now_ns)
{
    GATE_SCOPE(gate);
    if (holds_page(gate))
        sched_client_resume(&gate->client, now_ns);
}

/*
 * Operations on streams, under the gate's mutex, which so is held while the driver is called: marks of a stream must
 * get into it in their order, and a gate before the launch of whoever comes second. The driver may block there, but no
 * longer than until the gates open, and who opens them takes no mutex.
 */

/* Makes the page known to the driver, in a context that launches while the device is contended for the first time. */
static CUresult register_page(struct gate_view *view)
{
    struct capture_mode mode = {.changed = false};
    CUresult result;

    capture_relax(&mode); /* in any case: another thread may begin a capture just now */
    result = DRIVER(cuMemHostRegister_v2, mem_host_register)(view->page, ARENA_PAGE_BYTES, REGISTER_MAPPED);
    /* It may be known from a context that was thought to have ended. */
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        result = DRIVER(cuMemHostGetDevicePointer_v2, mem_host_get_device_pointer)(&view->address, view->page, 0);
    capture_leave(&mode);
    return result;
}

static const struct gate_view *make_view(struct gate *gate, CUcontext context)
{
    struct gate_view *view = NULL;
    CUresult result;

    for (unsigned i = 0; i < GATE_CONTEXTS && !view; i++)
        if (!gate->views[i].context)
            view = &gate->views[i];
    if (view && !view->page)
        view->page = view == gate->views ? gate->client.page : arena_page_again(gate->client.arena, gate->client.index);
    if (!view || !view->page) {
        give_up(gate, "its page of the arena cannot be had for another context", errno);
        return NULL;
    }
    result = register_page(view);
    if (result != CUDA_SUCCESS || !gate_start_helper(gate)) {
        give_up(gate, result != CUDA_SUCCESS ? "its page of the arena cannot be registered" : "no thread", result);
        return NULL;
    }
    view->context = context;
    return view;
}

static const struct gate_view *view_of(struct gate *gate, CUcontext context)
{
    if (!atomic_load(&gate->joined))
        return NULL;
    for (unsigned i = 0; i < GATE_CONTEXTS; i++)
        if (gate->views[i].context == context)
            return &gate->views[i];
    return make_view(gate, context);
}

/* Makes a context current; *ret_pushed: pop_context() has something to undo. False: it cannot be. */
static bool push_context(CUcontext context, bool *ret_pushed)
{
    CUcontext current = NULL;

    *ret_pushed = false;
    if (DRIVER(cuCtxGetCurrent, ctx_get_current)(&current) == CUDA_SUCCESS && current == context)
        return true;
    *ret_pushed = HAVE(cuCtxPushCurrent_v2) && DRIVER(cuCtxPushCurrent_v2, ctx_push_current)(context) == CUDA_SUCCESS;
    return *ret_pushed;
}

static void pop_context(bool pushed)
{
    CUcontext popped;

    if (pushed)
        DRIVER(cuCtxPopCurrent_v2, ctx_pop_current)(&popped);
}

/* Only its own thread can name a thread's default stream. */
static bool nameable(const struct gate_place *place)
{
    return place->thread == 0 || place->thread == (uintptr_t)pthread_self();
}

/* With the place's context current. */
static bool write_mark(struct gate *gate, unsigned index)
{
    struct gate_place *place = &gate->places[index];
    CUresult result;
    uint32_t mark;

    if (capture_touches((CUstream)place->stream))
        return false;
    atomic_store(&place->launched, false);
    mark = sched_client_mark(&gate->client, index, place->work_turn);
    result = DRIVER(cuStreamWriteValue32_v2, stream_write_value32)(
        (CUstream)place->stream, place->view->address + offsetof(struct arena_page, fence_completed) + 4 * index, mark,
        0);
    if (result != CUDA_SUCCESS)
        sched_client_unmark(&gate->client, index);
    return result == CUDA_SUCCESS;
}

static bool mark_place(struct gate *gate, unsigned index)
{
    struct gate_place *place = &gate->places[index];
    bool pushed, marked;

    if (!atomic_load(&place->launched))
        return true;
    if (!nameable(place) || !push_context(place->view->context, &pushed))
        return false;
    marked = write_mark(gate, index);
    pop_context(pushed);
    return marked;
}

/*
 * The legacy stream is marked before something else is launched, for there a mark is a barrier: behind work of blocking
 * streams that waits for what they are told later, it would stop everything for good.
 */
static void mark_legacy(struct gate *gate, const struct gate_view *view)
{
    for (unsigned i = 0; i < ARENA_PLACES; i++)
        if (gate->places[i].stream == STREAM_LEGACY && gate->places[i].view == view && !mark_place(gate, i))
            sched_client_launched(&gate->client, gate->places[i].work_turn);
}

static void mark_all(struct gate *gate)
{
    /* Before the marks: a launch that comes between says so again. */
    sched_client_marks(&gate->client);
    for (unsigned i = 0; i < ARENA_PLACES; i++)
        if (gate->places[i].stream && !mark_place(gate, i))
            sched_client_launched(&gate->client, gate->places[i].work_turn);
}

/* Places */

static void forget_place(struct gate *gate, unsigned index)
{
    gate->places[index].stream = 0;
    atomic_store(&gate->places[index].launched, false);
    sched_client_unmark(&gate->client, index);
}

static bool place_idle(const struct gate *gate, unsigned index)
{
    const struct arena_page *page = gate->client.page;

    return !atomic_load(&gate->places[index].launched) && !atomic_load(&gate->places[index].inside) &&
           atomic_load(&page->fence_completed[index]) == atomic_load(&page->fence_issued[index]);
}

static int idle_place(const struct gate *gate)
{
    int idle = -1;

    for (int i = 0; i < ARENA_PLACES; i++) {
        if (!place_idle(gate, (unsigned)i))
            continue;
        if (!gate->places[i].stream)
            return i;
        if (idle < 0)
            idle = i;
    }
    return idle;
}

/* Nobody can mark the default streams of threads that are gone. */
static void forget_dead_threads(struct gate *gate)
{
    for (unsigned i = 0; i < ARENA_PLACES; i++) {
        const struct gate_place *place = &gate->places[i];

        if (place->stream && place->thread && syscall(SYS_tgkill, getpid(), place->thread_id, 0) < 0 && errno == ESRCH)
            forget_place(gate, i);
    }
}

/* Whether the legacy stream and this one never wait for each other. With the context current. */
static bool is_apart(uintptr_t stream)
{
    unsigned flags = 0;

    return stream != STREAM_LEGACY && HAVE(cuStreamGetFlags) &&
           DRIVER(cuStreamGetFlags, stream_get_flags)((CUstream)stream, &flags) == CUDA_SUCCESS &&
           (flags & CU_STREAM_NON_BLOCKING);
}

/* -1: none is idle. Then they are marked, so that there are some soon. */
static int take_place(struct gate *gate, uintptr_t stream, uintptr_t thread, const struct gate_view *view)
{
    int index = idle_place(gate);

    if (index < 0) {
        forget_dead_threads(gate);
        index = idle_place(gate);
    }
    if (index < 0) {
        mark_all(gate);
        return -1;
    }
    gate->places[index].stream = stream;
    gate->places[index].view = view;
    gate->places[index].thread = thread;
    gate->places[index].apart = is_apart(stream);
    gate->places[index].thread_id = thread ? (pid_t)syscall(SYS_gettid) : 0;
    gate->places[index].turn = atomic_load(&gate->client.page->granted_turn);
    return index;
}

static int find_place(struct gate *gate, uintptr_t stream, uintptr_t thread, const struct gate_view *view)
{
    for (int i = 0; i < ARENA_PLACES; i++) {
        const struct gate_place *place = &gate->places[i];

        if (place->stream == stream && place->view == view && place->thread == thread)
            return i;
    }
    return take_place(gate, stream, thread, view);
}

static bool put_gate(struct gate *gate, const struct gate_view *view, uintptr_t stream, uint32_t turn)
{
    CUresult result = DRIVER(cuStreamWaitValue32_v2, stream_wait_value32)(
        (CUstream)stream, view->address + offsetof(struct arena_page, granted_turn), turn, WAIT_GEQ);

    if (result == CUDA_ERROR_NOT_SUPPORTED)
        give_up(gate, "streams cannot wait for memory", result);
    return result == CUDA_SUCCESS;
}

/* Launches */

/* Waits, in the launching thread, while more than a turn's worth of work stands at the gate. */
static void wait_ahead(struct gate *gate, uint32_t turn, uint64_t now_ns)
{
    struct arena_page *page = gate->client.page;
    uint64_t until_ns = now_ns + AHEAD_BOUND_NS;

    while (!sched_client_open(&gate->client, turn) && clock_ns() < until_ns) {
        uint32_t open = atomic_load(&page->granted_turn);

        if ((int32_t)(open - turn) < 0)
            futex_wait(&page->granted_turn, open, AHEAD_STEP_NS, 1);
    }
}

/* Takes the gate's mutex; while the device has enough to do for now, not in vain, but bounded by the client. */
static const struct gate_view *enter(struct gate *gate, CUcontext context, uint64_t cost_ns, uint64_t now_ns,
                                     struct sched_ticket *ret_ticket)
{
    const struct timespec nap = {.tv_nsec = SCHED_NAP_NS};
    const struct gate_view *view;

    for (;;) {
        lock_gate(gate);
        view = view_of(gate, context);
        if (!view)
            return NULL;
        sched_client_tidy(&gate->client, now_ns);
        sched_client_launch(&gate->client, cost_ns, now_ns, ret_ticket);
        if (!ret_ticket->ahead)
            return view;
        unlock_gate(gate);
        nanosleep(&nap, NULL);
        now_ns = clock_ns();
    }
}

/* As the ticket says. True: the stream waits at a gate that was put there just now. */
static bool prepare(struct gate *gate, const struct gate_view *view, uintptr_t stream, int index,
                    const struct sched_ticket *ticket)
{
    struct gate_place *place = index < 0 ? NULL : &gate->places[index];
    bool gated = ticket->gated && (!place || (int32_t)(ticket->turn - place->turn) > 0);

    if (ticket->marks)
        mark_all(gate);
    else if (stream != STREAM_LEGACY && !(place && place->apart))
        mark_legacy(gate, view);
    gated = gated && put_gate(gate, view, stream, ticket->turn);
    if (place) {
        if (gated)
            place->turn = ticket->turn;
        place->work_turn = ticket->turn;
        place->launches++;
        atomic_fetch_add(&place->inside, 1);
        atomic_store(&place->launched, true);
    }
    sched_client_launched(&gate->client, ticket->turn);
    return gated;
}

int gate_enter(struct gate *gate, CUstream stream, bool per_thread, uint64_t cost_ns, uint64_t now_ns)
{
    uintptr_t handle = stream_handle(stream, per_thread);
    uintptr_t thread = stream_is_own_threads(stream, per_thread) ? (uintptr_t)pthread_self() : 0;
    const struct gate_view *view;
    struct sched_ticket ticket;
    CUcontext context = NULL;
    bool gated = false;
    int index = -1;

    if (locked_here(gate) || DRIVER(cuCtxGetCurrent, ctx_get_current)(&context) != CUDA_SUCCESS || context == NULL)
        return -1;
    view = enter(gate, context, cost_ns, now_ns, &ticket);
    if (view) {
        index = find_place(gate, handle, thread, view);
        gated = prepare(gate, view, handle, index, &ticket);
    }
    unlock_gate(gate);
    if (gated)
        gate_wake_helper(gate);
    if (view && ticket.gated && ticket.full)
        wait_ahead(gate, ticket.turn, now_ns);
    return index;
}

/* A mark that another thread made between enter and the launch is not behind the launch. */
void gate_leave(struct gate *gate, int index)
{
    struct gate_place *place;

    if (index < 0)
        return;
    place = &gate->places[index];
    if (!atomic_load(&place->launched)) {
        lock_gate(gate);
        if (place->stream) { /* it has not been destroyed meanwhile */
            atomic_store(&place->launched, true);
            sched_client_launched(&gate->client, place->work_turn);
        }
        unlock_gate(gate);
    }
    atomic_fetch_sub(&place->inside, 1);
}

void gate_mark(struct gate *gate, bool blocks)
{
    GATE_SCOPE(gate);
    if (blocks)
        sched_client_waits(&gate->client);
    /*
     * Who only asks will ask again; a mark for nobody costs the GPU two microseconds. Who waits may do so for long, and
     * whoever comes meanwhile would have nothing but an estimate to go by.
     */
    if ((atomic_load(&gate->client.page->unfenced) || atomic_load(&gate->client.page->gated_unfenced)) &&
        (blocks || atomic_load(&gate->client.arena->layout->waiting) > 0))
        mark_all(gate);
}

/* The one place with launches since its last mark, if it is of the current context and of `stream` (0: any); else -1.
 */
static int only_launched(const struct gate *gate, uintptr_t stream)
{
    CUcontext context = NULL;
    int only = -1;

    for (int i = 0; i < ARENA_PLACES; i++) {
        if (!atomic_load(&gate->places[i].launched))
            continue;
        if (only >= 0)
            return -1;
        only = i;
    }
    if (only < 0 || (stream && gate->places[only].stream != stream) || !nameable(&gate->places[only]) ||
        DRIVER(cuCtxGetCurrent, ctx_get_current)(&context) != CUDA_SUCCESS ||
        context != gate->places[only].view->context)
        return -1;
    return only;
}

void gate_wait_begins(struct gate *gate, uintptr_t stream, struct gate_wait *ret_wait)
{
    *ret_wait = (struct gate_wait){.place = -1};
    GATE_SCOPE(gate);
    sched_client_waits(&gate->client);
    if (sched_client_left_ns(&gate->client, clock_ns()) < SHORT_WAIT_NS)
        ret_wait->place = only_launched(gate, stream);
    if (ret_wait->place >= 0)
        ret_wait->launches = gate->places[ret_wait->place].launches;
    else
        mark_all(gate);
}

void gate_wait_ends(struct gate *gate, const struct gate_wait *wait)
{
    struct gate_place *place;

    if (wait->place < 0)
        return;
    place = &gate->places[wait->place];
    GATE_SCOPE(gate);
    if (!place->stream || place->launches != wait->launches || only_launched(gate, place->stream) != wait->place)
        return;
    atomic_store(&place->launched, false);
    sched_client_marks(&gate->client);
}

void gate_pause(struct gate *gate, bool pausing)
{
    if (locked_here(gate))
        return;
    lock_gate(gate);
    sched_client_pauses(&gate->client, pausing, clock_ns());
    unlock_gate(gate);
    if (pausing)
        gate_mark(gate, false);
}

void gate_stream_ends(struct gate *gate, CUstream stream, bool per_thread)
{
    uintptr_t handle = stream_handle(stream, per_thread);

    GATE_SCOPE(gate);
    for (unsigned i = 0; i < ARENA_PLACES; i++) {
        struct gate_place *place = &gate->places[i];

        if (place->stream != handle || !nameable(place))
            continue;
        mark_place(gate, i);
        place->stream = 0;
        atomic_store(&place->launched, false);
    }
}

/* What ran in the context ends with it, marks or not; so does what was registered there. */
void gate_context_ends(struct gate *gate, CUcontext context)
{
    GATE_SCOPE(gate);
    for (unsigned i = 0; i < ARENA_PLACES; i++)
        if (gate->places[i].stream && gate->places[i].view->context == context)
            forget_place(gate, i);
    for (unsigned i = 0; i < GATE_CONTEXTS; i++)
        if (gate->views[i].context == context)
            gate->views[i].context = NULL;
}

void gate_forked(struct gate *gate)
{
    memset(gate, 0, sizeof(*gate));
}
