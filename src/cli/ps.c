#include "cli/ps.h"

#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/message.h"

uint64_t ps_slice_held(const struct vgpu_snapshot *snapshot, unsigned slice, enum vgpu_kind kind)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < snapshot->proc_count; i++)
        bytes += snapshot->procs[i].held_bytes[slice][kind];
    return bytes;
}

bool ps_kind_counts(const struct vgpu_snapshot *snapshot, unsigned slice, enum vgpu_kind kind)
{
    return slice == VGPU_SLICE_HOST || snapshot->limits.tier != VGPU_TIER_GUARD || kind == VGPU_KIND_DRIVER ||
           kind == VGPU_KIND_MANAGED;
}

uint64_t ps_proc_held(const struct vgpu_snapshot *snapshot, const struct vgpu_proc_usage *proc, unsigned slice)
{
    uint64_t bytes = 0;

    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        bytes += ps_kind_counts(snapshot, slice, kind) ? proc->held_bytes[slice][kind] : 0;
    return bytes;
}

bool ps_proc_holds(const struct vgpu_proc_usage *proc, unsigned slice)
{
    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        if (proc->held_bytes[slice][kind])
            return true;
    return false;
}

bool ps_slice_shown(const struct vgpu_snapshot *snapshot, unsigned slice)
{
    const struct vgpu_slice_usage *usage = &snapshot->slice[slice];

    if (usage->used_bytes || usage->refusals || compute_used(&usage->compute))
        return true;
    if (slice == VGPU_SLICE_HOST)
        return usage->quota_bytes || snapshot->limits.slice[slice].quota_bytes;
    return slice < snapshot->limits.device_count || usage->uuid[0] || usage->physical_bytes;
}

uint64_t ps_refusals(const struct vgpu_snapshot *snapshot)
{
    uint64_t count = 0;

    for (unsigned slice = 0; slice < VGPU_SLICES; slice++)
        count += snapshot->slice[slice].refusals;
    return count;
}

int command_ps(char **argv)
{
    struct ps_list list;
    bool json = false, printed, failed;
    int status;

    if (!command_options(argv, &json, NULL, &status))
        return status;
    ps_collect(&list);
    printed = json ? ps_print_json(&list) : ps_print_table(&list);
    failed = list.failed;
    ps_done(&list);
    if (!printed) {
        message_error("ps: out of memory");
        return STATUS_FAILED;
    }
    status = command_finish_output();
    return failed ? STATUS_FAILED : status;
}
