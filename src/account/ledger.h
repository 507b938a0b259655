/*
 * What this process holds of its instance, and the only way to get more.
 *
 * Admission is exact: reserve in the region, call the driver, then commit or cancel. The live
 * processes of an instance never reserve more than the quota in all, whatever dies in between. Only
 * ledger_set() and ledger_settle() go beyond it, for memory that the driver has already given.
 *
 * A process makes one ledger. In a forked child it starts empty and takes a slot of its own at the
 * first call. All functions are thread-safe, keep errno, and return 0 or -errno. They block for at
 * most LEDGER_LOCK_BOUND_NS; those that ask for memory for LEDGER_EXIT_BOUND_NS more. `vdev` is
 * 0..VGPU_VDEVS-1; a vdev without a quota is counted as well.
 */
#ifndef VGPU_ACCOUNT_LEDGER_H
#define VGPU_ACCOUNT_LEDGER_H

#include "region/region.h"

#define LEDGER_LOCK_BOUND_NS 2000000000ULL
#define LEDGER_EXIT_BOUND_NS 1000000000ULL

struct vgpu_ledger;

/*
 * Attaches this process to the region, which must outlive the ledger. `group_id` is that of a group
 * of the region (region_group_new()); 0, or one that is gone: it is in no group. -EUSERS:
 * VGPU_PROCS_MAX processes are attached; -ETIMEDOUT: the region's lock; -ENOLCK ...: the file
 * system has no locks. A child of fork that cannot attach gets -ENOMEM from every call that asks
 * for memory, after one line on stderr.
 */
int ledger_new(struct vgpu_region *region, uint64_t group_id, struct vgpu_ledger **ret_ledger);

/* The number of this process's group; 0: none. One relaxed load. */
unsigned ledger_group(const struct vgpu_ledger *ledger);

/*
 * As ledger_new(), for another process that a guard supervises. `pid` is its pid in this process's
 * namespace. In a region of tier GUARD only such ledgers are admitted against the quota; the others
 * count and are never refused.
 */
int ledger_new_supervised(struct vgpu_region *region, pid_t pid, const char *command,
                          struct vgpu_ledger **ret_ledger);

void ledger_free(
    struct vgpu_ledger *ledger); /* gives everything back; no other thread may use the ledger */

/*
 * Tells the ledger the UUID and the size of a vdev's device. The first process that does resolves a
 * percentage quota; until then nothing fits. Idempotent. -EEXIST: the vdev is another device's.
 */
int ledger_device(struct vgpu_ledger *ledger, unsigned vdev, const char *uuid,
                  uint64_t physical_bytes);

/* The same. If the vdev had no device before, it gets the quota and the cap of `limit`, whatever it
 * had. */
int ledger_device_limited(struct vgpu_ledger *ledger, unsigned vdev, const char *uuid,
                          uint64_t physical_bytes, const struct vgpu_limit *limit);

/* The number that this process gives to the device of a vdev, for messages. Default: the vdev's
 * number. */
void ledger_number(struct vgpu_ledger *ledger, unsigned vdev, unsigned number);

/*
 * Reserves `bytes` of the quota. -ENOMEM: they do not fit, even after dead processes were removed
 * and idle reservations taken back. The caller records that with ledger_refuse() once it has given
 * up. Before a refusal the call waits LEDGER_EXIT_BOUND_NS for processes that are exiting; a guard
 * does not wait. -ETIMEDOUT: a stopped process held the lock for LEDGER_LOCK_BOUND_NS; treat it
 * like -ENOMEM.
 */
int ledger_reserve(struct vgpu_ledger *ledger, unsigned vdev, uint64_t bytes);

/* Gives a reservation back unused. */
void ledger_cancel(struct vgpu_ledger *ledger, unsigned vdev, uint64_t reserved_bytes);

/*
 * Turns a reservation into a charge of `actual_bytes` of `kind`, and gives the rest of it back. If
 * actual > reserved, the difference is reserved first. -ENOMEM: it does not fit, and the
 * reservation still stands: undo the driver's allocation and cancel.
 */
int ledger_commit(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind,
                  uint64_t reserved_bytes, uint64_t actual_bytes);

/* Gives back `bytes` of `kind`; never below zero. */
void ledger_release(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind, uint64_t bytes);

/* Sets what this process holds of `kind`, whether or not it fits: for memory that is already taken
 * (contexts, untracked). */
void ledger_set(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind, uint64_t bytes);

/*
 * The quick path for pools, after ledger_reserve() of `taken_bytes`: `grown_bytes` (negative: the
 * pool shrank) become a charge of `kind`, and the rest becomes idle again. Idle reservations count
 * as free: any process of the instance that needs them takes them. -ENOMEM if the pool has grown by
 * more than was taken and the rest does not fit; the growth is charged all the same.
 */
int ledger_settle(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind,
                  uint64_t taken_bytes, int64_t grown_bytes);

/*
 * Memory of a process that a checkpoint has taken off the devices is charged to nobody. `pid` is in
 * this process's namespace; a process of another instance, or a supervised one, is ignored. Call
 * ledger_bring_back() before the driver's restore. 1: memory was away and is charged again; 0: none
 * was; -ENOMEM: it does not fit, see *ret_vdev and *ret_bytes.
 */
void ledger_put_away(struct vgpu_ledger *ledger, pid_t pid);
int ledger_bring_back(struct vgpu_ledger *ledger, pid_t pid, unsigned *ret_vdev,
                      uint64_t *ret_bytes);

/* Bytes that this process holds, of one kind or of all (VGPU_KINDS). */
uint64_t ledger_held(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind);

/*
 * The figure that NVML should show for this process: all that it holds or has reserved of kinds
 * that NVML counts, without UNTRACKED. Never less than what the driver was asked for.
 */
uint64_t ledger_accounted_in_nvml(struct vgpu_ledger *ledger, unsigned vdev);

/*
 * The size of a device as the program sees it, if the driver reports `physical_*`: total =
 * min(quota, physical), free = max(0, min(quota - used, physical free)), for a group the lower of
 * its own and the instance's. Removes dead processes first. Unchanged without a quota.
 */
void ledger_view(struct vgpu_ledger *ledger, unsigned vdev, uint64_t physical_total,
                 uint64_t physical_free, uint64_t *ret_total, uint64_t *ret_free);

/* The effective quota: the least of the instance's, the group's and the device's size; 0: none.
 * Relaxed loads. */
uint64_t ledger_quota(struct vgpu_ledger *ledger, unsigned vdev);

/* The largest context that a process of this instance has had on this device; 0: unknown. */
uint64_t ledger_context_cost(struct vgpu_ledger *ledger, unsigned vdev);
void ledger_learn_context_cost(struct vgpu_ledger *ledger, unsigned vdev, uint64_t bytes);

/* The processes of the instance, or of the group, that hold memory on a vdev. `pid` is in the
 * caller's namespace. Returns how many there are; fills up to `max`. */
struct vgpu_proc_memory {
    uint32_t pid;
    uint64_t bytes;
};
unsigned ledger_processes(struct vgpu_ledger *ledger, unsigned vdev,
                          struct vgpu_proc_memory *ret_procs, unsigned max);

struct vgpu_region *ledger_region(struct vgpu_ledger *ledger);

#endif
