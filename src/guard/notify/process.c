#include "guard/guard_internal.h"

#include "base/err.h"
#include "guard/notify/pidfd.h"
#include "guard/notify/ratelimit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

bool process_alive(const struct guard_process *process)
{
    struct pollfd end = {.fd = process->pidfd, .events = POLLIN};

    return poll(&end, 1, 0) == 0; /* a process that nobody has waited for yet has ended, too */
}

/* A file that is open for it reads as empty once nobody runs in it any more. */
bool process_memory_lives(const struct guard_process *process)
{
    char byte;

    return pread(process->memory, &byte, 1, 0) != 0;
}

static void forget(struct guard_process *process)
{
    close(process->pidfd);
    close(process->memory);
    if (process->ledger)
        ledger_free(process->ledger);
    memset(process, 0, sizeof(*process));
}

static int begin(struct guard *guard, pid_t pid, struct guard_process *process)
{
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
    if (!descriptors_left(&guard->descriptors, process->memory)) {
        close(process->pidfd);
        close(process->memory);
        return -EMFILE;
    }
    rc = ledger_new_supervised(guard->region, pid, name, &process->ledger);
    if (rc < 0)
        log_info("guard: process %ld (%s) cannot be shown: %s", (long)pid, name,
                 err_text(rc, text, sizeof(text)));
    process->pid = pid;
    /* It may have mapped the device without being seen, with another file in its place when that
     * was looked at. */
    device_node_at(guard->config.device_dir, "nvidia-uvm", &process->uvm);
    process->owner = ++guard->next_owner;
    rc = watch_add(guard, process);
    if (rc < 0) {
        forget(process);
        return rc;
    }
    log_debug("guard: process %ld (%s) uses the driver", (long)pid, name);
    return 0;
}

void process_renew(struct guard *guard, struct guard_process *process)
{
    int memory;

    if (process_memory_lives(process) || task_open_file(process->pid, "mem", &memory) < 0)
        return;
    files_check(guard,
                0); /* what nobody has is closed, as long as the old memory is told from the new */
    close(process->memory);
    process->memory = memory;
}

int process_get(struct guard *guard, pid_t pid, struct guard_process **ret_process)
{
    struct guard_process *unused = NULL;
    int rc;

    for (unsigned i = 0; i < GUARD_PROCESSES_MAX; i++) {
        struct guard_process *process = &guard->process[i];

        if (process->pid == pid && !process_alive(process))
            process_gone(guard, process); /* its number is another's now */
        if (process->pid == pid) {
            *ret_process = process;
            return 0;
        }
        if (!process->pid && !unused)
            unused = process;
    }
    if (!unused) {
        log_ratelimited(
            "guard: more than %d processes of the instance use GPUs: process %ld gets none",
            GUARD_PROCESSES_MAX, (long)pid);
        return -EUSERS;
    }
    memset(unused, 0, sizeof(*unused));
    rc = begin(guard, pid, unused);
    if (rc < 0) {
        memset(unused, 0, sizeof(*unused));
        return rc;
    }
    *ret_process = unused;
    return 0;
}

int process_of(struct guard *guard, pid_t tid, struct guard_process **ret_process)
{
    const struct task *task;
    int rc = task_get(&guard->tasks, tid, &task);

    if (rc == 0)
        rc = process_get(guard, task->process, ret_process);
    if (rc == 0)
        (*ret_process)->guarded = true;
    return rc;
}

int process_calls(struct guard *guard, const struct trap *trap, struct guard_process **ret_process,
                  struct guard_file **ret_file)
{
    int rc = file_get(guard, trap->tid, trap->fd, ret_file);

    if (rc == 0)
        rc = process_of(guard, trap->tid, ret_process);
    if (rc == 0 && !(*ret_file)->owner)
        (*ret_file)->owner = (*ret_process)->owner;
    return rc;
}

struct guard_process *process_by_owner(const struct guard *guard, uint32_t owner)
{
    for (unsigned i = 0; i < GUARD_PROCESSES_MAX; i++) {
        if (guard->process[i].pid && guard->process[i].owner == owner)
            return (struct guard_process *)&guard->process[i];
    }
    return NULL;
}

bool processes_any(const struct guard *guard)
{
    for (unsigned i = 0; i < GUARD_PROCESSES_MAX; i++) {
        if (guard->process[i].pid)
            return true;
    }
    return false;
}

/* Where it is shown what the process holds; NULL: nowhere. */
static struct vgpu_ledger *ledger_of(const struct guard *guard, const struct guard_process *process)
{
    return process->pid && !atomic_load(&guard->region_lost) ? process->ledger : NULL;
}

struct vgpu_ledger *process_any_ledger(const struct guard *guard)
{
    struct vgpu_ledger *ledger = NULL;

    for (unsigned i = 0; i < GUARD_PROCESSES_MAX && !ledger; i++)
        ledger = ledger_of(guard, &guard->process[i]);
    return ledger;
}

void process_gone(struct guard *guard, struct guard_process *process)
{
    pid_t pid = process->pid;
    uint32_t owner = process->owner;

    files_check(guard, pid);
    if (!files_inherit(guard, owner))
        objects_owner_gone(guard->objects, owner);
    account_settle(guard);
    if (process->pid == pid && process->owner == owner)
        forget(process);
    log_debug("guard: process %ld is gone", (long)pid);
}

unsigned processes_kill(struct guard *guard)
{
    unsigned count = 0;

    for (unsigned i = 0; i < GUARD_PROCESSES_MAX; i++) {
        const struct guard_process *process = &guard->process[i];

        if (process->guarded && process_alive(process) &&
            pidfd_signal(process->pidfd, SIGKILL) == 0)
            count++;
    }
    return count;
}

void process_charge(const struct guard *guard, const struct objects_charge *charge)
{
    struct guard_process *process = process_by_owner(guard, charge->owner);
    struct vgpu_ledger *ledger = process ? ledger_of(guard, process) : NULL;

    if (ledger && charge->bytes > 0)
        ledger_set(ledger, charge->gpu, VGPU_KIND_DRIVER,
                   ledger_held(ledger, charge->gpu, VGPU_KIND_DRIVER) + (uint64_t)charge->bytes);
    else if (ledger)
        ledger_release(ledger, charge->gpu, VGPU_KIND_DRIVER, (uint64_t)-charge->bytes);
}

/* Which card managed memory will be on nobody knows: it is charged to the first of the instance's
 * that is used. */
static unsigned first_vdev(const struct guard *guard)
{
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        if (guard->card[i].known)
            return i;
    }
    return 0;
}

/* Of all processes. */
static uint64_t sum_managed(const struct guard *guard, unsigned vdev)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < GUARD_PROCESSES_MAX; i++) {
        if (guard->process[i].pid && guard->process[i].managed_vdev == vdev)
            sum += guard->process[i].managed_bytes;
    }
    return sum;
}

uint64_t processes_quota(const struct guard *guard, unsigned vdev)
{
    return vgpu_limit_quota(&guard->limits.vdev[vdev], guard->card[vdev].physical_bytes);
}

uint64_t processes_used(const struct guard *guard, unsigned vdev)
{
    return objects_total(guard->objects, vdev) + sum_managed(guard, vdev);
}

bool processes_within_quota(const struct guard *guard, unsigned vdev, uint64_t bytes)
{
    uint64_t quota = processes_quota(guard, vdev), used = processes_used(guard, vdev);

    return !quota || (used <= quota && bytes <= quota - used);
}

void process_refuse(struct guard *guard, struct guard_process *process, unsigned vdev,
                    uint64_t bytes, const char *api)
{
    atomic_fetch_add_explicit(&guard->refusals, 1, memory_order_relaxed);
    if (ledger_of(guard, process))
        ledger_refuse(process->ledger, vdev, bytes, api);
    else
        log_ratelimited("guard: %s of %" PRIu64 " bytes refused on device %u: %" PRIu64
                        " of %" PRIu64 " in use",
                        api, bytes, vdev, processes_used(guard, vdev),
                        processes_quota(guard, vdev));
}

int process_managed(struct guard *guard, struct guard_process *process, uint64_t bytes, bool force)
{
    uint64_t before = process->managed_bytes;
    unsigned vdev;

    if (before == 0)
        process->managed_vdev = first_vdev(guard);
    vdev = process->managed_vdev;
    if (!force && bytes > before && !processes_within_quota(guard, vdev, bytes - before))
        return -ENOMEM;
    if (ledger_of(guard, process))
        ledger_set(process->ledger, vdev, VGPU_KIND_MANAGED, bytes);
    process->managed_bytes = bytes;
    return 0;
}

/*
 * Adds the mapping that a line of /proc/PID/maps is of, if it is a shared one of the device. The
 * driver makes none that cannot be written to; those that cannot now were made so by mprotect(),
 * and hold as much.
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

void processes_done(struct guard *guard)
{
    for (unsigned i = 0; i < GUARD_PROCESSES_MAX; i++) {
        if (guard->process[i].pid)
            forget(&guard->process[i]);
    }
}
