/* The processes that use the driver. All under notify->lock. */
#ifndef VGPU_GUARD_PROCESS_H
#define VGPU_GUARD_PROCESS_H

#include "guard/notify/notify.h"

/* Whether it has not ended; a zombie has. */
bool process_alive(const struct guard_process *process);
/* Whether it has neither ended nor become another program since `memory` was opened. */
bool process_memory_lives(const struct guard_process *process);

/* NULL: not known. */
struct guard_process *process_by_owner(struct notify *notify, uint32_t owner);
struct guard_process *process_by_pid(struct notify *notify, pid_t pid);

/* -ESRCH: it is gone; -EUSERS, -EMFILE: too many; -EPERM and others of the system. */
int process_add(struct notify *notify, pid_t pid, struct guard_process **ret_process);
void process_forget(struct guard_process *process);
void processes_done(struct notify *notify);

bool processes_any(const struct notify *notify);
unsigned processes_kill(struct notify *notify); /* those that made calls; returns how many lived */

/* Where it is shown what the process, or any, holds; NULL: nowhere. */
struct vgpu_ledger *process_ledger(const struct notify *notify,
                                   const struct guard_process *process);
struct vgpu_ledger *process_any_ledger(const struct notify *notify);
/* What the owner holds on a vdev changes by so much. */
void process_charge(struct notify *notify, uint32_t owner, unsigned vdev, int64_t bytes);

/* The sum of its shared mappings of a device. -errno: they cannot be read. The process can make
 * this wait (userfaultfd(2), a file system of its own). */
int process_mapped(pid_t pid, const struct device_node *device, uint64_t *ret_bytes);

#endif
