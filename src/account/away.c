#include "account/ledger_internal.h"

#include <errno.h>

void ledger_put_away(struct vgpu_ledger *ledger, pid_t pid)
{
    struct region_hold hold;
    unsigned index;

    fork_check();
    if (ledger_counts_only(ledger, 0) || ledger_lock(ledger, LEDGER_LOCK_BOUND_NS, &hold) < 0)
        return;
    if (slot_of_pid(ledger->region, pid, &index) == 0)
        slot_put_away(ledger->region->layout, index);
    region_unlock(ledger->region, &hold);
}

int ledger_bring_back(struct vgpu_ledger *ledger, pid_t pid, unsigned *ret_vdev,
                      uint64_t *ret_bytes)
{
    struct region_layout *layout = ledger->region->layout;
    struct region_hold hold;
    uint64_t away = 0;
    unsigned index;
    int rc = 0;

    fork_check();
    if (ledger_counts_only(ledger, 0))
        return 0;
    *ret_vdev = 0;
    *ret_bytes = 0;
    if (ledger_lock(ledger, LEDGER_LOCK_BOUND_NS, &hold) < 0)
        return -ENOMEM;
    if (slot_of_pid(ledger->region, pid, &index) < 0)
        goto out;
    for (unsigned i = 0; i < VGPU_DEVICES_MAX && rc == 0; i++) {
        uint64_t bytes = load_relaxed(&layout->slot[index].vdev[i].away_bytes);

        away = add_saturated(away, bytes);
        /* Our own idle bytes may be taken, too. */
        if (bytes == 0 ||
            ledger_make_room(ledger, slot_group(layout, index), VGPU_PROCS_MAX, i, bytes))
            continue;
        *ret_vdev = i;
        *ret_bytes = bytes;
        rc = -ENOMEM;
    }
    if (rc == 0 && away > 0) {
        slot_bring_back(layout, index);
        rc = 1;
    }
out:
    region_unlock(ledger->region, &hold);
    return rc;
}
