/*
 * What this process holds of its instance, and the only way to get more.
 *
 * Admission is exact: reserve in the region, call the driver, then commit or cancel. The sum of
 * what all live processes of an instance hold and have reserved never exceeds the quota, whatever
 * dies in between.
 *
 * A ledger is made once per process. In a forked child it starts empty and takes a slot of its own
 * at the first call. All functions are thread-safe, keep errno, and return 0 or -errno. They block
 * for at most LEDGER_LOCK_BOUND_NS, and those that ask for memory for LEDGER_EXIT_BOUND_NS more.
 * `vdev` is 0..VGPU_VDEVS-1; a vdev without quota is counted all the same.
 */
#ifndef VGPU_ACCOUNT_LEDGER_H
#define VGPU_ACCOUNT_LEDGER_H

#include "region/region.h"

#define LEDGER_LOCK_BOUND_NS 2000000000ULL
#define LEDGER_EXIT_BOUND_NS 1000000000ULL

struct vgpu_ledger;

/*
 * Attaches this process to the region, which must outlive the ledger. -EUSERS: VGPU_PROCS_MAX
 * processes are attached; -ETIMEDOUT: the region's lock; -ENOLCK ...: the file system has no locks.
 * A child of fork that cannot attach gets -ENOMEM from every call that asks for memory, after one
 * line on stderr.
 */
int ledger_new(struct vgpu_region *region, struct vgpu_ledger **ret_ledger);

/* The same, in a group of the region (region_group_new()); 0, or one that is gone: in none. */
int ledger_new_in(struct vgpu_region *region, uint64_t group_id, struct vgpu_ledger **ret_ledger);

/* The group that this process is in, by its number; 0: none. One relaxed load. */
unsigned ledger_group(const struct vgpu_ledger *ledger);

/*
 * The same for another process, which a guard looks after: `pid` as this process's namespace
 * numbers it. In a region of tier GUARD only such ledgers are admitted against the quota; the
 * others count, and are never refused.
 */
int ledger_new_supervised(struct vgpu_region *region, pid_t pid, const char *command,
                          struct vgpu_ledger **ret_ledger);

void ledger_free(
    struct vgpu_ledger *ledger); /* gives everything back; no other thread may be in the ledger */

/*
 * Tells the ledger what the device behind a vdev is: its UUID and size. The first process to say so
 * resolves a percentage quota; until then nothing fits into one. Idempotent. -EEXIST: the vdev is
 * another device's.
 */
int ledger_device(struct vgpu_ledger *ledger, unsigned vdev, const char *uuid,
                  uint64_t physical_bytes);

/* The same, where the vdev was nobody's before: it gets the quota and the cap of `limit`, whatever
 * it had. */
int ledger_device_limited(struct vgpu_ledger *ledger, unsigned vdev, const char *uuid,
                          uint64_t physical_bytes, const struct vgpu_limit *limit);

/* The number by which this process knows the device of a vdev, for messages; without it that is the
 * vdev's. */
void ledger_number(struct vgpu_ledger *ledger, unsigned vdev, unsigned number);

/*
 * Sets `bytes` of the quota aside. -ENOMEM: it would not fit, even after dead processes were
 * removed and idle reservations taken back (the caller records it with ledger_refuse() once it has
 * given up). Before a refusal it waits for processes that the kernel is taking apart, for
 * LEDGER_EXIT_BOUND_NS; a guard does not wait. -ETIMEDOUT: the lock was held by a stopped process
 * for LEDGER_LOCK_BOUND_NS; treat like -ENOMEM.
 */
int ledger_reserve(struct vgpu_ledger *ledger, unsigned vdev, uint64_t bytes);

/* Gives a reservation back unused. */
void ledger_cancel(struct vgpu_ledger *ledger, unsigned vdev, uint64_t reserved_bytes);

/*
 * Turns a reservation into a charge of `actual_bytes` of `kind`; what is left of the reservation is
 * given back. Where actual > reserved the rest is reserved first; -ENOMEM if that does not fit, and
 * then the reservation still stands: undo the driver's allocation and cancel.
 */
int ledger_commit(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind,
                  uint64_t reserved_bytes, uint64_t actual_bytes);

/* Gives back `bytes` of `kind`; never below zero. */
void ledger_release(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind, uint64_t bytes);

/* Sets what this process holds of `kind` to `bytes`, whether or not it fits: for what already
 * happened (contexts, untracked). */
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
 * Memory of a process that the driver has taken off the devices (a checkpoint) is charged to
 * nobody. `pid`: as this process's namespace numbers it; one that is not of this instance, or that
 * a guard looks after, changes nothing. ledger_bring_back() comes before the driver's restore. 1:
 * something was away and is charged again; 0: nothing was; -ENOMEM: it does not fit, *ret_vdev and
 * *ret_bytes say what.
 */
void ledger_put_away(struct vgpu_ledger *ledger, pid_t pid);
int ledger_bring_back(struct vgpu_ledger *ledger, pid_t pid, unsigned *ret_vdev,
                      uint64_t *ret_bytes);

/* Held by this process, one kind or all (VGPU_KINDS). */
uint64_t ledger_held(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind);

/*
 * What NVML's figure for this process should show: all that it holds or has set aside of kinds that
 * NVML counts, but for UNTRACKED. Never less than what of it the driver has been asked for.
 */
uint64_t ledger_accounted_in_nvml(struct vgpu_ledger *ledger, unsigned vdev);

/*
 * What the program is to see of a device whose driver reports `physical_*`: total = min(quota,
 * physical), free = max(0, min(quota - used, physical free)), in a group the lower of its own and
 * the instance's. Dead processes are removed first. Unchanged where there is no quota.
 */
void ledger_view(struct vgpu_ledger *ledger, unsigned vdev, uint64_t physical_total,
                 uint64_t physical_free, uint64_t *ret_total, uint64_t *ret_free);

/* The effective quota (the least of the instance's, the group's and the device's size); 0: none.
 * Relaxed loads. */
uint64_t ledger_quota(struct vgpu_ledger *ledger, unsigned vdev);

/* The largest context that a process of this instance has been seen to cost on this device; 0: not
 * known yet. */
uint64_t ledger_context_cost(struct vgpu_ledger *ledger, unsigned vdev);
void ledger_learn_context_cost(struct vgpu_ledger *ledger, unsigned vdev, uint64_t bytes);

/* The processes of the instance, or of the group, that hold memory on a vdev: pid as the caller's
 * namespace numbers it. Returns how many there are; fills up to `max`. */
struct vgpu_proc_memory {
    uint32_t pid;
    uint64_t bytes;
};
unsigned ledger_processes(struct vgpu_ledger *ledger, unsigned vdev,
                          struct vgpu_proc_memory *ret_procs, unsigned max);

struct vgpu_region *ledger_region(struct vgpu_ledger *ledger);

#endif
