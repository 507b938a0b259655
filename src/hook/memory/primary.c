#include "hook/memory/primary.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "hook/memory/admission.h"
#include "hook/work/compute.h"
#include "hook/memory/context_record.h"
#include "hook/loader/device.h"
#include "hook/memory/reconcile.h"

#define FOLLOW_BOUND_NS (10 * NS_PER_S) /* for the thread that creates and measures the context */

/*
 * A device's word: its state, and how often that has changed, so that no decision about an older
 * state is carried out. CREATING and CLOSING belong to one thread; the others wait for the word to
 * change.
 */
enum { NONE, CREATING, CHARGED, CLOSING, STATES };

static struct primary {
    _Atomic uint32_t word; /* STATES x changes + state; a futex */
    uint64_t context;      /* the CUcontext, as the key of its record; written by the thread that is
                              CREATING */
} primaries[PRIMARY_DEVICES];

void primary_forked(void)
{
    for (unsigned i = 0; i < PRIMARY_DEVICES; i++)
        atomic_store(&primaries[i].word, NONE);
}

static bool primary_move_on(struct primary *primary, uint32_t word, unsigned state)
{
    uint32_t next = word - word % STATES + STATES + state;

    if (!atomic_compare_exchange_strong(&primary->word, &word, next))
        return false;
    futex_wake(&primary->word, INT32_MAX, 0);
    return true;
}

/* The word once no thread is creating or closing the context, or after FOLLOW_BOUND_NS in
 * any case. */
static uint32_t wait_settled(struct primary *primary)
{
    uint64_t until = clock_ns() + FOLLOW_BOUND_NS, now;
    uint32_t word = atomic_load(&primary->word);

    while ((word % STATES == CREATING || word % STATES == CLOSING) && (now = clock_ns()) < until) {
        futex_wait(&primary->word, word, until - now, 0);
        word = atomic_load(&primary->word);
    }
    return word;
}

bool primary_active(CUdevice device)
{
    unsigned int flags;
    int active = 0;

    if (!HAVE(cuDevicePrimaryCtxGetState) ||
        DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS)
        return false;
    return active != 0;
}

/* Gives back the charge of a context that is gone. The caller has the word at CLOSING or
 * CREATING. */
static void primary_give_back(struct primary *primary)
{
    struct vgpu_ledger *ledger = hook_ledger();
    struct context_record record;

    compute_context_ends((CUcontext)(uintptr_t)primary->context);
    mem_context_gone((CUcontext)(uintptr_t)primary->context);
    if (context_record_take(primary->context, &record))
        ledger_release(ledger, record.vdev, VGPU_KIND_CONTEXT, context_record_bytes(&record));
}

void primary_settle(CUdevice device)
{
    struct primary *primary;
    uint32_t word;

    if (!hook_ledger() || device < 0 || device >= PRIMARY_DEVICES)
        return;
    primary = &primaries[device];
    word = atomic_load(&primary->word);
    /* The state of the word comes first. If the context is gone afterwards and the word has not
     * changed, this thread may close it. */
    if (word % STATES != CHARGED || primary_active(device) ||
        !primary_move_on(primary, word, CLOSING))
        return;
    primary_give_back(primary);
    primary_move_on(primary, atomic_load(&primary->word), NONE);
}

static CUresult driver_release(CUdevice device)
{
    if (HAVE(cuDevicePrimaryCtxRelease_v2))
        return DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
    return DRIVER(cuDevicePrimaryCtxRelease)(device);
}

bool primary_adopt(CUdevice device, unsigned vdev, uint64_t bytes)
{
    struct primary *primary = &primaries[device];
    uint32_t word = atomic_load(&primary->word);
    CUcontext context = NULL;
    CUresult result;

    if (word % STATES != NONE || !primary_active(device) ||
        !primary_move_on(primary, word, CREATING))
        return false;
    /* Only retaining it gives its handle; the reference goes back at once. */
    result = DRIVER(cuDevicePrimaryCtxRetain)(&context, device);
    if (result == CUDA_SUCCESS) {
        driver_release(device);
        primary->context = (uint64_t)(uintptr_t)context;
        context_record_put(
            &(struct context_record){.key = primary->context, .vdev = vdev, .bytes = bytes});
        compute_context_made(device);
    }
    primary_move_on(primary, atomic_load(&primary->word), result == CUDA_SUCCESS ? CHARGED : NONE);
    return result == CUDA_SUCCESS;
}

static CUresult undo_retain(void *device)
{
    return driver_release((CUdevice)(intptr_t)device);
}

/* For the thread that has moved the word to CREATING. */
static CUresult primary_create(enum hook_symbol sym, CUcontext *ctx, CUdevice device, unsigned vdev)
{
    struct primary *primary = &primaries[device];
    struct context_admission admission;
    CUcontext context = NULL;
    uint64_t bytes;
    CUresult result = context_admit(sym, vdev, &admission);

    if (result == CUDA_SUCCESS) {
        result = REAL(sym, primary_ctx_retain)(&context, device);
        result = context_settle(&admission, result, (void *)(intptr_t)device, undo_retain, &bytes);
    }
    if (result == CUDA_SUCCESS) {
        primary->context = (uint64_t)(uintptr_t)context;
        context_record_put(
            &(struct context_record){.key = primary->context, .vdev = vdev, .bytes = bytes});
        compute_context_made(device);
        *ctx = context;
    }
    primary_move_on(primary, atomic_load(&primary->word), result == CUDA_SUCCESS ? CHARGED : NONE);
    return result;
}

/* For a thread that found another one creating the context: has the same outcome. */
static CUresult primary_follow(enum hook_symbol sym, CUcontext *ctx, CUdevice device)
{
    CUcontext context;
    CUresult result = REAL(sym, primary_ctx_retain)(&context, device);

    if (result != CUDA_SUCCESS)
        return result;
    if (wait_settled(&primaries[device]) % STATES == NONE) {
        driver_release(device);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ctx = context;
    return result;
}

CUresult hook_primary_ctx_retain(enum hook_symbol sym, CUcontext *ctx, CUdevice device)
{
    unsigned vdev;

    if (device_foreign(device))
        device = DEVICE_NONE;
    if (!hook_ledger() || !ctx || device >= PRIMARY_DEVICES || device_vdev(device, &vdev) < 0)
        return REAL(sym, primary_ctx_retain)(ctx, device);
    for (;;) {
        struct primary *primary = &primaries[device];
        uint32_t word = atomic_load(&primary->word);

        switch (word % STATES) {
        case CREATING:
            return primary_follow(sym, ctx, device);
        case CLOSING:
            wait_settled(primary);
            continue;
        case CHARGED:
            if (primary_active(device))
                return REAL(sym, primary_ctx_retain)(ctx, device);
            primary_settle(device); /* the driver destroyed it unseen */
            continue;
        default:
            if (primary_active(device)) { /* the driver created it unseen: untracked */
                compute_context_made(device);
                return REAL(sym, primary_ctx_retain)(ctx, device);
            }
            if (primary_move_on(primary, word, CREATING))
                return primary_create(sym, ctx, device, vdev);
        }
    }
}

/* Before a call that may destroy it: nobody may ask about events of vgpu's while the driver
 * destroys them. */
static void primary_may_end(CUdevice device)
{
    if (device >= 0 && device < PRIMARY_DEVICES &&
        atomic_load(&primaries[device].word) % STATES == CHARGED)
        compute_context_ending((CUcontext)(uintptr_t)primaries[device].context);
}

CUresult hook_primary_ctx_release(enum hook_symbol sym, CUdevice device)
{
    CUresult result;

    reconcile_free_begin();
    primary_may_end(device);
    result = REAL(sym, primary_ctx_release)(device);
    if (result == CUDA_SUCCESS)
        primary_settle(device);
    reconcile_free_end();
    return result;
}

CUresult hook_primary_ctx_reset(enum hook_symbol sym, CUdevice device)
{
    CUresult result;

    reconcile_free_begin();
    primary_may_end(device);
    result = REAL(sym, primary_ctx_reset)(device);
    if (result == CUDA_SUCCESS)
        primary_settle(device);
    reconcile_free_end();
    return result;
}
