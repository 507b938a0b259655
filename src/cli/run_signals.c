/*
 * Passes signals on to the command.
 *
 * The command is in vgpu's own process group, so that the terminal, job control and `kill` of the
 * group work as without vgpu. Both receive the terminal's signals. vgpu passes on a signal that was
 * sent to vgpu alone. The command must not receive a signal to the whole group twice: for many
 * programs a second SIGINT or SIGTERM means "at once". But the kernel does not tell how a signal
 * was addressed. So vgpu keeps a witness, a process in the same group that takes and counts every
 * signal. If the witness received the signal, it was sent to the group. The kernel serves the
 * newest members of a group first, so the witness receives it before vgpu. vgpu only waits until
 * the witness is idle again.
 *
 * When job control stops the command, vgpu stops with the same signal, so that the shell sees the
 * job stop.
 */
#include "cli/run.h"

#include "base/file.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIGNALS_MAX  64
#define GRACE_NS     2000000L /* for a sender that signals the members of a group one by one */
#define IDLE_POLL_NS 1000000L
#define IDLE_POLLS   2000 /* microseconds, unless the witness gets no CPU */

static sigset_t original_mask, taken;
static struct sigaction original_child_action;
static unsigned long long shared_signals; /* bit n-1: both received signal n */
static pid_t witness = -1;
static atomic_uint *witnessed; /* signals that the witness has taken, by number; in shared memory */
static unsigned accounted[SIGNALS_MAX + 1]; /* those that vgpu has counted */

void run_signals_block(void)
{
    static const int left_alone[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

    sigfillset(&taken);
    for (size_t i = 0; i < sizeof(left_alone) / sizeof(left_alone[0]); i++)
        sigdelset(&taken, left_alone[i]);
    sigprocmask(SIG_BLOCK, &taken, &original_mask);
    /* The parent may ignore SIGCHLD; the kernel would then discard the command's status. */
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &original_child_action);
}

void run_signals_restore(void)
{
    sigaction(SIGCHLD, &original_child_action, NULL);
    sigprocmask(SIG_SETMASK, &original_mask, NULL);
}

static void close_everything(void)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 0U, ~0U, 0U) == 0)
        return;
#endif
    for (int fd = 0, end = (int)sysconf(_SC_OPEN_MAX); fd < end && fd < 65536; fd++)
        close(fd);
}

static void be_witness(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "vgpu-witness");
    if (getppid() != parent)
        _exit(0);
    close_everything();
    if (chdir("/") < 0)
        _exit(0);
    for (;;) {
        int signal = sigwaitinfo(&taken, NULL);

        if (signal > 0 && signal <= SIGNALS_MAX)
            atomic_fetch_add(&witnessed[signal], 1);
    }
}

static void witness_end(void)
{
    if (witness <= 0)
        return;
    kill(witness, SIGKILL);
    while (waitpid(witness, NULL, 0) < 0 && errno == EINTR)
        continue;
    witness = -1;
}

void run_signals_watch(void)
{
    const size_t size = (SIGNALS_MAX + 1) * sizeof(*witnessed);
    pid_t parent = getpid();

    witnessed = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (witnessed == MAP_FAILED)
        return; /* without a witness vgpu passes on every signal */
    witness = fork();
    if (witness == 0)
        be_witness(parent);
}

enum witness_state { WITNESS_IDLE, WITNESS_BUSY, WITNESS_TO_TAKE };

/* The state of the witness for signal `signal`. */
static enum witness_state witness_state(int signal)
{
    char path[48], text[4096];
    const char *state, *pending;
    size_t length;

    snprintf(path, sizeof(path), "/proc/%ld/status", (long)witness);
    if (file_read_small(path, text, sizeof(text), &length))
        return WITNESS_IDLE;
    state = strstr(text, "\nState:\t");
    pending = strstr(text, "\nShdPnd:\t");
    if (pending && strtoull(pending + 9, NULL, 16) & 1ULL << (signal - 1))
        return WITNESS_TO_TAKE;
    return state && pending && state[8] != 'R' ? WITNESS_IDLE : WITNESS_BUSY;
}

/* Whether the witness has received `signal` since the last question. A pending signal counts, once:
 * a witness without a CPU would count it too late. */
static bool witness_got(int signal)
{
    const struct timespec pause = {.tv_nsec = IDLE_POLL_NS};
    unsigned *known = &accounted[signal], count = 0;
    bool got;

    if (witness <= 0)
        return false;
    for (unsigned i = 0; i < IDLE_POLLS; i++) {
        unsigned before = atomic_load(&witnessed[signal]);
        enum witness_state state = witness_state(signal);

        count = atomic_load(&witnessed[signal]);
        if (count == before && state == WITNESS_TO_TAKE) {
            got = *known == count;
            *known = count + 1;
            return got;
        }
        if (count == before && state == WITNESS_IDLE)
            break;
        nanosleep(&pause, NULL);
    }
    got = count != *known;
    *known = count;
    return got;
}

static void pass_on(pid_t child, const siginfo_t *info)
{
    if (info->si_code == SI_QUEUE)
        sigqueue(child, info->si_signo, info->si_value);
    else
        kill(child, info->si_signo);
}

/* A timer of vgpu itself: timers outlive exec, and the command would have received it instead. */
static bool is_own_timer(int signal)
{
    return signal == SIGALRM || signal == SIGVTALRM || signal == SIGPROF;
}

/* Whether the command has received it as well; recorded for run_signals_shared(). */
static bool is_shared(const siginfo_t *info)
{
    const struct timespec grace = {.tv_nsec = GRACE_NS};
    int signal = info->si_signo;
    bool shared;

    if (info->si_code != SI_KERNEL)
        nanosleep(&grace, NULL);
    shared = witness_got(signal);
    /* Keys of the terminal signal the whole group. At its end the kernel may signal only the
     * session's leader. */
    if (info->si_code == SI_KERNEL && signal != SIGHUP)
        shared = !is_own_timer(signal);
    if (shared)
        shared_signals |= 1ULL << (signal - 1);
    return shared;
}

static void take_signal(pid_t child, const siginfo_t *info)
{
    int signal = info->si_signo;

    if (info->si_pid == getpid() && info->si_code == SI_USER)
        return; /* vgpu's own SIGPIPE */
    if (signal == SIGCONT || signal == SIGWINCH) {
        if (signal == SIGCONT || info->si_code != SI_KERNEL)
            pass_on(child, info); /* twice does no harm */
        return;
    }
    if (!is_shared(info))
        pass_on(child, info);
}

/* The command may have died of a signal that is still pending here. */
static void note_the_last(void)
{
    static const int deadly[] = {SIGINT, SIGQUIT};
    const struct timespec at_once = {0, 0};
    siginfo_t info;
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
        sigaddset(&set, deadly[i]);
    while (sigtimedwait(&set, &info, &at_once) > 0)
        is_shared(&info);
}

/* Stops as the command did, until continued. */
static void stop_too(int signal)
{
    struct sigaction action;
    sigset_t set, pending;

    /* A pending SIGCONT means that the group continues already; a stop would discard it. */
    if (sigpending(&pending) == 0 && sigismember(&pending, SIGCONT))
        return;
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, &action);
    raise(signal);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigaction(signal, &action, NULL);
}

/* As process 1 of a container, or under the guard, vgpu reaps orphans too. */
static bool buries_all(void)
{
    int reaper = 0;

    return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &reaper) == 0 && reaper);
}

/* True: the command has ended, with *ret_status. */
static bool has_ended(pid_t child, int *ret_status)
{
    for (;;) {
        int status;
        pid_t found = waitpid(buries_all() ? -1 : child, &status, WNOHANG | WUNTRACED);

        if (found < 0 && errno == EINTR)
            continue;
        if (found < 0) {
            *ret_status =
                RUN_FAILED
                << 8; /* another waiter took the status, which cannot happen, but must not loop */
            return true;
        }
        if (found == 0)
            return false;
        if (found != child)
            continue;
        if (!WIFSTOPPED(status)) {
            *ret_status = status;
            return true;
        }
        if (WSTOPSIG(status) == SIGTSTP || WSTOPSIG(status) == SIGTTIN ||
            WSTOPSIG(status) == SIGTTOU)
            stop_too(WSTOPSIG(status));
    }
}

int run_signals_wait(pid_t child)
{
    int status;

    while (!has_ended(child, &status)) {
        siginfo_t info;

        if (sigwaitinfo(&taken, &info) > 0 && info.si_signo != SIGCHLD)
            take_signal(child, &info);
    }
    note_the_last();
    witness_end();
    return status;
}

bool run_signals_shared(int signal)
{
    return shared_signals & 1ULL << (signal - 1);
}
