/*
 * The thread that looks after a gate. It calls nothing of the driver's, which may be stuck behind the gate itself, and
 * takes no lock that is held across such a call.
 */
#include "hook/gate_internal.h"

#include "base/clock.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#define HELPER_STACK    (256U << 10)
#define HELPER_SLACK_NS 1000UL
#define KEEP_OPEN_NS    (100 * NS_PER_MS)

void gate_stay_away(struct lease *lease)
{
    uint32_t turn = atomic_load(&lease->gated);

    if (atomic_load(&lease->page->used) && arena_holds(lease->arena, lease->index))
        atomic_store(&lease->page->used, 0);
    if (lease_open(lease, turn))
        return;
    atomic_store(&lease->page->open, turn);
    futex_wake(&lease->page->open, INT_MAX, 1);
}

static uint64_t watch(struct gate *gate)
{
    if (atomic_load(&gate->joined))
        return lease_watch(&gate->lease, &gate->observer, clock_ns());
    gate_stay_away(&gate->lease); /* again, for this thread may have been looking after the turns just now */
    return KEEP_OPEN_NS;
}

static void *help(void *arg)
{
    struct gate *gate = arg;
    struct arena_page *page = gate->lease.page;

    prctl(PR_SET_NAME, "vgpu-turns");
    prctl(PR_SET_TIMERSLACK, HELPER_SLACK_NS);
    for (;;) {
        uint32_t wake = atomic_load(&page->wake);
        uint64_t again_ns = watch(gate);

        if (again_ns > 0)
            futex_wait(&page->wake, wake, again_ns == UINT64_MAX ? NS_PER_S : again_ns, 1);
        else
            cpu_relax();
    }
    return NULL;
}

/* A small stack will do; but a program's thread-local variables may not fit into it, and then it is a usual one. */
static bool create_helper(struct gate *gate, pthread_t *ret_thread)
{
    pthread_attr_t attributes;
    bool created = false;

    if (pthread_attr_init(&attributes) == 0) {
        pthread_attr_setstacksize(&attributes, HELPER_STACK);
        created = pthread_create(ret_thread, &attributes, help, gate) == 0;
        pthread_attr_destroy(&attributes);
    }
    return created || pthread_create(ret_thread, NULL, help, gate) == 0;
}

bool gate_start_helper(struct gate *gate)
{
    sigset_t all, before;
    pthread_t thread;

    if (gate->helped)
        return true;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    gate->helped = create_helper(gate, &thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (gate->helped)
        pthread_detach(thread);
    return gate->helped;
}

void gate_wake_helper(struct gate *gate)
{
    atomic_fetch_add(&gate->lease.page->wake, 1);
    futex_wake(&gate->lease.page->wake, 1, 1);
}
