#include "core/outside.h"

#include "core/lease_internal.h"

#define GRANTED_NS   20000000ULL /* within this, who was given a turn is expected to say that it goes on */
#define BEYOND_NS    10000000ULL /* the end of a turn, for switching off */
#define AGAIN_NS     1000000ULL
#define SOON_NS      20000ULL
#define SPAN_NS      1000000000ULL /* no turn began longer ago: what says so is nonsense, or nobody waited */
#define NATIVE_SHIFT 5u

int outside_join(struct vgpu_arena *arena, const struct lease_self *self, struct outside *ret_outside)
{
    struct lease lease;
    int rc = lease_join(arena, self, &lease);

    if (rc == 0)
        *ret_outside = (struct outside){.lease = lease};
    return rc;
}

static bool is_mine(const struct outside *outside)
{
    const struct arena_layout *layout = outside->lease.arena->layout;

    return turns_holder(layout) == (int)outside->lease.tenant && LOAD(outside->lease.page->left) != LOAD(layout->turn);
}

/* The gate, which nothing but outside_step() looks at. */

static bool is_open(const struct outside *outside)
{
    return lease_open(&outside->lease, LOAD(outside->lease.gated));
}

/* Whoever grants the turn opens it, and says for the time being that there is work on the device. */
static void close_gate(struct outside *outside)
{
    struct lease *lease = &outside->lease;
    uint32_t gated = LOAD(lease->page->open) + 1;

    STORE(lease->gated, gated);
    STORE(lease->page->filling, gated);
    STORE(lease->page->backlog_ns, GRANTED_NS);
    STORE(lease->page->gated_unmarked, 1);
}

static void tell_idle(struct outside *outside)
{
    struct arena_page *page = outside->lease.page;

    STORE(page->gated_unmarked, 0);
    STORE(page->unmarked, 0);
}

static void tell_busy(struct outside *outside, uint64_t until_ns)
{
    struct arena_page *page = outside->lease.page;

    STORE(page->unknown, 0); /* whatever it is, it can be stopped */
    STORE(page->busy_until_ns, until_ns);
    STORE(page->unmarked, UNMARKED);
}

/* Not to wait any more, for whatever reason. */
static void let_go(struct outside *outside)
{
    outside->waiting_ns = 0;
    STORE(outside->lease.page->wants, 0);
    turns_open(outside->lease.page, LOAD(outside->lease.gated));
}

/* Under the arena's lock. It does not take part, and the device is somebody else's. */
static void step_aside(struct outside *outside, uint64_t now_ns)
{
    struct lease *lease = &outside->lease;

    let_go(outside);
    tell_idle(outside);
    if (turns_holder(lease->arena->layout) == (int)lease->tenant)
        turns_next(lease->arena, turns_end(lease->arena->layout, now_ns), false, now_ns);
}

/* Under the arena's lock. */
static void begin_to_wait(struct outside *outside, uint64_t now_ns)
{
    struct lease *lease = &outside->lease;

    outside->waiting_ns = now_ns;
    tell_idle(outside);
    close_gate(outside);
    turns_want(lease->arena, lease->page, lease->tenant, now_ns);
}

void outside_leave(struct outside *outside, bool wants, uint64_t now_ns)
{
    struct lease *lease = &outside->lease;
    struct arena_layout *layout = lease->arena->layout;
    uint32_t turn = LOAD(layout->turn), word;

    if (lease->tenant >= ARENA_TENANTS)
        return;
    if (!arena_lock(lease->arena, lease->index, &word)) {
        /* Whoever waits sees that it has left. */
        tell_idle(outside);
        STORE(lease->page->left, turn);
        return;
    }
    if (wants) {
        if (turns_holder(layout) == (int)lease->tenant)
            STORE(lease->page->left, LOAD(layout->turn));
        begin_to_wait(outside, now_ns);
        if (turns_holder(layout) == (int)lease->tenant && !is_open(outside))
            turns_next(lease->arena, turns_end(layout, now_ns), false, now_ns);
        turns_press(lease->arena, lease->tenant, true, now_ns);
    } else {
        step_aside(outside, now_ns);
    }
    arena_unlock(lease->arena, word);
}

void outside_part(struct outside *outside, uint64_t now_ns)
{
    outside_leave(outside, false, now_ns);
    arena_release(outside->lease.arena, outside->lease.index);
}

void outside_look_around(struct outside *outside, uint64_t now_ns)
{
    struct lease *lease = &outside->lease;
    uint32_t flags = lease_flags(lease);

    outside->others = false;
    for (unsigned i = 0; i < arena_pages_high(lease->arena) && !outside->others; i++) {
        const struct arena_page *page = &lease->arena->layout->page[i];

        outside->others =
            i != lease->index && LOAD(page->used) && LOAD(page->active) && LOAD(page->tenant) != lease->tenant;
    }
    outside->contended = lease->tenant < ARENA_TENANTS && (flags & ARENA_CONTENDED) && !(flags & ARENA_RESUME);
    if (outside->others || outside->contended)
        lease_tidy(lease, now_ns);
}

void outside_active(struct outside *outside, uint64_t now_ns)
{
    struct lease *lease = &outside->lease;

    atomic_fetch_add_explicit(&lease->page->launches, 1, memory_order_relaxed);
    if (lease_flags(lease) & ARENA_RESUME) {
        lease_resume(lease, now_ns);
        outside_look_around(outside, now_ns);
    }
}

/* Turns */

/* The turn is a longer one than the policy gave, unless somebody has said how long turns are, or has cut it already. */
static void lengthen(struct outside *outside, uint64_t now_ns)
{
    struct lease *lease = &outside->lease;
    struct arena_layout *layout = lease->arena->layout;
    uint64_t start_ns, quantum_ns, longer_ns;
    uint32_t word;

    if (LOAD(layout->quantum_us) || !arena_lock(lease->arena, lease->index, &word))
        return;
    start_ns = LOAD(layout->start_ns);
    quantum_ns = policy_quantum_ns(layout, lease->tenant, now_ns);
    longer_ns = quantum_ns * 5 / 4;
    longer_ns = longer_ns < OUTSIDE_TURN_NS ? longer_ns : OUTSIDE_TURN_NS;
    if (is_mine(outside) && start_ns <= now_ns && now_ns - start_ns < SPAN_NS &&
        LOAD(layout->end_ns) == start_ns + quantum_ns)
        STORE(layout->end_ns, start_ns + longer_ns);
    arena_unlock(lease->arena, word);
}

static uint64_t end_of_turn_ns(const struct outside *outside, uint64_t now_ns)
{
    const struct arena_layout *layout = outside->lease.arena->layout;
    uint64_t start_ns = LOAD(layout->start_ns), end_ns = turns_end_ns(layout, now_ns);

    if (!LOAD(layout->quantum_us) && start_ns <= now_ns && now_ns - start_ns < OUTSIDE_LEAST_NS &&
        end_ns < start_ns + OUTSIDE_LEAST_NS)
        end_ns = start_ns + OUTSIDE_LEAST_NS;
    return end_ns;
}

static bool renew(struct outside *outside, uint64_t now_ns)
{
    struct lease *lease = &outside->lease;
    uint32_t turn = LOAD(lease->arena->layout->turn), word;
    bool again = false;

    if (!arena_lock(lease->arena, lease->index, &word))
        return false;
    if (is_mine(outside) && LOAD(lease->arena->layout->turn) == turn)
        again = turns_renew(lease->arena, lease->tenant, now_ns, now_ns);
    arena_unlock(lease->arena, word);
    return again;
}

/* It has the device. */
static enum outside_word hold(struct outside *outside, enum outside_demand demand, uint64_t now_ns,
                              uint64_t *ret_again_ns)
{
    const struct arena_layout *layout = outside->lease.arena->layout;
    uint64_t end_ns;

    outside->waiting_ns = 0;
    outside->natives = 0;
    turns_open(outside->lease.page, LOAD(outside->lease.gated));
    if (outside->turn != LOAD(layout->turn)) {
        outside->turn = LOAD(layout->turn);
        lengthen(outside, now_ns);
    }
    if (demand != OUTSIDE_BUSY) {
        tell_idle(outside);
        if (LOAD(layout->waiting) == 0)
            return OUTSIDE_RUNS;
        outside_leave(outside, false, now_ns);
        return OUTSIDE_RUNS;
    }
    end_ns = end_of_turn_ns(outside, now_ns);
    tell_busy(outside, (end_ns > now_ns ? end_ns : now_ns) + BEYOND_NS);
    if (LOAD(layout->waiting) == 0)
        return OUTSIDE_RUNS;
    if (now_ns < end_ns)
        *ret_again_ns = end_ns - now_ns;
    else if (renew(outside, now_ns))
        *ret_again_ns = SOON_NS;
    else
        return OUTSIDE_ENDS;
    return OUTSIDE_RUNS;
}

/* It has waited for too long: something is wrong with the turns. */
static void go_native(struct outside *outside, uint64_t now_ns)
{
    unsigned shift = outside->natives < NATIVE_SHIFT ? outside->natives : NATIVE_SHIFT;

    outside->natives++;
    outside->native_ns = now_ns + 2 * (OUTSIDE_OFF_MOST_NS << shift);
    outside_leave(outside, false, now_ns);
    let_go(outside);
}

static bool is_native(const struct outside *outside, uint64_t now_ns)
{
    const struct lease *lease = &outside->lease;

    return now_ns < outside->native_ns || now_ns < LOAD(lease->native_until_ns) ||
           turns_native(lease->arena->layout, lease->tenant, now_ns);
}

/* Somebody else has the device, or nobody. */
static enum outside_word wait_for_turn(struct outside *outside, uint64_t now_ns, uint64_t *ret_again_ns)
{
    struct lease *lease = &outside->lease;
    uint64_t since_ns = outside->waiting_ns, left_ns;
    uint32_t word;

    if (since_ns == 0 || is_open(outside)) {
        if (!arena_lock(lease->arena, lease->index, &word)) {
            *ret_again_ns = AGAIN_NS;
            return since_ns == 0 ? OUTSIDE_RUNS : OUTSIDE_WAITS;
        }
        begin_to_wait(outside, now_ns);
        turns_press(lease->arena, lease->tenant, true, now_ns);
        arena_unlock(lease->arena, word);
        /* It was given a turn, and has lost it without having had it. */
        outside->waiting_ns = since_ns ? since_ns : now_ns;
    }
    if (now_ns - outside->waiting_ns >= OUTSIDE_OFF_MOST_NS) {
        go_native(outside, now_ns);
        return OUTSIDE_RUNS;
    }
    left_ns = outside->waiting_ns + OUTSIDE_OFF_MOST_NS - now_ns;
    *ret_again_ns = lease_watch(lease, &outside->observer, now_ns);
    if (*ret_again_ns < SOON_NS)
        *ret_again_ns = SOON_NS;
    if (*ret_again_ns > left_ns)
        *ret_again_ns = left_ns;
    return is_native(outside, now_ns) ? OUTSIDE_RUNS : OUTSIDE_WAITS;
}

/* What others find this tenant by is as it should be. */
static void restore_page(struct outside *outside)
{
    struct lease *lease = &outside->lease;

    if (LOAD(lease->page->tenant) != lease->tenant)
        STORE(lease->page->tenant, lease->tenant);
    if (!LOAD(lease->page->used))
        STORE(lease->page->used, 1);
}

enum outside_word outside_step(struct outside *outside, enum outside_demand demand, uint64_t now_ns,
                               uint64_t *ret_again_ns)
{
    enum outside_word word;

    *ret_again_ns = UINT64_MAX;
    outside_look_around(outside, now_ns);
    if (!outside->contended || is_native(outside, now_ns)) {
        if (outside->waiting_ns)
            let_go(outside);
        if (outside->contended && is_mine(outside))
            outside_leave(outside, false, now_ns);
        return OUTSIDE_RUNS;
    }
    restore_page(outside);
    if (is_mine(outside))
        return hold(outside, demand, now_ns, ret_again_ns);
    if (demand != OUTSIDE_BUSY) {
        if (outside->waiting_ns)
            outside_leave(outside, false, now_ns);
        return OUTSIDE_RUNS;
    }
    word = wait_for_turn(outside, now_ns, ret_again_ns);
    return word == OUTSIDE_WAITS && is_mine(outside) ? hold(outside, demand, now_ns, ret_again_ns) : word;
}
