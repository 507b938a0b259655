/* The steering thread: what people ask of a running instance, over its socket, so that they are
 * obeyed at once. */
#include "guard/guard_internal.h"

#include "base/clock.h"
#include "guard/notify/control.h"
#include "guard/notify/ratelimit.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#define ROUND_NS   NS_PER_S
#define ROUND_MS   (ROUND_NS / NS_PER_MS)
#define TRIES      50 /* within the time for which is waited for an answer */
#define BETWEEN_NS (10 * NS_PER_MS)

/* All channels are to be like that. Whether they are. */
static bool apply(struct guard *guard, bool pause)
{
    bool done = true;

    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        struct share *share = atomic_load(&guard->card[i].share);
        int rc;

        if (!share)
            continue;
        rc = share_pause(share, pause);
        done = done && rc == 0;
        if (rc < 0)
            log_ratelimited("guard: channels on %s could not be switched at once (%s)",
                            guard->card[i].uuid_text, strerror(-rc));
    }
    return done;
}

/* `paused` comes first: whoever makes a share meanwhile looks there. */
static int pause_all(struct guard *guard, bool pause)
{
    const struct timespec nap = {.tv_nsec = BETWEEN_NS};
    bool done = false;

    atomic_store(&guard->paused, pause);
    for (unsigned i = 0; i < TRIES && !done; i++) {
        if (i)
            nanosleep(&nap, NULL);
        done = apply(guard, pause);
    }
    if (!done && pause) {
        /* Nothing is to happen later that nobody expects any more. */
        atomic_store(&guard->paused, false);
        apply(guard, false);
        return -EIO;
    }
    region_stand(guard->region, pause);
    return done ? 0 : -EIO;
}

static void serve_one(struct guard *guard)
{
    enum control_verb verb;
    int connection;

    if (!control_take(guard->control_socket, guard->limits.name, &connection, &verb))
        return;
    /* Where the library has the cards' time, nothing is switched, and so nothing stands. */
    control_answer(connection, guard->config.shares    ? pause_all(guard, verb == CONTROL_PAUSE)
                               : verb == CONTROL_PAUSE ? -EOPNOTSUPP
                                                       : 0);
}

void *control_thread_serve(void *arg)
{
    struct guard *guard = arg;
    struct pollfd ready[] = {{.fd = guard->control_socket, .events = POLLIN},
                             {.fd = guard->wake, .events = POLLIN}};
    uint64_t next_ns = 0;

    while (!atomic_load(&guard->ending)) {
        if (poll(ready, 2, (int)ROUND_MS) > 0 && ready[0].revents)
            serve_one(guard);
        if (clock_ns() < next_ns)
            continue;
        next_ns = clock_ns() + ROUND_NS;
        watch_the_watch(guard);
        /* What could not be switched off at once. */
        if (atomic_load(&guard->paused))
            apply(guard, true);
    }
    return NULL;
}
