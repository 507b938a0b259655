/*
 * A thread that waits for the supervisor's answer: its open files and its memory.
 *
 * Needs the right to trace the thread (an ancestor has it, or CAP_SYS_PTRACE). If the thread is
 * gone, its number may be another's, and what was read means nothing. So the caller asks
 * trap_valid() after reading and before acting. Not thread-safe: the trap thread's, or under
 * notify->lock.
 */
#ifndef VGPU_GUARD_TASK_H
#define VGPU_GUARD_TASK_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TASKS_CACHED 256 /* at most */

struct task {
    pid_t tid;     /* 0: the entry is free */
    pid_t process; /* its thread group */
    int pidfd;     /* of the thread; before Linux 6.9 of the process */
    int whole;     /* 1: pidfd is the process's */
};

struct tasks {
    unsigned count; /* entries that are used */
    struct task cached[TASKS_CACHED];
};

void tasks_init(struct tasks *tasks, unsigned count);
void tasks_done(struct tasks *tasks);

/* The thread `tid`; valid until the next call with the same `tasks`. -ESRCH: gone; -EPERM and
 * others from the system.
 */
int task_get(struct tasks *tasks, pid_t tid, const struct task **ret_task);

/*
 * A duplicate of the thread's descriptor `fd`, from the table of this very thread. -EBADF: it has
 * none. -ESRCH. -EPERM: no right to, or, before Linux 6.9, the thread has a table of its own.
 */
int task_file(struct tasks *tasks, pid_t tid, int fd, int *ret_fd);

/* A piece of a program's memory, and of ours. */
struct task_piece {
    uint64_t address;
    void *ours;
    size_t bytes;
};

#define TASK_PIECES_MAX 4

/* Reads or writes all of the pieces, in one call. -EFAULT: not all is mapped; -ESRCH; -EPERM. */
int task_read_pieces(pid_t tid, const struct task_piece *piece, unsigned count);
int task_write_pieces(pid_t tid, const struct task_piece *piece, unsigned count);

/* The same for one piece. */
int task_read(pid_t tid, uint64_t address, void *to, size_t bytes);
int task_write(pid_t tid, uint64_t address, void *from, size_t bytes);

/* Reads as much as is mapped, in whole pages except at the ends; returns how many bytes. */
size_t task_read_some(pid_t tid, uint64_t address, void *to, size_t bytes);

/* What differs between `before` and `after`, from the first such byte to the last; 0 bytes if
 * nothing does. */
struct task_piece task_changes(uint64_t address, const void *before, void *after, size_t bytes);

/*
 * Opens "mem" or "maps" of a process in /proc for reading, of a thread that has not ended: the
 * first one may have (pthread_exit()), and shows nothing then. 0; -errno.
 */
int task_open_file(pid_t process, const char *name, int *ret_fd);

/* The name of a process, for display: at most 31 bytes; "?" where there is none. */
void task_name(pid_t process, char ret_name[32]);

bool task_exists(pid_t process); /* true also for a zombie */

/* Whether a process descends from another. What a subreaper has started always does. */
bool task_descends(pid_t process, pid_t ancestor);

#endif
