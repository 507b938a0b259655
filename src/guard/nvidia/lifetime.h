/*
 * Processes and files of the driver from their first call to their end. The caller of a trapped
 * call is looked up here, and added where it is new. What belongs to one that ends, ends with it or
 * is inherited. All under notify->lock.
 */
#ifndef VGPU_GUARD_LIFETIME_H
#define VGPU_GUARD_LIFETIME_H

#include "guard/nvidia/nvidia.h"

/* The process of a thread that makes a call. Errors of task_get() and process_add(). */
int lifetime_process(struct nvidia *nvidia, pid_t tid, struct guard_process **ret_process);
/* Its open file: errors of file_get(). */
int lifetime_file(struct nvidia *nvidia, pid_t tid, int fd, struct guard_file **ret_file);

/* Before a process maps managed memory: if it has become another program, that has none of the old
 * one's mappings. */
void lifetime_renew(struct nvidia *nvidia, struct guard_process *process);

/* A process that was known by this number may have ended. Takes the lock. `nvidia`: a struct
 * nvidia, as for struct watch. */
void lifetime_ended(void *nvidia, uint32_t owner);

/* No process is seen to have the file. */
void lifetime_close(struct nvidia *nvidia, struct guard_file *file);

/* Finds files that no process has any more, and mappings that are gone, unless it did so less than
 * `at_least_ns` ago. */
void lifetime_check(struct nvidia *nvidia, uint64_t at_least_ns);

#endif
