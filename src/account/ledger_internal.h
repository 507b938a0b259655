/*
 * What the files of the ledger share.
 *
 * Two books. The region's slot says what counts against the quota (`reserved_bytes`, of which
 * `idle` is unused). The ledger itself keeps `busy`, what this process uses or is about to:
 * reserved = busy + idle, always, except that `owed` bytes of busy wait for the next time that the
 * lock is had. With its own book a process can take a new registration when its slot was taken
 * away, and give the right amounts to the new one.
 *
 * Giving back never takes the lock: it only makes bytes idle, and whoever needs them takes them.
 */
#ifndef VGPU_ACCOUNT_LEDGER_INTERNAL_H
#define VGPU_ACCOUNT_LEDGER_INTERNAL_H

#include "base/forkwatch.h"
#include "base/mutex.h"
#include "account/ledger.h"
#include "region/internal.h"

struct own_vdev {
    _Atomic uint64_t busy;
    _Atomic uint64_t owed; /* part of busy that the region does not know of yet */
    _Atomic uint64_t held[VGPU_KINDS];
} __attribute__((aligned(64)));

struct vgpu_ledger {
    struct vgpu_region *region;
    bool guards; /* for another process, below libcuda: what the others say does not count then */
    struct slot_supervised supervised;
    uint64_t group_id;      /* as it was given; 0: none */
    _Atomic unsigned group; /* of our slot; written before `registration`, by whoever renews that */
    _Atomic uint64_t registration; /* (slot index + 1) << 32 | generation; 0: no slot yet */
    struct vgpu_mutex registration_lock;
    atomic_bool told; /* that there is no slot to be had */
    _Atomic uint64_t reaped_ns;
    _Atomic uint64_t exits_asked_ns; /* when no process was found that exits; any thread, relaxed:
                                        it is a hint */
    _Atomic uint64_t mirrored_ns;    /* of account/hami.c */
    /* After what we hold of `vdev` has changed; VGPU_VDEVS: after anything else has. NULL: nobody
     * wants to know. */
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

/* Under the guard a process's own figures are for people: they reserve nothing. Host memory it does
 * not see. */
static inline bool ledger_counts_only(const struct vgpu_ledger *ledger, unsigned vdev)
{
    return !ledger->guards && vdev != VGPU_VDEV_HOST &&
           atomic_load_explicit(&ledger->region->layout->tier, memory_order_relaxed) ==
               VGPU_TIER_GUARD;
}

/*
 * ledger.c. Under the lock: whether `bytes` more fit into the instance and the group (0: none),
 * with what can be taken from the dead and the idle, but for slot `except`.
 */
bool ledger_make_room(struct vgpu_ledger *ledger, unsigned group, unsigned except, unsigned vdev,
                      uint64_t bytes);

/* ledger.c. Takes at most `bytes` off what is held; returns how much it was. */
uint64_t ledger_take_held(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind,
                          uint64_t bytes);

/* view.c. By which number to name the device of a vdev. */
unsigned ledger_shown_number(const struct vgpu_ledger *ledger, unsigned vdev);

/* view.c. Removes dead processes, under the lock; not every time where there are many. */
void ledger_reap(struct vgpu_ledger *ledger);

static inline void ledger_notify(struct vgpu_ledger *ledger, unsigned vdev)
{
    if (__builtin_expect(ledger->changed != NULL, 0))
        ledger->changed(ledger, vdev);
}

#endif
