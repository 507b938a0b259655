/* Calls by which a program waits for the device, or asks whether it is done. */
#include "hook/work/compute.h"
#include "hook/memory/pool.h"

/* When a program waits, the driver frees what pools do not need, and the quota gets it back. */
static CUresult waited(CUresult result)
{
    if (result == CUDA_SUCCESS)
        compute_waited();
    if (result == CUDA_SUCCESS && hook_ledger())
        pool_refresh_all();
    return result;
}

CUresult hook_ctx_synchronize(enum hook_symbol sym)
{
    struct semaphore_wait wait = compute_wait_begins(NULL, false, true);
    CUresult result = REAL(sym, ctx_synchronize)();

    if (result == CUDA_SUCCESS)
        compute_wait_ends(&wait);
    return waited(result);
}

CUresult hook_ctx_synchronize_v2(enum hook_symbol sym, CUcontext ctx)
{
    compute_waits();
    return waited(REAL(sym, ctx_synchronize_v2)(ctx));
}

CUresult hook_stream_synchronize(enum hook_symbol sym, CUstream stream)
{
    struct semaphore_wait wait = compute_wait_begins(stream, hook_symbol_per_thread(sym), false);
    CUresult result = REAL(sym, stream_synchronize)(stream);

    if (result == CUDA_SUCCESS) {
        compute_wait_ends(&wait);
        compute_waited();
    }
    if (result == CUDA_SUCCESS && hook_ledger())
        pool_refresh_after(stream, hook_symbol_per_thread(sym));
    return result;
}

CUresult hook_event_synchronize(enum hook_symbol sym, CUevent event)
{
    compute_waits();
    return waited(REAL(sym, event_synchronize)(event));
}

CUresult hook_stream_query(enum hook_symbol sym, CUstream stream)
{
    compute_asks();
    return REAL(sym, stream_query)(stream);
}

CUresult hook_event_query(enum hook_symbol sym, CUevent event)
{
    compute_asks();
    return REAL(sym, event_query)(event);
}
