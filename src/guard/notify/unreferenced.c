/*
 * Files that no process is seen to have are not closed for that: they may wait in a socket, be
 * mapped, or be in a table of descriptors that /proc does not show. What the driver holds for them
 * must not be taken to be free.
 *
 * The kernel knows: an epoll instance lists a file for as long as the file exists, and does not
 * keep it alive. So the duplicate is put away; if the file is still listed, somebody has it. A
 * placeholder has the duplicate's number meanwhile. epoll tells files apart by that number, too: a
 * file that comes to light is put there, and if it cannot be added because it is there already, it
 * is the same file.
 *
 * The UVM device does not support poll(), so its files cannot be listed. They are taken to exist
 * for as long as a process of the instance has a place for files that /proc does not show: messages
 * in a socket, tables of io_uring, threads with descriptors of their own. They are asked about only
 * once the program that used them has ended.
 */
#include "guard/notify/files.h"

#include "base/err.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

int unreferenced_init(struct notify *notify)
{
    notify->unreferenced_epoll = epoll_create1(EPOLL_CLOEXEC);
    notify->placeholder = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return notify->unreferenced_epoll < 0 || notify->placeholder < 0 ? err_last() : 0;
}

void unreferenced_done(struct notify *notify)
{
    if (notify->unreferenced_epoll >= 0)
        close(notify->unreferenced_epoll);
    if (notify->placeholder >= 0)
        close(notify->placeholder);
    notify->unreferenced_epoll = notify->placeholder = -1;
}

static int add(const struct notify *notify, int fd, uint32_t number)
{
    struct epoll_event event = {.data.u64 = number};

    return epoll_ctl(notify->unreferenced_epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? err_last() : 0;
}

static bool is_listed(const struct notify *notify, uint32_t number)
{
    char path[48], line[256];
    bool found = false;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", notify->unreferenced_epoll);
    file = fopen(path, "re");
    if (!file)
        return true;
    while (!found && fgets(line, sizeof(line), file)) {
        unsigned long long data;

        found = sscanf(line, "tfd: %*d events: %*x data: %llx", &data) == 1 && data == number;
    }
    fclose(file);
    return found;
}

void unreferenced_watch(const struct notify *notify, struct guard_file *file)
{
    /* A stand-in for the UVM device may support poll(). */
    file->watched = file->kind != DEVICE_UVM && add(notify, file->fd, file->number) == 0;
}

/* Whether the number behind `key` in /proc/PID/fdinfo is not 0. */
static bool is_there(int folder, const char *name, const char *key)
{
    char path[64], line[256];
    bool found = false;
    int fd;
    FILE *file;

    snprintf(path, sizeof(path), "../fdinfo/%s", name);
    fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
    file = fd < 0 ? NULL : fdopen(fd, "r");
    while (file && !found && fgets(line, sizeof(line), file))
        found = strncmp(line, key, strlen(key)) == 0 && strtoul(line + strlen(key), NULL, 10) > 0;
    if (file)
        fclose(file);
    else if (fd >= 0)
        close(fd);
    return found;
}

/* Whether one of a thread's descriptors is the file, or may hold it. */
static bool table_may_have(const struct guard_file *file, pid_t pid, pid_t tid)
{
    char path[64], link[64];
    struct dirent *entry;
    bool found = false;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%ld/task/%ld/fd", (long)pid, (long)tid);
    folder = opendir(path);
    while (folder && !found && (entry = readdir(folder))) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1);

        if (length <= 0)
            continue;
        link[length] = '\0';
        if (strncmp(link, "socket:", 7) == 0)
            found = is_there(dirfd(folder), entry->d_name, "scm_fds:");
        else if (strcmp(link, "anon_inode:[io_uring]") == 0)
            found = is_there(dirfd(folder), entry->d_name, "UserFiles:");
        else
            found = syscall(SYS_kcmp, tid, getpid(), KCMP_FILE, (unsigned long)atoi(entry->d_name),
                            (unsigned long)file->fd) == 0;
    }
    if (folder)
        closedir(folder);
    return found;
}

/* Threads share the table of the first one, unless they unshared it; and a first thread that has
 * ended has none. */
static bool process_may_have(const struct guard_file *file, pid_t pid)
{
    struct dirent *entry;
    bool found = table_may_have(file, pid, pid);
    char path[48];
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
    folder = opendir(path);
    while (folder && !found && (entry = readdir(folder))) {
        pid_t tid = (pid_t)atoi(entry->d_name);

        found = tid > 0 && tid != pid && syscall(SYS_kcmp, tid, pid, KCMP_FILES, 0, 0) != 0 &&
                table_may_have(file, pid, tid);
    }
    if (folder)
        closedir(folder);
    return found;
}

static bool anybody_may_have(const struct notify *notify, const struct guard_file *file)
{
    for (unsigned i = 0; i < NOTIFY_PROCESSES_MAX; i++) {
        if (notify->process[i].pid && process_may_have(file, notify->process[i].pid))
            return true;
    }
    return false;
}

bool unreferenced_is_closed(const struct notify *notify, struct guard_file *file)
{
    if (!file->watched)
        return !anybody_may_have(notify, file);
    if (!file->unreferenced && dup3(notify->placeholder, file->fd, O_CLOEXEC) < 0)
        return false;
    file->unreferenced = true;
    return !is_listed(notify, file->number);
}

bool unreferenced_is(const struct notify *notify, struct guard_file *file, int fd)
{
    if (!file->unreferenced || dup3(fd, file->fd, O_CLOEXEC) < 0)
        return false;
    if (add(notify, file->fd, file->number) == -EEXIST) {
        file->unreferenced = false;
        return true;
    }
    epoll_ctl(notify->unreferenced_epoll, EPOLL_CTL_DEL, file->fd, NULL);
    dup3(notify->placeholder, file->fd, O_CLOEXEC);
    return false;
}
