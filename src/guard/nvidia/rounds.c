#include "guard/nvidia/rounds.h"

#include "base/log.h"
#include "guard/notify/pidfd.h"
#include "guard/notify/ratelimit.h"
#include "guard/nvidia/audit.h"
#include "guard/nvidia/lifetime.h"
#include "guard/nvidia/vdevs.h"

#include <signal.h>

static void count_difference(struct nvidia *nvidia)
{
    atomic_fetch_add_explicit(&nvidia->differences, 1, memory_order_relaxed);
}

/* False: the other thread has begun. The command's other processes are the caller's to kill. */
static bool begin_end(struct nvidia *nvidia)
{
    if (atomic_exchange(&nvidia->ended, true))
        return false;
    log_error("guard: the instance is ended (--guard=strict)");
    pidfd_signal(nvidia->command, SIGKILL);
    return true;
}

void round_control(void *arg)
{
    struct nvidia *nvidia = arg;
    uint64_t since_ns = atomic_load(&nvidia->reading_ns);

    vdevs_pause_again(nvidia);
    if (since_ns == 0 || clock_ns() - since_ns < BLIND_NS)
        return;
    log_ratelimited("guard: a program of the instance keeps its memory map from being read: "
                    "nothing is compared meanwhile");
    if (!nvidia->strict || !begin_end(nvidia))
        return;
    count_difference(nvidia);
    /* The thread that reads has the lock, so the processes stay what they are. */
    if (atomic_load(&nvidia->reading_ns) == since_ns)
        processes_kill(nvidia->notify);
}

/* Whether a program has mapped too much, or cannot be checked. */
static bool check_programs(struct nvidia *nvidia)
{
    bool over;

    MUTEX_SCOPE(&nvidia->notify->lock);
    lifetime_check(nvidia, 0);
    over = nvidia->mapped_over;
    nvidia->mapped_over = false;
    return over;
}

static bool anybody(struct nvidia *nvidia)
{
    MUTEX_SCOPE(&nvidia->notify->lock);
    return processes_any(nvidia->notify);
}

void round_watch(void *arg)
{
    struct nvidia *nvidia = arg;
    bool differs;

    if (!anybody(nvidia))
        return;
    differs = check_programs(nvidia);
    if (differs) {
        count_difference(nvidia);
        log_ratelimited("guard: the instance has mapped more managed memory than its quota leaves, "
                        "around the guard, or a map cannot be read");
    }
    if (nvidia->audit && audit_run(nvidia->audit, nvidia))
        differs = true;
    if (!differs || !nvidia->strict || !begin_end(nvidia))
        return;
    MUTEX_SCOPE(&nvidia->notify->lock);
    processes_kill(nvidia->notify);
}
