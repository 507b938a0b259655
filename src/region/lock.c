#include "region/lock.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "region/internal.h"

#include <errno.h>

#define ID_MASK    0x000007ffu
#define COUNT_ONE  0x00000800u
#define COUNT_MASK 0x7ffff800u
#define WAITERS    0x80000000u

#define SPINS 200
/* How often a waiter asks whether the holder lives: soon, for nobody gets on while it is dead, then
 * less and less often, for they may be hundreds. */
#define ASK_FIRST_NS (2 * NS_PER_MS)
#define ASK_LAST_NS  (100 * NS_PER_MS)

_Static_assert(LOCK_IDS <= ID_MASK + 1, "identities fit into the lock's word");

static uint32_t acquired(uint32_t word, unsigned id, uint32_t waiters)
{
    return ((word + COUNT_ONE) & COUNT_MASK) | id | waiters;
}

static bool swap(_Atomic uint32_t *lock, uint32_t *expected, uint32_t desired)
{
    return atomic_compare_exchange_strong_explicit(lock, expected, desired, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Takes it where it is free. *word: in, the last value seen; out, the value it has now or that we
 * gave it. */
static bool try_free(_Atomic uint32_t *lock, uint32_t *word, unsigned id, uint32_t waiters)
{
    while ((*word & ID_MASK) == 0) {
        uint32_t desired = acquired(*word, id, (*word & WAITERS) | waiters);

        if (swap(lock, word, desired)) {
            *word = desired;
            return true;
        }
    }
    return false;
}

/* Takes it from a holder that is dead. A count that has moved on means that it was not that
 * holder's any more. */
static bool try_dead(struct vgpu_region *region, uint32_t *word, unsigned id)
{
    unsigned holder = *word & ID_MASK;
    uint32_t desired = acquired(*word, id, WAITERS);

    /* An identity that does not exist is damage, and nobody's. */
    if (holder < LOCK_ID_GROUP && slot_alive(region, holder))
        return false;
    if (!swap(&region->layout->lock, word, desired))
        return false;
    *word = desired;
    return true;
}

static bool spin(_Atomic uint32_t *lock, uint32_t *word, unsigned id)
{
    for (int i = 0; i < SPINS; i++) {
        *word = atomic_load_explicit(lock, memory_order_relaxed);
        if (try_free(lock, word, id, 0))
            return true;
        cpu_relax();
    }
    return false;
}

/* Sleeps until the lock's word changes, having left word that somebody waits. */
static void wait_for_change(_Atomic uint32_t *lock, uint32_t word, uint64_t wait_ns)
{
    if (!(word & WAITERS) && !swap(lock, &word, word | WAITERS))
        return;
    futex_wait(lock, word | WAITERS, wait_ns, 1);
}

static int lock_slow(struct vgpu_region *region, unsigned id, uint64_t bound_ns, uint32_t *ret_word)
{
    _Atomic uint32_t *lock = &region->layout->lock;
    uint64_t start_ns, now_ns, asked_ns, ask_ns = ASK_FIRST_NS;
    uint32_t word, seen = 0;

    if (spin(lock, ret_word, id))
        return 0;
    for (start_ns = asked_ns = clock_ns();;) {
        word = atomic_load_explicit(lock, memory_order_relaxed);
        if (try_free(lock, &word, id, WAITERS))
            break;
        now_ns = clock_ns();
        if ((word & ~WAITERS) != seen) {
            /* Another holder than last time. */
            seen = word & ~WAITERS;
            asked_ns = now_ns;
        } else if (now_ns - asked_ns >= ask_ns) {
            asked_ns = now_ns;
            ask_ns = ask_ns < ASK_LAST_NS / 2 ? 2 * ask_ns : ASK_LAST_NS;
            if (try_dead(region, &word, id)) {
                region_recover(region);
                break;
            }
        }
        if (now_ns - start_ns >= bound_ns)
            return -ETIMEDOUT;
        if (word & ID_MASK)
            wait_for_change(lock, word, ask_ns);
    }
    *ret_word = word;
    return 0;
}

static int claim_visitor(struct vgpu_region *region, unsigned *ret_id)
{
    /* Begin somewhere else than the others. */
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
    uint32_t word = atomic_load_explicit(&region->layout->lock, memory_order_relaxed);
    unsigned visitor = 0;
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
    if (!try_free(&region->layout->lock, &word, id, 0)) {
        rc = lock_slow(region, id, bound_ns, &word);
        if (rc < 0) {
            if (visitor)
                liveness_drop(region->liveness, visitor);
            return rc;
        }
    }
    *ret_hold = (struct region_hold){.word = word, .visitor = visitor};
    return 0;
}

/* Whoever took us for dead (see liveness.h on closed descriptors) has the lock now: then it is not
 * ours to free. */
static void unlock_word(_Atomic uint32_t *lock, uint32_t held)
{
    uint32_t word = atomic_load_explicit(lock, memory_order_relaxed);

    do {
        if ((word & ~WAITERS) != (held & ~WAITERS))
            return;
    } while (!atomic_compare_exchange_weak_explicit(lock, &word, word & COUNT_MASK,
                                                    memory_order_release, memory_order_relaxed));
    if (word & WAITERS)
        futex_wake(lock, 1, 1);
}

void region_unlock(struct vgpu_region *region, const struct region_hold *hold)
{
    unlock_word(&region->layout->lock, hold->word);
    if (hold->visitor)
        liveness_drop(region->liveness, hold->visitor);
}

int region_claim(struct vgpu_region *region, unsigned id)
{
    int rc = liveness_claim(region->liveness, id);
    uint32_t word, desired;

    if (rc < 0)
        return rc;
    word = atomic_load_explicit(&region->layout->lock, memory_order_relaxed);
    while ((word & ID_MASK) == id) {
        desired = acquired(word, id, word & WAITERS);
        if (swap(&region->layout->lock, &word, desired)) {
            region_recover(region);
            unlock_word(&region->layout->lock, desired);
            break;
        }
    }
    return 0;
}
