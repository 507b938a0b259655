/*
 * Writing to files under RLIMIT_FSIZE (ulimit -f). The kernel sends SIGXFSZ to a thread whose write
 * or extension of a file exceeds the limit, and most programs die of it. Between begin and end the
 * thread gets only the error -EFBIG. The signal's disposition is unchanged.
 */
#ifndef VGPU_BASE_FSIZE_H
#define VGPU_BASE_FSIZE_H

#include "base/cleanup.h"

#include <signal.h>
#include <stdbool.h>

struct fsize_guard {
    bool blocks; /* whether it blocks the signal in this thread, where none was pending */
    sigset_t before;
};

/* For one or a few system calls of one thread. Costs one system call where there is no limit. Both
 * keep errno. */
void fsize_guard_begin(struct fsize_guard *guard);
void fsize_guard_end(struct fsize_guard *guard);

/* Until the scope ends. */
#define FSIZE_SCOPE                                                                                \
    struct fsize_guard fsize_guard_ CLEANUP(fsize_guard_end) __attribute__((unused));              \
    fsize_guard_begin(&fsize_guard_)

#endif
