/*
 * Reconciliation: what NVML says that this process holds, against the ledger.
 *
 * NVML knows exactly what a process holds of a device, however the process got it. The ledger
 * accounts for part of that, in kinds that NVML counts. The rest is charged as UNTRACKED, so that
 * the quota holds for memory that no hook saw: lazily loaded modules, buffers of the driver,
 * libraries that reach it in other ways.
 *
 * Opening NVML costs 17 ms, a question 23 us. So vgpu opens it while the driver creates the
 * process's first context, which takes longer. It asks at most every RECONCILE_INTERVAL_NS: 0.02 %
 * of a processor, and far more often than untracked memory changes.
 *
 * The driver may not list this process: in a PID namespace of its own, without NVML, or where NVML
 * numbers processes differently. Then its usage is unknown and nothing is untracked; another
 * process's entry is never taken for its own.
 *
 * Thread-safe. No function holds a lock across a call into the driver; all keep errno.
 */
#ifndef VGPU_HOOK_MEMORY_RECONCILE_H
#define VGPU_HOOK_MEMORY_RECONCILE_H

#include "hook/loader/hook.h"

/* Around a call by which the driver frees memory that stays charged until the call is over.
 * Meanwhile NVML may rightly show less than the ledger. */
void reconcile_free_begin(void);
void reconcile_free_end(void);

#define RECONCILE_INTERVAL_NS 100000000ULL

/* Starts to open NVML for a device in a thread of its own, unless some thread has. Returns
 * at once. */
void reconcile_prepare(unsigned vdev);

/* Waits until NVML is open, for at most a second; until then the usage is unknown. */
void reconcile_await(unsigned vdev);

/* What NVML says that this process holds of a device. -ENODATA: unknown. */
int reconcile_nvml_usage(unsigned vdev, uint64_t *ret_bytes);

/* What NVML shows beyond the ledger. `reserved_bytes` of the ledger are set aside for the memory
 * that the caller measures. -ENODATA: unknown. */
int reconcile_excess(struct vgpu_ledger *ledger, unsigned vdev, uint64_t reserved_bytes,
                     uint64_t *ret_bytes);

/* Brings UNTRACKED up to date. -ENODATA: unknown, nothing changed. */
int reconcile_now(unsigned vdev);

/* The same, if NVML is open and the last time was long enough ago. One load otherwise. */
void reconcile_maybe(unsigned vdev);

#endif
