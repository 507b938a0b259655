/* Operations of streams: each is tried until it can be done. */
#include "stream.h"

#define TINY_NS 1000 /* a shorter copy does not hold its stream */
#define SWEEP   2048 /* pending events are checked once in so many kernels */

static uint64_t engine_free_ns[SIM_MAX_DEVICES][SIM_WAYS];

/* Puts a kernel into the device's queue; false when that is full. */
static bool try_kernel(struct sim_stream *stream, const struct sim_kernel *kernel)
{
    int device = stream->context->device;

    uint64_t number = queue_submit(device, kernel->duration_ns);
    if (!number)
        return false;
    stream->last = number;
    if (number % SWEEP == 0)
        done_sweep();
    if (kernel->until)
        word_end_kernel(device, number, kernel);
    return true;
}

/* An event of the same device needs no wait: the device's queue keeps the order. The work of an
 * event of another device must be done. */
static bool try_wait(struct sim_stream *stream, const struct sim_op *op)
{
    const struct sim_record *record = op->wait.record;
    int device = record ? record->device : op->wait.device;
    uint64_t number = record ? record->number : op->wait.number;

    if (record && !record->submitted)
        return false;
    if (device != stream->context->device)
        return done_number(device, number);
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
    /* an event that was recorded again has another record now */
    if (!record || op->event->held == record)
        done_record(op->event, stream->context->device, stream->last);
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

uint64_t op_copy_begin(int device, enum sim_way way, uint64_t bytes, uint64_t time_ns)
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

/* A copy begins once the work before it is done and its engine is free. It counts from that time,
 * even if the simulator notices later. */
static bool try_copy(struct sim_stream *stream, struct sim_op *op)
{
    int device = stream->context->device;

    if (!op->copy.end_ns) {
        if (copy_ns(op->copy.bytes) >= TINY_NS && !done_number(device, stream->last))
            return false;
        uint64_t time_ns = queue_done_ns(device, stream->last);
        time_ns = time_ns > stream->free_ns ? time_ns : stream->free_ns;
        time_ns = time_ns > op->copy.asked_ns ? time_ns : op->copy.asked_ns;
        op->copy.end_ns = op_copy_begin(device, op->copy.way, op->copy.bytes, time_ns);
    }
    return op->copy.end_ns <= sim_now_ns() + TINY_NS;
}

static bool write_word(struct sim_stream *stream, const struct sim_memop *memop)
{
    if (done_number(stream->context->device, stream->last))
        word_write(memop);
    else
        word_write_after(stream, stream->last, memop);
    return true;
}

bool op_try(struct sim_stream *stream, struct sim_op *op)
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
        /* it may end before the work before it, unless that writes the word */
        return !word_pending(stream, &op->memop) && word_true(&op->memop);
    case OP_WRITE_WORD:
        return write_word(stream, &op->memop);
    case OP_JOIN:
        return try_join(stream, op);
    default:
        return false;
    }
}
