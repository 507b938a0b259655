/*
 * What the bytes of a region mean, who writes them, and in which order.
 *
 * Trust. Every user who may open the file may write anything into it, so values are checked when
 * they are read: counts are clamped where they are bounds, sums saturate, text gets an end. The
 * worst that a damaged region does is to give wrong numbers.
 *
 * Locking. `lock` excludes processes from each other (region/lock.h). "Under the lock" below means
 * that only its holder reads and writes a word. A word marked "atomic" is also read, or written as
 * described, without the lock.
 *
 * Order. The holder of the lock may be killed at any instruction. The next holder then calls
 * region_recover(). So:
 *
 *   - a slot's `reserved_bytes` are the truth; `total_bytes` is derived and recomputed;
 *   - a slot is filled before its `state` becomes SLOT_LIVE, and emptied before it becomes
 *     SLOT_FREE;
 *   - the one change that touches another process's slot (taking its idle bytes) goes through
 *     `steal`, a journal.
 *
 * Liveness. The process of slot i holds locks on bytes of the region's own file for identity i + 1
 * (region/liveness.h). The kernel drops them when the process dies or execs. A pid counts for one
 * thing: if a forked child has kept the life of its parent, that ends when no process has the
 * parent's pid any more (slot_alive()). The slots that a guard's supervisor keeps live and end with
 * the supervisor.
 */
#ifndef VGPU_REGION_LAYOUT_H
#define VGPU_REGION_LAYOUT_H

#include "region/region.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define REGION_MAGIC   0x3147455255504756ULL /* "VGPUREG1" as bytes */
#define REGION_VERSION 8u

/* File locks lie far behind the end of any file. Identity `id` has the bytes BASE + id, one for its
 * life, one for its owner. */
#define LOCK_BYTE_BASE  (1LL << 40)
#define OWNER_BYTE_BASE (1LL << 41)
#define LOCK_VISITORS   63 /* identities of processes that need the lock but have no slot */
/* Identities 1..VGPU_PROCS_MAX are slots, from here on visitors; 0 is nobody. */
#define LOCK_ID_VISITOR (VGPU_PROCS_MAX + 1)
/* From here on: makers of groups, which never take the lock with this identity. */
#define LOCK_ID_GROUP (LOCK_ID_VISITOR + LOCK_VISITORS)
#define LOCK_IDS      (LOCK_ID_GROUP + VGPU_GROUPS) /* one above the last */

/*
 * The idle word of a slot and vdev: 64 bits, so that the owner and other processes agree without a
 * lock.
 *
 *   bits 0..47  bytes: the part of `reserved_bytes` that is not used
 *   bits 48..53 steals, modulo 64: changes whenever another process takes bytes (for the journal)
 *   bits 54..63 the slot's generation, modulo 1024: an owner that has lost its slot cannot change
 *               its successor's word
 */
#define IDLE_BYTES_MASK      ((1ULL << 48) - 1)
#define IDLE_STEAL_SHIFT     48
#define IDLE_STEAL_MASK      63u
#define IDLE_TAG_SHIFT       54
#define IDLE_TAG(generation) ((uint64_t)((generation)&1023u) << IDLE_TAG_SHIFT)

enum slot_state {
    SLOT_FREE = 0,
    SLOT_LIVE = 1,
    SLOT_CLAIMED =
        2, /* a process has its identity and is about to fill it: others look elsewhere */
};

struct slot_vdev {
    /* Counts against the quota. Written under the lock; atomic because owners and viewers sum it
     * without the lock. */
    _Atomic uint64_t reserved_bytes;
    /* See above. The owner changes it by compare-and-swap; others take under the lock, also by
     * compare-and-swap. */
    _Atomic uint64_t idle;
    /*
     * The part taken off reserved_bytes while a checkpoint has the process's memory off the device.
     * Written under the lock by the process that makes the checkpoint; atomic because the owner
     * asks whether it is back.
     */
    _Atomic uint64_t away_bytes;
    /* For display: the use of the reservation by kind. Written by the owner without the lock,
     * atomic. */
    _Atomic uint64_t held_bytes[VGPU_KINDS];
};

struct region_slot {
    _Atomic uint32_t state; /* enum slot_state; LIVE is written by the holder of the slot's
                               identity, FREE under the lock */
    _Atomic uint32_t
        generation; /* raised whenever a process gets or loses the slot; written as state */
    int32_t pid; /* in its own namespace; its process writes this and the next four before LIVE */
    uint16_t
        guarded; /* 1: kept by the guard's supervisor for the process that pid and command name */
    _Atomic uint16_t group; /* see struct region_group; 0: none. Others read it under the lock, or
                               to find a weight */
    uint64_t pid_namespace; /* inode number; 0: unknown */
    uint64_t start_ns;      /* CLOCK_REALTIME when it attached */
    char command[32];
    struct slot_vdev vdev[VGPU_VDEVS];
} __attribute__((aligned(64)));

/* GPU time by tenths of a second: entry n % REGION_SPANS belongs to span n (CLOCK_MONOTONIC /
 * REGION_SPAN_NS). */
#define REGION_SPANS   16
#define REGION_SPAN_NS 100000000ULL

/*
 * Every word is atomic and written by any process of the instance without the lock. Each is
 * complete in itself: a process that dies between two of them leaves counts that lack what it was
 * about to add.
 */
struct region_compute {
    /*
     * The bucket (sched/bucket.h): the CLOCK_MONOTONIC time at which all charges are paid. A charge
     * of c at a cap of p percent adds 100 c / p.
     */
    _Atomic uint64_t paid_until_ns __attribute__((aligned(64)));
    _Atomic uint64_t copy_paid_until_ns[2]; /* from the host, to the host */
    _Atomic uint64_t span_stamp[REGION_SPANS];
    _Atomic uint64_t span_ns[REGION_SPANS];
    _Atomic uint64_t calls[VGPU_WORKS];
    _Atomic uint64_t amount[VGPU_WORKS];
    _Atomic uint64_t throttles, throttled_ns, turns, turn_wait_ns, copy_wait_ns;
};

struct region_vdev {
    /* The cap that a launch reads; 0: none. Written under the lock, atomic. */
    _Atomic uint32_t cap_percent;
    /* The cap under which the bucket's debt was made. A process that finds another cap converts the
     * debt and writes both. */
    _Atomic uint32_t debt_percent;
    struct region_compute compute;
    struct vgpu_limit limit;      /* under the lock */
    uint64_t physical_bytes;      /* under the lock; 0: no process has seen the device */
    _Atomic uint64_t quota_bytes; /* effective; 0: none. Written under the lock, atomic */
    /* Sum of reserved_bytes of the live slots and of shares in state SHARE_LEFT. Derived, written
     * under the lock. */
    _Atomic uint64_t total_bytes;
    _Atomic uint64_t
        peak_bytes; /* the most that was ever used; any process raises it, see slots_note_peak() */
    _Atomic uint64_t refusals;      /* under the lock, read without */
    _Atomic uint64_t context_bytes; /* the largest context seen; any process raises it */
};

/*
 * The journal of taking idle bytes from another slot. It is written in full before `active` becomes
 * 1, and that before the idle word changes. If the process dies, the next holder sees by the steals
 * in the idle word whether the change had happened.
 */
struct region_steal {
    _Atomic uint32_t active;
    uint32_t slot;
    uint32_t vdev;
    uint32_t generation;
    uint64_t steals_before;        /* the steals in the idle word before the change */
    uint64_t reserved_after_bytes; /* the other slot's reserved_bytes after the change */
};

/*
 * Memory that a process has exported. Its maker's slot is charged as long as the maker has it. Once
 * only other processes have it, no slot is charged: the entry itself counts (SHARE_LEFT) until the
 * last of them gives it back or dies. Written under the lock by processes of the instance; the
 * state and the keys are atomic and read without it. The state alone decides who is charged, so a
 * writer that dies leaves nothing that is charged twice or never.
 */
#define REGION_SHARES     2048
#define REGION_SHARE_KEYS 12

enum share_state {
    SHARE_FREE = 0,
    SHARE_MADE = 1, /* charged to the slot of its maker */
    SHARE_LEFT = 2, /* charged to the instance: counts in total_bytes */
};

struct region_share {
    _Atomic uint32_t state;      /* enum share_state */
    _Atomic uint32_t generation; /* +1 whenever the entry is filled */
    _Atomic uint32_t vdev;       /* this and the next three: atomic, too */
    _Atomic uint16_t kind;
    _Atomic uint16_t group; /* the maker's group, charged as well, also in SHARE_LEFT */
    _Atomic uint64_t bytes;
    uint32_t maker;     /* slot */
    uint32_t key_count; /* exports so far; export n has key n % REGION_SHARE_KEYS */
    _Atomic uint64_t key[REGION_SHARE_KEYS]; /* identify the memory to an import; 0: none */
    uint64_t holder[VGPU_PROCS_MAX / 64];    /* slots that have it, with the maker's, a bit each */
};

/*
 * A `vgpu run` inside the instance with lower limits: its processes are a group. What they hold
 * counts for the group and for the instance, and their work draws on the buckets of both. Entry 0
 * stands for the instance and is not used.
 *
 * A maker takes and fills an entry under the lock, and holds the identity LOCK_ID_GROUP + its
 * number from then on (region/liveness.h). The entry may be filled anew once that identity is free
 * and neither a live slot nor a share names the entry. A slot is put into a group under the lock,
 * by the group's `id`. A process whose group is gone is in none, and has the limits of the
 * instance. A maker that dies before the end has told its `id` to nobody.
 *
 * So the limits do not change while a process is in the group, except `quota_bytes`, which follows
 * the instance's. Totals are derived like the instance's, and recomputed with them.
 */
struct region_group_vdev {
    struct vgpu_limit
        limit; /* as asked for, without the device; a percentage is of the instance's quota */
    _Atomic uint64_t quota_bytes; /* effective; 0: none. Written under the lock, atomic */
    _Atomic uint64_t
        total_bytes; /* sum over its live slots and its shares in SHARE_LEFT. Under the lock */
    _Atomic uint64_t paid_until_ns; /* this and the next: as in struct region_compute */
    _Atomic uint64_t copy_paid_until_ns[2];
    _Atomic uint32_t cap_percent;
};

struct region_group {
    _Atomic uint64_t id;         /* unique; 0: never filled. Written under the lock, last */
    struct vgpu_compute compute; /* the lower of these and of the instance's apply */
    struct region_group_vdev vdev[VGPU_VDEVS];
};

struct region_layout {
    _Atomic uint64_t magic; /* written last when the region is made */
    uint32_t version;
    uint32_t layout_bytes;
    uint64_t created_ns; /* CLOCK_REALTIME */

    /* Of region_lock(); region/shm_lock.h. */
    _Atomic uint32_t lock __attribute__((aligned(64)));
    uint32_t recoveries; /* how often a holder died; under the lock */

    _Atomic uint32_t slots_high
        __attribute__((aligned(64))); /* slots at and above were never used; only grows */
    uint32_t device_count;            /* as struct vgpu_limits; under the lock */
    _Atomic uint32_t
        stands; /* 1: its work is paused. Set by the guard's supervisor, read without the lock */
    _Atomic uint32_t tier; /* enum vgpu_tier; written under the lock while no process is attached,
                              read without */
    char name[VGPU_NAME_LEN];
    struct vgpu_compute
        compute; /* under the lock; words of it are read without, see region_compute_setting() */
    struct region_steal steal;
    struct region_vdev vdev[VGPU_VDEVS];

    _Atomic uint64_t
        refusal_count; /* of all time; refusal n is at n % VGPU_REFUSALS; under the lock */
    struct vgpu_refusal refusals[VGPU_REFUSALS];
    uint64_t told[128]; /* hashes of (vdev, api) for which a line went to stderr; under the lock */

    struct region_slot slot[VGPU_PROCS_MAX];

    _Atomic uint32_t
        shares_high; /* entries at and above were never used; only grows, under the lock */
    struct region_share share[REGION_SHARES];

    _Atomic uint32_t
        groups_high; /* entries at and above were never used; only grows, under the lock */
    struct region_group group[VGPU_GROUPS];
};

_Static_assert(sizeof(struct slot_vdev) == 24 + 8 * VGPU_KINDS, "slot_vdev");
_Static_assert(sizeof(struct region_slot) == 1856, "region_slot");
_Static_assert(offsetof(struct region_slot, vdev) == 64, "slot vdevs begin on a cache line");
_Static_assert(sizeof(struct region_share) == 256, "region_share");
_Static_assert(sizeof(struct vgpu_limit) == 64, "vgpu_limit");
_Static_assert(sizeof(struct vgpu_refusal) == 88, "vgpu_refusal");
_Static_assert(offsetof(struct region_layout, version) == 8, "header");
_Static_assert(offsetof(struct region_layout, lock) == 64, "lock");
_Static_assert(offsetof(struct region_layout, slots_high) == 128, "slots_high");
_Static_assert(offsetof(struct region_layout, slot) % 64 == 0, "slots begin on a cache line");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && ATOMIC_LLONG_LOCK_FREE == 2,
               "atomics work between processes");

#endif
