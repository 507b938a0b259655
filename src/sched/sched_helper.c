/*
 * The helper of a process: what it sees of the other processes, and when it hands the device on.
 */
#include "sched/gang.h"
#include "sched/sched.h"

#include <stdint.h>

struct holder_state {
    bool any;                    /* the holder has a page at all */
    bool idle;                   /* no work of it runs, as far as fences and estimates tell */
    bool yielded_turn;           /* all of its processes have left the turn */
    uint32_t early;              /* why some left it although there was time: ARENA_EARLY_* */
    bool pausing;                /* all of them sleep because of their cap */
    bool untimed;                /* what runs may be work from before the device was contended */
    uint32_t submitted_launches; /* launches of the turn */
    uint32_t launches;
    uint64_t busy_until_ns, burst_ns;
    bool gang;         /* turns are slots of the clock */
    bool elsewhere;    /* of a gang: work of the holder runs on another device */
    uint64_t grace_ns; /* how long it may keep the device without work */
};

static struct holder_state look_at(const struct vgpu_arena *arena, unsigned tenant, uint32_t turn,
                                   uint64_t now_ns)
{
    struct holder_state seen = {.idle = true, .yielded_turn = true, .pausing = true};

    for (unsigned i = 0; i < arena_pages_high(arena); i++) {
        const struct arena_page *page = &arena->layout->page[i];
        uint64_t busy_ns = LOAD(page->busy_until_ns), burst_ns = LOAD(page->burst_ns);
        bool idle;

        if (!sched_page_of(page, tenant))
            continue;
        idle = sched_idle(page, now_ns);
        seen.any = true;
        seen.launches += LOAD(page->launches);
        seen.untimed = seen.untimed || LOAD(page->untimed);
        seen.submitted_launches += LOAD(page->submitted_launches);
        seen.idle = seen.idle && idle;
        seen.yielded_turn = seen.yielded_turn &&
                            (LOAD(page->yielded_turn) == turn || (idle && !LOAD(page->active)));
        seen.early |= LOAD(page->yielded_turn) == turn ? LOAD(page->early) : 0;
        seen.pausing = seen.pausing && (LOAD(page->pausing) || LOAD(page->yielded_turn) == turn);
        if (busy_ns > seen.busy_until_ns)
            seen.busy_until_ns = busy_ns;
        if (burst_ns > seen.burst_ns)
            seen.burst_ns = burst_ns;
    }
    seen.grace_ns = policy_grace_ns(arena->layout, tenant, seen.burst_ns);
    return seen;
}

/* What a helper concludes about a turn (STATES.md). */
enum verdict { GOES_ON, UP, OVER, OVERDUE };

static uint64_t bound_ns(const struct holder_state *seen)
{
    return seen->gang ? GANG_DRAIN_NS : seen->untimed ? SCHED_UNTIMED_BOUND_NS : SCHED_BOUND_NS;
}

static enum verdict judge(const struct arena_layout *layout, const struct holder_state *seen,
                          const struct sched_observer *observer, uint64_t now_ns)
{
    uint64_t end_ns = sched_end_ns(layout, now_ns);
    uint64_t last_ns = seen->busy_until_ns > end_ns ? seen->busy_until_ns : end_ns;

    if (!seen->any)
        return OVER;
    if (seen->idle) {
        if (seen->elsewhere && now_ns < end_ns + GANG_DRAIN_NS)
            return GOES_ON;
        /* A tenant that has left by estimates alone may be due again. */
        if (seen->yielded_turn && !seen->early)
            return UP;
        if (seen->yielded_turn || seen->pausing || now_ns - observer->idle_ns >= seen->grace_ns)
            return OVER;
        /* The turn does not end between two launches. */
        return now_ns >= end_ns && now_ns - observer->idle_ns >= POLICY_QUICK_NS ? UP : GOES_ON;
    }
    if (last_ns > end_ns + SCHED_ESTIMATE_MOST_NS)
        last_ns = end_ns + SCHED_ESTIMATE_MOST_NS;
    return now_ns > last_ns + bound_ns(seen) ? OVERDUE : GOES_ON;
}

static uint64_t look_again_ns(const struct sched_client *client, unsigned tenant,
                              const struct holder_state *seen,
                              const struct sched_observer *observer, bool ended, uint64_t now_ns)
{
    uint64_t left_ns = seen->busy_until_ns > now_ns ? seen->busy_until_ns - now_ns : 0;

    if (LOAD(client->arena->layout->next) != tenant + 1)
        return SCHED_NOT_NEXT_NS;
    if (seen->idle)
        return now_ns - observer->idle_ns < seen->grace_ns
                   ? observer->idle_ns + seen->grace_ns - now_ns
                   : 0;
    if (left_ns > SCHED_NEAR_NS + SCHED_STEP_NS)
        return left_ns - SCHED_NEAR_NS < SCHED_STEP_MOST_NS ? left_ns - SCHED_NEAR_NS
                                                            : SCHED_STEP_MOST_NS;
    return ended && now_ns < seen->busy_until_ns + 2 * SCHED_NEAR_NS ? 0 : SCHED_STEP_NS;
}

/*
 * A turn is overdue. Its work may be from before the device was contended, when the driver queues a
 * thousand launches, or take longer than estimated. Then the tenant drains: its launches wait while
 * that work runs beside the turns of others. Work that does not end at all makes the tenant
 * unscheduled.
 */
static void handle_overdue(struct vgpu_arena *arena, unsigned tenant, bool much, uint64_t now_ns)
{
    struct arena_tenant *self = &arena->layout->tenant[tenant];

    if (much && self->untimed_overruns++ < SCHED_OVERRUNS_MOST)
        sched_drain(arena, tenant, now_ns + SCHED_DRAIN_NS, now_ns);
    else
        sched_set_unscheduled(arena, tenant, now_ns);
}

/* A tenant that is idle when its time is up has yielded. */
static enum policy_end how_it_ended(const struct holder_state *seen, bool ended)
{
    if (ended && (seen->yielded_turn || !seen->idle))
        return POLICY_SPENT;
    return seen->yielded_turn && seen->early == ARENA_EARLY_BURST ? POLICY_BURST : POLICY_YIELDED;
}

/* Under the arena's lock. The turn is still the one that was judged. */
static void end_turn(struct sched_client *client, enum verdict verdict,
                     const struct holder_state *seen, enum policy_end end, uint64_t now_ns)
{
    struct arena_layout *layout = client->arena->layout;
    int holder = sched_holder(layout);

    /* A gang's work may wait for the next slot of another device. The device goes on beside it. */
    if (holder >= 0 && verdict == OVERDUE && !seen->gang)
        handle_overdue(client->arena, (unsigned)holder,
                       seen->untimed || seen->submitted_launches > SCHED_LAUNCHES_MUCH ||
                           layout->tenant[holder].untimed_overruns,
                       now_ns);
    else if (holder >= 0 && (seen->untimed || layout->tenant[holder].untimed_overruns))
        sched_known(client->arena, (unsigned)holder);
    if (holder >= 0 && end == POLICY_YIELDED)
        policy_yields(layout, (unsigned)holder, now_ns);
    sched_next(client->arena, end, verdict == UP, now_ns);
}

static void hand_on(struct sched_client *client, uint32_t turn, enum verdict verdict,
                    const struct holder_state *seen, enum policy_end end, uint64_t now_ns)
{
    uint32_t word;

    if (!arena_lock(client->arena, client->index, &word))
        return;
    if (LOAD(client->arena->layout->turn) == turn)
        end_turn(client, verdict, seen, end, now_ns);
    arena_unlock(client->arena, word);
}

/* Opens the semaphores of this process: no work of it waits any more. */
static uint64_t stop_waiting(struct sched_client *client, struct sched_observer *observer)
{
    observer->waiting_ns = 0;
    STORE(client->page->runnable, 0);
    sched_open(client->page, LOAD(client->queued));
    return UINT64_MAX;
}

/* Whatever other processes do or leave undone, a process does not wait for ever. One that waits for
 * its own work waits for longer. */
static bool rescue(struct sched_client *client, unsigned tenant, struct sched_observer *observer,
                   uint64_t now_ns)
{
    uint64_t draining_ns = LOAD(client->arena->layout->tenant[tenant].draining_until_ns);
    bool draining = draining_ns > now_ns && draining_ns <= now_ns + SCHED_DRAIN_NS &&
                    !sched_drained(client->page);

    if (!observer->waiting_ns || observer->queued != LOAD(client->queued))
        observer->waiting_ns = now_ns;
    observer->queued = LOAD(client->queued);
    if (draining && now_ns - observer->waiting_ns < SCHED_RESCUE_DRAIN_NS)
        return false;
    if (now_ns - observer->waiting_ns < SCHED_RESCUE_NS)
        return false;
    STORE(client->unscheduled_until_ns, now_ns + SCHED_RESCUE_NS);
    return true;
}

/* Repairs the words by which other processes find this one. */
static void restore_page(const struct sched_client *client, unsigned tenant)
{
    uint32_t high = client->index + 1;

    if (LOAD(client->page->tenant) != tenant)
        STORE(client->page->tenant, tenant);
    if (!LOAD(client->page->used))
        STORE(client->page->used, 1);
    if (LOAD(client->page->pending_turn) != LOAD(client->queued))
        STORE(client->page->pending_turn, LOAD(client->queued));
    if (LOAD(client->arena->layout->pages_high) < high)
        STORE(client->arena->layout->pages_high, high);
}

/* Gives a tenant turns again once its earlier work is over, or a little before other processes
 * would. */
static void look_at_draining(struct sched_client *client, unsigned tenant, uint64_t now_ns)
{
    struct vgpu_arena *arena = client->arena;
    uint64_t until_ns = LOAD(arena->layout->tenant[tenant].draining_until_ns);
    uint32_t turn = LOAD(arena->layout->turn), word;
    bool idle;

    if (!until_ns)
        return;
    idle = look_at(arena, tenant, turn, now_ns).idle;
    if ((!idle && until_ns > now_ns + 2 * SCHED_NOT_NEXT_NS) ||
        !arena_lock(arena, client->index, &word))
        return;
    if (idle)
        sched_known(arena, tenant);
    sched_drain(arena, tenant, 0, now_ns);
    arena_unlock(arena, word);
}

/* Gives the rest of a slot away if its owner is idle on all devices. */
static void look_at_slot(struct sched_client *client, struct sched_observer *observer,
                         uint64_t now_ns)
{
    struct arena_layout *layout = client->arena->layout;
    int owner = policy_slot_owner(layout, now_ns);
    bool idle = owner >= 0 && owner != (int)client->tenant &&
                !LOAD(layout->tenant[owner].wanted_ns) &&
                !gang_busy(client, LOAD(layout->tenant[owner].id), now_ns);

    if (!idle)
        observer->slot_idle_ns = 0;
    else if (!observer->slot_idle_ns)
        observer->slot_idle_ns = now_ns;
    else if (now_ns - observer->slot_idle_ns >= GANG_IDLE_NS)
        STORE(layout->free_slot, now_ns / POLICY_SLOT_NS);
}

uint64_t sched_client_watch(struct sched_client *client, struct sched_observer *observer,
                            uint64_t now_ns)
{
    struct arena_layout *layout = client->arena->layout;
    unsigned tenant = client->tenant; /* a thread that launches may change it meanwhile */
    uint32_t turn = LOAD(layout->turn);
    int holder = sched_holder(layout);
    struct holder_state seen = {0};
    enum verdict verdict;
    bool ended;

    if (tenant >= ARENA_TENANTS || sched_client_open(client, LOAD(client->queued))) {
        observer->waiting_ns = 0;
        return UINT64_MAX;
    }
    restore_page(client, tenant);
    /* The last condition: the grant came between two words that this process wrote. */
    if (rescue(client, tenant, observer, now_ns) ||
        tenant_unscheduled(&layout->tenant[tenant], now_ns) ||
        (holder == (int)tenant && LOAD(client->page->yielded_turn) != turn))
        return stop_waiting(client, observer);
    sched_client_tidy(client, now_ns);
    if (!sched_client_waiting(client, tenant) && !sched_client_wants(client, tenant, now_ns))
        return SCHED_STEP_NS;
    look_at_draining(client, tenant, now_ns);
    if (policy_gang(layout))
        look_at_slot(client, observer, now_ns);
    if (holder < 0) {
        hand_on(client, turn, OVER, &seen, POLICY_YIELDED, now_ns);
        return SCHED_STEP_NS;
    }
    seen = look_at(client->arena, (unsigned)holder, turn, now_ns);
    seen.gang = policy_gang(layout);
    seen.elsewhere =
        seen.gang && gang_busy_elsewhere(client, LOAD(layout->tenant[holder].id), now_ns);
    if (!seen.idle || observer->holder != holder || observer->launches != seen.launches ||
        !observer->idle_ns)
        observer->idle_ns = seen.idle ? now_ns : 0;
    observer->holder = holder;
    observer->launches = seen.launches;
    verdict = judge(layout, &seen, observer, now_ns);
    ended = (seen.yielded_turn && !seen.early) || now_ns >= sched_end_ns(layout, now_ns);
    if (verdict != GOES_ON) {
        hand_on(client, turn, verdict, &seen, how_it_ended(&seen, ended), now_ns);
        return 0;
    }
    return look_again_ns(client, tenant, &seen, observer, ended, now_ns);
}
