#include "base/cleanup.h"
#include "base/clock.h"
#include "region/internal.h"

#include <errno.h>
#include <string.h>

static void copy_proc(struct vgpu_region *region, unsigned index, struct slot_pass *pass,
                      struct vgpu_proc_usage *ret_proc)
{
    const struct region_slot *slot = &region->layout->slot[index];

    memset(ret_proc, 0, sizeof(*ret_proc));
    ret_proc->pid = slot_pid(region, index, pass);
    ret_proc->own_pid = slot->pid;
    ret_proc->guarded = slot->guarded;
    ret_proc->start_ns = slot->start_ns;
    memcpy(ret_proc->command, slot->command, sizeof(ret_proc->command) - 1);
    for (unsigned i = 0; i < VGPU_VDEVS; i++) {
        for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
            ret_proc->held_bytes[i][kind] =
                load_relaxed(&slot->vdev[i].away_bytes) ? 0 : slot_held(&slot->vdev[i], kind);
    }
}

uint64_t region_last_second_ns(const struct region_compute *compute, uint64_t now_ns)
{
    uint64_t now = now_ns / REGION_SPAN_NS, sum = 0;
    uint64_t spans = NS_PER_S / REGION_SPAN_NS;

    /* The current span counts in place of the part of the oldest one that is over. */
    for (unsigned i = 0; i < REGION_SPANS; i++) {
        uint64_t stamp = load_relaxed(&compute->span_stamp[i]),
                 ns = load_relaxed(&compute->span_ns[i]);

        if (stamp > now || stamp + spans < now)
            continue;
        if (stamp + spans == now)
            ns = ns / REGION_SPAN_NS * (REGION_SPAN_NS - now_ns % REGION_SPAN_NS) +
                 ns % REGION_SPAN_NS * (REGION_SPAN_NS - now_ns % REGION_SPAN_NS) / REGION_SPAN_NS;
        sum = add_saturated(sum, ns);
    }
    return sum;
}

static void copy_compute(const struct region_compute *from, uint64_t now_ns,
                         struct vgpu_compute_usage *to)
{
    for (unsigned i = 0; i < VGPU_WORKS; i++) {
        to->calls[i] = load_relaxed(&from->calls[i]);
        to->amount[i] = load_relaxed(&from->amount[i]);
    }
    to->last_second_ns = region_last_second_ns(from, now_ns);
    to->throttles = load_relaxed(&from->throttles);
    to->throttled_ns = load_relaxed(&from->throttled_ns);
    to->turns = load_relaxed(&from->turns);
    to->turn_wait_ns = load_relaxed(&from->turn_wait_ns);
    to->copy_wait_ns = load_relaxed(&from->copy_wait_ns);
}

static void copy_vdevs(const struct region_layout *layout, struct vgpu_snapshot *snapshot)
{
    uint64_t now_ns = clock_ns();

    for (unsigned i = 0; i < VGPU_VDEVS; i++) {
        const struct region_vdev *from = &layout->vdev[i];
        struct vgpu_vdev_usage *to = &snapshot->vdev[i];
        bool unresolved = from->limit.quota_percent && !from->physical_bytes;

        memcpy(to->uuid, snapshot->limits.vdev[i].uuid, sizeof(to->uuid));
        to->quota_bytes = unresolved ? 0 : load_relaxed(&from->quota_bytes);
        to->physical_bytes = from->physical_bytes;
        to->used_bytes = slots_used(layout, i);
        to->peak_bytes = load_relaxed(&from->peak_bytes);
        to->refusals = load_relaxed(&from->refusals);
        copy_compute(&from->compute, now_ns, &to->compute);
    }
}

static void copy_refusals(const struct region_layout *layout, struct vgpu_snapshot *snapshot)
{
    uint64_t count = load_relaxed(&layout->refusal_count);
    uint64_t first = count > VGPU_REFUSALS ? count - VGPU_REFUSALS : 0;

    for (uint64_t n = first; n < count; n++) {
        struct vgpu_refusal *to = &snapshot->refusals[snapshot->refusal_count++];

        *to = layout->refusals[n % VGPU_REFUSALS];
        to->api[sizeof(to->api) - 1] = '\0';
    }
}

int region_snapshot(struct vgpu_region *region, struct vgpu_snapshot *ret_snapshot)
{
    KEEP_ERRNO;
    struct region_layout *layout = region->layout;
    struct vgpu_snapshot snapshot;
    struct vgpu_proc_usage *procs, *proc_of[VGPU_PROCS_MAX] = {NULL};
    struct region_hold hold;
    struct slot_pass pass = {0};
    unsigned high;
    int rc;

    memset(&snapshot, 0, sizeof(snapshot));
    /* Allocates room for all slots before it takes the lock. Untouched pages cost nothing. */
    procs = calloc(VGPU_PROCS_MAX, sizeof(*procs));
    if (!procs)
        return -ENOMEM;
    rc = region_lock(region, 0, REGION_LOCK_BOUND_NS, &hold);
    if (rc < 0) {
        free(procs);
        return rc;
    }
    region_reap(region);
    high = region_slots_high(layout);
    region_load_limits(layout, &snapshot.limits);
    snapshot.created_ns = layout->created_ns;
    for (unsigned i = 0; i < high; i++) {
        if (slot_live(&layout->slot[i])) {
            proc_of[i] = &procs[snapshot.proc_count++];
            copy_proc(region, i, &pass, proc_of[i]);
        }
    }
    shares_show(layout, proc_of);
    copy_vdevs(layout, &snapshot);
    copy_refusals(layout, &snapshot);
    region_unlock(region, &hold);
    snapshot.procs = procs;
    *ret_snapshot = snapshot;
    return 0;
}

void snapshot_done(struct vgpu_snapshot *snapshot)
{
    free(snapshot->procs);
    snapshot->procs = NULL;
    snapshot->proc_count = 0;
}

bool region_in_use(struct vgpu_region *region)
{
    KEEP_ERRNO;
    unsigned high = region_slots_high(region->layout);
    struct slot_pass pass = {0};

    for (unsigned i = 0; i < high; i++) {
        if (slot_live(&region->layout->slot[i]) && slot_alive(region, slot_id(i), &pass))
            return true;
    }
    return false;
}
