/*
 * The lock of a region (region/shm_lock.h). Its holder is an identity, a slot's or a visitor's. The
 * kernel tells by its file locks whether a process has that identity (region/liveness.h): where
 * none does, the holder is dead.
 *
 * A process that takes the lock of a dead holder repairs the region (region_recover()) before the
 * call returns. A holder that is stopped lives: others wait up to their bound. A process that has
 * lost its identity because the program closed all descriptors is taken for dead, although it runs.
 * What it still writes leaves wrong numbers, as any writer of the file may. The preloaded library's
 * quota goes by them; the guard's does not.
 */
#ifndef VGPU_REGION_LOCK_H
#define VGPU_REGION_LOCK_H

#include <stdint.h>

#define REGION_LOCK_BOUND_NS 2000000000ULL

struct vgpu_region;

struct region_hold {
    uint32_t word;    /* the lock's word when it was taken */
    unsigned visitor; /* identity to give back with it; 0: none */
};

/*
 * Takes the lock as `id`, an identity of this process; 0: takes a visitor's identity meanwhile.
 * -ETIMEDOUT after bound_ns; -EUSERS: too many visitors; errors of liveness_claim().
 */
int region_lock(struct vgpu_region *region, unsigned id, uint64_t bound_ns,
                struct region_hold *ret_hold);
void region_unlock(struct vgpu_region *region, const struct region_hold *hold);

/*
 * liveness_claim(). If the identity's former owner died with the lock, takes the lock over, repairs
 * the region and releases the lock. Use it for every identity.
 */
int region_claim(struct vgpu_region *region, unsigned id);

#endif
