#include "guard/notify/control_thread.h"

#include "base/clock.h"
#include "guard/notify/control.h"

#include <poll.h>

#define ROUND_NS NS_PER_S
#define ROUND_MS (ROUND_NS / NS_PER_MS)

static void serve_one(const struct control_thread *thread)
{
    enum control_verb verb;
    int connection;

    if (control_take(thread->socket, thread->name, &connection, &verb))
        control_answer(connection, thread->pause(thread->arg, verb == CONTROL_PAUSE));
}

void *control_thread_serve(void *arg)
{
    const struct control_thread *thread = arg;
    struct pollfd ready[] = {{.fd = thread->socket, .events = POLLIN},
                             {.fd = thread->notify->wake, .events = POLLIN}};
    uint64_t next_ns = 0;

    while (!atomic_load(&thread->notify->ending)) {
        if (poll(ready, 2, (int)ROUND_MS) > 0 && ready[0].revents)
            serve_one(thread);
        if (clock_ns() < next_ns)
            continue;
        next_ns = clock_ns() + ROUND_NS;
        thread->round(thread->arg);
    }
    return NULL;
}
