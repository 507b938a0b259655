#include "guard/nvidia/lifetime.h"

#include "base/log.h"
#include "guard/notify/ratelimit.h"
#include "guard/nvidia/account.h"
#include "guard/nvidia/quota.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/*
 * A UVM file may be somewhere where it is not seen (unreferenced.c), or be mapped; it means
 * something to the address spaces in which it was used. While one of them lives, the file is not
 * taken for closed: its first user may be a child that only asked.
 */
static bool may_be_used(struct nvidia *nvidia, const struct guard_file *file)
{
    for (unsigned i = 0; file->kind == DEVICE_UVM && !file->inherited && i < NOTIFY_PROCESSES_MAX;
         i++) {
        const struct guard_process *process = &nvidia->notify->process[i];

        if (process->pid && objects_space_is_used(nvidia->objects, file->number, process->owner) &&
            process_memory_lives(process))
            return true;
    }
    return false;
}

/* What the driver had for the file is gone, or goes with our duplicate, if that is the last one. */
void lifetime_close(struct nvidia *nvidia, struct guard_file *file)
{
    uint32_t client;
    unsigned cursor;

    for (cursor = 0; clients_next(&nvidia->clients, file->number, &cursor, &client);)
        channels_park(nvidia->channels, client);
    if (!file_is_closed(nvidia->notify, file))
        return;
    objects_space_gone(nvidia->objects, file->number);
    objects_file_gone(nvidia->objects, file->number);
    clients_remove_makers(&nvidia->clients, file->number);
    for (cursor = 0; clients_next(&nvidia->clients, file->number, &cursor, &client);) {
        objects_remove(nvidia->objects, client, client);
        account_client_gone(nvidia, client);
    }
    file_forget(nvidia->notify, file);
}

/* Closes our duplicates of files that no process has any more. `only_pid` (0: all): of files last
 * seen at a process that is gone. */
static void check_files(struct nvidia *nvidia, pid_t only_pid)
{
    struct notify *notify = nvidia->notify;
    struct file_search search = {.count = 0};

    for (unsigned i = 0; i < notify->files_high; i++) {
        struct guard_file *file = &notify->file[i];

        if (file->fd < 0 || (only_pid && file->pid != only_pid && !file->unreferenced))
            continue;
        if (file->unreferenced)
            lifetime_close(nvidia, file);
        else if (only_pid || (!file_is_there(file) && !may_be_used(nvidia, file)))
            file_search_add(&search, file);
    }
    file_search_run(notify, &search);
    for (unsigned i = 0; i < search.count; i++) {
        if (!search.of[i].found && !may_be_used(nvidia, search.of[i].file))
            lifetime_close(nvidia, search.of[i].file);
    }
}

static void process_gone(struct nvidia *nvidia, struct guard_process *process);

static int get_process(struct nvidia *nvidia, pid_t pid, struct guard_process **ret_process)
{
    struct guard_process *process = process_by_pid(nvidia->notify, pid);

    if (process && !process_alive(process)) {
        process_gone(nvidia, process); /* its number is another process's now */
        process = process_by_pid(nvidia->notify, pid);
    }
    if (!process)
        return process_add(nvidia->notify, pid, ret_process);
    *ret_process = process;
    return 0;
}

/* Whether that process is known and has ended: it may be about to be forgotten. */
static bool has_ended(struct nvidia *nvidia, pid_t pid)
{
    const struct guard_process *process = process_by_pid(nvidia->notify, pid);

    return process && !process_alive(process);
}

/* The process that has a file which `owner` has no more. A file that no process is seen to have is
 * somebody's. */
static int find_heir(struct nvidia *nvidia, const struct guard_file *file, uint32_t owner,
                     struct guard_process **ret_heir)
{
    if (!file->unreferenced && !has_ended(nvidia, file->pid) &&
        get_process(nvidia, file->pid, ret_heir) == 0)
        return 0;
    for (unsigned i = 0; i < NOTIFY_PROCESSES_MAX; i++) {
        struct guard_process *process = &nvidia->notify->process[i];

        if (process->pid && process->owner != owner && process_alive(process)) {
            *ret_heir = process;
            return 0;
        }
    }
    return -ESRCH;
}

/* The files that others still have of a process that is gone are theirs, with all that belongs to
 * it. False: they have none. */
static bool inherit(struct nvidia *nvidia, uint32_t owner)
{
    struct notify *notify = nvidia->notify;
    bool inherited = false;

    for (unsigned i = 0; i < notify->files_high; i++) {
        struct guard_file *file = &notify->file[i];
        struct guard_process *heir;
        bool used;

        if (file->fd < 0 || file->owner != owner || find_heir(nvidia, file, owner, &heir) < 0)
            continue;
        used = may_be_used(nvidia, file); /* by others, or in memory that others share */
        if (objects_inherit(nvidia->objects, owner, heir->owner) == 0)
            inherited = true;
        file->owner = heir->owner;
        file->inherited = !used;
    }
    return inherited;
}

static void process_gone(struct nvidia *nvidia, struct guard_process *process)
{
    pid_t pid = process->pid;
    uint32_t owner = process->owner;

    check_files(nvidia, pid);
    if (!inherit(nvidia, owner))
        objects_owner_gone(nvidia->objects, owner);
    account_settle(nvidia); /* while its ledger is there */
    if (process->pid == pid && process->owner == owner)
        process_forget(process);
    log_debug("guard: process %ld is gone", (long)pid);
}

void lifetime_ended(void *arg, uint32_t owner)
{
    struct nvidia *nvidia = arg;
    struct guard_process *process;

    MUTEX_SCOPE(&nvidia->notify->lock);
    process = process_by_owner(nvidia->notify, owner);
    if (process && !process_alive(process))
        process_gone(nvidia, process);
}

int lifetime_process(struct nvidia *nvidia, pid_t tid, struct guard_process **ret_process)
{
    const struct task *task;
    int rc = task_get(&nvidia->notify->tasks, tid, &task);

    if (rc == 0)
        rc = get_process(nvidia, task->process, ret_process);
    if (rc == 0)
        (*ret_process)->guarded = true;
    return rc;
}

int lifetime_file(struct nvidia *nvidia, pid_t tid, int fd, struct guard_file **ret_file)
{
    int rc = file_get(nvidia->notify, tid, fd, ret_file);
    uint32_t client;

    /* One that came to light again: its channels run again. */
    for (unsigned cursor = 0;
         rc == 1 && clients_next(&nvidia->clients, (*ret_file)->number, &cursor, &client);)
        channels_unpark(nvidia->channels, client, (*ret_file)->fd);
    return rc < 0 ? rc : 0;
}

void lifetime_renew(struct nvidia *nvidia, struct guard_process *process)
{
    int memory;

    if (process_memory_lives(process) || task_open_file(process->pid, "mem", &memory) < 0)
        return;
    /* Files that no process has are closed while the old memory can be told from the new. */
    check_files(nvidia, 0);
    close(process->memory);
    process->memory = memory;
}

/* Whether a map could not be read for too long. */
static bool is_unread(struct guard_process *process, int rc)
{
    uint64_t now_ns = clock_ns();

    if (rc >= 0 || !process_alive(process))
        process->unread_ns = 0;
    else if (!process->unread_ns)
        process->unread_ns = now_ns;
    if (!process->unread_ns || now_ns - process->unread_ns < BLIND_NS)
        return false;
    log_ratelimited("guard: the memory map of process %ld cannot be read: %s", (long)process->pid,
                    strerror(-rc));
    return true;
}

/* True: a process has mapped more than the quota leaves, with another file in the device's place
 * while mmap() was checked; or its map could not be read for too long. */
static bool check_mappings(struct nvidia *nvidia)
{
    bool over = false;

    for (unsigned i = 0; i < NOTIFY_PROCESSES_MAX; i++) {
        struct guard_process *process = &nvidia->notify->process[i];
        uint64_t bytes;
        int rc;

        if (!process->pid || !process->managed.inode)
            continue;
        atomic_store(&nvidia->reading_ns, clock_ns());
        rc = process_mapped(process->pid, &process->managed, &bytes);
        atomic_store(&nvidia->reading_ns, 0);
        over = over || is_unread(process, rc);
        if (rc < 0)
            continue;
        over =
            over || (bytes > process->managed_bytes &&
                     !quota_leaves(nvidia, process->managed_vdev, bytes - process->managed_bytes));
        quota_set_managed(nvidia, process, bytes, true);
    }
    return over;
}

void lifetime_check(struct nvidia *nvidia, uint64_t at_least_ns)
{
    uint64_t now_ns = clock_ns();

    if (now_ns - nvidia->checked_ns < at_least_ns)
        return;
    nvidia->checked_ns = now_ns;
    check_files(nvidia, 0);
    if (check_mappings(nvidia))
        nvidia->mapped_over = true;
    account_settle(nvidia);
}
