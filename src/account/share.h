/*
 * Memory that a process of an instance exports and others of it import. It is charged once: to its
 * maker as long as the maker has it, then to the instance until the last process gives it back or
 * dies.
 *
 * All functions are thread-safe, keep errno and block for no longer than LEDGER_LOCK_BOUND_NS. A
 * process has a share once, however many handles it has to the memory: the caller counts handles.
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
 * Makes a share of `bytes` that this process is charged for and exports. The process has the share
 * from then on. -ENOSPC: the region has no room for it; -EAGAIN: the lock; -EOPNOTSUPP: a guard
 * does this.
 */
int ledger_share(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind, uint64_t bytes,
                 struct ledger_share *ret_share);

/*
 * Adds a key (not 0) by which an import recognises the memory. A share keeps its newest
 * REGION_SHARE_KEYS keys. 0, -EAGAIN.
 */
int ledger_share_key(struct vgpu_ledger *ledger, struct ledger_share share, uint64_t key);

/* Finds the share with a key that `is` accepts. No lock is held: the share may be gone by now. */
bool ledger_share_find(struct vgpu_ledger *ledger, bool (*is)(uint64_t key, void *arg), void *arg,
                       struct ledger_share_memory *ret_memory);

/* This process has the share as well. -ESTALE: it is gone, so that nobody is charged; -EAGAIN: the
 * lock. */
int ledger_share_join(struct vgpu_ledger *ledger, struct ledger_share share);

/*
 * This process gives the share back. `own_bytes`: what it is charged for as the maker; 0: it
 * joined. True: others have it, and the instance is charged in place of this process. False:
 * `own_bytes` are still the caller's to release.
 */
bool ledger_share_leave(struct vgpu_ledger *ledger, struct ledger_share share, unsigned vdev,
                        enum vgpu_kind kind, uint64_t own_bytes);

#endif
