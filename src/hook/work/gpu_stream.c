/* gpu/stream.h for CUDA. */
#include "gpu/stream.h"

#include "hook/work/capture.h"
#include "hook/loader/handlers.h"

bool gpu_can_time(void)
{
    return HAVE(cuEventCreate) && HAVE(cuEventRecord) && HAVE(cuEventQuery) &&
           HAVE(cuCtxGetCurrent) && (HAVE(cuEventElapsedTime) || HAVE(cuEventElapsedTime_v2));
}

gpu_context gpu_current_context(void)
{
    CUcontext context = NULL;

    return DRIVER(cuCtxGetCurrent)(&context) == CUDA_SUCCESS ? context : NULL;
}

bool gpu_capturing(void)
{
    return capture_running();
}

gpu_event gpu_event_new(void)
{
    CUevent event = NULL;

    return DRIVER(cuEventCreate)(&event, 0) == CUDA_SUCCESS ? event : NULL;
}

bool gpu_event_record(gpu_event event, gpu_stream stream)
{
    return DRIVER(cuEventRecord)(event, (CUstream)stream) == CUDA_SUCCESS;
}

bool gpu_elapsed_ns(gpu_event from, gpu_event to, uint64_t *ret_ns)
{
    float ms = 0;
    CUresult result = HAVE(cuEventElapsedTime_v2) ? DRIVER(cuEventElapsedTime_v2)(&ms, from, to)
                                                  : DRIVER(cuEventElapsedTime)(&ms, from, to);

    if (result != CUDA_SUCCESS || !(ms >= 0))
        return false;
    *ret_ns = (uint64_t)((double)ms * 1e6);
    return true;
}

void gpu_question_begin(struct gpu_question *question)
{
    struct capture_mode mode = {.changed = false};

    capture_relax(&mode);
    *question = (struct gpu_question){.changed = mode.changed, .before = (int)mode.before};
}

void gpu_question_end(struct gpu_question *question)
{
    struct capture_mode mode = {.changed = question->changed,
                                .before = (CUstreamCaptureMode)question->before};

    capture_leave(&mode);
}

enum gpu_event_state gpu_event_state(gpu_event event)
{
    switch (DRIVER(cuEventQuery)(event)) {
    case CUDA_SUCCESS:
        return GPU_EVENT_DONE;
    case CUDA_ERROR_NOT_READY:
        return GPU_EVENT_PENDING;
    case CUDA_ERROR_INVALID_CONTEXT:
        return GPU_EVENT_HIDDEN;
    default:
        return GPU_EVENT_FAILED;
    }
}

bool gpu_stream_idle(gpu_stream stream)
{
    return HAVE(cuStreamQuery) && DRIVER(cuStreamQuery)((CUstream)stream) == CUDA_SUCCESS;
}
