/* The thread that looks after a semaphore. It never calls the driver, which may be stuck behind the
 * semaphore, and takes no lock that is held across such a call. */
#include "hook/work/semaphore_internal.h"

#include "base/clock.h"
#include "hook/work/helper.h"
#include "sched/sched_params.h"

#include <limits.h>
#include <sys/prctl.h>

void semaphore_stay_away(struct sched_client *client)
{
    uint32_t turn = atomic_load(&client->queued);

    if (atomic_load(&client->page->used) && arena_holds(client->arena, client->index))
        atomic_store(&client->page->used, 0);
    if (sched_client_open(client, turn))
        return;
    atomic_store(&client->page->granted_turn, turn);
    futex_wake(&client->page->granted_turn, INT_MAX, 1);
}

static uint64_t watch(struct semaphore *semaphore)
{
    if (atomic_load(&semaphore->joined))
        return sched_client_watch(&semaphore->client, &semaphore->observer, clock_ns());
    semaphore_stay_away(
        &semaphore
             ->client); /* again, for this thread may have been looking after the turns just now */
    return SEMAPHORE_KEEP_OPEN_NS;
}

static void *help(void *arg)
{
    struct semaphore *semaphore = arg;
    struct arena_page *page = semaphore->client.page;

    prctl(PR_SET_NAME, "vgpu-turns");
    prctl(PR_SET_TIMERSLACK, SEMAPHORE_TIMER_SLACK_NS);
    for (;;) {
        uint32_t wake = atomic_load(&page->wake);
        uint64_t again_ns = watch(semaphore);

        if (again_ns > 0)
            futex_wait(&page->wake, wake, again_ns == UINT64_MAX ? NS_PER_S : again_ns, 1);
        else
            cpu_relax();
    }
    return NULL;
}

bool semaphore_start_helper(struct semaphore *semaphore)
{
    semaphore->helped = semaphore->helped || helper_start(help, semaphore);
    return semaphore->helped;
}

void semaphore_wake_helper(struct semaphore *semaphore)
{
    arena_wake(semaphore->client.page);
}
