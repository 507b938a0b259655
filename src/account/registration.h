/*
 * The slot that a ledger has: a registration is (slot index + 1) << 32 | generation, 0: none. It is
 * lost when the program closes all descriptors and another process takes the slot.
 */
#ifndef VGPU_ACCOUNT_REGISTRATION_H
#define VGPU_ACCOUNT_REGISTRATION_H

#include "account/ledger_internal.h"

static inline unsigned registration_index(uint64_t registration)
{
    return (unsigned)(registration >> 32) - 1;
}

static inline uint32_t registration_generation(uint64_t registration)
{
    return (uint32_t)registration;
}

static inline unsigned registration_lock_id(uint64_t registration)
{
    return (unsigned)(registration >> 32);
}

static inline struct region_slot *registration_slot(const struct vgpu_ledger *ledger,
                                                    uint64_t registration)
{
    return &ledger->region->layout->slot[registration_index(registration)];
}

/* Whether the slot is still ours. */
static inline bool registration_ours(const struct vgpu_ledger *ledger, uint64_t registration)
{
    return atomic_load_explicit(&registration_slot(ledger, registration)->generation,
                                memory_order_acquire) == registration_generation(registration);
}

/*
 * Makes a registration in place of `old` (0: the first one). If `old` was lost, the new slot starts
 * with what this process uses, except `pending_bytes` of `vdev`, which the caller is about to
 * reserve. 0 and the registration, also if another thread has just made it; -errno, said once on
 * stderr.
 */
int registration_renew(struct vgpu_ledger *ledger, uint64_t old, unsigned vdev,
                       uint64_t pending_bytes, uint64_t *ret_registration);

#endif
