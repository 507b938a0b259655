/* Events. */
#include "graph.h"
#include "memory.h"

#include <stdlib.h>

enum { FLAG_DISABLE_TIMING = 2 };

API(cuEventCreate, struct sim_event **ret_event, unsigned flags)
{
    ENTER(cuEventCreate);
    NEED_CONTEXT(context);
    if (!ret_event || flags > 7 || (flags & 4 && !(flags & FLAG_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *event = sim_object(sizeof(*event), MAGIC_EVENT);
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->context = context;
    event->flags = flags;
    *ret_event = event;
    return CUDA_SUCCESS;
}

static int destroy(struct sim_event *event)
{
    if (!IS(event, MAGIC_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    sim_lock();
    event->magic = 0;
    nodes_clear(&event->nodes);
    bool free_now = !event->pending && !event->held_records;
    record_drop(event->held);
    event->held = NULL;
    sim_unlock();
    /* kept until the work that names it is done; most events have none */
    if (free_now && !event->ipc.id)
        handle_retire(event);
    return CUDA_SUCCESS;
}

API_TWINS(cuEventDestroy, cuEventDestroy_v2, destroy(event), struct sim_event *event)

static int record(struct sim_event *event, struct sim_stream *handle)
{
    int code = CUDA_SUCCESS;

    if (!IS(event, MAGIC_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    NEED_STREAM(stream, handle);
    if (stream_captures(stream))
        return capture_record(stream, event);
    TRY(capture_legacy_check(stream));
    if (stream->context->device != event->context->device)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_lock();
    event->capture_id = 0;
    event->stream = stream->id;
    if (sim.noop) {
        event->state = EVENT_SUBMITTED;
        event->number = 0;
        event->time_ns = sim_now_ns();
    } else {
        code = work_submit(stream, (struct sim_op){.kind = OP_RECORD, .event = event});
    }
    sim_unlock();
    return code;
}

API_PTSZ(cuEventRecord, record(event, stream), struct sim_event *event, struct sim_stream *stream)
API_PTSZ(cuEventRecordWithFlags, flags > 1 ? CUDA_ERROR_INVALID_VALUE : record(event, stream),
         struct sim_event *event, struct sim_stream *stream, unsigned flags)

static bool event_done(struct sim_event *event)
{
    return event->state == EVENT_NEVER || (!event->held && done_event(event));
}

/* The error of a query of, or a wait for, an event that is captured; or 0. */
static int check_asked(struct sim_event *event)
{
    if (!IS(event, MAGIC_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    return event->capture_id ? capture_asked(event) : capture_refuse();
}

API(cuEventQuery, struct sim_event *event)
{
    ENTER(cuEventQuery);
    TRY(check_asked(event));
    sim_lock();
    bool done = event_done(event);
    sim_unlock();
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

API(cuEventSynchronize, struct sim_event *event)
{
    ENTER(cuEventSynchronize);
    TRY(check_asked(event));
    sim_lock();
    struct sim_record *record = event->held;
    int state = event->state, device = event->device;
    uint64_t number = event->time_ns ? 0 : event->number;
    if (record) {
        record->references++;
        while (!record->submitted)
            worker_wait();
        state = EVENT_SUBMITTED;
        device = record->device;
        number = record->number;
        record_drop(record);
    }
    sim_unlock();
    if (state == EVENT_SUBMITTED)
        done_wait(device, number);
    sim_lock();
    if (state == EVENT_SUBMITTED)
        pool_waited(device, event->stream);
    pool_trim_device(event->context->device);
    sim_unlock();
    return CUDA_SUCCESS;
}

static int elapsed(float *ret_ms, struct sim_event *start, struct sim_event *end)
{
    if (!IS(start, MAGIC_EVENT) || !IS(end, MAGIC_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_ms)
        return CUDA_ERROR_INVALID_VALUE;
    if ((start->flags | end->flags) & FLAG_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->state == EVENT_NEVER || end->state == EVENT_NEVER || start->capture_id ||
        end->capture_id)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_lock();
    bool done = event_done(start) && event_done(end);
    sim_unlock();
    if (!done)
        return CUDA_ERROR_NOT_READY;
    *ret_ms = (float)((double)(int64_t)(end->time_ns - start->time_ns) / 1e6);
    return CUDA_SUCCESS;
}

API_TWINS(cuEventElapsedTime, cuEventElapsedTime_v2, elapsed(ret_ms, start, end), float *ret_ms,
          struct sim_event *start, struct sim_event *end)

static int wait_event(struct sim_stream *handle, struct sim_event *event, unsigned flags)
{
    if (!IS(event, MAGIC_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    NEED_STREAM(stream, handle);
    if (stream_captures(stream) || event->capture_id)
        return capture_wait(stream, event);
    int code = capture_legacy_check(stream);
    if (code || sim.noop)
        return code;
    sim_lock();
    code = work_submit(stream, (struct sim_op){.kind = OP_WAIT, .event = event});
    sim_unlock();
    return code;
}

API_PTSZ(cuStreamWaitEvent, wait_event(stream, event, flags), struct sim_stream *stream,
         struct sim_event *event, unsigned flags)
