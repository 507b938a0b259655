/*
 * A ledger from inside, for the files of src/account.
 *
 * There are two accounts. The region's slot has what counts against the quota: `reserved_bytes`, of
 * which `idle` is unused. The ledger has `busy`, what this process uses or is about to use. Always
 * reserved = busy + idle, except that `owed` bytes of busy are reported at the next call that has
 * the lock. So a process that has lost its slot can take another one and report the right amounts.
 *
 * Giving back never takes the lock: it makes bytes idle, and a process that needs them takes them.
 */
#ifndef VGPU_ACCOUNT_LEDGER_INTERNAL_H
#define VGPU_ACCOUNT_LEDGER_INTERNAL_H

#include "base/forkwatch.h"
#include "base/mutex.h"
#include "account/ledger.h"
#include "region/internal.h"

struct own_vdev {
    _Atomic uint64_t busy;
    _Atomic uint64_t owed; /* the part of busy that is not reported to the region yet */
    _Atomic uint64_t held[VGPU_KINDS];
} __attribute__((aligned(64)));

struct vgpu_ledger {
    struct vgpu_region *region;
    bool guards; /* for a supervised process, below libcuda: the figures of other slots do not count
                    then */
    struct slot_supervised supervised;
    uint64_t group_id; /* as the caller gave it; 0: none */
    _Atomic unsigned
        group; /* of our slot; written before `registration`, by the thread that renews that */
    _Atomic uint64_t registration; /* (slot index + 1) << 32 | generation; 0: no slot yet */
    struct vgpu_mutex registration_lock;
    atomic_bool told; /* a message said that no slot is free */
    _Atomic uint64_t reaped_ns;
    _Atomic uint64_t
        exits_asked_ns; /* when no exiting process was found; any thread, relaxed: a hint */
    _Atomic uint64_t mirrored_ns; /* of account/hami.c */
    /* Called after our use of `vdev` has changed; VGPU_VDEVS: after another change. May be NULL. */
    void (*changed)(struct vgpu_ledger *ledger, unsigned vdev);
    struct fork_watch watch;
    _Atomic uint32_t
        number[VGPU_VDEVS]; /* 1 + the device's number for the program; 0: the vdev's */
    struct own_vdev vdev[VGPU_VDEVS];
};

static inline uint64_t ledger_registration(const struct vgpu_ledger *ledger)
{
    return atomic_load_explicit(&ledger->registration, memory_order_acquire);
}

/* The region's lock, under our slot's identity or, without a slot, a visitor's. As region_lock().
 */
static inline int ledger_lock(struct vgpu_ledger *ledger, uint64_t bound_ns,
                              struct region_hold *ret_hold)
{
    return region_lock(ledger->region, (unsigned)(ledger_registration(ledger) >> 32), bound_ns,
                       ret_hold);
}

/* Whether this ledger reserves nothing: under the guard the figures of preloaded processes are for
 * display. The guard does not see host memory. */
static inline bool ledger_counts_only(const struct vgpu_ledger *ledger, unsigned vdev)
{
    return !ledger->guards && vdev != VGPU_VDEV_HOST &&
           atomic_load_explicit(&ledger->region->layout->tier, memory_order_relaxed) ==
               VGPU_TIER_GUARD;
}

/*
 * In ledger.c, under the lock. Whether `bytes` more fit into the instance and the group (0: none),
 * with what dead processes and idle reservations can give, except slot `except`.
 */
bool ledger_make_room(struct vgpu_ledger *ledger, unsigned group, unsigned except, unsigned vdev,
                      uint64_t bytes);

/* In ledger.c. Takes at most `bytes` off what is held. Returns how much. */
uint64_t ledger_take_held(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind,
                          uint64_t bytes);

/* In view.c. The number of a vdev's device in messages. */
unsigned ledger_shown_number(const struct vgpu_ledger *ledger, unsigned vdev);

/* In view.c, under the lock. Removes dead processes; not every time if there are many. */
void ledger_reap(struct vgpu_ledger *ledger);

static inline void ledger_notify(struct vgpu_ledger *ledger, unsigned vdev)
{
    if (__builtin_expect(ledger->changed != NULL, 0))
        ledger->changed(ledger, vdev);
}

#endif
