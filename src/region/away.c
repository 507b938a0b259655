/*
 * Memory that a checkpoint has taken off the device. Its process is stopped meanwhile, in the
 * driver.
 */
#include "region/internal.h"

#include <errno.h>

int slot_of_pid(struct vgpu_region *region, pid_t pid, unsigned *ret_index)
{
    unsigned high = region_slots_high(region->layout);
    struct slot_pass pass = {0};

    for (unsigned i = 0; i < high; i++) {
        if (slot_live(&region->layout->slot[i]) && slot_pid(region, i, &pass) == pid) {
            *ret_index = i;
            return 0;
        }
    }
    return -ESRCH;
}

void slot_put_away(struct region_layout *layout, unsigned index)
{
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        struct slot_vdev *vdev = &layout->slot[index].vdev[i];
        uint64_t reserved;

        slot_steal(layout, index, i, IDLE_BYTES_MASK);
        reserved = load_relaxed(&vdev->reserved_bytes);
        store_relaxed(&vdev->away_bytes, add_saturated(load_relaxed(&vdev->away_bytes), reserved));
        store_relaxed(&vdev->reserved_bytes, 0);
        region_total_sub(layout, slot_group(layout, index), i, reserved);
    }
}

void slot_bring_back(struct region_layout *layout, unsigned index)
{
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        struct slot_vdev *vdev = &layout->slot[index].vdev[i];
        uint64_t away = load_relaxed(&vdev->away_bytes);

        store_relaxed(&vdev->reserved_bytes,
                      add_saturated(load_relaxed(&vdev->reserved_bytes), away));
        region_total_add(layout, slot_group(layout, index), i, away);
        store_relaxed(&vdev->away_bytes, 0);
    }
}
