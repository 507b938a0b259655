#include "sched/sched_preempt.h"

#include "sched/sched.h"

int preempt_join(struct vgpu_arena *arena, const struct sched_identity *self,
                 struct preempt *ret_preempt)
{
    struct sched_client client;
    int rc = sched_client_join(arena, self, &client);

    if (rc == 0)
        *ret_preempt = (struct preempt){.client = client};
    return rc;
}

static bool is_mine(const struct preempt *preempt)
{
    const struct arena_layout *layout = preempt->client.arena->layout;

    return sched_holder(layout) == (int)preempt->client.tenant &&
           LOAD(preempt->client.page->yielded_turn) != LOAD(layout->turn);
}

/* The semaphore, at which only preempt_step() looks. */

static bool is_open(const struct preempt *preempt)
{
    return sched_client_open(&preempt->client, LOAD(preempt->client.queued));
}

/* Whoever grants the turn opens it. Until the tenant reports, the page claims work on the
 * device. */
static void close_semaphore(struct preempt *preempt)
{
    struct sched_client *client = &preempt->client;
    uint32_t queued = LOAD(client->page->granted_turn) + 1;

    STORE(client->queued, queued);
    STORE(client->page->pending_turn, queued);
    STORE(client->page->backlog_ns, PREEMPT_GRANTED_NS);
    STORE(client->page->queued_unfenced, 1);
}

static void tell_idle(struct preempt *preempt)
{
    struct arena_page *page = preempt->client.page;

    STORE(page->queued_unfenced, 0);
    STORE(page->unfenced, 0);
}

static void tell_busy(struct preempt *preempt, uint64_t until_ns)
{
    struct arena_page *page = preempt->client.page;

    STORE(page->untimed, 0); /* whatever it is, it can be stopped */
    STORE(page->busy_until_ns, until_ns);
    STORE(page->unfenced, UNFENCED);
}

/* The tenant does not wait any more. */
static void stop_waiting(struct preempt *preempt)
{
    preempt->waiting_ns = 0;
    STORE(preempt->client.page->runnable, 0);
    sched_open(preempt->client.page, LOAD(preempt->client.queued));
}

/* Under the arena's lock. The tenant does not take part, and another one gets the device. */
static void defer_turn(struct preempt *preempt, uint64_t now_ns)
{
    struct sched_client *client = &preempt->client;

    stop_waiting(preempt);
    tell_idle(preempt);
    if (sched_holder(client->arena->layout) == (int)client->tenant)
        sched_next(client->arena, sched_end(client->arena->layout, now_ns), false, now_ns);
}

/* Under the arena's lock. */
static void begin_to_wait(struct preempt *preempt, uint64_t now_ns)
{
    struct sched_client *client = &preempt->client;

    preempt->waiting_ns = now_ns;
    tell_idle(preempt);
    close_semaphore(preempt);
    sched_want(client->arena, client->page, client->tenant, now_ns);
}

void preempt_leave(struct preempt *preempt, bool wants, uint64_t now_ns)
{
    struct sched_client *client = &preempt->client;
    struct arena_layout *layout = client->arena->layout;
    uint32_t turn = LOAD(layout->turn), word;

    if (client->tenant >= ARENA_TENANTS)
        return;
    if (!arena_lock(client->arena, client->index, &word)) {
        /* The tenants that wait see that it has left. */
        tell_idle(preempt);
        STORE(client->page->yielded_turn, turn);
        return;
    }
    if (wants) {
        if (sched_holder(layout) == (int)client->tenant)
            STORE(client->page->yielded_turn, LOAD(layout->turn));
        begin_to_wait(preempt, now_ns);
        if (sched_holder(layout) == (int)client->tenant && !is_open(preempt))
            sched_next(client->arena, sched_end(layout, now_ns), false, now_ns);
        sched_boost(client->arena, client->tenant, true, now_ns);
    } else {
        defer_turn(preempt, now_ns);
    }
    arena_unlock(client->arena, word);
}

void preempt_part(struct preempt *preempt, uint64_t now_ns)
{
    preempt_leave(preempt, false, now_ns);
    arena_release(preempt->client.arena, preempt->client.index);
}

/* Looks whether another tenant uses the device or may want to. No system call. */
static void preempt_look_around(struct preempt *preempt, uint64_t now_ns)
{
    struct sched_client *client = &preempt->client;
    uint32_t flags = sched_client_flags(client);

    preempt->others = false;
    for (unsigned i = 0; i < arena_pages_high(client->arena) && !preempt->others; i++) {
        const struct arena_page *page = &client->arena->layout->page[i];

        preempt->others = i != client->index && LOAD(page->used) && LOAD(page->active) &&
                          LOAD(page->tenant) != client->tenant;
    }
    preempt->contended =
        client->tenant < ARENA_TENANTS && (flags & ARENA_CONTENDED) && !(flags & ARENA_RESUME);
    if (preempt->others || preempt->contended)
        sched_client_tidy(client, now_ns);
}

void preempt_active(struct preempt *preempt, uint64_t now_ns)
{
    struct sched_client *client = &preempt->client;

    atomic_fetch_add_explicit(&client->page->launches, 1, memory_order_relaxed);
    if (sched_client_flags(client) & ARENA_RESUME) {
        sched_client_resume(client, now_ns);
        preempt_look_around(preempt, now_ns);
    }
}

/* Turns */

/* Makes the turn longer than the policy's, unless the setting fixes its length or another tenant
 * has cut it already. */
static void lengthen(struct preempt *preempt, uint64_t now_ns)
{
    struct sched_client *client = &preempt->client;
    struct arena_layout *layout = client->arena->layout;
    uint64_t start_ns, quantum_ns, longer_ns;
    uint32_t word;

    if (LOAD(layout->quantum_us) || !arena_lock(client->arena, client->index, &word))
        return;
    start_ns = LOAD(layout->start_ns);
    quantum_ns = policy_quantum_ns(layout, client->tenant, now_ns);
    longer_ns = quantum_ns * 5 / 4;
    longer_ns = longer_ns < PREEMPT_TURN_NS ? longer_ns : PREEMPT_TURN_NS;
    if (is_mine(preempt) && start_ns <= now_ns && now_ns - start_ns < PREEMPT_SPAN_NS &&
        LOAD(layout->end_ns) == start_ns + quantum_ns)
        STORE(layout->end_ns, start_ns + longer_ns);
    arena_unlock(client->arena, word);
}

static uint64_t end_of_turn_ns(const struct preempt *preempt, uint64_t now_ns)
{
    const struct arena_layout *layout = preempt->client.arena->layout;
    uint64_t start_ns = LOAD(layout->start_ns), end_ns = sched_end_ns(layout, now_ns);

    if (!LOAD(layout->quantum_us) && start_ns <= now_ns && now_ns - start_ns < PREEMPT_LEAST_NS &&
        end_ns < start_ns + PREEMPT_LEAST_NS)
        end_ns = start_ns + PREEMPT_LEAST_NS;
    return end_ns;
}

static bool renew(struct preempt *preempt, uint64_t now_ns)
{
    struct sched_client *client = &preempt->client;
    uint32_t turn = LOAD(client->arena->layout->turn), word;
    bool again = false;

    if (!arena_lock(client->arena, client->index, &word))
        return false;
    if (is_mine(preempt) && LOAD(client->arena->layout->turn) == turn)
        again = sched_renew(client->arena, client->tenant, now_ns, now_ns);
    arena_unlock(client->arena, word);
    return again;
}

/* The tenant holds the device. */
static enum preempt_decision hold(struct preempt *preempt, enum preempt_demand demand,
                                  uint64_t now_ns, uint64_t *ret_again_ns)
{
    const struct arena_layout *layout = preempt->client.arena->layout;
    uint64_t end_ns;

    preempt->waiting_ns = 0;
    preempt->unscheduled_count = 0;
    sched_open(preempt->client.page, LOAD(preempt->client.queued));
    if (preempt->turn != LOAD(layout->turn)) {
        preempt->turn = LOAD(layout->turn);
        lengthen(preempt, now_ns);
    }
    if (demand != PREEMPT_BUSY) {
        tell_idle(preempt);
        if (LOAD(layout->waiting) == 0)
            return PREEMPT_RUNS;
        preempt_leave(preempt, false, now_ns);
        return PREEMPT_RUNS;
    }
    end_ns = end_of_turn_ns(preempt, now_ns);
    tell_busy(preempt, (end_ns > now_ns ? end_ns : now_ns) + PREEMPT_BEYOND_NS);
    if (LOAD(layout->waiting) == 0)
        return PREEMPT_RUNS;
    if (now_ns < end_ns)
        *ret_again_ns = end_ns - now_ns;
    else if (renew(preempt, now_ns))
        *ret_again_ns = PREEMPT_SOON_NS;
    else
        return PREEMPT_ENDS;
    return PREEMPT_RUNS;
}

/* The tenant has waited for too long: something is wrong with the turns. */
static void go_unscheduled(struct preempt *preempt, uint64_t now_ns)
{
    unsigned shift = preempt->unscheduled_count < PREEMPT_UNSCHEDULED_DOUBLINGS
                         ? preempt->unscheduled_count
                         : PREEMPT_UNSCHEDULED_DOUBLINGS;

    preempt->unscheduled_count++;
    preempt->unscheduled_ns = now_ns + 2 * (PREEMPT_OFF_MOST_NS << shift);
    preempt_leave(preempt, false, now_ns);
    stop_waiting(preempt);
}

static bool is_unscheduled(const struct preempt *preempt, uint64_t now_ns)
{
    const struct sched_client *client = &preempt->client;

    return now_ns < preempt->unscheduled_ns || now_ns < LOAD(client->unscheduled_until_ns) ||
           tenant_unscheduled(&client->arena->layout->tenant[client->tenant], now_ns);
}

/* The tenant does not hold the device. */
static enum preempt_decision wait_for_turn(struct preempt *preempt, uint64_t now_ns,
                                           uint64_t *ret_again_ns)
{
    struct sched_client *client = &preempt->client;
    uint64_t since_ns = preempt->waiting_ns, left_ns;
    uint32_t word;

    if (since_ns == 0 || is_open(preempt)) {
        if (!arena_lock(client->arena, client->index, &word)) {
            *ret_again_ns = PREEMPT_AGAIN_NS;
            return since_ns == 0 ? PREEMPT_RUNS : PREEMPT_WAITS;
        }
        begin_to_wait(preempt, now_ns);
        sched_boost(client->arena, client->tenant, true, now_ns);
        arena_unlock(client->arena, word);
        /* It was granted a turn and lost it before it ran. */
        preempt->waiting_ns = since_ns ? since_ns : now_ns;
    }
    if (now_ns - preempt->waiting_ns >= PREEMPT_OFF_MOST_NS) {
        go_unscheduled(preempt, now_ns);
        return PREEMPT_RUNS;
    }
    left_ns = preempt->waiting_ns + PREEMPT_OFF_MOST_NS - now_ns;
    *ret_again_ns = sched_client_watch(client, &preempt->observer, now_ns);
    if (*ret_again_ns < PREEMPT_SOON_NS)
        *ret_again_ns = PREEMPT_SOON_NS;
    if (*ret_again_ns > left_ns)
        *ret_again_ns = left_ns;
    return is_unscheduled(preempt, now_ns) ? PREEMPT_RUNS : PREEMPT_WAITS;
}

/* Repairs the words by which other processes find this tenant. */
static void restore_page(struct preempt *preempt)
{
    struct sched_client *client = &preempt->client;

    if (LOAD(client->page->tenant) != client->tenant)
        STORE(client->page->tenant, client->tenant);
    if (!LOAD(client->page->used))
        STORE(client->page->used, 1);
}

enum preempt_decision preempt_step(struct preempt *preempt, enum preempt_demand demand,
                                   uint64_t now_ns, uint64_t *ret_again_ns)
{
    enum preempt_decision word;

    *ret_again_ns = UINT64_MAX;
    preempt_look_around(preempt, now_ns);
    if (!preempt->contended || is_unscheduled(preempt, now_ns)) {
        if (preempt->waiting_ns)
            stop_waiting(preempt);
        if (preempt->contended && is_mine(preempt))
            preempt_leave(preempt, false, now_ns);
        return PREEMPT_RUNS;
    }
    restore_page(preempt);
    if (is_mine(preempt))
        return hold(preempt, demand, now_ns, ret_again_ns);
    if (demand != PREEMPT_BUSY) {
        if (preempt->waiting_ns)
            preempt_leave(preempt, false, now_ns);
        return PREEMPT_RUNS;
    }
    word = wait_for_turn(preempt, now_ns, ret_again_ns);
    return word == PREEMPT_WAITS && is_mine(preempt) ? hold(preempt, demand, now_ns, ret_again_ns)
                                                     : word;
}
