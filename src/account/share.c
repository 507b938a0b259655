#include "account/share.h"

#include "account/registration.h"

#include <errno.h>

/* Takes the lock as the owner of our slot. False: it is not to be had, or the slot is not ours any
 * more. */
static bool lock_registration(struct vgpu_ledger *ledger, unsigned *ret_slot,
                              struct region_hold *ret_hold)
{
    uint64_t registration = ledger_registration(ledger);

    if (!registration || !registration_ours(ledger, registration) ||
        region_lock(ledger->region, registration_lock_id(registration), LEDGER_LOCK_BOUND_NS,
                    ret_hold) < 0)
        return false;
    if (registration_ours(ledger, registration)) {
        *ret_slot = registration_index(registration);
        return true;
    }
    region_unlock(ledger->region, ret_hold);
    return false;
}

int ledger_share(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind, uint64_t bytes,
                 struct ledger_share *ret_share)
{
    struct shares_ref ref;
    struct region_hold hold;
    unsigned slot;
    int rc;

    if (vdev >= VGPU_VDEVS || (unsigned)kind >= VGPU_KINDS)
        return -EINVAL;
    fork_check();
    if (ledger_counts_only(ledger, vdev))
        return -EOPNOTSUPP;
    if (!lock_registration(ledger, &slot, &hold))
        return -EAGAIN;
    rc = shares_new(ledger->region->layout, slot, vdev, kind, bytes, &ref);
    region_unlock(ledger->region, &hold);
    if (rc == 0)
        *ret_share = (struct ledger_share){ref.index, ref.generation};
    return rc;
}

int ledger_share_key(struct vgpu_ledger *ledger, struct ledger_share share, uint64_t key)
{
    struct region_hold hold;
    unsigned slot;

    fork_check();
    if (!lock_registration(ledger, &slot, &hold))
        return -EAGAIN;
    shares_add_key(ledger->region->layout, (struct shares_ref){share.index, share.generation}, key);
    region_unlock(ledger->region, &hold);
    return 0;
}

bool ledger_share_find(struct vgpu_ledger *ledger, bool (*is)(uint64_t key, void *arg), void *arg,
                       struct ledger_share_memory *ret_memory)
{
    struct shares_view view;
    unsigned at = 0;

    while (shares_next(ledger->region->layout, &at, &view)) {
        for (unsigned i = 0; i < REGION_SHARE_KEYS; i++) {
            if (view.key[i] == 0 || !is(view.key[i], arg))
                continue;
            *ret_memory = (struct ledger_share_memory){
                .share = {view.ref.index, view.ref.generation},
                .vdev = view.vdev,
                .kind = view.kind,
                .bytes = view.bytes,
            };
            return true;
        }
    }
    return false;
}

int ledger_share_join(struct vgpu_ledger *ledger, struct ledger_share share)
{
    struct region_hold hold;
    unsigned slot;
    bool joined;

    fork_check();
    /* A process that has allocated nothing yet has no slot. */
    if (!ledger_registration(ledger)) {
        uint64_t registration;
        int rc = registration_renew(ledger, 0, 0, 0, &registration);

        if (rc < 0)
            return rc;
    }
    if (!lock_registration(ledger, &slot, &hold))
        return -EAGAIN;
    joined = shares_join(ledger->region->layout, (struct shares_ref){share.index, share.generation},
                         slot);
    region_unlock(ledger->region, &hold);
    return joined ? 0 : -ESTALE;
}

/* Under the lock. The share's entry counts from now on: takes `bytes` off what our slot has
 * reserved. */
static void hand_over(struct vgpu_ledger *ledger, unsigned slot, unsigned vdev, uint64_t bytes)
{
    struct region_layout *layout = ledger->region->layout;
    _Atomic uint64_t *reserved = &layout->slot[slot].vdev[vdev].reserved_bytes;
    uint64_t owed = atomic_exchange_explicit(&ledger->vdev[vdev].owed, 0, memory_order_relaxed);

    region_total_add(layout, slot_group(layout, slot), vdev, owed);
    store_relaxed(reserved, subtract_clamped(add_saturated(load_relaxed(reserved), owed), bytes));
    region_total_sub(layout, slot_group(layout, slot), vdev, bytes);
}

bool ledger_share_leave(struct vgpu_ledger *ledger, struct ledger_share share, unsigned vdev,
                        enum vgpu_kind kind, uint64_t own_bytes)
{
    struct region_hold hold;
    unsigned slot;
    bool left;

    if (vdev >= VGPU_VDEVS || (unsigned)kind >= VGPU_KINDS)
        return false;
    fork_check();
    /* A process that has lost its slot has lost its part in shares, too. */
    if (!lock_registration(ledger, &slot, &hold))
        return false;
    left = shares_leave(ledger->region->layout, (struct shares_ref){share.index, share.generation},
                        slot);
    if (left)
        hand_over(ledger, slot, vdev, own_bytes);
    region_unlock(ledger->region, &hold);
    if (left) {
        ledger_take_held(ledger, vdev, kind, own_bytes);
        atomic_fetch_sub_explicit(&ledger->vdev[vdev].busy, own_bytes, memory_order_relaxed);
        ledger_notify(ledger, vdev);
    }
    return left;
}
