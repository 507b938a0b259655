/*
 * What scheduling and sampling ask of a vendor's runtime in the program's process: streams,
 * contexts and timed events. src/hook/work/gpu_stream.c answers for CUDA. Any thread may call these
 * functions. They leave no error behind that the program could see.
 */
#ifndef VGPU_GPU_STREAM_H
#define VGPU_GPU_STREAM_H

#include <stdbool.h>
#include <stdint.h>

typedef uintptr_t gpu_stream; /* never 0: default streams have names, too */
typedef void *gpu_context;
typedef void *gpu_event; /* belongs to the context that was current when it was made */

/* Whether the runtime can record events and tell the time between them. */
bool gpu_can_time(void);

/* NULL: the thread has none. */
gpu_context gpu_current_context(void);

/* Whether a stream of the process is being captured: then nothing may be recorded or asked. */
bool gpu_capturing(void);

/* An event of the current context, which ends with it. NULL: it cannot be made. */
gpu_event gpu_event_new(void);

/* False: it is not recorded. */
bool gpu_event_record(gpu_event event, gpu_stream stream);

/* Both must have happened. False: the time between them is not known. */
bool gpu_elapsed_ns(gpu_event from, gpu_event to, uint64_t *ret_ns);

/*
 * Between begin and end, questions spoil no capture that another thread begins meanwhile. The two
 * questions below are asked only there.
 */
struct gpu_question {
    bool changed;
    int before;
};
void gpu_question_begin(struct gpu_question *question);
void gpu_question_end(struct gpu_question *question);

enum gpu_event_state {
    GPU_EVENT_DONE,
    GPU_EVENT_PENDING,
    GPU_EVENT_HIDDEN, /* not to be seen from the thread's current context */
    GPU_EVENT_FAILED  /* its context has failed */
};
enum gpu_event_state gpu_event_state(gpu_event event);

/* Whether all work in the stream is done; false where that is not known. */
bool gpu_stream_idle(gpu_stream stream);

#endif
