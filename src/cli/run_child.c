#include "cli/run.h"

#include "cli/message.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: becomes the command, or says by the pipe why not. */
static void become(const char *path, char **command, int report)
{
    int error;

    run_signals_restore();
    execvp(path, command); /* the path has a slash: no search, but a script without "#!" is run by /bin/sh */
    error = errno;
    while (write(report, &error, sizeof(error)) < 0 && errno == EINTR)
        continue;
    _exit(RUN_FAILED);
}

/* The errno of a failed exec; 0: the command runs. */
static int exec_error(int report)
{
    int error = 0;
    ssize_t got;

    do
        got = read(report, &error, sizeof(error));
    while (got < 0 && errno == EINTR);
    return got == sizeof(error) ? error : 0;
}

/* A shell tells by this that the user has stopped the whole job, so that it stops its script too. */
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
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT || signal == SIGFPE || signal == SIGILL ||
           signal == SIGSYS || signal == SIGTRAP || signal == SIGKILL;
}

static int translate(const char *path, int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    /* A shell would say this about its own child, but its child is vgpu. */
    if (is_crash(WTERMSIG(status)))
        message_note("%s was killed by signal %d (%s)%s", path, WTERMSIG(status), strsignal(WTERMSIG(status)),
                     WCOREDUMP(status) ? ", core dumped" : "");
    return RUN_SIGNAL_BASE + WTERMSIG(status);
}

static int start_failed(const char *path, int error)
{
    message_error("run: cannot run %s: %s", path, strerror(error));
    return error == ENOENT || error == ENOTDIR ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
}

int run_child(const char *path, char **command, void (*before_exit)(void *), void *argument)
{
    int report[2], status, error, result;
    pid_t child;

    if (pipe2(report, O_CLOEXEC) < 0) {
        message_error("run: cannot make a pipe: %s", strerror(errno));
        before_exit(argument);
        return RUN_FAILED;
    }
    run_signals_block();
    child = fork();
    if (child == 0)
        become(path, command, report[1]);
    error = child < 0 ? errno : 0;
    close(report[1]);
    if (child < 0) {
        message_error("run: cannot start a process: %s", strerror(error));
        before_exit(argument);
        return RUN_FAILED;
    }
    run_signals_watch();
    error = exec_error(report[0]);
    close(report[0]);
    status = run_signals_wait(child);
    result = error ? start_failed(path, error) : translate(path, status);
    before_exit(argument);
    if (!error && WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT) &&
        run_signals_shared(WTERMSIG(status)))
        die_of(WTERMSIG(status));
    return result;
}
