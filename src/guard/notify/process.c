#include "guard/notify/process.h"

#include "base/err.h"
#include "guard/notify/pidfd.h"
#include "guard/notify/ratelimit.h"
#include "account/refuse.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sysmacros.h>
#include <unistd.h>

bool process_alive(const struct guard_process *process)
{
    struct pollfd end = {.fd = process->pidfd, .events = POLLIN};

    return poll(&end, 1, 0) == 0;
}

/* A file that is open for an address space reads as empty once nothing runs in it any more. */
bool process_memory_lives(const struct guard_process *process)
{
    char byte;

    return pread(process->memory, &byte, 1, 0) != 0;
}

struct guard_process *process_by_owner(struct notify *notify, uint32_t owner)
{
    for (unsigned i = 0; i < NOTIFY_PROCESSES_MAX; i++) {
        if (notify->process[i].pid && notify->process[i].owner == owner)
            return &notify->process[i];
    }
    return NULL;
}

struct guard_process *process_by_pid(struct notify *notify, pid_t pid)
{
    for (unsigned i = 0; i < NOTIFY_PROCESSES_MAX; i++) {
        if (notify->process[i].pid == pid)
            return &notify->process[i];
    }
    return NULL;
}

void process_forget(struct guard_process *process)
{
    close(process->pidfd);
    close(process->memory);
    if (process->ledger)
        ledger_free(process->ledger);
    memset(process, 0, sizeof(*process));
}

static int process_begin(struct notify *notify, pid_t pid, struct guard_process *process)
{
    struct epoll_event event = {.events = EPOLLIN};
    char name[32], text[64];
    int rc;

    process->pidfd = pidfd_of(pid, 0);
    if (process->pidfd < 0)
        return err_last();
    rc = task_open_file(pid, "mem", &process->memory);
    if (rc < 0) {
        close(process->pidfd);
        return rc;
    }
    task_name(pid, name);
    if (!descriptors_left(&notify->descriptors, process->memory)) {
        close(process->pidfd);
        close(process->memory);
        return -EMFILE;
    }
    rc = ledger_new_supervised(notify->region, pid, name, &process->ledger);
    if (rc < 0)
        log_info("guard: process %ld (%s) cannot be shown: %s", (long)pid, name,
                 err_text(rc, text, sizeof(text)));
    process->pid = pid;
    /* It may have mapped the device unseen, with another file in its place when mmap() was
     * trapped. */
    devices_managed_node(&notify->devices, &process->managed);
    process->owner = ++notify->next_owner;
    event.data.u32 = process->owner;
    if (epoll_ctl(notify->epoll, EPOLL_CTL_ADD, process->pidfd, &event) < 0) {
        rc = err_last();
        process_forget(process);
        return rc;
    }
    log_debug("guard: process %ld (%s) uses the driver", (long)pid, name);
    return 0;
}

int process_add(struct notify *notify, pid_t pid, struct guard_process **ret_process)
{
    struct guard_process *process = process_by_pid(notify, 0);
    int rc;

    if (!process) {
        log_ratelimited(
            "guard: more than %d processes of the instance use GPUs: process %ld gets none",
            NOTIFY_PROCESSES_MAX, (long)pid);
        return -EUSERS;
    }
    memset(process, 0, sizeof(*process));
    rc = process_begin(notify, pid, process);
    if (rc < 0)
        memset(process, 0, sizeof(*process));
    else
        *ret_process = process;
    return rc;
}

bool processes_any(const struct notify *notify)
{
    for (unsigned i = 0; i < NOTIFY_PROCESSES_MAX; i++) {
        if (notify->process[i].pid)
            return true;
    }
    return false;
}

unsigned processes_kill(struct notify *notify)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NOTIFY_PROCESSES_MAX; i++) {
        const struct guard_process *process = &notify->process[i];

        if (process->guarded && process_alive(process) &&
            pidfd_signal(process->pidfd, SIGKILL) == 0)
            count++;
    }
    return count;
}

struct vgpu_ledger *process_ledger(const struct notify *notify, const struct guard_process *process)
{
    return process->pid && !atomic_load(&notify->region_lost) ? process->ledger : NULL;
}

struct vgpu_ledger *process_any_ledger(const struct notify *notify)
{
    struct vgpu_ledger *ledger = NULL;

    for (unsigned i = 0; i < NOTIFY_PROCESSES_MAX && !ledger; i++)
        ledger = process_ledger(notify, &notify->process[i]);
    return ledger;
}

void process_charge(struct notify *notify, uint32_t owner, unsigned vdev, int64_t bytes)
{
    const struct guard_process *process = process_by_owner(notify, owner);
    struct vgpu_ledger *ledger = process ? process_ledger(notify, process) : NULL;

    if (ledger && bytes > 0)
        ledger_set(ledger, vdev, VGPU_KIND_DRIVER,
                   ledger_held(ledger, vdev, VGPU_KIND_DRIVER) + (uint64_t)bytes);
    else if (ledger)
        ledger_release(ledger, vdev, VGPU_KIND_DRIVER, (uint64_t)-bytes);
}

/*
 * Adds the mapping of a line of /proc/PID/maps, if it is a shared one of the device. The driver
 * only makes writable mappings; one that is not writable now was changed by mprotect(), and holds
 * as much.
 */
static void add_mapping(const struct device_node *device, const char *line, uint64_t *sum)
{
    unsigned long long begin, end, offset;
    unsigned long inode;
    unsigned device_major, device_minor;
    char access[8];

    if (sscanf(line, "%llx-%llx %7s %llx %x:%x %lu", &begin, &end, access, &offset, &device_major,
               &device_minor, &inode) != 7)
        return;
    if (access[3] == 's' && inode == device->inode &&
        makedev(device_major, device_minor) == device->file_system)
        *sum += end - begin;
}

int process_mapped(pid_t pid, const struct device_node *device, uint64_t *ret_bytes)
{
    char line[512];
    uint64_t sum = 0;
    bool any = false;
    FILE *file;
    int fd, rc = task_open_file(pid, "maps", &fd);

    if (rc < 0)
        return rc;
    file = fdopen(fd, "r");
    if (!file) {
        rc = err_last();
        close(fd);
        return rc;
    }
    while (fgets(line, sizeof(line), file)) {
        any = true;
        add_mapping(device, line, &sum);
    }
    fclose(file);
    if (!any)
        return -ESRCH; /* it has ended meanwhile */
    *ret_bytes = sum;
    return 0;
}

void processes_done(struct notify *notify)
{
    for (unsigned i = 0; i < NOTIFY_PROCESSES_MAX; i++) {
        if (notify->process[i].pid)
            process_forget(&notify->process[i]);
    }
}
