/*
 * A lock between processes: one word in shared memory, with an identity for its holder.
 *
 *   bits 0..10   the holder's identity; 0: free
 *   bits 11..30  a count, raised by every acquisition
 *   bit 31       somebody waits; the word is a futex
 *
 * This is no robust pthread mutex, for two reasons. Such a mutex identifies its owner by thread
 * id, which processes in different PID namespaces may share: the kernel marks a mutex as orphaned
 * although only a namesake of its owner has died. It also keeps pointers in the shared memory,
 * which every process that may write the file could bend.
 *
 * Death. The lock's user (region/lock.c, sched/arena.c) says how the death of a holder is
 * established (shm_lock_rules.lost). The lock itself trusts no pid and no thread id, so a reused
 * pid is no danger. kill -9 at any instruction leaves the word either as it was before the
 * acquisition or with the holder's identity: a waiter then asks `lost` and takes the lock over.
 *
 * Takeover. A waiter compares and swaps the word that it has seen, count included. If the holder
 * released the lock meanwhile, or another waiter was faster, the count differs and the swap fails.
 * A holder that is taken for dead but lives compares the word too, and does not release a lock that
 * another process has by then. Its writes may mix with those of its successor; region/lock.h and
 * sched/arena_layout.h say why that is bearable. The count repeats after 2^20 acquisitions: a
 * stopped holder would have to resume exactly then, and its own identity would have to hold the
 * lock.
 *
 * Every process that may write the file may write the word, and can so stop or break the lock. No
 * call waits for longer than its bound, whatever the word says.
 *
 * Threads of a process share its identity and exclude each other by the same word.
 */
#ifndef VGPU_REGION_SHM_LOCK_H
#define VGPU_REGION_SHM_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SHM_LOCK_ID_MASK 0x000007ffu

struct shm_lock_rules {
    /* Whether the holder `id`, which has had the lock for ask_first_ns or longer, has lost it. */
    bool (*lost)(void *file, unsigned id);
    /* How often a waiter asks that: first, then after twice the time, at most this much. */
    uint64_t ask_first_ns, ask_last_ns;
    /* How long a waiter sleeps at a time; 0: until it asks again. */
    uint64_t nap_ns;
};

/*
 * Takes the lock as `id`, 1..SHM_LOCK_ID_MASK. *ret_held is for shm_lock_release(). 0: it was free;
 * 1: its holder had lost it, and the caller repairs what it left; -ETIMEDOUT after bound_ns. `file`
 * is passed to rules->lost(). Any thread.
 */
int shm_lock_take(_Atomic uint32_t *lock, const struct shm_lock_rules *rules, void *file,
                  unsigned id, uint64_t bound_ns, uint32_t *ret_held);

/* Does nothing where another process has taken the lock over. */
void shm_lock_release(_Atomic uint32_t *lock, uint32_t held);

/*
 * Takes the lock over from a dead process that had the identity `id`, which is the caller's now.
 * False: no process has it under this identity.
 */
bool shm_lock_inherit(_Atomic uint32_t *lock, unsigned id, uint32_t *ret_held);

#endif
