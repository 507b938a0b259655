/* Work of streams: handing it to the device, and waiting for it. What holds a stream is
 * worker.c's. */
#include "stream.h"

#include <time.h>

#define WAKE_EARLY_NS 60000ULL /* what a sleeping thread may be late; the rest is spent looking */
#define TINY_NS       1000     /* a copy that takes less holds nobody */
#define SWEEP         2048     /* kernels after which pending events are looked at */

static struct sim_event *pending;
static uint64_t engine_free_ns[SIM_MAX_DEVICES][SIM_WAYS];

void work_sleep_until(uint64_t until_ns)
{
    if (until_ns > sim_now_ns() + WAKE_EARLY_NS + 40000) {
        uint64_t wake_ns = until_ns - WAKE_EARLY_NS;
        struct timespec wake = {.tv_sec = (time_t)(wake_ns / 1000000000ULL),
                                .tv_nsec = (long)(wake_ns % 1000000000ULL)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL);
    }
    while (sim_now_ns() < until_ns)
        ; /* giving the processor away would make it late under load */
}

/* Lets the process that runs now give way if it is dead, so that nobody waits for it. */
static void bury_current_locked(int device)
{
    int current = sim.state->device[device].current;

    if (current >= 0 && current != sim.slot && !files_slot_alive(current))
        state_reap_locked(sim.state);
}

uint64_t work_remaining(int device, uint64_t number)
{
    if (!number)
        return 0;
    sim_lock_state();
    uint64_t left_ns = sched_remaining_locked(sim.state, device, sim.slot, number, sim_now_ns());
    state_unlock(sim.state);
    return left_ns;
}

bool work_number_done(int device, uint64_t number)
{
    if (work_remaining(device, number))
        return false;
    worker_settle();
    return true;
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
            break;
        if (left_ns < SIM_FOREVER_NS / 2) {
            work_sleep_until(now_ns + left_ns);
            continue;
        }
        sim_lock(); /* it may end any time */
        work_wait_change();
        sim_unlock();
    }
    worker_settle_unlocked();
}

/* When a kernel was done; 0 where it isn't, or where nobody knows any more. */
static uint64_t done_time(int device, uint64_t number)
{
    if (!number)
        return 0;
    sim_lock_state();
    const struct sim_queue *queue = &sim.self->queue[device];
    uint64_t time_ns =
        queue->tail - number < SIM_RING ? queue->ring[(number - 1) % SIM_RING].done_ns : 0;
    state_unlock(sim.state);
    return time_ns;
}

bool work_event_time(struct sim_event *event)
{
    if (event->time_ns || !event->number)
        return true;
    if (!work_number_done(event->device, event->number))
        return false;
    event->time_ns = done_time(event->device, event->number);
    if (!event->time_ns)
        event->time_ns = sim_now_ns();
    return true;
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
    record_drop(event->held);
    event->held = NULL;
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

/* Puts a kernel into the device's queue; false when that is full. */
static bool try_kernel(struct sim_stream *stream, const struct sim_kernel *kernel)
{
    int device = stream->context->device;

    sim_lock_state();
    uint64_t number =
        sched_submit_locked(sim.state, device, sim.slot, kernel->duration_ns, sim_now_ns());
    state_unlock(sim.state);
    if (!number)
        return false;
    stream->last = number;
    if (number % SWEEP == 0)
        sweep_pending();
    if (kernel->until)
        worker_until(device, number, kernel);
    return true;
}

/* The device has what the event was recorded after in its queue, which is its order; another
 * device's must be done. */
static bool try_wait(struct sim_stream *stream, const struct sim_op *op)
{
    const struct sim_record *record = op->wait.record;
    int device = record ? record->device : op->wait.device;
    uint64_t number = record ? record->number : op->wait.number;

    if (record && !record->submitted)
        return false;
    if (device != stream->context->device)
        return work_number_done(device, number);
    if (number > stream->last)
        stream->last = number;
    return true;
}

static bool try_record(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_record *record = op->record;

    if (record) {
        record->submitted = true;
        record->device = stream->context->device;
        record->number = stream->last;
        op->event->held_records--;
    }
    /* one that was recorded again meanwhile has forgotten this */
    if (!record || op->event->held == record)
        event_record_submitted(op->event, stream->context->device, stream->last);
    return true;
}

static bool try_join(struct sim_stream *stream, const struct sim_op *op)
{
    const struct sim_stream *other = op->join.stream;

    if (other->let_go < op->join.sequence)
        return false;
    if (other->last > stream->last)
        stream->last = other->last;
    return true;
}

static uint64_t copy_ns(uint64_t bytes)
{
    return sim.copy_bandwidth ? (uint64_t)((double)bytes * 1e9 / (double)sim.copy_bandwidth) : 0;
}

uint64_t work_copy_begin(int device, enum sim_way way, uint64_t bytes, uint64_t time_ns)
{
    uint64_t *free_ns = &engine_free_ns[device][way];

    sim_lock_state();
    sim.self->copied[device][way] += bytes;
    if (sim.self->group)
        sim.state->group[sim.self->group - 1].copied[device][way] += bytes;
    state_unlock(sim.state);
    *free_ns = (*free_ns > time_ns ? *free_ns : time_ns) + copy_ns(bytes);
    return *free_ns;
}

/*
 * A copy begins when the work before it is done, and its engine is free: at that very time, however
 * late it is when somebody looks.
 */
static bool try_copy(struct sim_stream *stream, struct sim_op *op)
{
    int device = stream->context->device;

    if (!op->copy.end_ns) {
        if (copy_ns(op->copy.bytes) >= TINY_NS && !work_number_done(device, stream->last))
            return false;
        uint64_t time_ns = done_time(device, stream->last);
        time_ns = time_ns > stream->free_ns ? time_ns : stream->free_ns;
        time_ns = time_ns > op->copy.asked_ns ? time_ns : op->copy.asked_ns;
        op->copy.end_ns = work_copy_begin(device, op->copy.way, op->copy.bytes, time_ns);
    }
    return op->copy.end_ns <= sim_now_ns() + TINY_NS;
}

static bool write_word(struct sim_stream *stream, const struct sim_memop *memop)
{
    if (work_number_done(stream->context->device, stream->last))
        memop_write(memop);
    else
        worker_write(stream, stream->last, memop);
    return true;
}

bool work_try(struct sim_stream *stream, struct sim_op *op)
{
    switch (op->kind) {
    case OP_KERNEL:
        return try_kernel(stream, &op->kernel);
    case OP_DO:
        op->function(op->user);
        return true;
    case OP_COPY:
        return try_copy(stream, op);
    case OP_RECORD:
        return try_record(stream, op);
    case OP_WAIT:
        return try_wait(stream, op);
    case OP_WAIT_WORD:
        /* it may pass while work before it still runs, unless that is going to write the word */
        return !worker_writes(stream, &op->memop) && memop_true(&op->memop);
    case OP_WRITE_WORD:
        return write_word(stream, &op->memop);
    case OP_JOIN:
        return try_join(stream, op);
    default:
        return false;
    }
}

/*
 * The legacy stream comes after all work of the context's other streams, and they after it, but for
 * those that say otherwise. For work that the device has in its queue this is so anyway; what is
 * held needs an operation that waits.
 */
static int join_others(struct sim_stream *stream)
{
    int code = OK;

    if (stream->flags & 1)
        return OK;
    for (struct sim_stream *other = worker_held; other && !code; other = other->next_held) {
        if (other == stream || !other->first || other->context != stream->context ||
            other->flags & 1 || (!stream->legacy && !other->legacy))
            continue;
        uint64_t *joined = stream->legacy ? &other->legacy_joins : &stream->joins_legacy;
        if (*joined == other->kept)
            continue;
        *joined = other->kept;
        struct sim_op op = {.kind = OP_JOIN, .join = {other, other->kept}};
        code = worker_hold(stream, &op);
    }
    return code;
}

int work_begin(struct sim_stream *stream, bool *ret_free)
{
    int code = join_others(stream);

    *ret_free = !stream->first;
    return code;
}

void work_room(struct sim_stream *stream)
{
    while (stream->kept - stream->let_go >= SIM_QUEUE_DEPTH)
        work_wait_change();
}

static struct sim_op wait_for(const struct sim_event *event)
{
    struct sim_op op = {.kind = OP_WAIT, .wait = {event->held, event->device, event->number}};

    if (event->held)
        event->held->references++;
    return op;
}

int work_submit(struct sim_stream *stream, struct sim_op op)
{
    int code = join_others(stream);

    if (op.kind == OP_WAIT)
        op = wait_for(op.event);
    while (!code && !stream->first && op.kind != OP_CALL) {
        if (work_try(stream, &op)) {
            if (op.kind == OP_WAIT)
                record_drop(op.wait.record);
            return OK;
        }
        if (op.kind != OP_KERNEL)
            break;
        /* the queue is full: the caller waits for room */
        int device = stream->context->device;
        uint64_t first = sim.self->queue[device].head + 1;
        sim_unlock();
        work_wait_number(device, first);
        sim_lock();
    }
    return code ? code : worker_hold(stream, &op);
}

int work_call(struct sim_stream *stream, void (*function)(void *), void *user)
{
    return work_submit(stream,
                       (struct sim_op){.kind = OP_CALL, .function = function, .user = user});
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
