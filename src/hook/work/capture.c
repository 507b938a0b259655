#include "hook/work/capture.h"

#include "hook/loader/sources.h"

atomic_int capture_active;

static void capture_forget(void)
{
    atomic_store(&capture_active, 0);
}

static struct memory_source source = {.forked = capture_forget};

void capture_begin(void)
{
    sources_register(&source);
    atomic_fetch_add(&capture_active, 1);
}

void capture_end(void)
{
    int active = atomic_load(&capture_active);

    while (active > 0 && !atomic_compare_exchange_weak(&capture_active, &active, active - 1))
        ;
}

void capture_relax(struct capture_mode *mode)
{
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

    if (!HAVE(cuThreadExchangeStreamCaptureMode))
        return;
    if (DRIVER(cuThreadExchangeStreamCaptureMode)(&relaxed) != CUDA_SUCCESS)
        return;
    mode->before = relaxed;
    mode->changed = true;
}

void capture_restore(struct capture_mode *mode)
{
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode->before);
}

bool capture_has(CUstream stream, bool per_thread)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    enum hook_symbol sym =
        per_thread ? SYMBOL_cuStreamIsCapturing_ptsz : SYMBOL_cuStreamIsCapturing;

    return hook_real[sym] != NULL &&
           REAL(sym, cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool capture_records(CUstream stream, bool per_thread)
{
    return capture_running() && capture_has(stream, per_thread);
}

/* Asking spoils nothing, even where another capture forbids the legacy stream. */
bool capture_touches(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (!capture_running() || !HAVE(cuStreamIsCapturing))
        return false;
    return DRIVER(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}
