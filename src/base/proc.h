/* What /proc tells of other processes. */
#ifndef VGPU_BASE_PROC_H
#define VGPU_BASE_PROC_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether a process runs no instruction of its own any more, and the kernel still closes its files.
 * It then lets go of file locks before it closes the device, so what the process held on a device
 * may still be there. False where /proc does not tell, and for a process that has ended, whether or
 * not its parent has waited for it. Source: proc(5).
 */
bool proc_is_exiting(pid_t pid);

/* The same by a line of /proc/PID/stat, which ends with NUL. */
bool proc_stat_is_exiting(const char *stat);

/*
 * Whether a thread runs no instruction of its own any more: it is exiting, is a zombie, or is gone.
 * Its memory and files cannot be asked for by its number then, though other threads of its process
 * may have them still.
 */
bool proc_thread_ended(pid_t tid);

#endif
