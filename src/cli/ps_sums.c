/* What a snapshot adds up to, for tables and JSON alike. */
#include "cli/ps.h"

#include "cli/compute.h"

uint64_t ps_vdev_held(const struct vgpu_snapshot *snapshot, unsigned vdev, enum vgpu_kind kind)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < snapshot->proc_count; i++)
        bytes += snapshot->procs[i].held_bytes[vdev][kind];
    return bytes;
}

bool ps_kind_counts(const struct vgpu_snapshot *snapshot, unsigned vdev, enum vgpu_kind kind)
{
    return vdev == VGPU_VDEV_HOST || snapshot->limits.tier != VGPU_TIER_GUARD ||
           kind == VGPU_KIND_DRIVER || kind == VGPU_KIND_MANAGED;
}

uint64_t ps_proc_held(const struct vgpu_snapshot *snapshot, const struct vgpu_proc_usage *proc,
                      unsigned vdev)
{
    uint64_t bytes = 0;

    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        bytes += ps_kind_counts(snapshot, vdev, kind) ? proc->held_bytes[vdev][kind] : 0;
    return bytes;
}

bool ps_proc_holds(const struct vgpu_proc_usage *proc, unsigned vdev)
{
    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        if (proc->held_bytes[vdev][kind])
            return true;
    return false;
}

bool ps_vdev_shown(const struct vgpu_snapshot *snapshot, unsigned vdev)
{
    const struct vgpu_vdev_usage *usage = &snapshot->vdev[vdev];

    if (usage->used_bytes || usage->refusals || compute_used(&usage->compute))
        return true;
    if (vdev == VGPU_VDEV_HOST)
        return usage->quota_bytes || snapshot->limits.vdev[vdev].quota_bytes;
    return vdev < snapshot->limits.device_count || usage->uuid[0] || usage->physical_bytes;
}

uint64_t ps_refusals(const struct vgpu_snapshot *snapshot)
{
    uint64_t count = 0;

    for (unsigned vdev = 0; vdev < VGPU_VDEVS; vdev++)
        count += snapshot->vdev[vdev].refusals;
    return count;
}
