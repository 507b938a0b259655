/*
 * The thread that makes a call. Its memory is read anew, as the driver reads it: what the file
 * system has copied before is not looked at, so that a change in between is seen.
 */
#include "fakerm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define REMEMBERED   4096u
#define PIDFD_THREAD O_EXCL /* Linux 6.9 */

int caller_read(pid_t tid, uint64_t address, void *ret_data, size_t bytes)
{
    struct iovec local = {ret_data, bytes}, remote = {(void *)(uintptr_t)address, bytes};

    if (bytes == 0)
        return 0;
    return process_vm_readv(tid, &local, 1, &remote, 1, 0) == (ssize_t)bytes ? 0 : -EFAULT;
}

int caller_write(pid_t tid, uint64_t address, const void *data, size_t bytes)
{
    struct iovec local = {(void *)(uintptr_t)data, bytes},
                 remote = {(void *)(uintptr_t)address, bytes};

    if (bytes == 0)
        return 0;
    return process_vm_writev(tid, &local, 1, &remote, 1, 0) == (ssize_t)bytes ? 0 : -EFAULT;
}

bool caller_is_of(pid_t tid, pid_t process)
{
    return process > 0 && syscall(SYS_tgkill, process, tid, 0) == 0;
}

static pid_t look_up(pid_t tid)
{
    char path[64], line[256];
    pid_t process = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
    file = fopen(path, "re");
    if (!file)
        return 0;
    while (process == 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, "Tgid:", 5) == 0)
            process = atoi(line + 5);
    fclose(file);
    return process;
}

/* The kernel says whether a remembered answer is still right, for less than it costs to read
 * /proc. */
pid_t caller_process(pid_t tid)
{
    static pid_t remembered[REMEMBERED];
    pid_t *slot = &remembered[(unsigned)tid % REMEMBERED],
          process = __atomic_load_n(slot, __ATOMIC_RELAXED);

    if (caller_is_of(tid, process))
        return process;
    process = look_up(tid);
    __atomic_store_n(slot, process, __ATOMIC_RELAXED);
    return process;
}

bool caller_has_card(pid_t tid, unsigned gpu)
{
    char path[64], name[32], link[512];
    struct dirent *entry;
    bool found = false;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)tid);
    snprintf(name, sizeof(name), "/nvidia%u", gpu);
    folder = opendir(path);
    while (folder && !found && (entry = readdir(folder))) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1);

        if (length < (ssize_t)strlen(name))
            continue;
        link[length] = '\0';
        found = strcmp(link + length - strlen(name), name) == 0;
    }
    if (folder)
        closedir(folder);
    return found;
}

static int open_task(pid_t tid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD);

    return pidfd < 0 && errno == EINVAL ? (int)syscall(SYS_pidfd_open, caller_process(tid), 0)
                                        : pidfd;
}

/* The file system knows its files by address; one that is another's says anything. */
struct file *caller_file(pid_t tid, int fd, int *ret_own)
{
    int pidfd = open_task(tid), own = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
    struct fakerm_who who = {0};
    struct file *file = NULL;

    if (pidfd >= 0)
        close(pidfd);
    if (own < 0)
        return NULL;
    if (ioctl(own, FAKERM_WHO, &who) == 0) {
        pthread_mutex_lock(&state_lock);
        for (file = files; file && (uintptr_t)file != who.file;)
            file = file->next;
        pthread_mutex_unlock(&state_lock);
    }
    if (file)
        *ret_own = own;
    else
        close(own);
    return file;
}
