#include "hook/memory/context_cost.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "hook/loader/device.h"
#include "hook/memory/reconcile.h"
#include "account/refuse.h"

#include <time.h>

#define UNKNOWN_MAX   (1ULL << 30)   /* reserved for a context of unknown cost */
#define WAIT_BOUND_NS (3 * NS_PER_S) /* for contexts that other processes are measuring */
#define WAIT_STEP_NS  (2 * NS_PER_MS)
/* While a context is being charged, the region looks for a moment as if nobody were measuring. */
#define CALM_STEPS 15

static atomic_uint under_way[VGPU_DEVICES_MAX]; /* admissions of this process */

void context_cost_forked(void)
{
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++)
        atomic_store(&under_way[i], 0);
}

/* The bytes to reserve; 0: nothing is left. */
static uint64_t context_wanted(struct vgpu_ledger *ledger, unsigned vdev)
{
    uint64_t cost = ledger_context_cost(ledger, vdev), total, free_bytes, physical;
    CUdevice device;

    if (cost > 0)
        return cost;
    physical = device_of_vdev(vdev, &device) == 0 ? device_physical_bytes(device) : UNKNOWN_MAX;
    ledger_view(ledger, vdev, physical, physical, &total, &free_bytes);
    return free_bytes < UNKNOWN_MAX ? free_bytes : UNKNOWN_MAX;
}

/* Whether a process has a reservation that is not charged as anything yet. */
static bool others_under_way(struct vgpu_ledger *ledger, unsigned vdev)
{
    struct vgpu_snapshot snapshot;
    uint64_t held = 0, used;

    if (region_snapshot(ledger_region(ledger), &snapshot) < 0)
        return false;
    used = snapshot.vdev[vdev].used_bytes;
    for (uint32_t i = 0; i < snapshot.proc_count; i++)
        for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
            held += snapshot.procs[i].held_bytes[vdev][kind];
    snapshot_done(&snapshot);
    return used > held;
}

static bool context_reserve(struct vgpu_ledger *ledger, unsigned vdev, uint64_t *ret_bytes)
{
    uint64_t deadline = clock_ns() + WAIT_BOUND_NS;
    struct timespec step = {.tv_nsec = WAIT_STEP_NS};
    unsigned calm = 0;

    for (bool first = true;; first = false) {
        uint64_t bytes = context_wanted(ledger, vdev);

        if (bytes > 0 && ledger_reserve(ledger, vdev, bytes) == 0) {
            *ret_bytes = bytes;
            return true;
        }
        if (first) { /* perhaps the driver has freed something unseen */
            mem_refresh(vdev);
            reconcile_now(vdev);
            continue;
        }
        calm = others_under_way(ledger, vdev) ? 0 : calm + 1;
        if (clock_ns() >= deadline || calm == CALM_STEPS)
            return false;
        nanosleep(&step, NULL);
    }
}

CUresult context_admit(enum hook_symbol sym, unsigned vdev, struct context_admission *ret_admission)
{
    KEEP_ERRNO;
    struct vgpu_ledger *ledger = hook_ledger();
    struct context_admission admission = {
        .mem = {.ledger = ledger, .sym = sym, .class = MEM_CONTEXT, .vdev = vdev}};

    reconcile_prepare(vdev);
    admission.alone = ledger_held(ledger, vdev, VGPU_KINDS) == 0;
    if (atomic_fetch_add(&under_way[vdev], 1) > 0)
        admission.alone = false;
    if (!context_reserve(ledger, vdev, &admission.mem.reserved_bytes)) {
        uint64_t cost = ledger_context_cost(ledger, vdev);

        atomic_fetch_sub(&under_way[vdev], 1);
        mem_refuse(&admission.mem, cost > 0 ? cost : CONTEXT_COST_GUESS);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret_admission = admission;
    return CUDA_SUCCESS;
}

/* What the context takes. The instance learns it, unless something else may be in the
 * measurement. */
static uint64_t context_measure(const struct context_admission *admission)
{
    struct vgpu_ledger *ledger = admission->mem.ledger;
    unsigned vdev = admission->mem.vdev;
    uint64_t known = ledger_context_cost(ledger, vdev), bytes;

    reconcile_await(vdev);
    if (reconcile_excess(ledger, vdev, admission->mem.reserved_bytes, &bytes) < 0) {
        bytes = known > 0 ? known : CONTEXT_COST_GUESS;
        ledger_learn_context_cost(ledger, vdev, bytes);
    } else if (admission->alone && atomic_load(&under_way[vdev]) == 1) {
        ledger_learn_context_cost(ledger, vdev, bytes);
    }
    return bytes;
}

CUresult context_settle(const struct context_admission *admission, CUresult result, void *handle,
                        CUresult (*undo)(void *handle), uint64_t *ret_bytes)
{
    KEEP_ERRNO;

    if (result != CUDA_SUCCESS) {
        mem_cancel(&admission->mem);
    } else {
        *ret_bytes = context_measure(admission);
        if (!mem_commit(&admission->mem, *ret_bytes)) {
            undo(handle);
            mem_refuse(&admission->mem, *ret_bytes);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    atomic_fetch_sub(&under_way[admission->mem.vdev], 1);
    return result;
}
