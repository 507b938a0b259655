#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "account/ledger_internal.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* Looking for dead processes costs a system call a process: with many of them, not more often than
 * this. */
#define REAP_FREE_SLOTS  16
#define REAP_INTERVAL_NS (5 * NS_PER_MS)

unsigned ledger_group(const struct vgpu_ledger *ledger)
{
    return atomic_load_explicit(&ledger->group, memory_order_relaxed);
}

struct vgpu_region *ledger_region(struct vgpu_ledger *ledger)
{
    return ledger->region;
}

void ledger_reap(struct vgpu_ledger *ledger)
{
    if (region_slots_high(ledger->region->layout) > REAP_FREE_SLOTS) {
        uint64_t now_ns = clock_ns();

        if (now_ns - load_relaxed(&ledger->reaped_ns) < REAP_INTERVAL_NS)
            return;
        store_relaxed(&ledger->reaped_ns, now_ns);
    }
    region_reap(ledger->region);
}

/*
 * HAMi's device plugin gives a container with a whole device the size that NVML reports, which is
 * some percent more than CUDA's.
 */
static bool beyond_device(const struct vgpu_region *region, const struct region_vdev *vdev)
{
    uint64_t more = region_is_cache(region) ? vdev->physical_bytes / 16 : 0;

    return vdev->limit.quota_bytes > vdev->physical_bytes + more;
}

static void warn_beyond(struct vgpu_ledger *ledger, unsigned vdev, uint64_t quota_bytes,
                        uint64_t physical_bytes)
{
    char quota[SIZE_TEXT_BYTES], physical[SIZE_TEXT_BYTES];

    log_warning("a quota of %s is more than the %s of device %u: the device is the limit",
                format_bytes(quota_bytes, quota, sizeof(quota)),
                format_bytes(physical_bytes, physical, sizeof(physical)),
                ledger_shown_number(ledger, vdev));
}

int ledger_device_limited(struct vgpu_ledger *ledger, unsigned vdev, const char *uuid,
                          uint64_t physical_bytes, const struct vgpu_limit *limit)
{
    KEEP_ERRNO;
    struct region_vdev *to;
    struct region_hold hold;
    uint64_t quota_bytes = 0;
    int rc;

    if (vdev >= VGPU_VDEVS || strlen(uuid) >= VGPU_UUID_LEN)
        return -EINVAL;
    fork_check();
    to = &ledger->region->layout->vdev[vdev];
    rc = ledger_lock(ledger, LEDGER_LOCK_BOUND_NS, &hold);
    if (rc < 0)
        return rc;
    if (to->limit.uuid[0] && strncasecmp(to->limit.uuid, uuid, VGPU_UUID_LEN) != 0) {
        rc = -EEXIST;
    } else {
        if (limit && !to->limit.uuid[0])
            region_store_limit(ledger->region->layout, vdev, limit);
        strncpy(to->limit.uuid, uuid, VGPU_UUID_LEN);
        if (physical_bytes && to->physical_bytes != physical_bytes) {
            to->physical_bytes = physical_bytes;
            region_resolve_quota(ledger->region->layout, vdev);
            quota_bytes = beyond_device(ledger->region, to) ? to->limit.quota_bytes : 0;
        }
    }
    region_unlock(ledger->region, &hold);
    if (quota_bytes)
        warn_beyond(ledger, vdev, quota_bytes, physical_bytes);
    ledger_notify(ledger, VGPU_VDEVS);
    return rc;
}

int ledger_device(struct vgpu_ledger *ledger, unsigned vdev, const char *uuid,
                  uint64_t physical_bytes)
{
    return ledger_device_limited(ledger, vdev, uuid, physical_bytes, NULL);
}

void ledger_number(struct vgpu_ledger *ledger, unsigned vdev, unsigned number)
{
    if (vdev < VGPU_VDEVS)
        atomic_store_explicit(&ledger->number[vdev], number + 1, memory_order_relaxed);
}

unsigned ledger_shown_number(const struct vgpu_ledger *ledger, unsigned vdev)
{
    uint32_t number = atomic_load_explicit(&ledger->number[vdev], memory_order_relaxed);

    return number ? number - 1 : vdev;
}

/* The rest of the quota of a group, or of the instance (0), or of the device if that is smaller. */
static uint64_t left_of(const struct region_layout *layout, unsigned group, unsigned vdev,
                        uint64_t physical_total)
{
    uint64_t quota = region_quota(layout, group, vdev);

    return subtract_clamped(quota && quota < physical_total ? quota : physical_total,
                            slots_used_by(layout, group, vdev));
}

void ledger_view(struct vgpu_ledger *ledger, unsigned vdev, uint64_t physical_total,
                 uint64_t physical_free, uint64_t *ret_total, uint64_t *ret_free)
{
    KEEP_ERRNO;
    uint64_t quota = ledger_quota(ledger, vdev), total = physical_total, available = physical_free,
             left;
    struct region_layout *layout = ledger->region->layout;
    unsigned group = ledger_group(ledger);
    struct region_hold hold;
    bool locked;

    if (quota) {
        locked = ledger_lock(ledger, LEDGER_LOCK_BOUND_NS, &hold) == 0;
        if (locked)
            ledger_reap(ledger);
        total = quota < physical_total ? quota : physical_total;
        left = left_of(layout, 0, vdev, physical_total);
        if (group > 0 && left_of(layout, group, vdev, physical_total) < left)
            left = left_of(layout, group, vdev, physical_total);
        available = left < physical_free ? left : physical_free;
        if (locked)
            region_unlock(ledger->region, &hold);
    }
    *ret_total = total;
    *ret_free = available;
}

uint64_t ledger_quota(struct vgpu_ledger *ledger, unsigned vdev)
{
    const struct region_layout *layout = ledger->region->layout;
    uint64_t quota, of_group;

    if (vdev >= VGPU_VDEVS)
        return 0;
    quota = region_quota(layout, 0, vdev);
    of_group = region_quota(layout, ledger_group(ledger), vdev);
    return of_group && (!quota || of_group < quota) ? of_group : quota;
}

uint64_t ledger_context_cost(struct vgpu_ledger *ledger, unsigned vdev)
{
    return vdev < VGPU_VDEVS ? load_relaxed(&ledger->region->layout->vdev[vdev].context_bytes) : 0;
}

void ledger_learn_context_cost(struct vgpu_ledger *ledger, unsigned vdev, uint64_t bytes)
{
    _Atomic uint64_t *most;
    uint64_t before;

    if (vdev >= VGPU_VDEVS)
        return;
    most = &ledger->region->layout->vdev[vdev].context_bytes;
    before = load_relaxed(most);
    while (before < bytes && !atomic_compare_exchange_weak_explicit(
                                 most, &before, bytes, memory_order_relaxed, memory_order_relaxed))
        ;
}

unsigned ledger_processes(struct vgpu_ledger *ledger, unsigned vdev,
                          struct vgpu_proc_memory *ret_procs, unsigned max)
{
    KEEP_ERRNO;
    struct region_layout *layout = ledger->region->layout;
    struct region_hold hold;
    unsigned count = 0, high, group = ledger_group(ledger);
    bool guard = atomic_load_explicit(&layout->tier, memory_order_relaxed) == VGPU_TIER_GUARD;
    struct slot_pass pass = {0};

    if (vdev >= VGPU_VDEVS)
        return 0;
    fork_check();
    if (ledger_lock(ledger, LEDGER_LOCK_BOUND_NS, &hold) < 0)
        return 0;
    ledger_reap(ledger);
    high = region_slots_high(layout);
    for (unsigned i = 0; i < high; i++) {
        uint64_t bytes = 0;

        if (!slot_live(&layout->slot[i]) || (guard && !layout->slot[i].guarded) ||
            (group && slot_group(layout, i) != group))
            continue;
        for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
            bytes = add_saturated(bytes, slot_held(&layout->slot[i].vdev[vdev], kind));
        if (bytes == 0)
            continue;
        if (count < max)
            ret_procs[count] = (struct vgpu_proc_memory){
                .pid = (uint32_t)slot_pid(ledger->region, i, &pass), .bytes = bytes};
        count++;
    }
    region_unlock(ledger->region, &hold);
    return count;
}
