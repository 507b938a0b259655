/* The state of other processes, from /proc (proc(5)). */
#ifndef VGPU_BASE_PROC_H
#define VGPU_BASE_PROC_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether a process has begun to exit, while the kernel still closes its files. The kernel releases
 * file locks before it closes the device, so memory of the process may still be on the device.
 * False where /proc does not tell, and for a process that has ended, zombies included.
 */
bool proc_is_exiting(pid_t pid);

/* The same, from a line of /proc/PID/stat, which ends with NUL. */
bool proc_stat_is_exiting(const char *stat);

/* Whether a thread is exiting, is a zombie, or is gone. Its number then no longer leads to its
 * memory and files, though other threads of its process may still have them. */
bool proc_thread_ended(pid_t tid);

#endif
