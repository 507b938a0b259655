#include "guard/notify/watch.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ROUND_NS   NS_PER_S
#define EVENTS_MAX 16

void watch_wake(struct notify *notify)
{
    uint64_t one = 1;

    while (write(notify->wake, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

/* True: the message was logged. */
static bool report_lost_region(const struct notify *notify)
{
    if (!atomic_load(&notify->region_lost))
        return false;
    log_warning("guard: %s was cut short: what its instance does is not shown any more; its limits "
                "hold",
                notify->region_path);
    return true;
}

void *watch_serve(void *arg)
{
    const struct watch *watch = arg;
    uint64_t next_ns = clock_ns() + ROUND_NS;
    bool reported = false;

    while (!atomic_load(&watch->notify->ending)) {
        struct epoll_event event[EVENTS_MAX];
        uint64_t now_ns = clock_ns();
        int timeout_ms = now_ns < next_ns ? (int)((next_ns - now_ns) / NS_PER_MS) + 1 : 0;
        int count = epoll_wait(watch->notify->epoll, event, EVENTS_MAX, timeout_ms);

        for (int i = 0; i < count; i++) {
            if (event[i].data.u32)
                watch->ended(watch->arg, event[i].data.u32);
        }
        if (clock_ns() < next_ns || atomic_load(&watch->notify->ending))
            continue;
        next_ns = clock_ns() + ROUND_NS;
        reported = reported || report_lost_region(watch->notify);
        watch->round(watch->arg);
    }
    if (!reported)
        report_lost_region(watch->notify);
    return NULL;
}
