/* Streams. */
#include "memory.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

struct sim_stream *stream_new(struct sim_context *context, unsigned flags, int priority)
{
    struct sim_stream *stream = sim_object(sizeof(*stream), MAGIC_STREAM);

    if (!stream)
        return NULL;
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    stream->legacy = context->legacy == NULL;
    stream->id = sim_number();
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

void stream_context_begin(struct sim_context *context)
{
    context->legacy = stream_new(context, 0, 0);
}

void stream_context_end(struct sim_context *context)
{
    for (struct sim_stream *stream = context->streams; stream; stream = stream->next) {
        if (stream->capture)
            capture_invalidate(stream->capture);
        while (stream->first)
            worker_wait();
        stream->gone = true;
        stream->magic = 0;
    }
}

static struct sim_stream *per_thread_stream(struct sim_context *context)
{
    struct sim_stream **slot = &sim_thread.streams[context->device];

    if (*slot && !(*slot)->gone && (*slot)->context == context)
        return *slot;
    sim_lock();
    *slot = stream_new(context, 0, 0);
    sim_unlock();
    return *slot;
}

int stream_resolve(struct sim_stream *handle, struct sim_stream **ret_stream)
{
    struct sim_context *context;

    if ((uintptr_t)handle <= 2) {
        int code = context_need(&context);
        if (code)
            return code;
        *ret_stream = handle == STREAM_PER_THREAD ? per_thread_stream(context) : context->legacy;
        return *ret_stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (handle->magic != MAGIC_STREAM)
        return handle->gone ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_HANDLE;
    *ret_stream = handle;
    return CUDA_SUCCESS;
}

static int create(struct sim_stream **ret_stream, unsigned flags, int priority)
{
    NEED_CONTEXT(context);
    if (!ret_stream || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_stream *stream = stream_new(context, flags, priority);
    sim_unlock();
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_stream = stream;
    return CUDA_SUCCESS;
}

API_AS(cuStreamCreate, create(ret_stream, flags, 0), struct sim_stream **ret_stream, unsigned flags)
API_AS(cuStreamCreateWithPriority, create(ret_stream, flags, priority),
       struct sim_stream **ret_stream, unsigned flags, int priority)

/* Only the handle ends. The struct stays, since its work goes on. */
static int destroy(struct sim_stream *stream)
{
    if ((uintptr_t)stream <= 2 || stream->magic != MAGIC_STREAM || stream->legacy)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_lock();
    if (stream->capture)
        capture_invalidate(stream->capture);
    stream->magic = 0;
    pool_waited(stream->context->device, stream->id);
    LIST_REMOVE(stream->context->streams, stream);
    sim_unlock();
    return CUDA_SUCCESS;
}

API_TWINS(cuStreamDestroy, cuStreamDestroy_v2, destroy(stream), struct sim_stream *stream)

/* Finds a stream to wait for or to query. If the stream captures, the capture is invalidated. */
static int resolve_waited(struct sim_stream *handle, struct sim_stream **ret_stream)
{
    NEED_STREAM(stream, handle);
    *ret_stream = stream;
    TRY(capture_legacy_check(stream));
    if (!stream_captures(stream))
        return capture_refuse();
    sim_lock();
    if (stream->capture)
        capture_invalidate(stream->capture);
    sim_unlock();
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static int synchronize(struct sim_stream *handle)
{
    struct sim_stream *stream;

    int code = resolve_waited(handle, &stream);
    if (code || sim.noop)
        return code;
    work_wait(stream);
    sim_lock();
    pool_waited(stream->context->device, stream->id);
    pool_trim_device(stream->context->device);
    sim_unlock();
    return CUDA_SUCCESS;
}

API_PTSZ(cuStreamSynchronize, synchronize(stream), struct sim_stream *stream)

static int query(struct sim_stream *handle)
{
    struct sim_stream *stream;

    int code = resolve_waited(handle, &stream);
    if (code || sim.noop)
        return code;
    sim_lock();
    bool done = work_done(stream);
    sim_unlock();
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

API_PTSZ(cuStreamQuery, query(stream), struct sim_stream *stream)

static int synchronize_context(struct sim_context *context)
{
    uint64_t number = 0;

    if (!context) {
        int code = context_need(&context);
        if (code)
            return code;
    }
    if (!IS(context, MAGIC_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->dead)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (sim.noop)
        return CUDA_SUCCESS;
    sim_lock();
    for (struct sim_stream *stream = context->streams; stream; stream = stream->next) {
        if (stream->capture) {
            capture_invalidate(stream->capture);
            sim_unlock();
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
        while (stream->first)
            worker_wait();
        if (stream->last > number)
            number = stream->last;
    }
    sim_unlock();
    done_wait(context->device, number);
    sim_lock();
    pool_waited(context->device, 0);
    pool_trim_device(context->device);
    sim_unlock();
    return CUDA_SUCCESS;
}

API_AS(cuCtxSynchronize, synchronize_context(NULL), void)
API_AS(cuCtxSynchronize_v2, synchronize_context(context), struct sim_context *context)

#define GETTER(symbol, type, expression)                                                           \
    static int get_##symbol(struct sim_stream *handle, type *ret_value)                            \
    {                                                                                              \
        NEED_STREAM(stream, handle);                                                               \
        if (!ret_value)                                                                            \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        *ret_value = expression;                                                                   \
        return CUDA_SUCCESS;                                                                       \
    }                                                                                              \
    API_PTSZ(symbol, get_##symbol(stream, ret_value), struct sim_stream *stream, type *ret_value)
GETTER(cuStreamGetFlags, unsigned, stream->flags)
GETTER(cuStreamGetPriority, int, stream->priority)
GETTER(cuStreamGetId, unsigned long long, stream->id)
GETTER(cuStreamGetDevice, int, stream->context->ordinal)
GETTER(cuStreamGetCtx, struct sim_context *, stream->context)

static int get_context_v2(struct sim_stream *handle, struct sim_context **ret_context,
                          struct sim_green **ret_green)
{
    NEED_STREAM(stream, handle);
    if (ret_context)
        *ret_context = stream->context->green ? NULL : stream->context;
    if (ret_green)
        *ret_green = stream->context->green;
    return CUDA_SUCCESS;
}

API_PTSZ(cuStreamGetCtx_v2, get_context_v2(stream, ret_context, ret_green),
         struct sim_stream *stream, struct sim_context **ret_context, struct sim_green **ret_green)

API(cuStreamGetGreenCtx, struct sim_stream *handle, struct sim_green **ret_green)
{
    struct sim_stream *stream;

    ENTER(cuStreamGetGreenCtx);
    int code = stream_resolve(handle, &stream);
    if (!code && !ret_green)
        code = CUDA_ERROR_INVALID_VALUE;
    if (!code)
        *ret_green = stream->context->green;
    return code;
}

static int attach(struct sim_stream *handle, devptr address)
{
    struct sim_stream *stream;
    struct sim_range *range = range_find(address);

    int code = stream_resolve(handle, &stream);
    if (!code && (!range || range->kind != SIM_MANAGED))
        code = CUDA_ERROR_INVALID_VALUE;
    return code;
}

API_PTSZ(cuStreamAttachMemAsync, attach(stream, address), struct sim_stream *stream, devptr address,
         size_t bytes, unsigned flags)
