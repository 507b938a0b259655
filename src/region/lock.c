#include "region/lock.h"

#include "base/clock.h"
#include "region/internal.h"
#include "region/shm_lock.h"

#include <errno.h>

_Static_assert(LOCK_IDS <= SHM_LOCK_ID_MASK + 1, "identities fit into the lock's word");

/* An identity that cannot hold the lock is damage. */
static bool lost(void *region, unsigned id)
{
    struct slot_pass pass = {0};

    return id >= LOCK_ID_GROUP || !slot_alive(region, id, &pass);
}

/* A waiter asks soon, for no process gets on while the holder is dead, and then less and less
 * often, for waiters may be hundreds. */
static const struct shm_lock_rules rules = {
    .lost = lost,
    .ask_first_ns = 2 * NS_PER_MS,
    .ask_last_ns = 100 * NS_PER_MS,
};

static int claim_visitor(struct vgpu_region *region, unsigned *ret_id)
{
    /* Processes begin at different identities. */
    unsigned start = (unsigned)(clock_ns() >> 4) % LOCK_VISITORS;

    for (unsigned i = 0; i < LOCK_VISITORS; i++) {
        unsigned id = LOCK_ID_VISITOR + (start + i) % LOCK_VISITORS;
        int rc = region_claim(region, id);

        if (rc == 0)
            *ret_id = id;
        if (rc != -EBUSY)
            return rc;
    }
    return -EUSERS;
}

int region_lock(struct vgpu_region *region, unsigned id, uint64_t bound_ns,
                struct region_hold *ret_hold)
{
    unsigned visitor = 0;
    uint32_t word;
    int rc;

    if (region->copied) {
        *ret_hold = (struct region_hold){.word = 0};
        return 0;
    }
    if (!id) {
        rc = claim_visitor(region, &visitor);
        if (rc < 0)
            return rc;
        id = visitor;
    }
    rc = shm_lock_take(&region->layout->lock, &rules, region, id, bound_ns, &word);
    if (rc < 0) {
        if (visitor)
            liveness_drop(region->liveness, visitor);
        return rc;
    }
    if (rc > 0)
        region_recover(region);
    *ret_hold = (struct region_hold){.word = word, .visitor = visitor};
    return 0;
}

void region_unlock(struct vgpu_region *region, const struct region_hold *hold)
{
    shm_lock_release(&region->layout->lock, hold->word);
    if (hold->visitor)
        liveness_drop(region->liveness, hold->visitor);
}

int region_claim(struct vgpu_region *region, unsigned id)
{
    int rc = liveness_claim(region->liveness, id);
    uint32_t held;

    if (rc == 0 && shm_lock_inherit(&region->layout->lock, id, &held)) {
        region_recover(region);
        shm_lock_release(&region->layout->lock, held);
    }
    return rc;
}
