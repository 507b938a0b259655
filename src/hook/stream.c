/*
 * Streams that a program destroys or captures.
 */
#include "hook/work/capture.h"
#include "hook/work/compute.h"
#include "hook/memory/driver_sized.h"
#include "hook/memory/pending_free.h"

CUresult hook_stream_destroy(enum hook_symbol sym, CUstream stream)
{
    pending_free_forget_stream(stream);
    compute_stream_ends(stream, false);
    return REAL(sym, stream_destroy)(stream);
}

/* From here on vgpu makes its own calls in relaxed mode. Waits for those under way. */
static void begin_capture(enum hook_symbol sym, CUstream stream)
{
    capture_begin();
    compute_stream_ends(
        stream, hook_symbol_per_thread(sym)); /* what is launched into it from now on is recorded */
    driver_sized_quiesce();
}

static CUresult began(CUresult result)
{
    if (result != CUDA_SUCCESS)
        capture_end();
    return result;
}

#define BEGIN_CAPTURE(handler)                                                                     \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        begin_capture(sym, stream);                                                                \
        return began(FORWARD(sym, handler));                                                       \
    }

BEGIN_CAPTURE(stream_begin_capture_v1)
BEGIN_CAPTURE(stream_begin_capture)
BEGIN_CAPTURE(stream_begin_capture_to_graph)

CUresult hook_stream_end_capture(enum hook_symbol sym, CUstream stream, CUgraph *graph)
{
    bool per_thread = hook_symbol_per_thread(sym);
    bool before = capture_has(stream, per_thread);
    CUresult result = REAL(sym, stream_end_capture)(stream, graph);

    /* A capture that fails to end (wrong thread, wrong stream) goes on; one that was spoilt is
     * over. */
    if (result == CUDA_SUCCESS || (before && !capture_has(stream, per_thread)))
        capture_end();
    return result;
}
