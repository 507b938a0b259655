#include "cli/run.h"

#include "base/err.h"
#include "cli/message.h"
#include "cli/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPORT_WAIT_MS 1000

/* The reason why the command does not run. All zero: it runs. */
struct failure {
    int exec_errno;
    int guard_error; /* -errno */
};

/* In the child: executes the command, or writes the reason to the pipe. */
static void become(const char *path, char **command, struct guard *guard, int report)
{
    struct failure failure = {0};

    run_signals_restore();
    if (guard)
        failure.guard_error = guard_child(guard);
    if (!failure.guard_error) {
        execvp(path, command); /* with a slash in the path there is no search, and /bin/sh runs a
                                  script without "#!" */
        failure.exec_errno = errno;
    }
    while (write(report, &failure, sizeof(failure)) < 0 && errno == EINTR)
        continue;
    _exit(RUN_FAILED);
}

static struct failure read_failure(int report)
{
    struct failure failure;
    ssize_t got;

    do
        got = read(report, &failure, sizeof(failure));
    while (got < 0 && errno == EINTR);
    return got == sizeof(failure) ? failure : (struct failure){0};
}

/* Starts the guard in the parent, for which the child waits. The child often knows why that fails
 * and gets a moment to report it; then it ends. */
static struct failure start_guard(struct guard *guard, pid_t child, int report)
{
    struct failure failure = {.guard_error = guard ? guard_start(guard, child) : 0};
    struct pollfd told = {.fd = report, .events = POLLIN};

    if (!failure.guard_error)
        return read_failure(report);
    if (poll(&told, 1, REPORT_WAIT_MS) > 0) {
        struct failure childs = read_failure(report);

        failure = childs.guard_error ? childs : failure;
    }
    kill(child, SIGKILL);
    return failure;
}

/* A shell that sees its child die of the signal stops its script, too. */
static void die_of(int signal)
{
    const struct rlimit no_core = {0, 0};
    sigset_t set;

    setrlimit(RLIMIT_CORE, &no_core);
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    raise(signal);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static bool is_crash(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT || signal == SIGFPE ||
           signal == SIGILL || signal == SIGSYS || signal == SIGTRAP || signal == SIGKILL;
}

static int translate(const char *path, int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    /* vgpu prints what a shell prints of its own child, because the shell's child is vgpu. */
    if (is_crash(WTERMSIG(status)))
        message_note("%s was killed by signal %d (%s)%s", path, WTERMSIG(status),
                     strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
    return RUN_SIGNAL_BASE + WTERMSIG(status);
}

/* The kernel returns ENOENT also for an existing program with a missing interpreter. */
static void say_missing(const char *path)
{
    struct program_info info;

    program_examine(path, &info);
    if (info.is_script)
        message_error("run: %s cannot be run: its interpreter %s is not there", path, info.file);
    else
        message_error("run: %s cannot be run: the loader that it names is not there; it is built "
                      "for another system",
                      path);
}

static int start_failed(const char *path, int error)
{
    if (error == ENOENT && access(path, F_OK) == 0) {
        say_missing(path);
        return RUN_NOT_FOUND;
    }
    message_error("run: cannot run %s: %s", path, strerror(error));
    return error == ENOENT || error == ENOTDIR ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
}

static int guard_failed(int error)
{
    char text[128];

    if (error == -EBUSY)
        message_error("run: --guard: system calls are supervised here already: by another guard "
                      "(this is inside a guarded "
                      "instance), or by a container's runtime; leave --guard out, or start the "
                      "command outside");
    else if (error != -ENOPKG) /* guard_new() has written the message */
        message_error("run: --guard: the command does not run: %s",
                      err_text(error, text, sizeof(text)));
    return RUN_FAILED;
}

/* vgpu's exit status. A signal may have ended the child before it executed the command. */
static int outcome(const char *path, const struct failure *failure, int status)
{
    if (failure->exec_errno)
        return start_failed(path, failure->exec_errno);
    if (failure->guard_error && !(WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL))
        return guard_failed(failure->guard_error);
    return translate(path, status);
}

int run_child(const char *path, char **command, struct guard *guard,
              int (*before_exit)(void *, int), void *argument)
{
    int report[2], status, error, result;
    struct failure failure;
    pid_t child;

    if (pipe2(report, O_CLOEXEC) < 0) {
        message_error("run: cannot make a pipe: %s", strerror(errno));
        return before_exit(argument, RUN_FAILED);
    }
    run_signals_block();
    if (guard)
        prctl(PR_SET_CHILD_SUBREAPER,
              1);        /* stay the ancestor of all processes that the guard examines */
    run_signals_watch(); /* it forks: before any thread exists, and before a command that may stop
                            vgpu */
    child = fork();
    if (child == 0)
        become(path, command, guard, report[1]);
    error = child < 0 ? errno : 0;
    close(report[1]);
    if (child < 0) {
        message_error("run: cannot start a process: %s", strerror(error));
        return before_exit(argument, RUN_FAILED);
    }
    failure = start_guard(guard, child, report[0]);
    close(report[0]);
    status = run_signals_wait(child);
    result = before_exit(argument, outcome(path, &failure, status));
    error = failure.exec_errno || failure.guard_error;
    if (!error && WIFSIGNALED(status) &&
        (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT) &&
        run_signals_shared(WTERMSIG(status)))
        die_of(WTERMSIG(status));
    return result;
}
