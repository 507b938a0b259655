#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "region/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void slot_empty(struct region_layout *layout, unsigned index)
{
    struct region_slot *slot = &layout->slot[index];
    uint32_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed) + 1;

    atomic_store_explicit(&slot->generation, generation, memory_order_release);
    for (unsigned i = 0; i < VGPU_VDEVS; i++) {
        struct slot_vdev *vdev = &slot->vdev[i];
        uint64_t reserved = load_relaxed(&vdev->reserved_bytes);

        store_relaxed(&vdev->idle, IDLE_TAG(generation));
        store_relaxed(&vdev->reserved_bytes, 0);
        store_relaxed(&vdev->away_bytes, 0);
        region_total_sub(layout, slot_group(layout, index), i, reserved);
        for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
            store_relaxed(&vdev->held_bytes[kind], 0);
    }
    shares_forget(layout, index);
    atomic_store_explicit(&slot->state, SLOT_FREE, memory_order_release);
}

static uint64_t pid_namespace(void)
{
    struct stat found;

    return file_stat_path("/proc/self/ns/pid", 1, &found) == 0 ? found.st_ino : 0;
}

/* What the slot itself says; 0: another namespace's. */
static pid_t written_pid(const struct region_slot *slot)
{
    pid_t pid = __atomic_load_n(&slot->pid, __ATOMIC_RELAXED);
    uint64_t namespace = __atomic_load_n(&slot->pid_namespace, __ATOMIC_RELAXED);

    return pid > 0 && namespace && namespace == pid_namespace() ? pid : 0;
}

bool slot_alive(struct vgpu_region *region, unsigned id)
{
    const struct region_slot *slot;
    pid_t pid = 0;
    int rc = liveness_check(region->liveness, id, &pid);

    if (rc <= 0)
        return rc < 0;
    if (pid >= 0 || id > VGPU_PROCS_MAX)
        return true;
    /* The owner is not told: it lives, or it has died and a child keeps its description. */
    slot = &region->layout->slot[id - 1];
    if (!slot_live(slot) || slot->guarded)
        return true;
    pid = written_pid(slot);
    return pid == 0 || kill(pid, 0) == 0 || errno != ESRCH;
}

bool slot_exiting(const struct region_slot *slot)
{
    pid_t pid = slot_live(slot) && !slot->guarded ? written_pid(slot) : 0;

    return pid > 0 && proc_is_exiting(pid);
}

bool slots_exiting(const struct region_layout *layout, unsigned vdev, unsigned except)
{
    for (unsigned i = 0; i < region_slots_high(layout); i++) {
        const struct region_slot *slot = &layout->slot[i];

        if (i != except && slot_live(slot) && load_relaxed(&slot->vdev[vdev].reserved_bytes) > 0 &&
            slot_exiting(slot))
            return true;
    }
    return false;
}

pid_t slot_pid(struct vgpu_region *region, unsigned index)
{
    const struct region_slot *slot = &region->layout->slot[index];
    pid_t pid = 0;

    if (slot->guarded)
        return written_pid(slot);
    liveness_check(region->liveness, slot_id(index), &pid);
    return pid >= 0 ? pid : written_pid(slot);
}

/*
 * Fills a free slot whose identity we have: nobody else writes to it, so this needs no lock. A
 * region with hundreds of starters would otherwise make them wait for each other.
 */
static void fill(struct region_layout *layout, unsigned index,
                 const struct slot_supervised *supervised, unsigned group,
                 const uint64_t *reserved_bytes)
{
    struct region_slot *slot = &layout->slot[index];
    uint32_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed) + 1;

    atomic_store_explicit(&slot->generation, generation, memory_order_release);
    __atomic_store_n(&slot->pid, supervised ? supervised->pid : getpid(), __ATOMIC_RELAXED);
    slot->guarded = supervised != NULL;
    atomic_store_explicit(&slot->group, (uint16_t)group, memory_order_relaxed);
    __atomic_store_n(&slot->pid_namespace, pid_namespace(), __ATOMIC_RELAXED);
    slot->start_ns = clock_real_ns();
    memset(slot->command, 0, sizeof(slot->command));
    snprintf(slot->command, sizeof(slot->command), "%s",
             supervised ? supervised->command : program_invocation_short_name);
    for (unsigned i = 0; i < VGPU_VDEVS; i++) {
        store_relaxed(&slot->vdev[i].idle, IDLE_TAG(generation));
        store_relaxed(&slot->vdev[i].reserved_bytes, reserved_bytes ? reserved_bytes[i] : 0);
        for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
            store_relaxed(&slot->vdev[i].held_bytes[kind], 0);
    }
}

/*
 * Makes a slot live whose identity we have. Only what others may be at needs the lock: what a
 * former owner that died has left in the slot, the totals, and that a group is still there.
 */
static int occupy(struct vgpu_region *region, unsigned index,
                  const struct slot_supervised *supervised, uint64_t group_id,
                  const uint64_t *reserved_bytes)
{
    struct region_layout *layout = region->layout;
    struct region_slot *slot = &layout->slot[index];
    bool lock = reserved_bytes || group_id || slot_live(slot);
    struct region_hold hold;
    unsigned group;
    int rc = lock ? region_lock(region, slot_id(index), REGION_LOCK_BOUND_NS, &hold) : 0;

    if (rc < 0)
        return rc;
    if (slot_live(slot))
        slot_empty(layout, index);
    group = group_id ? group_find(layout, group_id) : 0;
    fill(layout, index, supervised, group, reserved_bytes);
    atomic_store_explicit(&slot->state, SLOT_LIVE, memory_order_release);
    for (unsigned i = 0; reserved_bytes && i < VGPU_VDEVS; i++)
        region_total_add(layout, group, i, reserved_bytes[i]);
    if (lock)
        region_unlock(region, &hold);
    return 0;
}

/* The slot at `index` has an identity now: whoever looks for a free one, or for the dead, is to
 * know at once. */
static void mark_claimed(struct region_layout *layout, unsigned index)
{
    uint32_t high = atomic_load_explicit(&layout->slots_high, memory_order_relaxed);
    uint32_t expected = SLOT_FREE;

    while (high < index + 1 && !atomic_compare_exchange_weak(&layout->slots_high, &high, index + 1))
        ;
    atomic_compare_exchange_strong(&layout->slot[index].state, &expected, SLOT_CLAIMED);
}

static void unclaim(struct vgpu_region *region, unsigned index)
{
    uint32_t expected = SLOT_CLAIMED;

    atomic_compare_exchange_strong(&region->layout->slot[index].state, &expected, SLOT_FREE);
    liveness_drop(region->liveness, slot_id(index));
}

/* The identity of a slot that looks free. -EUSERS: none does. */
static int claim_free(struct vgpu_region *region, unsigned *ret_index)
{
    for (unsigned i = 0; i < VGPU_PROCS_MAX; i++) {
        int rc;

        if (atomic_load_explicit(&region->layout->slot[i].state, memory_order_acquire) != SLOT_FREE)
            continue;
        rc = region_claim(region, slot_id(i));
        if (rc == 0) {
            mark_claimed(region->layout, i);
            *ret_index = i;
        }
        if (rc != -EBUSY)
            return rc;
    }
    return -EUSERS;
}

int slot_claim(struct vgpu_region *region, const struct slot_supervised *supervised,
               uint64_t group_id, const uint64_t *reserved_bytes, unsigned *ret_index,
               uint32_t *ret_generation)
{
    struct region_hold hold;
    unsigned index;
    int rc = claim_free(region, &index);

    if (rc == -EUSERS && region_lock(region, 0, REGION_LOCK_BOUND_NS, &hold) == 0) {
        region_reap(region);
        region_unlock(region, &hold);
        rc = claim_free(region, &index);
    }
    if (rc < 0)
        return rc;
    rc = occupy(region, index, supervised, group_id, reserved_bytes);
    if (rc < 0) {
        unclaim(region, index);
        return rc;
    }
    atomic_fetch_or(&region->claimed[index / 64], 1ULL << index % 64);
    *ret_index = index;
    *ret_generation =
        atomic_load_explicit(&region->layout->slot[index].generation, memory_order_relaxed);
    return 0;
}

void slot_release(struct vgpu_region *region, unsigned index, uint32_t generation)
{
    struct region_slot *slot = &region->layout->slot[index];
    struct region_hold hold;

    atomic_fetch_and(&region->claimed[index / 64], ~(1ULL << index % 64));
    if (!liveness_holds(region->liveness, slot_id(index)))
        return;
    if (region_lock(region, slot_id(index), REGION_LOCK_BOUND_NS, &hold) == 0) {
        if (slot_live(slot) &&
            atomic_load_explicit(&slot->generation, memory_order_relaxed) == generation)
            slot_empty(region->layout, index);
        region_unlock(region, &hold);
    }
    liveness_drop(region->liveness, slot_id(index));
}

void slots_release_all(struct vgpu_region *region)
{
    for (unsigned i = 0; i < VGPU_PROCS_MAX; i++) {
        if (atomic_load(&region->claimed[i / 64]) >> i % 64 & 1)
            slot_release(region, i, atomic_load(&region->layout->slot[i].generation));
    }
}

/* Takes up to want_bytes from one slot; see struct region_steal for why in this order. */
uint64_t slot_steal(struct region_layout *layout, unsigned index, unsigned vdev,
                    uint64_t want_bytes)
{
    struct region_slot *victim = &layout->slot[index];
    struct slot_vdev *from = &victim->vdev[vdev];
    struct region_steal *steal = &layout->steal;
    uint64_t idle = load_relaxed(&from->idle);
    uint64_t reserved = load_relaxed(&from->reserved_bytes);

    for (;;) {
        uint64_t bytes = idle & IDLE_BYTES_MASK;
        uint64_t steals = idle >> IDLE_STEAL_SHIFT & IDLE_STEAL_MASK;
        uint64_t after;

        /* More idle than reserved is damage: do not make bytes out of it. */
        if (bytes > reserved)
            bytes = reserved;
        if (bytes > want_bytes)
            bytes = want_bytes;
        if (bytes == 0)
            return 0;
        steal->slot = index;
        steal->vdev = vdev;
        steal->generation = atomic_load_explicit(&victim->generation, memory_order_relaxed);
        steal->steals_before = steals;
        steal->reserved_after_bytes = reserved - bytes;
        atomic_store_explicit(&steal->active, 1, memory_order_release);
        after = (idle & ~((uint64_t)IDLE_STEAL_MASK << IDLE_STEAL_SHIFT)) |
                ((steals + 1) & IDLE_STEAL_MASK) << IDLE_STEAL_SHIFT;
        after -= bytes;
        if (!atomic_compare_exchange_strong_explicit(&from->idle, &idle, after,
                                                     memory_order_acq_rel, memory_order_relaxed)) {
            atomic_store_explicit(&steal->active, 0, memory_order_release);
            atomic_signal_fence(memory_order_seq_cst);
            continue;
        }
        store_relaxed(&from->reserved_bytes, reserved - bytes);
        region_total_sub(layout, slot_group(layout, index), vdev, bytes);
        atomic_store_explicit(&steal->active, 0, memory_order_release);
        /* The next theft's words must not be written before this one is over. */
        atomic_signal_fence(memory_order_seq_cst);
        return bytes;
    }
}

uint64_t slots_steal(struct region_layout *layout, unsigned group, unsigned vdev,
                     uint64_t want_bytes, unsigned except)
{
    unsigned high = region_slots_high(layout);
    uint64_t stolen = 0;

    for (unsigned i = 0; i < high && stolen < want_bytes; i++) {
        if (i != except && slot_live(&layout->slot[i]) &&
            (!group || slot_group(layout, i) == group))
            stolen += slot_steal(layout, i, vdev, want_bytes - stolen);
    }
    return stolen;
}

uint64_t slots_used_by(const struct region_layout *layout, unsigned group, unsigned vdev)
{
    unsigned high = region_slots_high(layout);
    uint64_t used = 0;

    for (unsigned i = 0; i < high; i++) {
        if (slot_live(&layout->slot[i]) && (!group || slot_group(layout, i) == group))
            used = add_saturated(used, slot_used(&layout->slot[i].vdev[vdev]));
    }
    return add_saturated(used, shares_left(layout, group, vdev));
}

uint64_t slots_used(const struct region_layout *layout, unsigned vdev)
{
    return slots_used_by(layout, 0, vdev);
}

void slots_note_peak(struct region_layout *layout, unsigned vdev)
{
    struct region_vdev *of = &layout->vdev[vdev];
    uint64_t peak = load_relaxed(&of->peak_bytes), total, used;

    if (load_relaxed(&of->total_bytes) <= peak)
        return;
    /* Our growth first, then the look at the others'. */
    atomic_thread_fence(memory_order_seq_cst);
    used = slots_used(layout, vdev);
    total = load_relaxed(&of->total_bytes);
    if (used > total)
        used = total;
    while (peak < used &&
           !atomic_compare_exchange_weak_explicit(&of->peak_bytes, &peak, used,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}
