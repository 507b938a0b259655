#include "region/internal.h"

/* Finishes the taking of idle bytes that a dead holder had begun, if the idle word says that it had
 * happened. Idempotent. */
static void finish_steal(struct region_layout *layout)
{
    struct region_steal *steal = &layout->steal;

    if (!atomic_load_explicit(&steal->active, memory_order_acquire))
        return;
    if (steal->slot < VGPU_PROCS_MAX && steal->vdev < VGPU_VDEVS) {
        struct region_slot *victim = &layout->slot[steal->slot];
        struct slot_vdev *vdev = &victim->vdev[steal->vdev];
        uint64_t steals = load_relaxed(&vdev->idle) >> IDLE_STEAL_SHIFT & IDLE_STEAL_MASK;

        if (atomic_load_explicit(&victim->generation, memory_order_relaxed) == steal->generation &&
            steals != steal->steals_before)
            store_relaxed(&vdev->reserved_bytes, steal->reserved_after_bytes);
    }
    atomic_store_explicit(&steal->active, 0, memory_order_release);
}

void region_reap(struct vgpu_region *region)
{
    struct region_layout *layout = region->layout;
    unsigned high = region_slots_high(layout);
    struct slot_pass pass = {0};

    for (unsigned i = 0; i < high; i++) {
        uint32_t state = atomic_load_explicit(&layout->slot[i].state, memory_order_acquire);

        if (state != SLOT_FREE && !slot_alive(region, slot_id(i), &pass) &&
            !slot_exiting(&layout->slot[i], &pass))
            slot_empty(layout, i);
    }
}

void region_recover(struct vgpu_region *region)
{
    struct region_layout *layout = region->layout;
    unsigned high = region_slots_high(layout);

    layout->recoveries++;
    finish_steal(layout);
    region_reap(region);
    for (unsigned vdev = 0; vdev < VGPU_VDEVS; vdev++) {
        for (unsigned group = 0; group < group_count(layout); group++)
            store_relaxed(region_total(layout, group, vdev), shares_left(layout, group, vdev));
        for (unsigned i = 0; i < high; i++) {
            uint64_t reserved = load_relaxed(&layout->slot[i].vdev[vdev].reserved_bytes);

            if (slot_live(&layout->slot[i]) && reserved > 0)
                region_total_add(layout, slot_group(layout, i), vdev, reserved);
        }
    }
}
