/*
 * The supervisor's memory, descriptors and threads are out of reach for the guarded programs and
 * for the keeper's. One of the descriptors is the listener, which answers calls. The keeper has the
 * same ones.
 */
#include "attack.h"
#include "guard/notify/pidfd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define DESCRIPTORS 64

static void check_denied(long rc, const char *what, pid_t pid)
{
    int error = errno;

    if (rc >= 0 || (error != EPERM && error != EACCES)) {
        fprintf(stderr, "%s of process %d: %ld, %s\n", what, (int)pid, rc,
                rc < 0 ? strerror(error) : "done");
        exit(1);
    }
}

static void check_opens(pid_t pid)
{
    static const char *const names[] = {"mem", "cwd/.", "root/."};
    char path[64];

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, names[i]);
        check_denied(open(path, i == 0 ? O_RDWR : O_RDONLY), names[i], pid);
    }
}

static void check_process(pid_t pid)
{
    char byte = 0;
    struct iovec local = {&byte, 1},
                 remote = {&byte, 1}; /* an address that is mapped there as well, or not */
    int pidfd = pidfd_of(pid, 0);

    CHECK(pidfd >= 0);
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        check_denied(pidfd_take(pidfd, fd), "pidfd_getfd", pid);
    close(pidfd);
    check_denied(process_vm_readv(pid, &local, 1, &remote, 1, 0), "process_vm_readv", pid);
    check_denied(process_vm_writev(pid, &local, 1, &remote, 1, 0), "process_vm_writev", pid);
    check_denied(ptrace(PTRACE_ATTACH, pid, NULL, NULL), "PTRACE_ATTACH", pid);
    check_denied(ptrace(PTRACE_SEIZE, pid, NULL, NULL), "PTRACE_SEIZE", pid);
    check_opens(pid);
}

/* The supervisor and all that it has started, but us. */
static void check_all(void)
{
    char path[64];
    unsigned count = 0;
    FILE *file;
    int pid;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)getppid(), (int)getppid());
    file = fopen(path, "re");
    CHECK(file != NULL);
    while (fscanf(file, "%d", &pid) == 1) {
        if (pid == getpid())
            continue;
        check_process(pid);
        count++;
    }
    fclose(file);
    CHECK(count > 0);
    check_process(getppid());
}

/* What programs do with their own children is theirs. */
static void check_own(void)
{
    pid_t child = attack_fork();
    int status;

    if (child == 0) {
        pause();
        _exit(0);
    }
    CHECK_EQUAL(ptrace(PTRACE_SEIZE, child, NULL, NULL), 0);
    CHECK_EQUAL(ptrace(PTRACE_INTERRUPT, child, NULL, NULL), 0);
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(kill(child, SIGKILL), 0);
    CHECK_EQUAL(finish(child), 1000 + SIGKILL);
}

int main(void)
{
    struct rmclient client;

    attack_open(&client);
    attack_check_room(&client);
    check_all();
    check_own();
    attack_check_room(&client);
    rmclient_close(&client);
    return 0;
}
