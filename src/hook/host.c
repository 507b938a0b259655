/*
 * Pinned host memory: a quota of its own, unlimited unless asked for.
 */
#include "hook/admission.h"

/* False: over the quota. *ret_ledger NULL: nothing to charge, the driver alone answers. */
static bool admit(enum hook_symbol sym, const void *host, size_t bytes,
                  struct vgpu_ledger **ret_ledger)
{
    struct vgpu_ledger *ledger = hook_ledger();

    *ret_ledger = NULL;
    if (ledger == NULL || host == NULL || bytes == 0 || bytes > CHARGE_LIMIT_BYTES)
        return true;
    *ret_ledger = ledger;
    return charge_reserve(sym, ledger, VGPU_VDEV_HOST, bytes);
}

/* After the driver's answer. False: it has to be freed again. */
static bool settle(enum hook_symbol sym, struct vgpu_ledger *ledger, const void *host, size_t bytes,
                   CUresult result)
{
    if (ledger == NULL)
        return true;
    if (result != CUDA_SUCCESS) {
        ledger_cancel(ledger, VGPU_VDEV_HOST, bytes);
        return true;
    }
    return charge_commit(sym, ledger, CHARGE_HOST, (uintptr_t)host, VGPU_VDEV_HOST, VGPU_KIND_HOST,
                         bytes, bytes);
}

/* What the driver is called for, so that the three ways of allocating share one flow. */
struct request {
    enum hook_symbol sym;
    void **ret_host;
    size_t bytes;
    unsigned int flags;
};

static CUresult allocate(const struct request *request,
                         CUresult (*call)(const struct request *request, void **ret_host))
{
    struct vgpu_ledger *ledger;
    void *host = NULL;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (request->ret_host == NULL) {
        result = call(request, NULL);
    } else if (admit(request->sym, request->ret_host, request->bytes, &ledger)) {
        result = call(request, &host);
        if (!settle(request->sym, ledger, host, request->bytes, result)) {
            DRIVER(cuMemFreeHost)(host);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (result == CUDA_SUCCESS)
            *request->ret_host = host;
    }
    trace_memory(request->sym, request->bytes, (uintptr_t)host, result);
    return result;
}

static CUresult call_alloc_host(const struct request *request, void **ret_host)
{
    return REAL(request->sym, mem_alloc_host)(ret_host, request->bytes);
}

static CUresult call_alloc_host_v1(const struct request *request, void **ret_host)
{
    return REAL(request->sym, mem_alloc_host_v1)(ret_host, (unsigned int)request->bytes);
}

static CUresult call_host_alloc(const struct request *request, void **ret_host)
{
    return REAL(request->sym, mem_host_alloc)(ret_host, request->bytes, request->flags);
}

CUresult hook_mem_alloc_host(enum hook_symbol sym, void **host, size_t bytes)
{
    return allocate(&(struct request){.sym = sym, .ret_host = host, .bytes = bytes},
                    call_alloc_host);
}

CUresult hook_mem_alloc_host_v1(enum hook_symbol sym, void **host, unsigned int bytes)
{
    return allocate(&(struct request){.sym = sym, .ret_host = host, .bytes = bytes},
                    call_alloc_host_v1);
}

CUresult hook_mem_host_alloc(enum hook_symbol sym, void **host, size_t bytes, unsigned int flags)
{
    return allocate(&(struct request){.sym = sym, .ret_host = host, .bytes = bytes, .flags = flags},
                    call_host_alloc);
}

CUresult hook_mem_host_register(enum hook_symbol sym, void *host, size_t bytes, unsigned int flags)
{
    struct vgpu_ledger *ledger;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (admit(sym, host, bytes, &ledger)) {
        result = REAL(sym, mem_host_register)(host, bytes, flags);
        if (!settle(sym, ledger, host, bytes, result)) {
            DRIVER(cuMemHostUnregister)(host);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    trace_memory(sym, bytes, (uintptr_t)host, result);
    return result;
}

static void freed(uint64_t key, const struct vgpu_track_entry *entry, CUresult result)
{
    if (result == CUDA_SUCCESS)
        charge_give_back(hook_ledger(), CHARGE_HOST, key, entry);
    else
        charge_put_back(CHARGE_HOST, key, entry);
}

CUresult hook_mem_free_host(enum hook_symbol sym, void *host)
{
    struct vgpu_track_entry entry = {0};
    bool known = charge_take(CHARGE_HOST, (uintptr_t)host, &entry);
    CUresult result = REAL(sym, mem_free_host)(host);

    if (known)
        freed((uintptr_t)host, &entry, result);
    trace_memory(sym, entry.bytes, (uintptr_t)host, result);
    return result;
}

CUresult hook_mem_host_unregister(enum hook_symbol sym, void *host)
{
    struct vgpu_track_entry entry = {0};
    bool known = charge_take(CHARGE_HOST, (uintptr_t)host, &entry);
    CUresult result = REAL(sym, mem_host_unregister)(host);

    if (known)
        freed((uintptr_t)host, &entry, result);
    trace_memory(sym, entry.bytes, (uintptr_t)host, result);
    return result;
}
