#include "guard/notify/files.h"

#include "base/err.h"
#include "guard/notify/process.h"
#include "guard/notify/ratelimit.h"

#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pid_t self;

int files_init(struct notify *notify)
{
    self = getpid();
    for (unsigned i = 0; i < NOTIFY_FILES_MAX; i++)
        notify->file[i].fd = -1;
    return unreferenced_init(notify);
}

/*
 * Compares a descriptor of a thread or process with the file of which we have a duplicate. The
 * kernel compares, so whatever the program does to its descriptors, the file is the right one.
 * 0: it is the same; 1: it is before ours in the kernel's order of files, 2: after; -1: errno.
 */
static long compare(const struct guard_file *file, pid_t tid, int fd)
{
    return syscall(SYS_kcmp, tid, self, KCMP_FILE, (unsigned long)fd, (unsigned long)file->fd);
}

static bool is_file_of(const struct guard_file *file, pid_t tid, int fd)
{
    return compare(file, tid, fd) == 0;
}

bool file_is_there(const struct guard_file *file)
{
    long rc = compare(file, file->tid, file->its_fd);

    return rc == 0 || (rc < 0 && errno != ESRCH && errno != EBADF);
}

/* Where the file is in the kernel's order, or would be. */
static unsigned place_of(const struct notify *notify, pid_t tid, int fd,
                         struct guard_file **ret_file)
{
    unsigned low = 0, high = notify->files_ordered;

    *ret_file = NULL;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        struct guard_file *file = (struct guard_file *)&notify->file[notify->file_order[middle]];
        long rc = compare(file, tid, fd);

        if (rc == 0)
            *ret_file = file;
        if (rc <= 0)
            return middle;
        if (rc == 1)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void order_add(struct notify *notify, const struct guard_file *file)
{
    struct guard_file *same;
    unsigned place = place_of(notify, self, file->fd, &same);

    memmove(&notify->file_order[place + 1], &notify->file_order[place],
            (notify->files_ordered++ - place) * sizeof(notify->file_order[0]));
    notify->file_order[place] = (uint16_t)(file - notify->file);
}

static void order_remove(struct notify *notify, const struct guard_file *file)
{
    uint16_t index = (uint16_t)(file - notify->file);

    for (unsigned i = 0; i < notify->files_ordered; i++) {
        if (notify->file_order[i] != index)
            continue;
        memmove(&notify->file_order[i], &notify->file_order[i + 1],
                (--notify->files_ordered - i) * sizeof(notify->file_order[0]));
        return;
    }
}

/* The one that was last seen there is compared first: programs use few files, again and again. */
static struct guard_file *find(struct notify *notify, pid_t tid, int fd)
{
    struct guard_file *file;

    for (unsigned i = 0; i < notify->files_high; i++) {
        file = &notify->file[i];
        if (file->fd >= 0 && !file->unreferenced && file->its_fd == fd &&
            (file->tid == tid || file->pid == tid) && is_file_of(file, tid, fd))
            return file;
    }
    place_of(notify, tid, fd, &file);
    return file;
}

static struct guard_file *find_unreferenced(struct notify *notify, int fd)
{
    for (unsigned i = 0; i < notify->files_high; i++) {
        if (notify->file[i].fd < 0 || !unreferenced_is(notify, &notify->file[i], fd))
            continue;
        order_add(notify, &notify->file[i]);
        return &notify->file[i];
    }
    return NULL;
}

struct guard_file *file_by_number(struct notify *notify, uint32_t number)
{
    for (unsigned i = 0; i < notify->files_high; i++) {
        if (notify->file[i].fd >= 0 && notify->file[i].number == number &&
            !notify->file[i].unreferenced)
            return &notify->file[i];
    }
    return NULL;
}

static struct guard_file *free_entry(struct notify *notify)
{
    for (unsigned i = 0; i < NOTIFY_FILES_MAX; i++) {
        if (notify->file[i].fd >= 0)
            continue;
        if (i >= notify->files_high)
            notify->files_high = i + 1;
        return &notify->file[i];
    }
    return NULL;
}

/* The first thread usually lives longest; but it may have ended, or have other descriptors. */
static void note_place(struct guard_file *file, pid_t tid, pid_t process, int its_fd)
{
    file->pid = process;
    file->tid = is_file_of(file, process, its_fd) ? process : tid;
    file->its_fd = its_fd;
}

int file_add(struct notify *notify, pid_t tid, int its_fd, int fd, enum device_kind kind,
             uint32_t number, struct guard_file **ret_file)
{
    struct guard_file *file;
    const struct task *task;
    int rc = task_get(&notify->tasks, tid, &task);

    if (rc < 0)
        return rc;
    file = free_entry(notify);
    if (!file)
        return -EMFILE;
    *file = (struct guard_file){.fd = fd, .kind = kind, .number = number};
    note_place(file, tid, task->process, its_fd);
    device_node_of(fd, &file->node);
    unreferenced_watch(notify, file);
    order_add(notify, file);
    *ret_file = file;
    return 0;
}

bool file_is_closed(struct notify *notify, struct guard_file *file)
{
    bool closed = unreferenced_is_closed(notify, file);

    if (file->unreferenced)
        order_remove(notify, file);
    return closed;
}

void file_forget(struct notify *notify, struct guard_file *file)
{
    order_remove(notify, file);
    close(file->fd);
    file->fd = -1;
}

/* `fd`: what the caller had there just now, though it may have been another file when it was looked
 * for. 1: it was unreferenced. */
static int take(struct notify *notify, pid_t tid, int its_fd, int fd, struct guard_file **ret_file)
{
    enum device_kind kind = devices_kind(&notify->devices, fd);
    struct guard_file *file;
    const struct task *task;
    bool unreferenced = false;
    int rc = task_get(&notify->tasks, tid, &task);

    if (rc < 0)
        return rc;
    place_of(notify, self, fd, &file);
    if (!file) {
        file = find_unreferenced(notify, fd);
        unreferenced = file != NULL;
    }
    if (!file)
        return kind == DEVICE_OTHER
                   ? -ENOTTY
                   : file_add(notify, tid, its_fd, fd, kind, ++notify->next_file, ret_file);
    note_place(file, tid, task->process, its_fd);
    close(fd);
    *ret_file = file;
    return unreferenced;
}

int file_get(struct notify *notify, pid_t tid, int fd, struct guard_file **ret_file)
{
    struct guard_file *file = find(notify, tid, fd);
    enum device_kind kind;
    int own, rc;

    if (file) {
        *ret_file = file;
        return 0;
    }
    rc = devices_kind_at(&notify->devices, tid, fd, &kind, NULL);
    if (rc == 0 && kind == DEVICE_OTHER)
        rc = -ENOTTY;
    if (rc == 0)
        rc = task_file(&notify->tasks, tid, fd, &own);
    if (rc < 0)
        return rc;
    rc = descriptors_left(&notify->descriptors, own) ? take(notify, tid, fd, own, ret_file)
                                                     : -EMFILE;
    if (rc == -EMFILE)
        log_ratelimited("guard: too many files of the driver are open: raise the hard limit of "
                        "open files (ulimit -Hn), of "
                        "which %u are there",
                        notify->descriptors.most);
    if (rc < 0)
        close(own);
    return rc;
}

void file_search_add(struct file_search *search, struct guard_file *file)
{
    char path[64];
    ssize_t length;

    if (search->count == FILES_SEARCH_MAX)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
    length = readlink(path, search->of[search->count].target, sizeof(search->of[0].target));
    if (length < 0)
        length = 0;
    if ((size_t)length == sizeof(search->of[0].target))
        length--; /* compared as far as it goes: the kernel says whether it is the same file */
    search->of[search->count].target[length] = '\0';
    search->of[search->count].file = file;
    search->of[search->count++].found = false;
    search->left++;
}

static void search_descriptor(struct file_search *search, pid_t pid, pid_t tid, int fd,
                              const char *link)
{
    for (unsigned i = 0; i < search->count; i++) {
        struct guard_file *file = search->of[i].file;
        const char *target = search->of[i].target;

        if (search->of[i].found || strncmp(link, target, strlen(target)) != 0 ||
            !is_file_of(file, tid, fd))
            continue;
        file->pid = pid;
        file->tid = tid;
        file->its_fd = fd;
        search->of[i].found = true;
        search->left--;
        return;
    }
}

static void search_table(struct file_search *search, pid_t pid, pid_t tid)
{
    char path[64], link[64];
    struct dirent *entry;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%ld/fd", (long)tid);
    folder = opendir(path);
    while (folder && search->left && (entry = readdir(folder))) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1);

        if (length <= 0)
            continue;
        link[length] = '\0';
        search_descriptor(search, pid, tid, atoi(entry->d_name), link);
    }
    if (folder)
        closedir(folder);
}

/* Threads share the table of the first one, unless they unshared it; and a first thread that has
 * ended has none. */
static void search_threads(struct file_search *search, pid_t pid)
{
    pid_t last = pid;
    char path[48];
    struct dirent *entry;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
    folder = opendir(path);
    while (folder && search->left && (entry = readdir(folder))) {
        pid_t tid = (pid_t)atoi(entry->d_name);

        if (tid <= 0 || tid == pid || syscall(SYS_kcmp, tid, last, KCMP_FILES, 0, 0) == 0)
            continue;
        search_table(search, pid, tid);
        last = tid;
    }
    if (folder)
        closedir(folder);
}

void file_search_run(struct notify *notify, struct file_search *search)
{
    DIR *folder = search->left ? opendir("/proc") : NULL;
    struct dirent *entry;

    while (folder && search->left && (entry = readdir(folder))) {
        pid_t pid = (pid_t)atoi(entry->d_name);

        if (pid <= 0 || pid == self || pid == notify->keeper)
            continue;
        search_table(search, pid, pid);
        if (search->left && process_by_pid(notify, pid))
            search_threads(search, pid);
    }
    if (folder)
        closedir(folder);
}

void files_done(struct notify *notify)
{
    for (unsigned i = 0; i < notify->files_high; i++) {
        if (notify->file[i].fd >= 0)
            close(notify->file[i].fd);
        notify->file[i].fd = -1;
    }
    unreferenced_done(notify);
}
