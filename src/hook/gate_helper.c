/*
 * The thread that looks after a gate. It calls nothing of the driver's, which may be stuck behind the gate itself, and
 * takes no lock that is held across such a call.
 */
#include "hook/gate_internal.h"

#include "base/clock.h"
#include "hook/helper.h"

#include <limits.h>
#include <sys/prctl.h>

#define HELPER_SLACK_NS 1000UL
#define KEEP_OPEN_NS    (100 * NS_PER_MS)

void gate_stay_away(struct sched_client *client)
{
    uint32_t turn = atomic_load(&client->gated);

    if (atomic_load(&client->page->used) && arena_holds(client->arena, client->index))
        atomic_store(&client->page->used, 0);
    if (sched_client_open(client, turn))
        return;
    atomic_store(&client->page->granted_turn, turn);
    futex_wake(&client->page->granted_turn, INT_MAX, 1);
}

static uint64_t watch(struct gate *gate)
{
    if (atomic_load(&gate->joined))
        return sched_client_watch(&gate->client, &gate->observer, clock_ns());
    gate_stay_away(&gate->client); /* again, for this thread may have been looking after the turns just now */
    return KEEP_OPEN_NS;
}

static void *help(void *arg)
{
    struct gate *gate = arg;
    struct arena_page *page = gate->client.page;

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

bool gate_start_helper(struct gate *gate)
{
    gate->helped = gate->helped || helper_start(help, gate);
    return gate->helped;
}

void gate_wake_helper(struct gate *gate)
{
    arena_wake(gate->client.page);
}
