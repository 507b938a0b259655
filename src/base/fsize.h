/*
 * Writing to files under RLIMIT_FSIZE (ulimit -f). The kernel sends SIGXFSZ to a thread whose write
 * or extension of a file meets the limit, and most programs die of it: a fault that is not the
 * program's. Between begin and end the thread gets the error only, -EFBIG. The disposition of the
 * signal is not touched.
 */
#ifndef VGPU_BASE_FSIZE_H
#define VGPU_BASE_FSIZE_H

#include "base/cleanup.h"

#include <signal.h>
#include <stdbool.h>

struct fsize_guard {
    bool blocks; /* the signal, in this thread, which had none pending */
    sigset_t before;
};

/* Of one thread, for the time of one system call or a few. One system call where there is no limit.
 * Keep errno. */
void fsize_guard_begin(struct fsize_guard *guard);
void fsize_guard_end(struct fsize_guard *guard);

/* Until the scope ends. */
#define FSIZE_SCOPE                                                                                \
    struct fsize_guard fsize_guard_ CLEANUP(fsize_guard_end) __attribute__((unused));              \
    fsize_guard_begin(&fsize_guard_)

#endif
