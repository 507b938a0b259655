/* The control thread: obeys `vgpu pause` and `vgpu resume` at once. */
#ifndef VGPU_GUARD_CONTROL_THREAD_H
#define VGPU_GUARD_CONTROL_THREAD_H

#include "guard/notify/notify.h"

struct control_thread {
    struct notify *notify;
    int socket;       /* people ask there (control.h) */
    const char *name; /* the instance's */
    /* Called without the lock, by the control thread. `pause`: 0, or -errno to answer with. */
    int (*pause)(void *arg, bool pause);
    void (*round)(void *arg); /* once a second */
    void *arg;
};

void *control_thread_serve(void *control_thread);

#endif
