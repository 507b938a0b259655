/*
 * Contexts that a program creates itself, green contexts, and device limits.
 */
#include "hook/memory/context.h"

#include "hook/memory/admission.h"
#include "hook/work/compute.h"
#include "hook/memory/context_cost.h"
#include "hook/memory/context_record.h"
#include "hook/loader/device.h"
#include "hook/memory/primary.h"
#include "hook/memory/reconcile.h"
#include "account/refuse.h"

#define GREEN_BYTES (6ULL << 20) /* of a green context beside the primary one */

void context_forked(void)
{
    context_cost_forked();
    context_record_forked();
    primary_forked();
}

static uint64_t context_key(const void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

/* The four ways to create a context, as one call. */
struct creation {
    enum hook_symbol sym;
    unsigned int flags;
    CUdevice device;
    CUexecAffinityParam *affinity;
    int affinity_count;
    CUctxCreateParams *params;
    CUresult (*call)(const struct creation *creation, CUcontext *ctx);
};

static CUresult call_v2(const struct creation *creation, CUcontext *ctx)
{
    return REAL(creation->sym, ctx_create)(ctx, creation->flags, creation->device);
}

static CUresult call_v3(const struct creation *creation, CUcontext *ctx)
{
    return REAL(creation->sym, ctx_create_v3)(ctx, creation->affinity, creation->affinity_count,
                                              creation->flags, creation->device);
}

static CUresult call_v4(const struct creation *creation, CUcontext *ctx)
{
    return REAL(creation->sym, ctx_create_v4)(ctx, creation->params, creation->flags,
                                              creation->device);
}

static CUresult driver_destroy(void *ctx)
{
    if (HAVE(cuCtxDestroy_v2))
        return DRIVER(cuCtxDestroy_v2)(ctx);
    return DRIVER(cuCtxDestroy)(ctx);
}

static CUresult context_create(struct creation *creation, CUcontext *ctx)
{
    struct context_admission admission;
    CUcontext created = NULL;
    unsigned vdev;
    CUresult result;
    uint64_t bytes;

    if (device_foreign(creation->device))
        creation->device = DEVICE_NONE;
    if (!hook_ledger() || !ctx || device_vdev(creation->device, &vdev) < 0)
        return creation->call(creation, ctx);
    result = context_admit(creation->sym, vdev, &admission);
    if (result != CUDA_SUCCESS)
        return result;
    result = creation->call(creation, &created);
    result = context_settle(&admission, result, created, driver_destroy, &bytes);
    if (result != CUDA_SUCCESS)
        return result;
    context_record_put(
        &(struct context_record){.key = context_key(created), .vdev = vdev, .bytes = bytes});
    compute_context_made(creation->device);
    *ctx = created;
    return result;
}

CUresult hook_ctx_create(enum hook_symbol sym, CUcontext *ctx, unsigned int flags, CUdevice device)
{
    return context_create(
        &(struct creation){.sym = sym, .flags = flags, .device = device, .call = call_v2}, ctx);
}

CUresult hook_ctx_create_v3(enum hook_symbol sym, CUcontext *ctx, CUexecAffinityParam *params,
                            int count, unsigned int flags, CUdevice device)
{
    return context_create(&(struct creation){.sym = sym,
                                             .flags = flags,
                                             .device = device,
                                             .affinity = params,
                                             .affinity_count = count,
                                             .call = call_v3},
                          ctx);
}

CUresult hook_ctx_create_v4(enum hook_symbol sym, CUcontext *ctx, CUctxCreateParams *params,
                            unsigned int flags, CUdevice device)
{
    return context_create(
        &(struct creation){
            .sym = sym, .flags = flags, .device = device, .params = params, .call = call_v4},
        ctx);
}

CUresult hook_ctx_destroy(enum hook_symbol sym, CUcontext ctx)
{
    struct vgpu_ledger *ledger = hook_ledger();
    struct context_record record;
    bool known = ledger && ctx && context_record_take(context_key(ctx), &record);
    CUresult result;

    reconcile_free_begin();
    compute_context_ending(ctx);
    result = REAL(sym, ctx_destroy)(ctx);
    if (result == CUDA_SUCCESS && ledger) {
        mem_context_gone(ctx);
    }
    if (known && result == CUDA_SUCCESS)
        ledger_release(ledger, record.vdev, VGPU_KIND_CONTEXT, context_record_bytes(&record));
    else if (known)
        context_record_put(&record);
    reconcile_free_end();
    return result;
}

static CUresult driver_destroy_green(void *ctx)
{
    return DRIVER(cuGreenCtxDestroy)(ctx);
}

/* Beside the primary context a green one takes a few MiB. */
static CUresult create_green(enum hook_symbol sym, unsigned vdev, CUgreenCtx *ctx,
                             CUdevResourceDesc desc, CUdevice device, unsigned int flags)
{
    struct admission admission;
    CUresult result = mem_admit_on(sym, MEM_CONTEXT, vdev, GREEN_BYTES, &admission);

    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(sym, green_ctx_create)(ctx, desc, device, flags);
    if (result != CUDA_SUCCESS) {
        mem_cancel(&admission);
        return result;
    }
    mem_commit(&admission, GREEN_BYTES);
    context_record_put(
        &(struct context_record){.key = context_key(*ctx), .vdev = vdev, .bytes = GREEN_BYTES});
    return result;
}

/* Without a primary context the driver creates both. They are admitted and measured as one context
 * and divided: the primary context outlives the green one if somebody retains it. */
static CUresult create_green_first(enum hook_symbol sym, unsigned vdev, CUgreenCtx *ctx,
                                   CUdevResourceDesc desc, CUdevice device, unsigned int flags)
{
    struct context_admission admission;
    uint64_t bytes, own;
    CUresult result = context_admit(sym, vdev, &admission);

    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(sym, green_ctx_create)(ctx, desc, device, flags);
    result = context_settle(&admission, result, *ctx, driver_destroy_green, &bytes);
    if (result != CUDA_SUCCESS)
        return result;
    own = bytes;
    if (bytes > GREEN_BYTES && primary_adopt(device, vdev, bytes - GREEN_BYTES))
        own = GREEN_BYTES;
    context_record_put(
        &(struct context_record){.key = context_key(*ctx), .vdev = vdev, .bytes = own});
    return result;
}

CUresult hook_green_ctx_create(enum hook_symbol sym, CUgreenCtx *ctx, CUdevResourceDesc desc,
                               CUdevice device, unsigned int flags)
{
    CUgreenCtx created = NULL;
    CUresult result;
    unsigned vdev;

    if (device_foreign(device))
        device = DEVICE_NONE;
    if (!hook_ledger() || !ctx || device >= PRIMARY_DEVICES || device_vdev(device, &vdev) < 0)
        return REAL(sym, green_ctx_create)(ctx, desc, device, flags);
    result = primary_active(device) ? create_green(sym, vdev, &created, desc, device, flags)
                                    : create_green_first(sym, vdev, &created, desc, device, flags);
    if (result == CUDA_SUCCESS) {
        compute_context_made(device);
        *ctx = created;
    }
    return result;
}

static CUresult destroy_green(enum hook_symbol sym, CUgreenCtx ctx)
{
    struct vgpu_ledger *ledger = hook_ledger();
    struct context_record record;
    bool known = ledger && ctx && context_record_take(context_key(ctx), &record);
    CUcontext context = NULL; /* of its streams and events */
    CUdevice device;
    CUresult result;

    if (known && HAVE(cuCtxFromGreenCtx) &&
        DRIVER(cuCtxFromGreenCtx)(&context, ctx) == CUDA_SUCCESS)
        compute_context_ending(context);
    result = REAL(sym, green_ctx_destroy)(ctx);
    if (!known)
        return result;
    if (result != CUDA_SUCCESS) {
        context_record_put(&record);
        return result;
    }
    ledger_release(ledger, record.vdev, VGPU_KIND_CONTEXT, context_record_bytes(&record));
    if (device_of_vdev(record.vdev, &device) == 0)
        primary_settle(device);
    return result;
}

CUresult hook_green_ctx_destroy(enum hook_symbol sym, CUgreenCtx ctx)
{
    CUresult result;

    reconcile_free_begin();
    result = destroy_green(sym, ctx);
    reconcile_free_end();
    return result;
}

static bool limit_costs(CUlimit limit, CUdevice device, enum context_limit *ret_limit,
                        uint64_t *ret_unit_bytes)
{
    *ret_unit_bytes = 1;
    switch (limit) {
    case CU_LIMIT_STACK_SIZE:
        *ret_limit = CONTEXT_STACK;
        *ret_unit_bytes = device_resident_threads(device);
        return true;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
        *ret_limit = CONTEXT_FIFO;
        return true;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
        *ret_limit = CONTEXT_HEAP;
        return true;
    default:
        return false;
    }
}

static CUresult set_limit(enum hook_symbol sym, CUlimit limit, size_t value)
{
    struct vgpu_ledger *ledger = hook_ledger();
    uint64_t unit, target, charged;
    size_t old_value, new_value = value;
    struct admission admission;
    enum context_limit which;
    CUcontext ctx = NULL;
    CUdevice device;
    unsigned vdev;
    CUresult result;

    if (!ledger || device_current(&device, &vdev) < 0 ||
        !limit_costs(limit, device, &which, &unit) ||
        DRIVER(cuCtxGetCurrent)(&ctx) != CUDA_SUCCESS ||
        DRIVER(cuCtxGetLimit)(&old_value, limit) != CUDA_SUCCESS ||
        !context_record_limit(context_key(ctx), vdev, which, old_value, value, unit, &target,
                              &charged))
        return REAL(sym, ctx_set_limit)(limit, value);
    result =
        mem_admit_on(sym, MEM_CONTEXT, vdev, target > charged ? target - charged : 0, &admission);
    if (result != CUDA_SUCCESS)
        return result;
    result = REAL(sym, ctx_set_limit)(limit, value);
    if (result == CUDA_SUCCESS)
        DRIVER(cuCtxGetLimit)(&new_value, limit);
    else
        new_value = old_value;
    /* The driver may have rounded the value: its own value counts. */
    context_record_limit(context_key(ctx), vdev, which, old_value, new_value, unit, &target,
                         &charged);
    if (result != CUDA_SUCCESS || target <= charged)
        mem_cancel(&admission);
    if (result != CUDA_SUCCESS)
        return result;
    if (target < charged) {
        ledger_release(ledger, vdev, VGPU_KIND_CONTEXT, charged - target);
    } else if (target > charged && !mem_commit(&admission, target - charged)) {
        REAL(sym, ctx_set_limit)(limit, old_value);
        mem_refuse(&admission, target - charged);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context_record_limit_set(context_key(ctx), which, target);
    return result;
}

CUresult hook_ctx_set_limit(enum hook_symbol sym, CUlimit limit, size_t value)
{
    CUresult result;

    reconcile_free_begin(); /* a lower limit frees memory */
    result = set_limit(sym, limit, value);
    reconcile_free_end();
    return result;
}
