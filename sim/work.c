/* Work of streams: handing it to the device, doing what the host must do, waiting. */
#include "stream.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define WAKE_EARLY_NS 60000ULL /* what a sleeping thread may be late; the rest is spent looking */
#define SWEEP         2048     /* kernels after which pending events are looked at, before the ring forgets */

static pthread_cond_t changed;
static struct sim_stream *held;
static struct sim_event *pending;
static bool worker_runs;

static void sleep_until(uint64_t until_ns)
{
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000ULL), .tv_nsec = (long)(until_ns % 1000000000ULL)};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* Lets the process that runs now give way if it is dead, so that nobody waits for it. */
static void bury_current_locked(int device)
{
    int current = sim.state->device[device].current;

    if (current >= 0 && current != sim.slot && !state_alive(sim.state, current))
        state_reap_locked(sim.state);
}

bool work_number_done(int device, uint64_t number)
{
    if (!number)
        return true;
    sim_lock_state();
    bool done = !sched_remaining_locked(sim.state, device, sim.slot, number, sim_now_ns());
    state_unlock(sim.state);
    return done;
}

void work_wait_number(int device, uint64_t number)
{
    while (number) {
        uint64_t now_ns = sim_now_ns();
        sim_lock_state();
        bury_current_locked(device);
        uint64_t left_ns = sched_remaining_locked(sim.state, device, sim.slot, number, now_ns);
        state_unlock(sim.state);
        if (!left_ns)
            return;
        if (left_ns > WAKE_EARLY_NS + 40000)
            sleep_until(now_ns + left_ns - WAKE_EARLY_NS);
        while (sim_now_ns() < now_ns + left_ns)
            ; /* giving the processor away would make it late under load */
    }
}

bool work_event_time(struct sim_event *event)
{
    bool done = true;

    if (event->time_ns || !event->number)
        return true;
    sim_lock_state();
    uint64_t now_ns = sim_now_ns();
    if (sched_remaining_locked(sim.state, event->device, sim.slot, event->number, now_ns)) {
        done = false;
    } else {
        struct sim_queue *queue = &sim.self->queue[event->device];
        bool kept = queue->tail - event->number < SIM_RING;
        event->time_ns = kept ? queue->ring[(event->number - 1) % SIM_RING].done_ns : now_ns;
        if (!event->time_ns)
            event->time_ns = now_ns;
    }
    state_unlock(sim.state);
    return done;
}

static void sweep_pending(void)
{
    struct sim_event **link = &pending;

    while (*link) {
        struct sim_event *event = *link;
        if (event->magic == MAGIC_EVENT && !work_event_time(event)) {
            link = &event->next_pending;
            continue;
        }
        event->pending = false;
        *link = event->next_pending;
    }
}

void event_record_submitted(struct sim_event *event, int device, uint64_t number)
{
    event->state = EVENT_SUBMITTED;
    event->device = device;
    event->number = number;
    event->time_ns = 0;
    if (work_number_done(device, number)) {
        event->time_ns = sim_now_ns();
    } else if (!event->pending) {
        event->pending = true;
        event->next_pending = pending;
        pending = event;
    }
}

/* Puts a kernel into the device's queue. When it is full, waits for room without sim.mutex, as a launch does. */
static void submit_kernel(struct sim_stream *stream, uint64_t duration_ns)
{
    int device = stream->context->device;

    for (;;) {
        sim_lock_state();
        uint64_t number = sched_submit_locked(sim.state, device, sim.slot, duration_ns, sim_now_ns());
        uint64_t first = sim.self->queue[device].head + 1;
        state_unlock(sim.state);
        if (number) {
            stream->last = number;
            if (number % SWEEP == 0)
                sweep_pending();
            return;
        }
        sim_unlock();
        work_wait_number(device, first);
        sim_lock();
    }
}

/* True when the event's work is known to the device the stream uses, or done. */
static bool event_ready(struct sim_stream *stream, struct sim_event *event)
{
    if (event->state == EVENT_NEVER)
        return true;
    if (event->held_records)
        return false;
    return event->device == stream->context->device || work_event_time(event);
}

static void take_event(struct sim_stream *stream, struct sim_event *event)
{
    if (event->state == EVENT_SUBMITTED && event->device == stream->context->device && event->number > stream->last)
        stream->last = event->number;
}

/* Runs the stream's first held operation if it can be; true when it did. */
static bool run_first(struct sim_stream *stream)
{
    struct sim_op *op = stream->first;

    if (op->kind == OP_CALL && !work_number_done(stream->context->device, stream->last))
        return false;
    if (op->kind == OP_WAIT && !event_ready(stream, op->event))
        return false;
    if (op->kind == OP_CALL) {
        sim_unlock();
        op->function(op->user);
        sim_lock();
    } else if (op->kind == OP_KERNEL) {
        submit_kernel(stream, op->duration_ns);
    } else if (op->kind == OP_RECORD) {
        op->event->held_records--;
        event_record_submitted(op->event, stream->context->device, stream->last);
    } else {
        take_event(stream, op->event);
    }
    stream->first = op->next;
    if (!stream->first)
        stream->end = NULL;
    free(op);
    return true;
}

/* One pass over the streams that are held; true when anything moved. */
static bool run_held(void)
{
    bool moved = false;

    for (struct sim_stream *stream = held; stream; stream = stream->next_held) {
        while (stream->first && run_first(stream))
            moved = true;
    }
    struct sim_stream **link = &held;
    while (*link) {
        struct sim_stream *stream = *link;
        if (stream->first) {
            link = &stream->next_held;
            continue;
        }
        *link = stream->next_held;
        stream->held = false;
    }
    return moved;
}

static void wait_changed(uint64_t timeout_ns)
{
    uint64_t until_ns = sim_now_ns() + timeout_ns;
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000ULL), .tv_nsec = (long)(until_ns % 1000000000ULL)};

    pthread_cond_timedwait(&changed, &sim.mutex, &until);
}

static void *work_thread(void *unused)
{
    (void)unused;
    sim_lock();
    for (;;) {
        if (run_held())
            pthread_cond_broadcast(&changed);
        else
            wait_changed(held ? 50000 : 1000000000ULL);
    }
    return NULL;
}

static int start_worker(void)
{
    pthread_condattr_t clock;
    pthread_attr_t attributes;
    pthread_t thread;

    if (worker_runs)
        return OK;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &clock);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&thread, &attributes, work_thread, NULL);
    pthread_attr_destroy(&attributes);
    worker_runs = !error;
    return error ? ERR_OPERATING_SYSTEM : OK;
}

static int hold(struct sim_stream *stream, const struct sim_op *op)
{
    struct sim_op *copy = malloc(sizeof(*copy));

    if (!copy)
        return ERR_OUT_OF_MEMORY;
    int code = start_worker();
    if (code) {
        free(copy);
        return code;
    }
    *copy = *op;
    copy->next = NULL;
    if (op->kind == OP_RECORD) {
        op->event->state = EVENT_HELD;
        op->event->held_records++;
    }
    if (stream->end)
        stream->end->next = copy;
    else
        stream->first = copy;
    stream->end = copy;
    if (!stream->held) {
        stream->held = true;
        stream->next_held = held;
        held = stream;
    }
    pthread_cond_broadcast(&changed);
    return OK;
}

int work_submit(struct sim_stream *stream, struct sim_op op)
{
    if (stream->first || op.kind == OP_CALL || (op.kind == OP_WAIT && !event_ready(stream, op.event)))
        return hold(stream, &op);
    if (op.kind == OP_KERNEL)
        submit_kernel(stream, op.duration_ns);
    else if (op.kind == OP_RECORD)
        event_record_submitted(op.event, stream->context->device, stream->last);
    else
        take_event(stream, op.event);
    return OK;
}

int work_call(struct sim_stream *stream, void (*function)(void *), void *user)
{
    struct sim_op op = {.kind = OP_CALL, .function = function, .user = user};

    return work_submit(stream, op);
}

void work_wait_change(void)
{
    wait_changed(10000000);
}

bool work_done(struct sim_stream *stream)
{
    return !stream->first && work_number_done(stream->context->device, stream->last);
}

void work_wait(struct sim_stream *stream)
{
    sim_lock();
    while (stream->first)
        work_wait_change();
    uint64_t number = stream->last;
    sim_unlock();
    work_wait_number(stream->context->device, number);
}
