#include "guard/notify/task.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/proc.h"
#include "guard/notify/pidfd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PIDFD_THREAD O_EXCL /* Linux 6.9 */

#define PAGE_BYTES      4096u
#define GENERATIONS_MAX 4096u

void tasks_init(struct tasks *tasks, unsigned count)
{
    memset(tasks, 0, sizeof(*tasks));
    tasks->count = count;
}

static void forget(struct task *task)
{
    if (task->tid)
        close(task->pidfd);
    memset(task, 0, sizeof(*task));
}

void tasks_done(struct tasks *tasks)
{
    for (unsigned i = 0; i < TASKS_CACHED; i++)
        forget(&tasks->cached[i]);
}

/* A number in /proc/PID/status. */
static int status_number(pid_t tid, const char *key, pid_t *ret_number)
{
    char path[48], text[1024];
    const char *line;
    size_t length;
    int rc;

    snprintf(path, sizeof(path), "/proc/%ld/status", (long)tid);
    rc = file_read_small(path, text, sizeof(text), &length);
    if (rc < 0)
        return rc == -ENOENT ? -ESRCH : rc;
    line = strstr(text, key);
    if (!line)
        return -ESRCH;
    *ret_number = (pid_t)strtol(line + strlen(key), NULL, 10);
    return 0;
}

static int thread_group(pid_t tid, pid_t *ret_process)
{
    return status_number(tid, "\nTgid:", ret_process);
}

bool task_exists(pid_t process)
{
    return kill(process, 0) == 0 || errno != ESRCH;
}

bool task_descends(pid_t process, pid_t ancestor)
{
    for (unsigned i = 0; process > 1 && i < GENERATIONS_MAX; i++) {
        if (process == ancestor)
            return true;
        if (status_number(process, "\nPPid:", &process) < 0)
            return false;
    }
    return false;
}

static int open_task(pid_t tid, struct task *ret_task)
{
    struct task task = {.tid = tid};
    int rc = thread_group(tid, &task.process);

    if (rc < 0)
        return rc;
    task.pidfd = pidfd_of(tid, PIDFD_THREAD);
    if (task.pidfd < 0 && errno == EINVAL) {
        task.whole = 1;
        task.pidfd = pidfd_of(task.process, 0);
    }
    if (task.pidfd < 0)
        return err_last();
    *ret_task = task;
    return 0;
}

static struct task *entry(struct tasks *tasks, pid_t tid)
{
    return &tasks->cached[(uint32_t)tid % tasks->count];
}

static int reopen(struct task *task, pid_t tid)
{
    forget(task);
    return open_task(tid, task);
}

int task_get(struct tasks *tasks, pid_t tid, const struct task **ret_task)
{
    struct task *task = entry(tasks, tid);
    int rc = 0;

    /* The number may be another thread's by now. */
    if (task->tid != tid || pidfd_signal(task->pidfd, 0) < 0)
        rc = reopen(task, tid);
    if (rc == 0)
        *ret_task = task;
    return rc;
}

static int get_file(const struct task *task, int fd)
{
    int got;

    if (task->whole && syscall(SYS_kcmp, task->tid, task->process, KCMP_FILES, 0, 0) != 0)
        return -EPERM;
    got = pidfd_take(task->pidfd, fd);
    return got < 0 ? err_last() : got;
}

int task_file(struct tasks *tasks, pid_t tid, int fd, int *ret_fd)
{
    struct task *task = entry(tasks, tid);
    int got = -ESRCH;

    if (task->tid == tid)
        got = get_file(task, fd);
    if (got == -ESRCH) {
        int rc = reopen(task, tid);

        if (rc < 0)
            return rc;
        got = get_file(task, fd);
    }
    if (got < 0)
        return got;
    *ret_fd = got;
    return 0;
}

typedef ssize_t transfer_fn(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                            unsigned long, unsigned long);

static int transfer(transfer_fn *fn, pid_t tid, const struct task_piece *piece, unsigned count)
{
    struct iovec local[TASK_PIECES_MAX], remote[TASK_PIECES_MAX];
    size_t bytes = 0;
    ssize_t got;

    if (count > TASK_PIECES_MAX)
        return -EINVAL;
    for (unsigned i = 0; i < count; i++) {
        local[i] = (struct iovec){piece[i].ours, piece[i].bytes};
        remote[i] = (struct iovec){(void *)(uintptr_t)piece[i].address, piece[i].bytes};
        bytes += piece[i].bytes;
    }
    if (bytes == 0)
        return 0;
    got = fn(tid, local, count, remote, count, 0);
    if (got < 0)
        return err_last();
    return (size_t)got == bytes ? 0 : -EFAULT;
}

int task_read_pieces(pid_t tid, const struct task_piece *piece, unsigned count)
{
    return transfer(process_vm_readv, tid, piece, count);
}

int task_write_pieces(pid_t tid, const struct task_piece *piece, unsigned count)
{
    return transfer(process_vm_writev, tid, piece, count);
}

int task_read(pid_t tid, uint64_t address, void *to, size_t bytes)
{
    return task_read_pieces(tid, &(struct task_piece){address, to, bytes}, 1);
}

int task_write(pid_t tid, uint64_t address, void *from, size_t bytes)
{
    return task_write_pieces(tid, &(struct task_piece){address, from, bytes}, 1);
}

size_t task_read_some(pid_t tid, uint64_t address, void *to, size_t bytes)
{
    size_t first = PAGE_BYTES - address % PAGE_BYTES, length = bytes;
    struct iovec local = {to, bytes}, remote[2];
    ssize_t got;

    /* One element a page: the call moves whole elements, and does not stop within one. */
    if (first > length)
        first = length;
    remote[0] = (struct iovec){(void *)(uintptr_t)address, first};
    remote[1] = (struct iovec){(void *)(uintptr_t)(address + first), length - first};
    got = process_vm_readv(tid, &local, 1, remote, length > first ? 2 : 1, 0);
    return got < 0 ? 0 : (size_t)got;
}

/* Most of it is the same, so it is compared in blocks. */
#define LINE_BYTES 64u

struct task_piece task_changes(uint64_t address, const void *before, void *after, size_t bytes)
{
    const uint8_t *was = before;
    uint8_t *is = after;
    size_t begin = 0, end = bytes;

    while (end - begin >= LINE_BYTES && memcmp(was + begin, is + begin, LINE_BYTES) == 0)
        begin += LINE_BYTES;
    while (begin < end && was[begin] == is[begin])
        begin++;
    while (end - begin >= LINE_BYTES &&
           memcmp(was + end - LINE_BYTES, is + end - LINE_BYTES, LINE_BYTES) == 0)
        end -= LINE_BYTES;
    while (end > begin && was[end - 1] == is[end - 1])
        end--;
    return (struct task_piece){address + begin, is + begin, end - begin};
}

/* A thread that has not ended; the first one if all have. */
static pid_t living_thread(pid_t process)
{
    pid_t living = process;
    struct dirent *entry;
    char path[48];
    DIR *folder;

    if (!proc_thread_ended(process))
        return process;
    snprintf(path, sizeof(path), "/proc/%ld/task", (long)process);
    folder = opendir(path);
    while (folder && living == process && (entry = readdir(folder))) {
        pid_t tid = (pid_t)atoi(entry->d_name);

        if (tid > 0 && !proc_thread_ended(tid))
            living = tid;
    }
    if (folder)
        closedir(folder);
    return living;
}

int task_open_file(pid_t process, const char *name, int *ret_fd)
{
    char path[64];

    /* A thread may end between the choice and the opening. If it lives afterwards, it had its
     * memory when the file was opened. */
    for (;;) {
        pid_t tid = living_thread(process);
        bool ended = proc_thread_ended(tid);
        int fd CLEANUP_CLOSE = -1, error = 0;

        snprintf(path, sizeof(path), "/proc/%ld/%s", (long)tid, name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            error = err_last();
        if (!ended && proc_thread_ended(tid))
            continue;
        *ret_fd = steal_fd(&fd);
        return error;
    }
}

void task_name(pid_t process, char ret_name[32])
{
    char path[48];
    size_t length = 0;

    snprintf(path, sizeof(path), "/proc/%ld/comm", (long)process);
    if (file_read_small(path, ret_name, 32, &length) < 0 || length == 0)
        snprintf(ret_name, 32, "?");
    else
        ret_name[strcspn(ret_name, "\n")] = '\0';
}
