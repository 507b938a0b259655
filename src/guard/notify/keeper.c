/*
 * The keeper: a process that switches channels on again when the supervisor has died with some of
 * them off.
 *
 * It shares the supervisor's table of descriptors (CLONE_FILES), so it has the duplicates by which
 * channels are switched, whenever they were made, and needs no right over anybody; and the table of
 * channels, which is shared memory. It sleeps until the supervisor ends.
 */
#include "guard/guard_internal.h"

#include "base/err.h"
#include "guard/notify/pidfd.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child. Nothing here may allocate or lock: the parent may have had threads. */
static void keep(struct channels *channels, int supervisor)
{
    struct pollfd end = {.fd = supervisor, .events = POLLIN};
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_NAME, "vgpu-keeper");
    /* Out of the group: who kills the group kills the programs too, and nobody is left off. */
    setsid();
    while (poll(&end, 1, -1) <= 0)
        continue;
    channels_rescue(channels);
    _exit(0);
}

int keeper_start(struct guard *guard)
{
    int supervisor = pidfd_of(getpid(), 0);
    pid_t pid;

    if (supervisor < 0)
        return err_last();
    pid = (pid_t)syscall(SYS_clone, CLONE_FILES, 0, 0, 0, 0);
    if (pid == 0)
        keep(guard->channels, supervisor);
    if (pid < 0) {
        int rc = err_last();

        close(supervisor);
        return rc;
    }
    guard->keeper = pid;
    guard->keeper_pidfd = supervisor;
    return 0;
}

void keeper_end(struct guard *guard)
{
    if (guard->keeper <= 0)
        return;
    kill(guard->keeper, SIGKILL);
    while (waitpid(guard->keeper, NULL, __WALL) < 0 && errno == EINTR)
        continue;
    close(guard->keeper_pidfd);
    guard->keeper = -1;
}
