/*
 * Claiming slots and giving them back.
 */
#include "base/clock.h"
#include "region/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Fills a free slot whose identity this process has. No other process writes to it, so no lock is
 * needed: hundreds of starters do not wait for each other.
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
    __atomic_store_n(&slot->pid_namespace, slot_pid_namespace(), __ATOMIC_RELAXED);
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
 * Makes a slot live whose identity this process has. The lock is needed only for words that others
 * may write: what a dead owner has left in the slot, the totals, and whether the group still
 * exists.
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

/* Shows at once, to processes that look for free or dead slots, that the slot has an owner. */
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

/* Claims the identity of a slot that looks free. -EUSERS: none does. */
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
