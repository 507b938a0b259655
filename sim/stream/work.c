/* Work of streams: submits it to the device, or holds it, and waits for it. */
#include "stream.h"

/*
 * The legacy stream comes after all work of the context's other streams, and these come after it,
 * unless they are non-blocking. The device's queue keeps this order by itself. Work of held streams
 * needs an operation that waits.
 */
static int join_others(struct sim_stream *stream)
{
    int code = CUDA_SUCCESS;

    if (stream->flags & 1)
        return CUDA_SUCCESS;
    for (struct sim_stream *other = held_streams; other && !code; other = other->next_held) {
        if (other == stream || !other->first || other->context != stream->context ||
            other->flags & 1 || (!stream->legacy && !other->legacy))
            continue;
        uint64_t *joined = stream->legacy ? &other->legacy_joins : &stream->joins_legacy;
        if (*joined == other->kept)
            continue;
        *joined = other->kept;
        struct sim_op op = {.kind = OP_JOIN, .join = {other, other->kept}};
        code = held_add(stream, &op);
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
        worker_wait();
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
        if (op_try(stream, &op)) {
            if (op.kind == OP_WAIT)
                record_drop(op.wait.record);
            return CUDA_SUCCESS;
        }
        if (op.kind != OP_KERNEL)
            break;
        /* the queue is full: the caller waits for room */
        int device = stream->context->device;
        uint64_t first = sim.self->queue[device].head + 1;
        sim_unlock();
        done_wait(device, first);
        sim_lock();
    }
    return code ? code : held_add(stream, &op);
}

int work_call(struct sim_stream *stream, void (*function)(void *), void *user)
{
    return work_submit(stream,
                       (struct sim_op){.kind = OP_CALL, .function = function, .user = user});
}

bool work_done(struct sim_stream *stream)
{
    return !stream->first && done_number(stream->context->device, stream->last);
}

void work_wait(struct sim_stream *stream)
{
    sim_lock();
    while (stream->first)
        worker_wait();
    uint64_t number = stream->last;
    sim_unlock();
    done_wait(stream->context->device, number);
}
