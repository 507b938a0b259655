/*
 * The keeper switches channels on again when the supervisor has died with some of them off.
 *
 * It shares the supervisor's table of descriptors (CLONE_FILES). So it has the duplicates by which
 * channels are switched, whenever they were made, and needs no right over any process. The table of
 * channels is in shared memory. The keeper sleeps until the supervisor ends.
 */
#include "guard/notify/keeper.h"

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
static void keep(void (*rescue)(void *arg), void *arg, int supervisor)
{
    struct pollfd end = {.fd = supervisor, .events = POLLIN};
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_NAME, "vgpu-keeper");
    /* Leave the group: a signal that kills the group kills the programs, too, and the keeper has to
     * outlive it. */
    setsid();
    while (poll(&end, 1, -1) <= 0)
        continue;
    rescue(arg);
    _exit(0);
}

int keeper_start(struct notify *notify, void (*rescue)(void *arg), void *arg)
{
    int supervisor = pidfd_of(getpid(), 0);
    pid_t pid;

    if (supervisor < 0)
        return err_last();
    pid = (pid_t)syscall(SYS_clone, CLONE_FILES, 0, 0, 0, 0);
    if (pid == 0)
        keep(rescue, arg, supervisor);
    if (pid < 0) {
        int rc = err_last();

        close(supervisor);
        return rc;
    }
    notify->keeper = pid;
    notify->keeper_pidfd = supervisor;
    return 0;
}

void keeper_end(struct notify *notify)
{
    if (notify->keeper <= 0)
        return;
    kill(notify->keeper, SIGKILL);
    while (waitpid(notify->keeper, NULL, __WALL) < 0 && errno == EINTR)
        continue;
    close(notify->keeper_pidfd);
    notify->keeper = -1;
}
