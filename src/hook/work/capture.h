/*
 * Stream capture. While a capture in global mode is active in the process, the driver refuses
 * "unsafe" calls and spoils the capture; reading a pool's attribute is one. So vgpu makes its own
 * calls in relaxed mode then.
 */
#ifndef VGPU_HOOK_WORK_CAPTURE_H
#define VGPU_HOOK_WORK_CAPTURE_H

#include "hook/loader/hook.h"

/* How many captures are active. Rather too many than too few: a capture that ends with its stream
 * stays counted. */
extern atomic_int capture_active;

/* For the handlers of captures: one is about to begin; one has ended, or did not begin. */
void capture_begin(void);
void capture_end(void);

static inline bool capture_running(void)
{
    return __builtin_expect(atomic_load(&capture_active) > 0, 0);
}

/*
 * Around vgpu's own calls: enter, call, leave. A reader of a size must not meet the beginning of a
 * capture half-way, so it holds that size's lock (driver_sized.h). A capture begins only after each
 * such lock was free once.
 */
struct capture_mode {
    bool changed;
    CUstreamCaptureMode before;
};

void capture_relax(struct capture_mode *mode);
void capture_restore(struct capture_mode *mode);

static inline struct capture_mode capture_enter(void)
{
    struct capture_mode mode = {.changed = false};

    if (capture_running())
        capture_relax(&mode);
    return mode;
}

static inline void capture_leave(struct capture_mode *mode)
{
    if (__builtin_expect(mode->changed, 0))
        capture_restore(mode);
}

/* Whether calls on this stream are being recorded. `per_thread`: the caller came through a _ptsz
 * entry point. capture_has() asks the driver in any case. */
bool capture_has(CUstream stream, bool per_thread);
bool capture_records(CUstream stream, bool per_thread);

/* Whether vgpu's own work on this stream would be recorded, or would spoil a capture. */
bool capture_touches(CUstream stream);

#endif
