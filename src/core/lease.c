/*
 * A process's part in the turns: what its launches do. What its helper does is in lease_watch.c.
 */
#include "core/lease.h"

#include "base/clock.h"
#include "core/gang.h"
#include "core/lease_internal.h"

#include <stdint.h>
#include <string.h>

#define TIDY_NS 50000000ULL

/* A program that launches without waiting, while the device is idle for most of the time, */
#define IDLE_NS     30000ULL /* this long: */
#define AHEAD_LEAST 50000ULL /* and it has not been this far ahead meanwhile */

/* What makes a program a light one. */
#define SPELL_NS       100000000ULL
#define LIGHT_LAUNCHES 200u
#define LIGHT_WAITS    20u
#define LIGHT_PERCENT  15u

#define PACED_MOST_NS 100000000ULL   /* that a launch is held back; then none is for */
#define UNPACED_NS    10000000000ULL /* this long */
#define PROBE_NS      50000000ULL

#define PAUSED_NS 100000000ULL /* a process that its cap has held back within this time has one that matters */

#define COUNT_MOST 1000000ULL

#define NEARLY_MOST (LEASE_GATED_MOST * 7 / 8) /* of launches at the gate: a thread will stand still soon */

int lease_join(struct vgpu_arena *arena, const struct lease_self *self, struct lease *ret_lease)
{
    unsigned page;
    int rc = arena_claim(arena, &page);

    if (rc < 0)
        return rc;
    *ret_lease = (struct lease){
        .arena = arena,
        .page = &arena->layout->page[page],
        .index = page,
        .self = *self,
        .tenant = ARENA_TENANTS,
    };
    STORE(ret_lease->page->tenant, ARENA_TENANTS);
    return 0;
}

void lease_resume(struct lease *lease, uint64_t now_ns)
{
    struct arena_layout *layout = lease->arena->layout;
    uint32_t word;
    unsigned tenant;

    if (!arena_lock(lease->arena, lease->index, &word))
        return;
    tenant = turns_tenant(layout, &lease->self);
    lease->tenant = tenant;
    STORE(lease->page->tenant, tenant);
    if (tenant < ARENA_TENANTS)
        turns_activate(lease->arena, lease->page, tenant, now_ns);
    else
        atomic_fetch_and(&lease->page->flags, ~ARENA_RESUME); /* no room: it runs as the driver lets it */
    arena_unlock(lease->arena, word);
}

void lease_settings(struct lease *lease, uint32_t weight, uint32_t priority)
{
    uint32_t word;

    if ((lease->self.weight == weight && lease->self.priority == priority))
        return;
    lease->self.weight = weight;
    lease->self.priority = priority;
    if (lease->tenant >= ARENA_TENANTS || !arena_lock(lease->arena, lease->index, &word))
        return;
    turns_tenant(lease->arena->layout, &lease->self);
    arena_unlock(lease->arena, word);
}

void lease_tidy(struct lease *lease, uint64_t now_ns)
{
    uint64_t tidied_ns = LOAD(lease->arena->layout->tidied_ns);
    uint32_t word;

    if (now_ns > tidied_ns && now_ns - tidied_ns < TIDY_NS)
        return;
    if (!arena_lock(lease->arena, lease->index, &word))
        return;
    turns_tidy(lease->arena, lease->index, now_ns);
    arena_unlock(lease->arena, word);
}

/* Launches */

static void new_turn(struct lease *lease, uint32_t turn, uint64_t now_ns)
{
    struct arena_page *page = lease->page;

    lease->turn = turn;
    lease->submitted_ns = LOAD(page->backlog_ns);
    STORE(page->passed, LOAD(page->backlog));
    lease->idle_ns = 0;
    lease->idle_since_ns = now_ns;
    lease->ahead_ns = policy_ahead_ns(lease->arena->layout, lease->tenant);
    STORE(page->backlog, 0);
    STORE(page->backlog_ns, 0);
}

/* When what the process has launched is estimated to be over. */
static uint64_t busy_until_ns(const struct arena_page *page, uint64_t now_ns)
{
    uint64_t busy_ns = LOAD(page->busy_until_ns);

    return busy_ns > now_ns && busy_ns < now_ns + BOUND_MOST_NS ? busy_ns : now_ns;
}

/*
 * Whether launching takes the program longer than running takes the device, which is idle most of the time: then its
 * work may as well pile up at the gate, and be done in one go.
 */
static bool launch_bound(struct lease *lease, uint64_t now_ns)
{
    uint64_t busy_ns = LOAD(lease->page->busy_until_ns);

    if (lease->waited || busy_ns > now_ns + AHEAD_LEAST) {
        lease->idle_ns = 0;
        lease->idle_since_ns = now_ns;
    } else if (busy_ns < now_ns) {
        uint64_t from_ns = busy_ns > lease->idle_since_ns ? busy_ns : lease->idle_since_ns;

        lease->idle_ns += now_ns - from_ns;
    }
    return lease->idle_ns > IDLE_NS && lease->idle_ns > (now_ns - lease->idle_since_ns) / 2;
}

/* Whether the turn goes on because the tenant would get the next one as well: then nothing need be drained. */
static bool renew(struct lease *lease, uint64_t now_ns)
{
    struct arena_layout *layout = lease->arena->layout;
    bool again = false;
    uint32_t word;

    if (!arena_lock(lease->arena, lease->index, &word))
        return false;
    if (turns_holder(layout) == (int)lease->tenant && LOAD(layout->turn) == lease->turn) {
        again = turns_renew(lease->arena, lease->tenant, busy_until_ns(lease->page, now_ns), now_ns);
        if (again) {
            new_turn(lease, LOAD(layout->turn), now_ns);
            lease->submitted_ns = 0;
        }
    }
    arena_unlock(lease->arena, word);
    return again;
}

/* The same where turns are slots: until the slot's end, and then as long as work on another device may wait for it. */
static bool gang_goes_on(struct lease *lease, uint64_t now_ns)
{
    uint64_t end_ns = turns_end_ns(lease->arena->layout, now_ns);

    STORE(lease->page->early, 0);
    return now_ns < end_ns || renew(lease, now_ns) || (now_ns - end_ns < GANG_DRAIN_NS && gang_behind(lease, now_ns));
}

/* Whether the turn, which the tenant has, goes on for this process; it has not left it. */
static bool goes_on(struct lease *lease, uint64_t now_ns)
{
    const struct arena_layout *layout = lease->arena->layout;
    uint64_t end_ns, start_ns;
    uint32_t early = launch_bound(lease, now_ns) ? ARENA_EARLY_BOUND : 0;
    bool waited = lease->waited;

    lease->waited = false;
    /* The first is quick, and the other includes it. */
    if (lease->self.devices > 1 && policy_gang(layout))
        return gang_goes_on(lease, now_ns);
    if (LOAD(layout->waiting) == 0)
        return true;
    if (!early && waited && policy_ends_with_burst(layout, lease->tenant, LOAD(lease->page->burst_ns)))
        early = ARENA_EARLY_BURST;
    STORE(lease->page->early, early);
    if (early)
        return false;
    end_ns = turns_end_ns(layout, now_ns);
    start_ns = LOAD(layout->start_ns);
    if (now_ns < end_ns && end_ns - start_ns > lease->submitted_ns)
        return true;
    return renew(lease, now_ns);
}

static void look_at_marks(const struct arena_page *page, uint32_t *ret_marks)
{
    for (unsigned i = 0; i < ARENA_PLACES; i++)
        ret_marks[i] = LOAD(page->made[i]);
}

static bool reached(const struct arena_page *page, const uint32_t *marks)
{
    for (unsigned i = 0; i < ARENA_PLACES; i++)
        if ((int32_t)(LOAD(page->done[i]) - marks[i]) < 0)
            return false;
    return true;
}

/* Whether the last segment but one still runs; not for ever, for streams may wait for anything, this thread as well. */
static bool far_ahead(struct lease *lease, uint64_t now_ns)
{
    if (lease->ended) {
        memcpy(lease->older, lease->newer, sizeof(lease->older));
        look_at_marks(lease->page, lease->newer);
        lease->ended = false;
        lease->far = now_ns >= lease->unpaced_until_ns;
        lease->far_since_ns = now_ns;
    }
    if (!lease->far)
        return false;
    if (reached(lease->page, lease->older)) {
        lease->far = false;
    } else if (now_ns - lease->far_since_ns > PACED_MOST_NS) {
        lease->far = false;
        lease->unpaced_until_ns = now_ns + UNPACED_NS;
    }
    return lease->far;
}

/* Now and then a mark, to see how far the device has got. */
static void pace(struct lease *lease, uint64_t cost_ns, struct lease_ticket *ticket)
{
    if (lease->segment_ns >= lease->ahead_ns / 2) {
        lease->segment_ns = 0;
        lease->ended = true;
        ticket->marks = true;
    }
    lease->segment_ns += cost_ns;
}

/* Launches go to the device, as far as it keeps up. */
static void pass(struct lease *lease, uint64_t cost_ns, uint64_t now_ns, struct lease_ticket *ticket)
{
    struct arena_page *page = lease->page;

    ticket->ahead = far_ahead(lease, now_ns);
    if (ticket->ahead)
        return;
    pace(lease, cost_ns, ticket);
    lease->submitted_ns += cost_ns;
    atomic_fetch_add_explicit(&page->passed, 1, memory_order_relaxed);
    STORE(page->busy_until_ns, busy_until_ns(page, now_ns) + cost_ns);
    turns_open(page, LOAD(lease->gated));
}

/* Marks */

void lease_launched(struct lease *lease, uint32_t turn)
{
    struct arena_page *page = lease->page;

    if (!lease_open(lease, turn))
        atomic_store(&page->gated_unmarked, 1);
    /* The gate may have been opened just now, by somebody who saw no launch. */
    if (lease_open(lease, turn))
        atomic_fetch_or(&page->unmarked, UNMARKED);
    /* The marks of a turn that it has left are made by now. */
    if (LOAD(page->unmarked) & MARKING)
        atomic_fetch_and(&page->unmarked, ~MARKING);
}

void lease_marks(struct lease *lease)
{
    struct arena_page *page = lease->page;

    atomic_fetch_and(&page->unmarked, ~UNMARKED);
    atomic_store(&page->gated_unmarked, 0);
}

uint32_t lease_mark(struct lease *lease, unsigned place, uint32_t turn)
{
    struct arena_page *page = lease->page;
    uint32_t mark = LOAD(page->made[place]) + 1;

    atomic_store(&page->made[place], mark);
    if (lease_open(lease, turn))
        STORE(page->must[place], mark);
    return mark;
}

void lease_unmark(struct lease *lease, unsigned place)
{
    struct arena_page *page = lease->page;
    uint32_t done = LOAD(page->done[place]);

    STORE(page->made[place], done);
    STORE(page->must[place], done);
    lease->older[place] = lease->newer[place] = lease->probe[place] = done;
}

/* Standing at the gate */

/* A thread stands still until the gate opens. */
static void press(struct lease *lease, uint64_t now_ns)
{
    uint32_t word;

    if (!arena_lock(lease->arena, lease->index, &word))
        return;
    turns_press(lease->arena, lease->tenant, now_ns - lease->paused_ns < PAUSED_NS, now_ns);
    arena_unlock(lease->arena, word);
}

static void stand_at_gate(struct lease *lease, uint64_t cost_ns, uint64_t now_ns, struct lease_ticket *ticket)
{
    struct arena_page *page = lease->page;
    uint32_t gated = LOAD(lease->gated), launches;

    if (lease_open(lease, gated)) {
        STORE(page->open, gated); /* which it is, unless somebody has written nonsense */
        lease->ahead_ns = policy_ahead_ns(lease->arena->layout, lease->tenant);
        STORE(page->backlog, 0);
        STORE(page->backlog_ns, 0);
        STORE(lease->gated, ++gated);
        STORE(page->filling, gated);
        ticket->marks = ticket->marks || LOAD(page->unmarked);
    }
    atomic_fetch_add_explicit(&page->backlog, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&page->backlog_ns, cost_ns, memory_order_relaxed);
    if (!lease_waiting(lease, lease->tenant) && !lease_wants(lease, lease->tenant, now_ns))
        turns_open(page, gated);
    ticket->turn = gated;
    ticket->gated = !lease_open(lease, gated);
    launches = LOAD(page->backlog);
    ticket->full = launches > LEASE_GATED_MOST || LOAD(page->backlog_ns) > lease->ahead_ns;
    if (ticket->gated && (ticket->full || launches == NEARLY_MOST))
        press(lease, now_ns);
}

/* What a tenant's native time is to end with: its marks of then are asked for, or have been reached, or will not be. */
static void end_native(struct lease *lease, uint64_t now_ns, struct lease_ticket *ticket)
{
    struct arena_tenant *self = &lease->arena->layout->tenant[lease->tenant];

    if (turns_drained(lease->page) || (lease->probing && reached(lease->page, lease->probe))) {
        STORE(self->native_until_ns, 0);
        lease->probing = false;
    } else if (!lease->probing) {
        STORE(self->native_until_ns, now_ns + PROBE_NS);
        lease->probes = lease->probing = true;
        ticket->marks = true;
    } else {
        turns_set_native(lease->arena, lease->tenant, now_ns);
    }
}

/*
 * A tenant that was taken off turns comes back when the work of that time is over: it would hold the others up again.
 * Marks tell, made when the time is up.
 */
static bool stays_native(struct lease *lease, uint64_t now_ns, struct lease_ticket *ticket)
{
    struct arena_tenant *self = &lease->arena->layout->tenant[lease->tenant];
    uint64_t until_ns = LOAD(self->native_until_ns);
    uint32_t word;

    if (LOAD(lease->native_until_ns) > now_ns)
        return true;
    if (until_ns == 0)
        return false;
    if (lease->probes) {
        lease->probes = false;
        look_at_marks(lease->page, lease->probe);
    }
    if (turns_native(lease->arena->layout, lease->tenant, now_ns) &&
        !(lease->probing && reached(lease->page, lease->probe)))
        return true;
    if (!arena_lock(lease->arena, lease->index, &word))
        return true;
    end_native(lease, now_ns, ticket);
    arena_unlock(lease->arena, word);
    return LOAD(self->native_until_ns) != 0;
}

/*
 * A program that launching keeps busy, and that needs little of the device, is light: its short kernels run between
 * and beside those of others at hardly any cost, as the driver shares (measured on an H200: training 0.96 of alone and
 * matrix products 0.98, where turns gave 0.87 and 0.96). Waiting for turns it would only be held up where it waits for
 * its own results. By the last spell: many launches, few waits, little time.
 */
static void reckon(struct lease *lease, uint64_t cost_ns, uint64_t now_ns)
{
    uint64_t spell_ns = now_ns - lease->spell_since_ns;

    if (spell_ns >= SPELL_NS) {
        bool light = spell_ns < 2 * SPELL_NS && lease->spell_launches >= LIGHT_LAUNCHES &&
                     lease->spell_waits <= lease->spell_launches / LIGHT_WAITS &&
                     lease->spell_cost_ns < spell_ns / 100 * LIGHT_PERCENT;

        lease->light_until_ns = light ? now_ns + SPELL_NS + SPELL_NS / 2 : 0;
        lease->spell_since_ns = now_ns;
        lease->spell_cost_ns = 0;
        lease->spell_launches = lease->spell_waits = 0;
    }
    lease->spell_cost_ns += cost_ns;
    lease->spell_launches++;
}

/* Nothing of a light program waits, and nobody waits for it. */
static void step_aside(struct lease *lease, uint64_t now_ns)
{
    struct vgpu_arena *arena = lease->arena;
    uint32_t word;

    if (!LOAD(lease->page->wants) && turns_holder(arena->layout) != (int)lease->tenant)
        return;
    if (!arena_lock(arena, lease->index, &word))
        return;
    turns_step_aside(arena, lease->page, lease->tenant, now_ns);
    arena_unlock(arena, word);
}

static void launch(struct lease *lease, uint64_t cost_ns, uint64_t now_ns, struct lease_ticket *ticket)
{
    struct arena_layout *layout = lease->arena->layout;
    struct arena_page *page = lease->page;
    uint32_t turn = LOAD(layout->turn);

    if (turns_holder(layout) == (int)lease->tenant) {
        if (lease->turn != turn)
            new_turn(lease, turn, now_ns);
        if (LOAD(page->left) != turn) {
            if (goes_on(lease, now_ns)) {
                pass(lease, cost_ns, now_ns, ticket);
                return;
            }
            atomic_fetch_or(&page->unmarked, MARKING);
            STORE(page->left, turn);
            ticket->marks = true;
        }
    }
    stand_at_gate(lease, cost_ns, now_ns, ticket);
}

void lease_launch(struct lease *lease, uint64_t cost_ns, uint64_t now_ns, struct lease_ticket *ret_ticket)
{
    *ret_ticket = (struct lease_ticket){.turn = LOAD(lease->gated)};
    lease->burst_ns += cost_ns;
    reckon(lease, cost_ns, now_ns);
    if (lease->tenant >= ARENA_TENANTS || stays_native(lease, now_ns, ret_ticket)) {
        turns_open(lease->page, ret_ticket->turn);
    } else if (now_ns < lease->light_until_ns && policy_lets_beside(lease->arena->layout, lease->tenant)) {
        step_aside(lease, now_ns);
        turns_open(lease->page, ret_ticket->turn);
    } else {
        launch(lease, cost_ns, now_ns, ret_ticket);
    }
    if (!ret_ticket->ahead)
        atomic_fetch_add_explicit(&lease->page->launches, 1, memory_order_relaxed);
}

uint64_t lease_left_ns(const struct lease *lease, uint64_t now_ns)
{
    if (!lease_open(lease, LOAD(lease->gated)))
        return LOAD(lease->page->backlog_ns);
    return busy_until_ns(lease->page, now_ns) - now_ns;
}

void lease_waits(struct lease *lease)
{
    lease->waited = true;
    lease->spell_waits++;
    if (lease->burst_ns > 0)
        STORE(lease->page->burst_ns, lease->burst_ns);
    lease->burst_ns = 0;
    if (lease->tenant < ARENA_TENANTS && !lease_open(lease, LOAD(lease->gated)))
        press(lease, clock_ns());
}

void lease_pauses(struct lease *lease, bool pausing, uint64_t now_ns)
{
    STORE(lease->page->pausing, pausing);
    lease->paused_ns = now_ns;
}

void lease_take_counts(struct lease *lease, uint64_t *ret_turns, uint64_t *ret_waited_ns)
{
    uint64_t turns = LOAD(lease->page->turns), waited_ns = LOAD(lease->page->waited_ns);

    *ret_turns = turns - lease->told_turns;
    *ret_waited_ns = waited_ns - lease->told_waited_ns;
    /* Since a moment ago: more is nonsense. */
    if (*ret_turns > COUNT_MOST || *ret_waited_ns > COUNT_MOST * POLICY_MIN_NS)
        *ret_turns = *ret_waited_ns = 0;
    lease->told_turns = turns;
    lease->told_waited_ns = waited_ns;
}
