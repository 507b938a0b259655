/* The watch thread: processes that end, and a round once a second. */
#ifndef VGPU_GUARD_WATCH_H
#define VGPU_GUARD_WATCH_H

#include "guard/notify/notify.h"

struct watch {
    struct notify *notify;
    /* Called without the lock, by the watch thread. */
    void (*ended)(void *arg, uint32_t owner); /* a process may have ended */
    void (*round)(void *arg);
    void *arg;
};

void *watch_serve(void *watch);
void watch_wake(struct notify *notify);

#endif
