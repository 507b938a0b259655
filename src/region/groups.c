/*
 * Groups: runs inside the instance with limits of their own. See struct region_group.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "region/internal.h"

#include <errno.h>
#include <string.h>

unsigned group_find(const struct region_layout *layout, uint64_t id)
{
    for (unsigned i = 1; id && i < group_count(layout); i++)
        if (load_relaxed(&layout->group[i].id) == id)
            return i;
    return 0;
}

static bool group_empty(const struct region_layout *layout, unsigned group)
{
    unsigned high = region_slots_high(layout);

    for (unsigned i = 0; i < high; i++)
        if (slot_live(&layout->slot[i]) && slot_group(layout, i) == group)
            return false;
    return !shares_of_group(layout, group);
}

static uint64_t fill(struct region_layout *layout, unsigned index, const struct vgpu_limits *limits)
{
    struct region_group *group = &layout->group[index];
    uint64_t id = clock_real_ns();

    while (id == 0 || group_find(layout, id))
        id++;
    store_relaxed(&group->id, 0);
    group->compute = limits->compute;
    for (unsigned i = 0; i < VGPU_VDEVS; i++) {
        struct region_group_vdev *vdev = &group->vdev[i];

        vdev->limit = limits->vdev[i];
        memset(vdev->limit.uuid, 0, sizeof(vdev->limit.uuid));
        store_relaxed(&vdev->total_bytes, 0);
        store_relaxed(&vdev->paid_until_ns, 0);
        store_relaxed(&vdev->copy_paid_until_ns[0], 0);
        store_relaxed(&vdev->copy_paid_until_ns[1], 0);
        atomic_store_explicit(&vdev->cap_percent,
                              limits->vdev[i].cap_percent < 100 ? limits->vdev[i].cap_percent : 0,
                              memory_order_relaxed);
        region_resolve_group_quota(layout, group, i);
    }
    if (index >= group_count(layout))
        atomic_store_explicit(&layout->groups_high, index + 1, memory_order_release);
    atomic_store_explicit(&group->id, id, memory_order_release);
    return id;
}

int region_group_new(struct vgpu_region *region, const struct vgpu_limits *limits, uint64_t *ret_id)
{
    KEEP_ERRNO;
    struct region_layout *layout = region->layout;
    struct region_hold hold;
    int rc = region_lock(region, 0, REGION_LOCK_BOUND_NS, &hold);

    if (rc < 0)
        return rc;
    region_reap(region);
    rc = -EUSERS;
    for (unsigned i = 1; i < VGPU_GROUPS && rc != 0; i++) {
        /* The maker's identity first: it tells whether the entry's former maker lives. */
        int claimed = liveness_claim(region->liveness, LOCK_ID_GROUP + i);

        if (claimed < 0 && claimed != -EBUSY) {
            rc = claimed;
            break;
        }
        if (claimed == 0 && group_empty(layout, i)) {
            *ret_id = fill(layout, i, limits);
            rc = 0;
        } else if (claimed == 0) {
            liveness_drop(region->liveness, LOCK_ID_GROUP + i);
        }
    }
    region_unlock(region, &hold);
    return rc;
}

static void lower_limit(struct vgpu_limit *limit, const struct region_vdev *vdev,
                        const struct region_group_vdev *of_group)
{
    const struct vgpu_limit *own = &of_group->limit;

    limit->cap_percent = (uint32_t)vgpu_lower_limit(own->cap_percent, limit->cap_percent);
    if (!own->quota_bytes && !own->quota_percent)
        return;
    limit->quota_percent = own->quota_percent;
    limit->quota_bytes = own->quota_bytes;
    /* A percentage is resolved once the device is known, or if the instance's quota is in bytes. */
    if (vdev->physical_bytes || (vdev->limit.quota_bytes && !vdev->limit.quota_percent)) {
        limit->quota_percent = 0;
        limit->quota_bytes = load_relaxed(&of_group->quota_bytes);
    }
}

bool region_group_limits(struct vgpu_region *region, uint64_t id, struct vgpu_limits *ret_limits)
{
    KEEP_ERRNO;
    struct region_layout *layout = region->layout;
    struct vgpu_limits limits;
    struct region_hold hold;
    unsigned index;

    if (region_lock(region, 0, REGION_LOCK_BOUND_NS, &hold) < 0)
        return false;
    index = group_find(layout, id);
    if (index > 0) {
        const struct region_group *group = &layout->group[index];

        region_load_limits(layout, &limits);
        for (unsigned i = 0; i < VGPU_VDEVS; i++)
            lower_limit(&limits.vdev[i], &layout->vdev[i], &group->vdev[i]);
#define COMPUTE_LIMIT(field, type, most, initial, none, lower, json)                               \
    limits.compute.field = (type)lower(group->compute.field, limits.compute.field);
#include "limits.def"
        *ret_limits = limits;
    }
    region_unlock(region, &hold);
    return index > 0;
}
