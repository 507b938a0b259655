#include "guard/guard_internal.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "guard/notify/ratelimit.h"

#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SEARCH_MAX 128

static pid_t self;

int files_init(struct guard *guard)
{
    self = getpid();
    for (unsigned i = 0; i < GUARD_FILES_MAX; i++)
        guard->file[i].fd = -1;
    return unreferenced_init(guard);
}

/* Whether descriptor `fd` of the thread or process is the file that we hold. */
static bool is_file_of(const struct guard_file *file, pid_t tid, int fd)
{
    return syscall(SYS_kcmp, tid, self, KCMP_FILE, (unsigned long)fd, (unsigned long)file->fd) == 0;
}

/* The same of where it was seen last; where it cannot be told, it is there still. */
static bool is_there_still(const struct guard_file *file)
{
    long rc = syscall(SYS_kcmp, file->tid, self, KCMP_FILE, (unsigned long)file->its_fd,
                      (unsigned long)file->fd);

    return rc == 0 || (rc < 0 && errno != ESRCH && errno != EBADF);
}

/*
 * The files of a process are few: those that libcuda opens. The one that was last seen under this
 * number is looked at first; the comparison is the kernel's, so whatever the program does to its
 * descriptors, the file is the right one.
 */
static struct guard_file *find(struct guard *guard, pid_t tid, int fd)
{
    for (unsigned i = 0; i < guard->files_high; i++) {
        if (guard->file[i].fd >= 0 && guard->file[i].its_fd == fd &&
            is_file_of(&guard->file[i], tid, fd))
            return &guard->file[i];
    }
    for (unsigned i = 0; i < guard->files_high; i++) {
        if (guard->file[i].fd >= 0 && guard->file[i].its_fd != fd &&
            is_file_of(&guard->file[i], tid, fd))
            return &guard->file[i];
    }
    return NULL;
}

static struct guard_file *find_unreferenced(struct guard *guard, int fd)
{
    for (unsigned i = 0; i < guard->files_high; i++) {
        if (guard->file[i].fd < 0 || !unreferenced_is(guard, &guard->file[i], fd))
            continue;
        clients_file_seen(guard, &guard->file[i]);
        return &guard->file[i];
    }
    return NULL;
}

static struct guard_file *free_entry(struct guard *guard)
{
    for (unsigned i = 0; i < GUARD_FILES_MAX; i++) {
        if (guard->file[i].fd >= 0)
            continue;
        if (i >= guard->files_high)
            guard->files_high = i + 1;
        return &guard->file[i];
    }
    return NULL;
}

/* The first thread, which usually lives longest; but it may have ended, or have other
 * descriptors. */
static void note_place(struct guard_file *file, pid_t tid, pid_t process, int its_fd)
{
    file->pid = process;
    file->tid = is_file_of(file, process, its_fd) ? process : tid;
    file->its_fd = its_fd;
}

int file_add(struct guard *guard, pid_t tid, int its_fd, int fd, enum device_kind kind,
             uint32_t number, struct guard_file **ret_file)
{
    struct guard_file *file;
    const struct task *task;
    int rc = task_get(&guard->tasks, tid, &task);

    if (rc < 0)
        return rc;
    file = free_entry(guard);
    if (!file)
        return -EMFILE;
    *file = (struct guard_file){.fd = fd, .kind = kind, .number = number};
    note_place(file, tid, task->process, its_fd);
    device_node_of(fd, &file->node);
    unreferenced_watch(guard, file);
    *ret_file = file;
    return 0;
}

/* The file by our own duplicate of it. */
static struct guard_file *find_own(struct guard *guard, int fd)
{
    for (unsigned i = 0; i < guard->files_high; i++) {
        if (guard->file[i].fd >= 0 && is_file_of(&guard->file[i], self, fd))
            return &guard->file[i];
    }
    return find_unreferenced(guard, fd);
}

/* `fd`: what the caller had there just now, though it may have been another file when it was looked
 * for. */
static int take(struct guard *guard, pid_t tid, int its_fd, int fd, struct guard_file **ret_file)
{
    enum device_kind kind = devices_kind(&guard->devices, fd);
    struct guard_file *file = find_own(guard, fd);
    const struct task *task;
    int rc;

    if (!file)
        return kind == DEVICE_OTHER
                   ? -ENOTTY
                   : file_add(guard, tid, its_fd, fd, kind, ++guard->next_file, ret_file);
    rc = task_get(&guard->tasks, tid, &task);
    if (rc < 0)
        return rc;
    note_place(file, tid, task->process, its_fd);
    close(fd);
    *ret_file = file;
    return 0;
}

int file_get(struct guard *guard, pid_t tid, int fd, struct guard_file **ret_file)
{
    struct guard_file *file = find(guard, tid, fd);
    enum device_kind kind;
    int own, rc;

    if (file) {
        *ret_file = file;
        return 0;
    }
    rc = devices_kind_at(&guard->devices, tid, fd, &kind, NULL);
    if (rc == 0 && kind == DEVICE_OTHER)
        rc = -ENOTTY;
    if (rc == 0)
        rc = task_file(&guard->tasks, tid, fd, &own);
    if (rc < 0)
        return rc;
    rc = descriptors_left(&guard->descriptors, own) ? take(guard, tid, fd, own, ret_file) : -EMFILE;
    if (rc == -EMFILE)
        log_ratelimited("guard: too many files of the driver are open: raise the hard limit of "
                        "open files (ulimit -Hn), of "
                        "which %u are there",
                        guard->descriptors.most);
    if (rc < 0)
        close(own);
    return rc;
}

/* Files whose holder is not known any more; what /proc shows of them. */
struct search {
    unsigned count, left;
    struct {
        struct guard_file *file;
        char target[64];
        bool found;
    } of[SEARCH_MAX];
};

static void search_add(struct search *search, struct guard_file *file)
{
    char path[64];
    ssize_t length;

    if (search->count == SEARCH_MAX)
        return; /* at the next round */
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

static void search_descriptor(struct search *search, pid_t pid, pid_t tid, int fd, const char *link)
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

static void search_table(struct search *search, pid_t pid, pid_t tid)
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

/* Threads share the table of the first, but for those that have unshared it; and a first thread
 * that has ended has none. */
static void search_threads(struct search *search, pid_t pid)
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

/* NULL: it is not known. */
static const struct guard_process *known(const struct guard *guard, pid_t pid)
{
    for (unsigned i = 0; i < GUARD_PROCESSES_MAX; i++) {
        if (guard->process[i].pid == pid)
            return &guard->process[i];
    }
    return NULL;
}

/* Among all processes: a program can leave its files to others in many ways. */
static void search_all(const struct guard *guard, struct search *search)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;

    while (folder && search->left && (entry = readdir(folder))) {
        pid_t pid = (pid_t)atoi(entry->d_name);

        if (pid <= 0 || pid == self || pid == guard->keeper)
            continue;
        search_table(search, pid, pid);
        if (search->left && known(guard, pid))
            search_threads(search, pid);
    }
    if (folder)
        closedir(folder);
}

/*
 * A file of the UVM device may be somewhere where it is not seen (unreferenced.c), or be mapped; it
 * means something to the address spaces in which it was used. For as long as one of those lives, it
 * is not taken for closed: who has used it first may be a child that only asked.
 */
static bool may_be_used(struct guard *guard, const struct guard_file *file)
{
    for (unsigned i = 0; file->kind == DEVICE_UVM && !file->inherited && i < GUARD_PROCESSES_MAX;
         i++) {
        const struct guard_process *process = &guard->process[i];

        if (process->pid && objects_space_is_used(guard->objects, file->number, process->owner) &&
            process_memory_lives(process))
            return true;
    }
    return false;
}

/* What the driver had for the file is gone, or will be with our duplicate, if that is the last
 * one. */
void file_close(struct guard *guard, struct guard_file *file)
{
    clients_file_unseen(guard, file->number);
    if (!unreferenced_is_closed(guard, file))
        return;
    objects_space_gone(guard->objects, file->number);
    clients_file_gone(guard, file->number);
    close(file->fd);
    file->fd = -1;
}

/* Whether that process is known and has ended: it may be about to be forgotten. */
static bool has_ended(const struct guard *guard, pid_t pid)
{
    const struct guard_process *process = known(guard, pid);

    return process && !process_alive(process);
}

/* Who has a file that `owner` has no more; one that nobody is seen to have is somebody's. */
static int find_heir(struct guard *guard, const struct guard_file *file, uint32_t owner,
                     struct guard_process **ret_heir)
{
    if (!file->unreferenced && !has_ended(guard, file->pid) &&
        process_get(guard, file->pid, ret_heir) == 0)
        return 0;
    for (unsigned i = 0; i < GUARD_PROCESSES_MAX; i++) {
        struct guard_process *process = &guard->process[i];

        if (process->pid && process->owner != owner && process_alive(process)) {
            *ret_heir = process;
            return 0;
        }
    }
    return -ESRCH;
}

bool files_inherit(struct guard *guard, uint32_t owner)
{
    bool inherited = false;

    for (unsigned i = 0; i < guard->files_high; i++) {
        struct guard_file *file = &guard->file[i];
        struct guard_process *heir;
        bool used;

        if (file->fd < 0 || file->owner != owner || find_heir(guard, file, owner, &heir) < 0)
            continue;
        used = may_be_used(guard, file); /* by others, or in memory that others share */
        if (objects_inherit(guard->objects, owner, heir->owner) == 0)
            inherited = true;
        file->owner = heir->owner;
        file->inherited = !used;
    }
    return inherited;
}

void files_check(struct guard *guard, pid_t only_pid)
{
    struct search search = {.count = 0};

    for (unsigned i = 0; i < guard->files_high; i++) {
        struct guard_file *file = &guard->file[i];

        if (file->fd < 0 || (only_pid && file->pid != only_pid && !file->unreferenced))
            continue;
        if (file->unreferenced)
            file_close(guard, file);
        else if (only_pid || (!is_there_still(file) && !may_be_used(guard, file)))
            search_add(&search, file);
    }
    if (search.count)
        search_all(guard, &search);
    for (unsigned i = 0; i < search.count; i++) {
        if (!search.of[i].found && !may_be_used(guard, search.of[i].file))
            file_close(guard, search.of[i].file);
    }
}

void files_done(struct guard *guard)
{
    for (unsigned i = 0; i < guard->files_high; i++) {
        if (guard->file[i].fd >= 0)
            close(guard->file[i].fd);
        guard->file[i].fd = -1;
    }
    unreferenced_done(guard);
}
