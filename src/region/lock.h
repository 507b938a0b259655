/*
 * The lock of a region: one word that says who holds it.
 *
 * Not a robust pthread mutex, for two reasons. Such a mutex tells its owners apart by thread id,
 * and processes in different PID namespaces have equal ones: the kernel then marks a mutex as
 * orphaned because a namesake of its owner died. And it keeps pointers in the shared memory, which
 * whoever may write to the file could bend. Here the owner is an identity (a slot, or a visitor)
 * whose life the kernel tells us about by its locks (region/liveness.h).
 *
 * Taking a lock whose holder is dead repairs the region (region_recover()) before the call returns.
 * A holder that is stopped makes others wait up to their bound. The threads of a process share its
 * identity and exclude each other by the same word.
 */
#ifndef VGPU_REGION_LOCK_H
#define VGPU_REGION_LOCK_H

#include <stdint.h>

#define REGION_LOCK_BOUND_NS 2000000000ULL

struct vgpu_region;

struct region_hold {
    uint32_t word;    /* what the lock's word was when we got it */
    unsigned visitor; /* identity to give back with it; 0: none */
};

/*
 * Takes the lock as `id`, which this process holds (0: takes a visitor's identity for the time).
 * -ETIMEDOUT after bound_ns; -EUSERS: too many visitors; errors of liveness_claim().
 */
int region_lock(struct vgpu_region *region, unsigned id, uint64_t bound_ns,
                struct region_hold *ret_hold);
void region_unlock(struct vgpu_region *region, const struct region_hold *hold);

/*
 * liveness_claim(), and where the identity's former owner died with the lock in its hand, takes the
 * lock over, repairs and frees it. To be used for every identity.
 */
int region_claim(struct vgpu_region *region, unsigned id);

#endif
