#include "region/shm_lock.h"

#include "base/clock.h"
#include "base/mutex.h"

#include <errno.h>

#define ID_MASK    SHM_LOCK_ID_MASK
#define COUNT_ONE  0x00000800u
#define COUNT_MASK 0x7ffff800u
#define WAITERS    0x80000000u

#define SPINS 200

static uint32_t acquired(uint32_t word, unsigned id, uint32_t waiters)
{
    return ((word + COUNT_ONE) & COUNT_MASK) | id | waiters;
}

static bool swap(_Atomic uint32_t *lock, uint32_t *expected, uint32_t desired)
{
    return atomic_compare_exchange_strong_explicit(lock, expected, desired, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Takes the lock if it is free. *word: in, the last value seen; out, the value that the lock has
 * now. */
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

/* Marks that somebody waits, and sleeps until the word changes. */
static void wait_for_change(_Atomic uint32_t *lock, uint32_t word, uint64_t wait_ns)
{
    if (!(word & WAITERS) && !swap(lock, &word, word | WAITERS))
        return;
    futex_wait(lock, word | WAITERS, wait_ns, 1);
}

static int take_slow(_Atomic uint32_t *lock, const struct shm_lock_rules *rules, void *file,
                     unsigned id, uint64_t bound_ns, uint32_t *ret_held)
{
    uint64_t start_ns, now_ns, asked_ns, ask_ns = rules->ask_first_ns;
    uint32_t word, seen = 0, desired;

    if (spin(lock, ret_held, id))
        return 0;
    for (start_ns = asked_ns = now_ns = clock_ns();; now_ns = clock_ns()) {
        word = atomic_load_explicit(lock, memory_order_relaxed);
        if (try_free(lock, &word, id, WAITERS)) {
            *ret_held = word;
            return 0;
        }
        if ((word & ~WAITERS) != seen) { /* another holder than last time */
            seen = word & ~WAITERS;
            asked_ns = now_ns;
        } else if (now_ns - asked_ns >= ask_ns) {
            asked_ns = now_ns;
            ask_ns = ask_ns < rules->ask_last_ns / 2 ? 2 * ask_ns : rules->ask_last_ns;
            desired = acquired(word, id, WAITERS);
            if (rules->lost(file, word & ID_MASK) && swap(lock, &word, desired)) {
                *ret_held = desired;
                return 1;
            }
        }
        if (now_ns - start_ns >= bound_ns)
            return -ETIMEDOUT;
        if (word & ID_MASK)
            wait_for_change(lock, word, rules->nap_ns ? rules->nap_ns : ask_ns);
    }
}

int shm_lock_take(_Atomic uint32_t *lock, const struct shm_lock_rules *rules, void *file,
                  unsigned id, uint64_t bound_ns, uint32_t *ret_held)
{
    *ret_held = atomic_load_explicit(lock, memory_order_relaxed);
    if (try_free(lock, ret_held, id, 0))
        return 0;
    return take_slow(lock, rules, file, id, bound_ns, ret_held);
}

void shm_lock_release(_Atomic uint32_t *lock, uint32_t held)
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

bool shm_lock_inherit(_Atomic uint32_t *lock, unsigned id, uint32_t *ret_held)
{
    uint32_t word = atomic_load_explicit(lock, memory_order_relaxed);

    while ((word & ID_MASK) == id) {
        *ret_held = acquired(word, id, word & WAITERS);
        if (swap(lock, &word, *ret_held))
            return true;
    }
    return false;
}
