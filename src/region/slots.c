/*
 * The contents of slots: emptied, taken from, and summed up.
 */
#include "region/internal.h"

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

/* Takes up to want_bytes off one slot. struct region_steal explains the order. */
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

        /* More idle than reserved bytes are damage: do not create bytes from it. */
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
        /* The next journal entry must not be written before this one is closed. */
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
    /* This process's growth must be visible before it reads the others'. */
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
