/*
 * Memory that a process of an instance exports, and that others of it import: charged once, to its
 * maker as long as the maker has it, then to the instance, until the last process that has it lets
 * go or dies.
 *
 * All functions are thread-safe, keep errno and block for no longer than LEDGER_LOCK_BOUND_NS. A
 * process has a share once, however many handles it has to the memory: counting them is for the
 * caller.
 */
#ifndef VGPU_ACCOUNT_SHARE_H
#define VGPU_ACCOUNT_SHARE_H

#include "account/ledger.h"

struct ledger_share {
    uint32_t index;
    uint32_t generation;
};

struct ledger_share_memory {
    struct ledger_share share;
    unsigned vdev;
    enum vgpu_kind kind;
    uint64_t bytes;
};

/*
 * Tells the instance that `bytes`, which this process is charged for, are exported; the process has
 * the share from then on. -ENOSPC: the region has no room for it; -EAGAIN: the lock; -EOPNOTSUPP: a
 * guard sees to it.
 */
int ledger_share(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind, uint64_t bytes,
                 struct ledger_share *ret_share);

/*
 * Adds what an import is to be known by, unless the share has it; not 0. The newest
 * REGION_SHARE_KEYS of a share are kept. 0, -EAGAIN.
 */
int ledger_share_key(struct vgpu_ledger *ledger, struct ledger_share share, uint64_t key);

/* The share of which `is` says that a key is the right one. No lock is held: it may be gone by
 * now. */
bool ledger_share_find(struct vgpu_ledger *ledger, bool (*is)(uint64_t key, void *arg), void *arg,
                       struct ledger_share_memory *ret_memory);

/* This process has it, too. -ESTALE: it is gone, so that nobody is charged; -EAGAIN: the lock. */
int ledger_share_join(struct vgpu_ledger *ledger, struct ledger_share share);

/*
 * This process lets go. `own_bytes`: what it is charged for the share, as its maker; 0: it joined.
 * True: others have it; the instance is charged in place of this process. False: `own_bytes` are
 * still the caller's to give back.
 */
bool ledger_share_leave(struct vgpu_ledger *ledger, struct ledger_share share, unsigned vdev,
                        enum vgpu_kind kind, uint64_t own_bytes);

#endif
