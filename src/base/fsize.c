#include "base/fsize.h"

#include <sys/resource.h>
#include <time.h>

static bool limited(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

void fsize_guard_begin(struct fsize_guard *guard)
{
    KEEP_ERRNO;
    sigset_t set;

    guard->blocks = false;
    /* A pending signal is blocked already, and belongs to the program. */
    if (!limited() || sigpending(&set) < 0 || sigismember(&set, SIGXFSZ))
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    /* This thread's mask only. pthread_sigmask() is in another library before glibc 2.32. */
    guard->blocks = sigprocmask(SIG_BLOCK, &set, &guard->before) == 0;
}

void fsize_guard_end(struct fsize_guard *guard)
{
    KEEP_ERRNO;
    const struct timespec now = {0};
    sigset_t set;

    if (!guard->blocks)
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR)
        ;
    sigprocmask(SIG_SETMASK, &guard->before, NULL);
}
