/*
 * The driver's own figure for this process against the ledger.
 *
 * NVML knows exactly what a process holds of a device, however it came by it. What that is beyond
 * what the ledger accounts in kinds that NVML counts is charged as UNTRACKED, so that the quota
 * holds for what no hook saw: lazily loaded modules, buffers that the driver takes for itself,
 * libraries that reach it by other ways.
 *
 * Opening NVML costs 17 ms, a question 23 us. So it is opened beside the creation of the process's
 * first context, which takes longer, and asked at most every RECONCILE_INTERVAL_NS: 0.02 % of a
 * processor, and far more often than what is untracked changes. Where the driver does not list this
 * process (a PID namespace of its own, no NVML, NVML that numbers processes otherwise than we do)
 * the figure is unknown: nothing is untracked then, and nobody else's entry is ever taken for ours.
 *
 * Thread-safe; no function holds a lock across a call into the driver; all keep errno.
 */
#ifndef VGPU_HOOK_RECONCILE_H
#define VGPU_HOOK_RECONCILE_H

#include "hook/hook.h"

/*
 * Around a call by which the driver frees memory that is charged until the call is over. Meanwhile
 * NVML's figure may be lower than the ledger's for a good reason.
 */
void reconcile_free_begin(void);
void reconcile_free_end(void);

#define RECONCILE_INTERVAL_NS 100000000ULL

/* Starts to open NVML for a device in a thread of its own, if nobody has. Returns at once. */
void reconcile_prepare(unsigned vdev);

/* Waits until that has come to an end, for a second at most (then the figure is unknown until it
 * has). */
void reconcile_await(unsigned vdev);

/* What this process holds of a device by the driver's account; -ENODATA: unknown. */
int reconcile_nvml_usage(unsigned vdev, uint64_t *ret_bytes);

/*
 * What the figure shows beyond the ledger, of which `reserved_bytes` are set aside for what is
 * being measured. -ENODATA: unknown.
 */
int reconcile_excess(struct vgpu_ledger *ledger, unsigned vdev, uint64_t reserved_bytes,
                     uint64_t *ret_bytes);

/* Brings UNTRACKED up to date. -ENODATA: unknown, nothing changed. */
int reconcile_now(unsigned vdev);

/* The same where the last time was long enough ago and NVML is open. One load otherwise. */
void reconcile_maybe(unsigned vdev);

#endif
