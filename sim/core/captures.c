/* Captures in progress. While there are any, calls that would wait or change memory fail. */
#include "sim.h"

int capture_count;
static struct sim_capture *captures;

void capture_opened(struct sim_capture *capture)
{
    capture->next = captures;
    captures = capture;
    __atomic_add_fetch(&capture_count, 1, __ATOMIC_RELAXED);
}

void capture_closed(struct sim_capture *capture)
{
    LIST_REMOVE(captures, capture);
    __atomic_sub_fetch(&capture_count, 1, __ATOMIC_RELAXED);
}

struct sim_capture *capture_of_id(uint64_t id)
{
    struct sim_capture *capture = captures;

    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

void capture_invalidate(struct sim_capture *capture)
{
    capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

/* True if the capture forbids unsafe calls to the calling thread. */
static bool concerns(const struct sim_capture *capture)
{
    if (sim_thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
        capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (capture->thread == &sim_thread)
        return true;
    return sim_thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

int capture_refuse(void)
{
    int code = CUDA_SUCCESS;

    if (!__atomic_load_n(&capture_count, __ATOMIC_RELAXED))
        return CUDA_SUCCESS;
    sim_lock();
    for (struct sim_capture *capture = captures; capture; capture = capture->next) {
        if (concerns(capture)) {
            capture_invalidate(capture);
            code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    sim_unlock();
    return code;
}

static int legacy_check(struct sim_stream *stream, bool spoil)
{
    int code = CUDA_SUCCESS;

    if (!__atomic_load_n(&capture_count, __ATOMIC_RELAXED) || !stream->legacy)
        return CUDA_SUCCESS;
    sim_lock();
    for (struct sim_stream *other = stream->context->streams; other; other = other->next) {
        if (other->capture && !(other->flags & 1)) {
            if (spoil)
                capture_invalidate(other->capture);
            code = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    sim_unlock();
    return code;
}

int capture_legacy_check(struct sim_stream *stream)
{
    return legacy_check(stream, true);
}

int capture_legacy_ask(struct sim_stream *stream)
{
    return legacy_check(stream, false);
}

int capture_check(struct sim_stream *stream)
{
    if (!stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    return stream->capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE
               ? CUDA_SUCCESS
               : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}
