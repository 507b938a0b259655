#include "guard/nvidia/quota.h"

#include "guard/notify/ratelimit.h"
#include "account/refuse.h"

#include <errno.h>
#include <inttypes.h>

uint64_t quota_bytes(const struct nvidia *nvidia, unsigned vdev)
{
    return vgpu_limit_quota(&nvidia->limits.vdev[vdev], nvidia->device[vdev].physical_bytes);
}

uint64_t quota_used(const struct nvidia *nvidia, unsigned vdev)
{
    uint64_t used = objects_total(nvidia->objects, vdev);

    for (unsigned i = 0; i < NOTIFY_PROCESSES_MAX; i++) {
        const struct guard_process *process = &nvidia->notify->process[i];

        if (process->pid && process->managed_vdev == vdev)
            used += process->managed_bytes;
    }
    return used;
}

bool quota_leaves(const struct nvidia *nvidia, unsigned vdev, uint64_t bytes)
{
    uint64_t quota = quota_bytes(nvidia, vdev), used = quota_used(nvidia, vdev);

    return !quota || (used <= quota && bytes <= quota - used);
}

void quota_refuse(struct nvidia *nvidia, struct guard_process *process, unsigned vdev,
                  uint64_t bytes, const char *api)
{
    struct vgpu_ledger *ledger = process_ledger(nvidia->notify, process);

    atomic_fetch_add_explicit(&nvidia->refusals, 1, memory_order_relaxed);
    if (ledger)
        ledger_refuse(ledger, vdev, bytes, api);
    else
        log_ratelimited("guard: %s of %" PRIu64 " bytes refused on device %u: %" PRIu64
                        " of %" PRIu64 " in use",
                        api, bytes, vdev, quota_used(nvidia, vdev), quota_bytes(nvidia, vdev));
}

/* Managed memory can be on any GPU: it is charged to the first of the instance's that is used. */
static unsigned first_vdev(const struct nvidia *nvidia)
{
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        if (nvidia->device[i].known)
            return i;
    }
    return 0;
}

int quota_set_managed(struct nvidia *nvidia, struct guard_process *process, uint64_t bytes,
                      bool force)
{
    struct vgpu_ledger *ledger = process_ledger(nvidia->notify, process);
    uint64_t before = process->managed_bytes;

    if (before == 0)
        process->managed_vdev = first_vdev(nvidia);
    if (!force && bytes > before && !quota_leaves(nvidia, process->managed_vdev, bytes - before))
        return -ENOMEM;
    if (ledger)
        ledger_set(ledger, process->managed_vdev, VGPU_KIND_MANAGED, bytes);
    process->managed_bytes = bytes;
    return 0;
}
