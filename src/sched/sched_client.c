/*
 * The launches of a process. Its helper is in sched_helper.c.
 */
#include "sched/sched_client.h"

#include "base/clock.h"
#include "sched/gang.h"
#include "sched/sched.h"

#include <stdint.h>
#include <string.h>

int sched_client_join(struct vgpu_arena *arena, const struct sched_identity *self,
                      struct sched_client *ret_client)
{
    unsigned page;
    int rc = arena_claim(arena, &page);

    if (rc < 0)
        return rc;
    *ret_client = (struct sched_client){
        .arena = arena,
        .page = &arena->layout->page[page],
        .index = page,
        .self = *self,
        .tenant = ARENA_TENANTS,
    };
    STORE(ret_client->page->tenant, ARENA_TENANTS);
    return 0;
}

void sched_client_resume(struct sched_client *client, uint64_t now_ns)
{
    struct arena_layout *layout = client->arena->layout;
    uint32_t word;
    unsigned tenant;

    if (!arena_lock(client->arena, client->index, &word))
        return;
    tenant = sched_tenant(layout, &client->self);
    client->tenant = tenant;
    STORE(client->page->tenant, tenant);
    if (tenant < ARENA_TENANTS)
        sched_activate(client->arena, client->page, tenant, now_ns);
    else
        atomic_fetch_and(&client->page->flags,
                         ~ARENA_RESUME); /* no entry is free: it runs unscheduled */
    arena_unlock(client->arena, word);
}

void sched_client_settings(struct sched_client *client, uint32_t weight, uint32_t priority)
{
    uint32_t word;

    if ((client->self.weight == weight && client->self.priority == priority))
        return;
    client->self.weight = weight;
    client->self.priority = priority;
    if (client->tenant >= ARENA_TENANTS || !arena_lock(client->arena, client->index, &word))
        return;
    sched_tenant(client->arena->layout, &client->self);
    arena_unlock(client->arena, word);
}

void sched_client_tidy(struct sched_client *client, uint64_t now_ns)
{
    uint64_t tidied_ns = LOAD(client->arena->layout->tidied_ns);
    uint32_t word;

    if (now_ns > tidied_ns && now_ns - tidied_ns < SCHED_TIDY_NS)
        return;
    if (!arena_lock(client->arena, client->index, &word))
        return;
    sched_tidy(client->arena, client->index, now_ns);
    arena_unlock(client->arena, word);
}

/* Launches */

static void new_turn(struct sched_client *client, uint32_t turn, uint64_t now_ns)
{
    struct arena_page *page = client->page;

    client->turn = turn;
    client->submitted_ns = LOAD(page->backlog_ns);
    STORE(page->submitted_launches, LOAD(page->backlog));
    client->idle_ns = 0;
    client->idle_since_ns = now_ns;
    client->ahead_ns = policy_ahead_ns(client->arena->layout, client->tenant);
    STORE(page->backlog, 0);
    STORE(page->backlog_ns, 0);
}

/* When the process's launches are estimated to be over. */
static uint64_t busy_until_ns(const struct arena_page *page, uint64_t now_ns)
{
    uint64_t busy_ns = LOAD(page->busy_until_ns);

    return busy_ns > now_ns && busy_ns < now_ns + SCHED_ESTIMATE_MOST_NS ? busy_ns : now_ns;
}

/*
 * Whether the program launches more slowly than the device runs, which is then idle most of the
 * time. Its work may as well pile up at the semaphore and run in one go.
 */
static bool launch_bound(struct sched_client *client, uint64_t now_ns)
{
    uint64_t busy_ns = LOAD(client->page->busy_until_ns);

    if (client->waited || busy_ns > now_ns + SCHED_LAUNCH_AHEAD_NS) {
        client->idle_ns = 0;
        client->idle_since_ns = now_ns;
    } else if (busy_ns < now_ns) {
        uint64_t from_ns = busy_ns > client->idle_since_ns ? busy_ns : client->idle_since_ns;

        client->idle_ns += now_ns - from_ns;
    }
    return client->idle_ns > SCHED_LAUNCH_IDLE_NS &&
           client->idle_ns > (now_ns - client->idle_since_ns) / 2;
}

/* Whether the tenant gets the next turn as well. Then it need not drain in between. */
static bool renew(struct sched_client *client, uint64_t now_ns)
{
    struct arena_layout *layout = client->arena->layout;
    bool again = false;
    uint32_t word;

    if (!arena_lock(client->arena, client->index, &word))
        return false;
    if (sched_holder(layout) == (int)client->tenant && LOAD(layout->turn) == client->turn) {
        again =
            sched_renew(client->arena, client->tenant, busy_until_ns(client->page, now_ns), now_ns);
        if (again) {
            new_turn(client, LOAD(layout->turn), now_ns);
            client->submitted_ns = 0;
        }
    }
    arena_unlock(client->arena, word);
    return again;
}

/* The same for a gang: the turn lasts until the slot's end, and then as long as work on another
 * device may wait for this one. */
static bool gang_goes_on(struct sched_client *client, uint64_t now_ns)
{
    uint64_t end_ns = sched_end_ns(client->arena->layout, now_ns);

    STORE(client->page->early, 0);
    return now_ns < end_ns || renew(client, now_ns) ||
           (now_ns - end_ns < GANG_DRAIN_NS && gang_behind(client, now_ns));
}

/* Whether the tenant's turn goes on for this process, which has not left it. */
static bool goes_on(struct sched_client *client, uint64_t now_ns)
{
    const struct arena_layout *layout = client->arena->layout;
    uint64_t end_ns, start_ns;
    uint32_t early = launch_bound(client, now_ns) ? ARENA_EARLY_BOUND : 0;
    bool waited = client->waited;

    client->waited = false;
    /* The first test is quick, and the second includes it. */
    if (client->self.devices > 1 && policy_gang(layout))
        return gang_goes_on(client, now_ns);
    if (LOAD(layout->waiting) == 0)
        return true;
    if (!early && waited &&
        policy_ends_with_burst(layout, client->tenant, LOAD(client->page->burst_ns)))
        early = ARENA_EARLY_BURST;
    STORE(client->page->early, early);
    if (early)
        return false;
    end_ns = sched_end_ns(layout, now_ns);
    start_ns = LOAD(layout->start_ns);
    if (now_ns < end_ns && end_ns - start_ns > client->submitted_ns)
        return true;
    return renew(client, now_ns);
}

static void look_at_fences(const struct arena_page *page, uint32_t *ret_fences)
{
    for (unsigned i = 0; i < ARENA_STREAMS; i++)
        ret_fences[i] = LOAD(page->fence_issued[i]);
}

static bool reached(const struct arena_page *page, const uint32_t *fences)
{
    for (unsigned i = 0; i < ARENA_STREAMS; i++)
        if ((int32_t)(LOAD(page->fence_completed[i]) - fences[i]) < 0)
            return false;
    return true;
}

/* Whether the last segment but one still runs. Bounded, for a stream may wait for anything, even
 * for this thread. */
static bool far_ahead(struct sched_client *client, uint64_t now_ns)
{
    if (client->ended) {
        memcpy(client->older, client->newer, sizeof(client->older));
        look_at_fences(client->page, client->newer);
        client->ended = false;
        client->far = now_ns >= client->unpaced_until_ns;
        client->far_since_ns = now_ns;
    }
    if (!client->far)
        return false;
    if (reached(client->page, client->older)) {
        client->far = false;
    } else if (now_ns - client->far_since_ns > SCHED_PACED_MOST_NS) {
        client->far = false;
        client->unpaced_until_ns = now_ns + SCHED_UNPACED_NS;
    }
    return client->far;
}

/* Asks for a fence at the end of each segment: it tells how far the device has got. */
static void pace(struct sched_client *client, uint64_t cost_ns, struct sched_ticket *ticket)
{
    if (client->segment_ns >= client->ahead_ns / 2) {
        client->segment_ns = 0;
        client->ended = true;
        ticket->fences = true;
    }
    client->segment_ns += cost_ns;
}

/* A launch goes to the device, unless it is too far ahead. */
static void pass(struct sched_client *client, uint64_t cost_ns, uint64_t now_ns,
                 struct sched_ticket *ticket)
{
    struct arena_page *page = client->page;

    ticket->ahead = far_ahead(client, now_ns);
    if (ticket->ahead)
        return;
    pace(client, cost_ns, ticket);
    client->submitted_ns += cost_ns;
    atomic_fetch_add_explicit(&page->submitted_launches, 1, memory_order_relaxed);
    STORE(page->busy_until_ns, busy_until_ns(page, now_ns) + cost_ns);
    sched_open(page, LOAD(client->queued));
}

/* Fences */

void sched_client_launched(struct sched_client *client, uint32_t turn)
{
    struct arena_page *page = client->page;

    if (!sched_client_open(client, turn))
        atomic_store(&page->queued_unfenced, 1);
    /* The semaphore may have been opened just now, by a process that saw no launch. */
    if (sched_client_open(client, turn))
        atomic_fetch_or(&page->unfenced, UNFENCED);
    /* The fences of a turn that this process has left are made by now. */
    if (LOAD(page->unfenced) & UNFENCED_LEAVING)
        atomic_fetch_and(&page->unfenced, ~UNFENCED_LEAVING);
}

void sched_client_fences(struct sched_client *client)
{
    struct arena_page *page = client->page;

    atomic_fetch_and(&page->unfenced, ~UNFENCED);
    atomic_store(&page->queued_unfenced, 0);
}

uint32_t sched_client_fence(struct sched_client *client, unsigned stream, uint32_t turn)
{
    struct arena_page *page = client->page;
    uint32_t fence = LOAD(page->fence_issued[stream]) + 1;

    atomic_store(&page->fence_issued[stream], fence);
    if (sched_client_open(client, turn))
        STORE(page->fence_required[stream], fence);
    return fence;
}

void sched_client_drop_fence(struct sched_client *client, unsigned stream)
{
    struct arena_page *page = client->page;
    uint32_t done = LOAD(page->fence_completed[stream]);

    STORE(page->fence_issued[stream], done);
    STORE(page->fence_required[stream], done);
    client->older[stream] = client->newer[stream] = client->probe[stream] = done;
}

/* Standing at the semaphore */

/* A thread is blocked until the semaphore opens. */
static void boost(struct sched_client *client, uint64_t now_ns)
{
    uint32_t word;

    if (!arena_lock(client->arena, client->index, &word))
        return;
    sched_boost(client->arena, client->tenant, now_ns - client->paused_ns < SCHED_PAUSED_NS,
                now_ns);
    arena_unlock(client->arena, word);
}

bool sched_client_wants(struct sched_client *client, unsigned tenant, uint64_t now_ns)
{
    uint32_t word;

    if (!arena_lock(client->arena, client->index, &word))
        return false;
    sched_want(client->arena, client->page, tenant, now_ns);
    arena_unlock(client->arena, word);
    return true;
}

bool sched_client_waiting(const struct sched_client *client, unsigned tenant)
{
    return LOAD(client->page->runnable) && LOAD(client->arena->layout->tenant[tenant].wanted_ns);
}

static void wait_at_semaphore(struct sched_client *client, uint64_t cost_ns, uint64_t now_ns,
                              struct sched_ticket *ticket)
{
    struct arena_page *page = client->page;
    uint32_t queued = LOAD(client->queued), launches;

    if (sched_client_open(client, queued)) {
        STORE(page->granted_turn, queued); /* it has this value unless the page is damaged */
        client->ahead_ns = policy_ahead_ns(client->arena->layout, client->tenant);
        STORE(page->backlog, 0);
        STORE(page->backlog_ns, 0);
        STORE(client->queued, ++queued);
        STORE(page->pending_turn, queued);
        ticket->fences = ticket->fences || LOAD(page->unfenced);
    }
    atomic_fetch_add_explicit(&page->backlog, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&page->backlog_ns, cost_ns, memory_order_relaxed);
    if (!sched_client_waiting(client, client->tenant) &&
        !sched_client_wants(client, client->tenant, now_ns))
        sched_open(page, queued);
    ticket->turn = queued;
    ticket->queued = !sched_client_open(client, queued);
    launches = LOAD(page->backlog);
    ticket->full = launches > SCHED_QUEUED_MOST || LOAD(page->backlog_ns) > client->ahead_ns;
    if (ticket->queued && (ticket->full || launches == SCHED_QUEUED_NEARLY_MOST))
        boost(client, now_ns);
}

/* Unscheduled time ends once the work of that time is over. Fences are asked for, or have been
 * reached, or will not be. */
static void end_unscheduled(struct sched_client *client, uint64_t now_ns,
                            struct sched_ticket *ticket)
{
    struct arena_tenant *self = &client->arena->layout->tenant[client->tenant];

    if (sched_drained(client->page) || (client->probing && reached(client->page, client->probe))) {
        STORE(self->unscheduled_until_ns, 0);
        client->probing = false;
    } else if (!client->probing) {
        STORE(self->unscheduled_until_ns, now_ns + SCHED_PROBE_NS);
        client->probes = client->probing = true;
        ticket->fences = true;
    } else {
        sched_set_unscheduled(client->arena, client->tenant, now_ns);
    }
}

/*
 * An unscheduled tenant comes back to turns when its work of that time is over, for it would hold
 * the others up again. Fences that are made when the time is up tell so.
 */
static bool stays_unscheduled(struct sched_client *client, uint64_t now_ns,
                              struct sched_ticket *ticket)
{
    struct arena_tenant *self = &client->arena->layout->tenant[client->tenant];
    uint64_t until_ns = LOAD(self->unscheduled_until_ns);
    uint32_t word;

    if (LOAD(client->unscheduled_until_ns) > now_ns)
        return true;
    if (until_ns == 0)
        return false;
    if (client->probes) {
        client->probes = false;
        look_at_fences(client->page, client->probe);
    }
    if (tenant_unscheduled(&client->arena->layout->tenant[client->tenant], now_ns) &&
        !(client->probing && reached(client->page, client->probe)))
        return true;
    if (!arena_lock(client->arena, client->index, &word))
        return true;
    end_unscheduled(client, now_ns, ticket);
    arena_unlock(client->arena, word);
    return LOAD(self->unscheduled_until_ns) != 0;
}

/*
 * A program is light if launching keeps it busy and it needs little of the device: in the last
 * window many launches, few waits, little time. Its short kernels run beside those of others at
 * hardly any cost, while turns would hold it up where it waits for its own results (sched_params.h
 * has the figures).
 */
static void note_use(struct sched_client *client, uint64_t cost_ns, uint64_t now_ns)
{
    uint64_t window_ns = now_ns - client->window_since_ns;

    if (window_ns >= SCHED_WINDOW_NS) {
        bool light = window_ns < 2 * SCHED_WINDOW_NS &&
                     client->window_launches >= SCHED_LOW_USE_LAUNCHES &&
                     client->window_waits <= client->window_launches / SCHED_LOW_USE_WAITS &&
                     client->window_cost_ns < window_ns / 100 * SCHED_LOW_USE_PERCENT;

        client->low_use_until_ns = light ? now_ns + SCHED_WINDOW_NS + SCHED_WINDOW_NS / 2 : 0;
        client->window_since_ns = now_ns;
        client->window_cost_ns = 0;
        client->window_launches = client->window_waits = 0;
    }
    client->window_cost_ns += cost_ns;
    client->window_launches++;
}

/* A light program neither waits for others nor makes them wait. */
static void defer_turn(struct sched_client *client, uint64_t now_ns)
{
    struct vgpu_arena *arena = client->arena;
    uint32_t word;

    if (!LOAD(client->page->runnable) && sched_holder(arena->layout) != (int)client->tenant)
        return;
    if (!arena_lock(arena, client->index, &word))
        return;
    sched_defer(arena, client->page, client->tenant, now_ns);
    arena_unlock(arena, word);
}

static void launch(struct sched_client *client, uint64_t cost_ns, uint64_t now_ns,
                   struct sched_ticket *ticket)
{
    struct arena_layout *layout = client->arena->layout;
    struct arena_page *page = client->page;
    uint32_t turn = LOAD(layout->turn);

    if (sched_holder(layout) == (int)client->tenant) {
        if (client->turn != turn)
            new_turn(client, turn, now_ns);
        if (LOAD(page->yielded_turn) != turn) {
            if (goes_on(client, now_ns)) {
                pass(client, cost_ns, now_ns, ticket);
                return;
            }
            atomic_fetch_or(&page->unfenced, UNFENCED_LEAVING);
            STORE(page->yielded_turn, turn);
            ticket->fences = true;
        }
    }
    wait_at_semaphore(client, cost_ns, now_ns, ticket);
}

void sched_client_launch(struct sched_client *client, uint64_t cost_ns, uint64_t now_ns,
                         struct sched_ticket *ret_ticket)
{
    *ret_ticket = (struct sched_ticket){.turn = LOAD(client->queued)};
    client->burst_ns += cost_ns;
    note_use(client, cost_ns, now_ns);
    if (client->tenant >= ARENA_TENANTS || stays_unscheduled(client, now_ns, ret_ticket)) {
        sched_open(client->page, ret_ticket->turn);
    } else if (now_ns < client->low_use_until_ns &&
               policy_lets_beside(client->arena->layout, client->tenant)) {
        defer_turn(client, now_ns);
        sched_open(client->page, ret_ticket->turn);
    } else {
        launch(client, cost_ns, now_ns, ret_ticket);
    }
    if (!ret_ticket->ahead)
        atomic_fetch_add_explicit(&client->page->launches, 1, memory_order_relaxed);
}

uint64_t sched_client_left_ns(const struct sched_client *client, uint64_t now_ns)
{
    if (!sched_client_open(client, LOAD(client->queued)))
        return LOAD(client->page->backlog_ns);
    return busy_until_ns(client->page, now_ns) - now_ns;
}

void sched_client_waits(struct sched_client *client)
{
    client->waited = true;
    client->window_waits++;
    if (client->burst_ns > 0)
        STORE(client->page->burst_ns, client->burst_ns);
    client->burst_ns = 0;
    if (client->tenant < ARENA_TENANTS && !sched_client_open(client, LOAD(client->queued)))
        boost(client, clock_ns());
}

void sched_client_pauses(struct sched_client *client, bool pausing, uint64_t now_ns)
{
    STORE(client->page->pausing, pausing);
    client->paused_ns = now_ns;
}

void sched_client_take_counts(struct sched_client *client, uint64_t *ret_turns,
                              uint64_t *ret_waited_ns)
{
    uint64_t turns = LOAD(client->page->turns), waited_ns = LOAD(client->page->waited_ns);

    *ret_turns = turns - client->told_turns;
    *ret_waited_ns = waited_ns - client->told_waited_ns;
    /* Both count from the last call: a larger number is damage. */
    if (*ret_turns > SCHED_COUNT_MOST || *ret_waited_ns > SCHED_COUNT_MOST * POLICY_MIN_NS)
        *ret_turns = *ret_waited_ns = 0;
    client->told_turns = turns;
    client->told_waited_ns = waited_ns;
}
