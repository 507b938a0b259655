/*
 * Streams that are held, each with a list of operations. The worker does a stream's first operation
 * as soon as that is possible. Host functions run in a thread of their own: one that waits for the
 * device does not stop the worker.
 */
#include "stream.h"

#include <stdlib.h>

struct sim_stream *held_streams;

static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static struct sim_op *calls;
static bool calls_run;

static void *call_thread(void *unused)
{
    (void)unused;
    sim_lock();
    for (;;) {
        struct sim_op *op = calls;
        if (!op) {
            pthread_cond_wait(&called, &sim.mutex);
            continue;
        }
        calls = op->next_call;
        sim_unlock();
        op->function(op->user);
        sim_lock();
        op->state = CALL_DONE;
        worker_kick();
    }
    return NULL;
}

/* Host functions run one after the other, in the order in which streams reach them. */
static bool run_call(struct sim_stream *stream, struct sim_op *op)
{
    if (op->state == CALL_WAITS && done_number(stream->context->device, stream->last)) {
        struct sim_op **link = &calls;
        while (*link)
            link = &(*link)->next_call;
        *link = op;
        op->next_call = NULL;
        op->state = CALL_RUNS;
        pthread_cond_signal(&called);
    }
    return op->state == CALL_DONE;
}

/* Does the stream's first operation if it can be done; true when it did. */
static bool run_first(struct sim_stream *stream)
{
    struct sim_op *op = stream->first;

    if (!(op->kind == OP_CALL ? run_call(stream, op) : op_try(stream, op)))
        return false;
    if (op->kind == OP_COPY)
        stream->free_ns = op->copy.end_ns;
    else if (op->kind == OP_CALL || op->kind == OP_WAIT || op->kind == OP_WAIT_WORD ||
             op->kind == OP_JOIN)
        stream->free_ns = sim_now_ns();
    stream->first = op->next;
    if (!stream->first)
        stream->end = NULL;
    stream->let_go++;
    if (op->kind == OP_WAIT)
        record_drop(op->wait.record);
    else if (op->kind == OP_RECORD)
        record_drop(op->record);
    free(op);
    return true;
}

/* One pass over the streams that are held; true when anything moved. */
static bool held_run(void)
{
    bool moved = false;

    for (struct sim_stream *stream = held_streams; stream; stream = stream->next_held) {
        while (stream->first && run_first(stream))
            moved = true;
    }
    for (struct sim_stream **link = &held_streams; *link;) {
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

/* Plans for what the stream waits for. False if that has happened. */
static bool plan_stream(struct nap *nap, struct sim_stream *stream)
{
    const struct sim_op *op = stream->first;
    int device = stream->context->device;

    switch (op->kind) {
    case OP_CALL:
        if (op->state == CALL_WAITS)
            nap_foresee_kernel(nap, device, stream->last);
        break;
    case OP_COPY:
        if (op->copy.end_ns)
            nap_foresee(nap, op->copy.end_ns);
        else
            nap_foresee_kernel(nap, device, stream->last);
        break;
    case OP_WAIT:
        if (!op->wait.record)
            nap_foresee_kernel(nap, op->wait.device, op->wait.number);
        else if (op->wait.record->submitted)
            nap_foresee_kernel(nap, op->wait.record->device, op->wait.record->number);
        break;
    case OP_KERNEL:
        nap_retry(nap); /* the queue is full */
        break;
    case OP_WAIT_WORD:
        return word_pending(stream, &op->memop) || word_watch(nap, &op->memop);
    default:
        break;
    }
    return true;
}

static bool held_plan(struct nap *nap)
{
    bool idle = true;

    for (struct sim_stream *stream = held_streams; stream; stream = stream->next_held) {
        if (stream->first)
            idle &= plan_stream(nap, stream);
    }
    return idle;
}

const struct worker_source held_source = {held_run, held_plan};

int held_add(struct sim_stream *stream, const struct sim_op *op)
{
    struct sim_op *copy = malloc(sizeof(*copy));
    struct sim_record *record = op->kind == OP_RECORD ? calloc(1, sizeof(*record)) : NULL;

    int code =
        copy && (record || op->kind != OP_RECORD) ? worker_start() : CUDA_ERROR_OUT_OF_MEMORY;
    if (!code && op->kind == OP_CALL && !calls_run)
        code = worker_thread(call_thread);
    calls_run |= !code && op->kind == OP_CALL;
    if (code) {
        free(record);
        free(copy);
        return code;
    }
    *copy = *op;
    copy->next = NULL;
    if (record) {
        record->references = 2; /* of the operation and of the event */
        copy->record = record;
        record_drop(op->event->held);
        op->event->held = record;
        op->event->state = EVENT_HELD;
        op->event->held_records++;
    }
    if (stream->end)
        stream->end->next = copy;
    else
        stream->first = copy;
    stream->end = copy;
    stream->kept++;
    if (!stream->held) {
        stream->held = true;
        stream->next_held = held_streams;
        held_streams = stream;
    }
    if (stream->first == copy)
        worker_kick();
    return CUDA_SUCCESS;
}
