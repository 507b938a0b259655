/* The watch thread: processes that end, files that nobody has any more, mappings, the audit. */
#include "guard/guard_internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "guard/notify/pidfd.h"
#include "guard/notify/ratelimit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ROUND_NS   NS_PER_S
#define EVENTS_MAX 16

int watch_add(struct guard *guard, struct guard_process *process)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = process->owner};

    return epoll_ctl(guard->epoll, EPOLL_CTL_ADD, process->pidfd, &event) < 0 ? err_last() : 0;
}

void watch_wake(struct guard *guard)
{
    uint64_t one = 1;

    while (write(guard->wake, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

static void has_ended(struct guard *guard, uint32_t owner)
{
    struct guard_process *process;

    MUTEX_SCOPE(&guard->lock);
    process = process_by_owner(guard, owner);
    if (process && !process_alive(process))
        process_gone(guard, process);
}

/* Whether a map could not be read for too long. */
static bool is_unread(struct guard_process *process, int rc)
{
    uint64_t now_ns = clock_ns();

    if (rc >= 0 || !process_alive(process))
        process->unread_ns = 0;
    else if (!process->unread_ns)
        process->unread_ns = now_ns;
    if (!process->unread_ns || now_ns - process->unread_ns < GUARD_BLIND_NS)
        return false;
    log_ratelimited("guard: the memory map of process %ld cannot be read: %s", (long)process->pid,
                    strerror(-rc));
    return true;
}

/* True: one has mapped more than the quota leaves, with another file in the device's place when
 * that was looked at; or has not let itself be looked at for too long. */
static bool look_at_mappings(struct guard *guard)
{
    bool over = false;

    for (unsigned i = 0; i < GUARD_PROCESSES_MAX; i++) {
        struct guard_process *process = &guard->process[i];
        uint64_t bytes;
        int rc;

        if (!process->pid || !process->uvm.inode)
            continue;
        atomic_store(&guard->reading_ns, clock_ns());
        rc = process_mapped(process->pid, &process->uvm, &bytes);
        atomic_store(&guard->reading_ns, 0);
        over = over || is_unread(process, rc);
        if (rc < 0)
            continue;
        over = over || (bytes > process->managed_bytes &&
                        !processes_within_quota(guard, process->managed_vdev,
                                                bytes - process->managed_bytes));
        process_managed(guard, process, bytes, true);
    }
    return over;
}

void watch_look(struct guard *guard, uint64_t at_least_ns)
{
    uint64_t now_ns = clock_ns();

    if (now_ns - guard->looked_ns < at_least_ns)
        return;
    guard->looked_ns = now_ns;
    files_check(guard, 0);
    if (look_at_mappings(guard))
        guard->mapped_over = true;
    account_settle(guard);
}

/* False: somebody else has begun. Its other processes are the caller's to kill. */
static bool begin_end(struct guard *guard)
{
    if (atomic_exchange(&guard->ended, true))
        return false;
    log_error("guard: the instance is ended (--guard=strict)");
    pidfd_signal(guard->child, SIGKILL);
    return true;
}

static void end_instance(struct guard *guard)
{
    if (!begin_end(guard))
        return;
    MUTEX_SCOPE(&guard->lock);
    processes_kill(guard);
}

/* Whoever reads has the lock, so the processes stay what they are. */
void watch_the_watch(struct guard *guard)
{
    uint64_t since_ns = atomic_load(&guard->reading_ns);

    if (since_ns == 0 || clock_ns() - since_ns < GUARD_BLIND_NS)
        return;
    log_ratelimited("guard: a program of the instance keeps its memory map from being read: "
                    "nothing is compared meanwhile");
    if (guard->config.mode != GUARD_STRICT || !begin_end(guard))
        return;
    atomic_fetch_add_explicit(&guard->differences, 1, memory_order_relaxed);
    if (atomic_load(&guard->reading_ns) == since_ns)
        processes_kill(guard);
}

static bool look_at_programs(struct guard *guard)
{
    bool over;

    MUTEX_SCOPE(&guard->lock);
    watch_look(guard, 0);
    over = guard->mapped_over;
    guard->mapped_over = false;
    return over;
}

static void look_at_region(struct guard *guard)
{
    if (atomic_load(&guard->region_lost) && !atomic_exchange(&guard->region_told, true))
        log_warning(
            "guard: %s was cut short: what instance %s does is not shown any more; its limits hold",
            guard->region_path, guard->limits.name);
}

static void look_around(struct guard *guard, struct audit *audit)
{
    bool differs = look_at_programs(guard);

    if (differs) {
        atomic_fetch_add_explicit(&guard->differences, 1, memory_order_relaxed);
        log_ratelimited("guard: the instance has mapped more managed memory than its quota leaves, "
                        "around the guard, or a map "
                        "cannot be read");
    }
    if (audit && audit_run(audit, guard))
        differs = true;
    if (differs && guard->config.mode == GUARD_STRICT)
        end_instance(guard);
}

static bool anybody(struct guard *guard)
{
    MUTEX_SCOPE(&guard->lock);
    return processes_any(guard);
}

void *watch_serve(void *arg)
{
    struct guard *guard = arg;
    uint64_t next_ns = clock_ns() + ROUND_NS;

    while (!atomic_load(&guard->ending)) {
        struct epoll_event event[EVENTS_MAX];
        uint64_t now_ns = clock_ns();
        int timeout_ms = now_ns < next_ns ? (int)((next_ns - now_ns) / NS_PER_MS) + 1 : 0;
        int count = epoll_wait(guard->epoll, event, EVENTS_MAX, timeout_ms);

        for (int i = 0; i < count; i++) {
            if (event[i].data.u32)
                has_ended(guard, event[i].data.u32);
        }
        if (clock_ns() < next_ns || atomic_load(&guard->ending))
            continue;
        next_ns = clock_ns() + ROUND_NS;
        look_at_region(guard);
        if (!anybody(guard))
            continue;
        look_around(guard, guard->audit);
    }
    look_at_region(guard);
    return NULL;
}
