/*
 * Counts the active stream captures: see capture.h.
 */
#include "hook/capture.h"

#include "hook/compute.h"
#include "hook/graph.h"
#include "hook/pool.h"

atomic_int capture_active;

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

static CUstreamCaptureStatus status_of(CUstream stream, bool per_thread)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    enum hook_symbol sym =
        per_thread ? SYMBOL_cuStreamIsCapturing_ptsz : SYMBOL_cuStreamIsCapturing;

    if (hook_real[sym] == NULL || REAL(sym, cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return status;
}

bool capture_records(CUstream stream, bool per_thread)
{
    return capture_running() && status_of(stream, per_thread) != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Asking spoils nothing, not even where the legacy stream must not be used because another one
 * captures. */
bool capture_touches(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (!capture_running() || !HAVE(cuStreamIsCapturing))
        return false;
    return DRIVER(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* From here on, calls of our own are made in relaxed mode; those under way are waited for. */
static void beginning(enum hook_symbol sym, CUstream stream)
{
    atomic_fetch_add(&capture_active, 1);
    compute_stream_ends(
        stream, hook_symbol_per_thread(sym)); /* what is launched into it from now on is recorded */
    pool_quiesce();
    graph_quiesce();
}

static void ended(void)
{
    int active = atomic_load(&capture_active);

    while (active > 0 && !atomic_compare_exchange_weak(&capture_active, &active, active - 1))
        ;
}

static CUresult began(CUresult result)
{
    if (result != CUDA_SUCCESS)
        ended();
    return result;
}

CUresult hook_stream_begin_capture_v1(enum hook_symbol sym, CUstream stream)
{
    beginning(sym, stream);
    return began(REAL(sym, stream_begin_capture_v1)(stream));
}

CUresult hook_stream_begin_capture(enum hook_symbol sym, CUstream stream, CUstreamCaptureMode mode)
{
    beginning(sym, stream);
    return began(REAL(sym, stream_begin_capture)(stream, mode));
}

CUresult hook_stream_begin_capture_to_graph(enum hook_symbol sym, CUstream stream, CUgraph graph,
                                            const CUgraphNode *dependencies,
                                            const CUgraphEdgeData *dependency_data,
                                            size_t num_dependencies, CUstreamCaptureMode mode)
{
    beginning(sym, stream);
    return began(REAL(sym, stream_begin_capture_to_graph)(stream, graph, dependencies,
                                                          dependency_data, num_dependencies, mode));
}

CUresult hook_stream_end_capture(enum hook_symbol sym, CUstream stream, CUgraph *graph)
{
    bool per_thread = hook_symbol_per_thread(sym);
    bool before = status_of(stream, per_thread) != CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = REAL(sym, stream_end_capture)(stream, graph);

    /* A capture that fails to end (wrong thread, wrong stream) goes on; one that was spoilt is
     * over. */
    if (result == CUDA_SUCCESS ||
        (before && status_of(stream, per_thread) == CU_STREAM_CAPTURE_STATUS_NONE))
        ended();
    return result;
}

void capture_forked(void)
{
    atomic_store(&capture_active, 0);
}
