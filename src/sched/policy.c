#include "sched/policy.h"

#include "sched/tenant.h"

/* What one policy decides. Every member of every row is set; rows are at the end of this part. */
struct policy {
    /* Whether `a` is due before `b`. Both wait. */
    bool (*before)(const struct arena_tenant *a, const struct arena_tenant *b);

    /* How long the next turn of `tenant` is, before bounds that hold for every policy. */
    uint64_t (*quantum_ns)(const struct arena_layout *layout, unsigned tenant);

    /* Whether `a`, a thread of which is blocked until its turn, cuts the turn of `b` short. */
    bool (*urgent)(const struct arena_tenant *a, const struct arena_tenant *b);

    /* Whether `a`, which waits, ends the turn of `b` at once, blocked or not. */
    bool (*preempts)(const struct arena_tenant *a, const struct arena_tenant *b);

    /* How far launches of `tenant` run ahead of the device while nobody waits. */
    uint64_t (*run_ahead_ns)(const struct arena_layout *layout, unsigned tenant);

    /* Whether `tenant`, a light program, may run unscheduled beside the others. */
    bool (*runs_beside)(const struct arena_layout *layout, unsigned tenant);

    /* Whether `tenant` keeps the device after a burst, although others wait. */
    bool (*keeps_after_burst)(const struct arena_layout *layout, unsigned tenant);

    uint64_t starved_ns, starved_turn_ns;
    bool short_turns; /* while an interactive tenant takes part */
};

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)

/* Could be given the device, if it waits. */
static bool eligible(const struct arena_tenant *tenant, uint64_t now_ns)
{
    return !tenant_unscheduled(tenant, now_ns) && !tenant_draining(tenant, now_ns);
}

static bool longer(const struct arena_tenant *a, const struct arena_tenant *b)
{
    return LOAD(a->wanted_ns) < LOAD(b->wanted_ns);
}

static bool behind(const struct arena_tenant *a, const struct arena_tenant *b)
{
    uint64_t a_ns = LOAD(a->virtual_ns), b_ns = LOAD(b->virtual_ns);

    return a_ns < b_ns && b_ns - a_ns > POLICY_EQUAL_NS;
}

static bool fairer(const struct arena_tenant *a, const struct arena_tenant *b)
{
    return behind(a, b) || (!behind(b, a) && longer(a, b));
}

static bool higher(const struct arena_tenant *a, const struct arena_tenant *b)
{
    uint32_t of_a = LOAD(a->priority), of_b = LOAD(b->priority);

    return of_a != of_b ? of_a > of_b : fairer(a, b);
}

static bool fresher(const struct arena_tenant *a, const struct arena_tenant *b)
{
    uint32_t of_a = LOAD(a->level), of_b = LOAD(b->level);

    return of_a != of_b ? of_a < of_b : longer(a, b);
}

static bool higher_priority(const struct arena_tenant *a, const struct arena_tenant *b)
{
    return LOAD(a->priority) > LOAD(b->priority);
}

static bool fresher_by_level(const struct arena_tenant *a, const struct arena_tenant *b)
{
    return LOAD(a->level) < LOAD(b->level);
}

static bool never(const struct arena_tenant *a, const struct arena_tenant *b)
{
    (void)a;
    (void)b;
    return false;
}

/* How many tenants take part now: those that wait, and the one that holds. */
static unsigned taking_part(const struct arena_layout *layout)
{
    unsigned count = 0, holder = LOAD(layout->holder);

    for (unsigned i = 0; i < ARENA_TENANTS; i++)
        count += tenant_waits(&layout->tenant[i]) || i + 1 == holder;
    return count > 0 ? count : 1;
}

/* The level of a tenant that has used a turn up. */
static uint32_t level_below(uint32_t level)
{
    return level + 1 < POLICY_LEVELS ? level + 1 : POLICY_LEVELS - 1;
}

static uint64_t less_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool interactive(const struct arena_tenant *tenant)
{
    return LOAD(tenant->level) < POLICY_INTERACTIVE_LEVELS;
}

/* A short turn of `self`, while `other` waits. */
static uint64_t short_turn_ns(const struct arena_tenant *self, const struct arena_tenant *other)
{
    uint64_t turn_ns = POLICY_SHORT_TURN_NS * policy_weight(self) / policy_weight(other);

    return turn_ns < POLICY_MIN_NS ? POLICY_MIN_NS : turn_ns;
}

static bool always(const struct arena_layout *layout, unsigned tenant)
{
    (void)layout;
    (void)tenant;
    return true;
}

static bool yields_after_burst(const struct arena_layout *layout, unsigned tenant)
{
    (void)layout;
    (void)tenant;
    return false;
}

static uint64_t even_run_ahead_ns(const struct arena_layout *layout, unsigned tenant)
{
    (void)layout;
    (void)tenant;
    return POLICY_AHEAD_NS;
}

static uint64_t even_quantum_ns(const struct arena_layout *layout, unsigned tenant)
{
    uint64_t share = POLICY_CYCLE_NS / taking_part(layout);

    (void)tenant;
    return share < POLICY_QUANTUM_NS ? share : POLICY_QUANTUM_NS;
}

/* Priorities */

static bool below_another(const struct arena_layout *layout, unsigned tenant)
{
    for (unsigned i = 0; i < ARENA_TENANTS; i++) {
        const struct arena_tenant *other = &layout->tenant[i];

        if (LOAD(other->id) && higher_priority(other, &layout->tenant[tenant]))
            return true;
    }
    return false;
}

static bool below_none(const struct arena_layout *layout, unsigned tenant)
{
    return !below_another(layout, tenant);
}

static bool above_all_that_wait(const struct arena_layout *layout, unsigned tenant)
{
    for (unsigned i = 0; i < ARENA_TENANTS; i++)
        if (i != tenant && tenant_waits(&layout->tenant[i]) &&
            !higher_priority(&layout->tenant[tenant], &layout->tenant[i]))
            return false;
    return true;
}

static uint64_t priority_run_ahead_ns(const struct arena_layout *layout, unsigned tenant)
{
    return below_another(layout, tenant) ? POLICY_AHEAD_LOW_PRIORITY_NS : POLICY_AHEAD_NS;
}

/* Turns are short below the highest priority of the arena. */
static uint64_t priority_quantum_ns(const struct arena_layout *layout, unsigned tenant)
{
    return below_another(layout, tenant) ? POLICY_LOW_PRIORITY_TURN_NS
                                         : even_quantum_ns(layout, tenant);
}

static uint64_t mlfq_quantum_ns(const struct arena_layout *layout, unsigned tenant)
{
    uint32_t level = LOAD(layout->tenant[tenant].level);

    return POLICY_LEVEL_BASE_NS << (level < POLICY_LEVELS ? level : POLICY_LEVELS - 1);
}

/* Turns are longer than the even ones; beside interactive tenants they are short all the same. */
static uint64_t adaptive_quantum_ns(const struct arena_layout *layout, unsigned tenant)
{
    uint64_t share = 2 * POLICY_CYCLE_NS / taking_part(layout);

    (void)tenant;
    return share < POLICY_MAX_NS ? share : POLICY_MAX_NS;
}

/* What the policies without priorities and levels have in common. */
#define EVEN                                                                                       \
    .preempts = never, .run_ahead_ns = even_run_ahead_ns, .runs_beside = always,                   \
    .keeps_after_burst = yields_after_burst, .starved_ns = POLICY_STARVED_NS,                      \
    .starved_turn_ns = POLICY_MIN_NS

static const struct policy policy_FAIR = {
    EVEN, .before = fairer, .quantum_ns = even_quantum_ns, .urgent = behind, .short_turns = true,
};

static const struct policy policy_ADAPTIVE = {
    EVEN,
    .before = fairer,
    .quantum_ns = adaptive_quantum_ns,
    .urgent = behind,
    .short_turns = true,
};

static const struct policy policy_RR = {
    EVEN, .before = longer, .quantum_ns = even_quantum_ns, .urgent = never, .short_turns = false,
};

static const struct policy policy_PRIORITY = {
    .before = higher,
    .quantum_ns = priority_quantum_ns,
    .urgent = never,
    .preempts = higher_priority,
    .run_ahead_ns = priority_run_ahead_ns,
    .runs_beside = below_none,
    .keeps_after_burst = above_all_that_wait,
    .starved_ns = POLICY_STARVED_NS,
    .starved_turn_ns = POLICY_AGED_TURN_NS,
    .short_turns = true,
};

static const struct policy policy_MLFQ = {
    .before = fresher,
    .quantum_ns = mlfq_quantum_ns,
    .urgent = fresher_by_level,
    .preempts = never,
    .run_ahead_ns = even_run_ahead_ns,
    .runs_beside = always,
    .keeps_after_burst = yields_after_burst,
    .starved_ns = POLICY_AGED_NS,
    .starved_turn_ns = POLICY_LEVEL_BASE_NS,
    .short_turns = false,
};

/* The order and the names are the list's: a policy of the list that has no row does not compile. */
static const struct policy *const policies[VGPU_TURN_POLICIES] = {
#define TURN_POLICY(id, name, meaning) [VGPU_TURN_##id] = &policy_##id,
#include "policies.def"
};

static const struct policy *policy_of(const struct arena_layout *layout)
{
    uint32_t which = LOAD(layout->policy);

    return policies[which < VGPU_TURN_POLICIES ? which : VGPU_TURN_FAIR];
}

/* The longest turn beside the interactive tenants that take part; UINT64_MAX: there are none. */
static uint64_t beside_interactive_ns(const struct arena_layout *layout, unsigned tenant)
{
    uint64_t most_ns = UINT64_MAX;
    unsigned holder = LOAD(layout->holder);

    if (!policy_of(layout)->short_turns)
        return most_ns;

    for (unsigned i = 0; i < ARENA_TENANTS; i++) {
        const struct arena_tenant *other = &layout->tenant[i];

        if (i != tenant && interactive(other) && (tenant_waits(other) || i + 1 == holder)) {
            uint64_t turn_ns = short_turn_ns(&layout->tenant[tenant], other);

            most_ns = less_of(turn_ns, most_ns);
        }
    }
    return most_ns;
}

/* Until the end of the slot, or of the next one where this one is about to end. */
static uint64_t slot_left_ns(uint64_t now_ns)
{
    uint64_t left_ns = POLICY_SLOT_NS - now_ns % POLICY_SLOT_NS;

    return left_ns < POLICY_MIN_NS ? left_ns + POLICY_SLOT_NS : left_ns;
}

static bool starved(const struct policy *policy, const struct arena_tenant *tenant, uint64_t now_ns)
{
    uint64_t wanted_ns = LOAD(tenant->wanted_ns);

    return tenant_waits(tenant) && now_ns > wanted_ns && now_ns - wanted_ns >= policy->starved_ns;
}

bool policy_starved(const struct arena_layout *layout, unsigned tenant, uint64_t now_ns)
{
    return starved(policy_of(layout), &layout->tenant[tenant], now_ns);
}

static bool due_before(const struct policy *policy, const struct arena_tenant *a,
                       const struct arena_tenant *b, uint64_t now_ns)
{
    bool a_starved = starved(policy, a, now_ns), b_starved = starved(policy, b, now_ns);

    if (a_starved != b_starved)
        return a_starved;
    return a_starved ? longer(a, b) : policy->before(a, b);
}

int policy_pick(const struct arena_layout *layout, int except, uint64_t now_ns)
{
    const struct policy *policy = policy_of(layout);
    int owner = policy_gang(layout) ? policy_slot_owner(layout, now_ns) : -1, best = -1;

    if (owner >= 0 && tenant_waits(&layout->tenant[owner]) &&
        eligible(&layout->tenant[owner], now_ns))
        return owner;
    if (owner >= 0 && LOAD(layout->free_slot) != now_ns / POLICY_SLOT_NS)
        return -1;
    for (int i = 0; i < ARENA_TENANTS; i++) {
        const struct arena_tenant *tenant = &layout->tenant[i];

        if (i == except || !tenant_waits(tenant) || !eligible(tenant, now_ns))
            continue;
        if (best < 0 || due_before(policy, tenant, &layout->tenant[best], now_ns))
            best = i;
    }
    return best < 0 && except >= 0 && tenant_waits(&layout->tenant[except]) ? except : best;
}

uint64_t policy_quantum_ns(const struct arena_layout *layout, unsigned tenant, uint64_t now_ns)
{
    const struct policy *policy = policy_of(layout);
    uint32_t given_us = LOAD(layout->quantum_us);
    uint64_t quantum = given_us ? given_us * 1000ULL : policy->quantum_ns(layout, tenant);

    if (policy_gang(layout))
        return slot_left_ns(now_ns);
    if (!given_us)
        quantum = less_of(quantum, beside_interactive_ns(layout, tenant));
    /* A tenant that goes first only because it would starve has no claim to a whole turn. */
    if (starved(policy, &layout->tenant[tenant], now_ns))
        quantum = policy->starved_turn_ns;
    return quantum < POLICY_MIN_NS   ? POLICY_MIN_NS
           : quantum > POLICY_MAX_NS ? POLICY_MAX_NS
                                     : quantum;
}

static uint64_t weighted_ns(const struct arena_tenant *tenant, uint64_t held_ns)
{
    return held_ns * VGPU_WEIGHT_DEFAULT / policy_weight(tenant);
}

bool policy_due_again(struct arena_layout *layout, unsigned tenant, uint64_t held_ns,
                      uint64_t now_ns)
{
    struct arena_tenant *self = &layout->tenant[tenant];
    uint64_t virtual_ns = LOAD(self->virtual_ns), wanted_ns = LOAD(self->wanted_ns);
    uint64_t short_ns = beside_interactive_ns(layout, tenant);
    uint32_t level = LOAD(self->level);
    bool due;

    if (short_ns != UINT64_MAX && held_ns < short_ns)
        held_ns = short_ns;
    self->virtual_ns += weighted_ns(self, held_ns);
    self->level = level_below(level);
    self->wanted_ns = now_ns;
    due = policy_pick(layout, -1, now_ns) == (int)tenant;
    self->virtual_ns = virtual_ns;
    self->level = level;
    self->wanted_ns = wanted_ns;
    return due;
}

uint64_t policy_preempts_ns(const struct arena_layout *layout, unsigned tenant, unsigned holder,
                            uint64_t now_ns)
{
    const struct arena_tenant *self = &layout->tenant[tenant], *other = &layout->tenant[holder];
    const struct policy *policy = policy_of(layout);
    uint64_t start_ns = LOAD(layout->start_ns);
    uint32_t blocked = LOAD(self->blocked);
    uint64_t least_ns = blocked == ARENA_BLOCKED_BY_CAP ? POLICY_CUT_CAPPED_NS : POLICY_CUT_NS;

    if (!eligible(self, now_ns))
        return UINT64_MAX;
    if (policy_gang(layout))
        return policy_slot_owner(layout, now_ns) == (int)tenant ? now_ns : UINT64_MAX;
    if (policy->preempts(self, other))
        return now_ns;
    if (!blocked)
        return UINT64_MAX;
    if (!policy->urgent(self, other)) {
        if (!policy->short_turns || !interactive(self))
            return UINT64_MAX;
        least_ns = short_turn_ns(other, self);
    }
    return start_ns < now_ns && now_ns - start_ns >= least_ns ? now_ns : start_ns + least_ns;
}

uint64_t policy_ahead_ns(const struct arena_layout *layout, unsigned tenant)
{
    if (policy_gang(layout))
        return POLICY_GANG_AHEAD_NS;
    return less_of(policy_of(layout)->run_ahead_ns(layout, tenant),
                   beside_interactive_ns(layout, tenant));
}

bool policy_lets_beside(const struct arena_layout *layout, unsigned tenant)
{
    return policy_of(layout)->runs_beside(layout, tenant);
}

uint64_t policy_grace_ns(const struct arena_layout *layout, unsigned tenant, uint64_t burst_ns)
{
    uint64_t grace_ns = LOAD(layout->tenant[tenant].grace_ns);

    if (policy_gang(layout))
        return POLICY_GANG_GRACE_NS;
    if (burst_ns >= POLICY_BURST_NS && !policy_of(layout)->keeps_after_burst(layout, tenant))
        return POLICY_QUICK_NS;
    return grace_ns < POLICY_GRACE_NS        ? POLICY_GRACE_NS
           : grace_ns > POLICY_GRACE_MOST_NS ? POLICY_GRACE_MOST_NS
                                             : grace_ns;
}

bool policy_ends_with_burst(const struct arena_layout *layout, unsigned tenant, uint64_t burst_ns)
{
    return burst_ns >= POLICY_BURST_NS && policy_of(layout)->short_turns &&
           interactive(&layout->tenant[tenant]) &&
           !policy_of(layout)->keeps_after_burst(layout, tenant);
}

void policy_yields(struct arena_layout *layout, unsigned tenant, uint64_t now_ns)
{
    if (!LOAD(layout->tenant[tenant].wanted_ns))
        layout->tenant[tenant].yielded_ns = now_ns;
}

void policy_comes_back(struct arena_layout *layout, unsigned tenant, uint64_t now_ns)
{
    struct arena_tenant *self = &layout->tenant[tenant];
    uint64_t grace_ns = policy_grace_ns(layout, tenant, 0), yielded_ns = LOAD(self->yielded_ns);
    uint64_t away_ns = now_ns - yielded_ns;

    if (!yielded_ns)
        return;
    self->yielded_ns = 0;
    grace_ns = away_ns <= POLICY_GRACE_MOST_NS - grace_ns ? 2 * grace_ns : grace_ns / 2;
    atomic_store_explicit(&self->grace_ns, grace_ns, memory_order_relaxed);
}

/* The least and the most virtual time of the other tenants that wait or have the device. False:
 * there are none. */
static bool others(const struct arena_layout *layout, unsigned tenant, uint64_t *ret_least_ns,
                   uint64_t *ret_most_ns)
{
    unsigned holder = LOAD(layout->holder);
    uint64_t least_ns = UINT64_MAX, most_ns = 0;

    for (unsigned i = 0; i < ARENA_TENANTS; i++) {
        const struct arena_tenant *other = &layout->tenant[i];
        uint64_t virtual_ns;

        if (i == tenant || (!tenant_waits(other) && i + 1 != holder))
            continue;
        virtual_ns = LOAD(other->virtual_ns);
        least_ns = virtual_ns < least_ns ? virtual_ns : least_ns;
        most_ns = virtual_ns > most_ns ? virtual_ns : most_ns;
    }
    *ret_least_ns = least_ns;
    *ret_most_ns = most_ns;
    return least_ns != UINT64_MAX;
}

static void keep_within(struct arena_tenant *self, uint64_t low_ns, uint64_t high_ns)
{
    uint64_t virtual_ns = LOAD(self->virtual_ns);

    if (virtual_ns < low_ns)
        self->virtual_ns = low_ns;
    else if (virtual_ns > high_ns)
        self->virtual_ns = high_ns;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t more(uint64_t a, uint64_t b)
{
    return a + b >= a ? a + b : UINT64_MAX;
}

void policy_wants(struct arena_layout *layout, unsigned tenant)
{
    struct arena_tenant *self = &layout->tenant[tenant];
    uint64_t had_ns = LOAD(self->lag_ns),
             lag_ns = had_ns < POLICY_LAG_MOST_NS ? had_ns : POLICY_LAG_MOST_NS, least_ns, most_ns;

    /* The holder is not charged for its present turn yet. */
    if (tenant + 1 != LOAD(layout->holder) && others(layout, tenant, &least_ns, &most_ns))
        keep_within(self, less(least_ns, lag_ns + weighted_ns(self, POLICY_CREDIT_NS)),
                    more(most_ns, weighted_ns(self, POLICY_DEBT_NS)));
}

void policy_returns(struct arena_layout *layout, unsigned tenant)
{
    struct arena_tenant *self = &layout->tenant[tenant];
    uint64_t credit_ns = weighted_ns(self, POLICY_CREDIT_NS), least_ns, most_ns;

    self->lag_ns = 0;
    self->level = 0;
    if (others(layout, tenant, &least_ns, &most_ns))
        keep_within(self, less(least_ns, credit_ns), more(most_ns, credit_ns));
}

/*
 * A burst of at least POLICY_BURST_NS is charged as a whole short turn. So bursts of two programs
 * alternate. Charged by its length, the shorter one would now and then come twice in a row, which
 * the other program would see in its 99th percentile.
 */
void policy_held(struct arena_layout *layout, unsigned tenant, uint64_t held_ns,
                 enum policy_end end)
{
    struct arena_tenant *self = &layout->tenant[tenant];
    bool spent = end == POLICY_SPENT,
         burst = !spent && held_ns >= POLICY_BURST_NS && held_ns < POLICY_SHORT_TURN_NS;
    uint64_t charged_ns = burst && policy_of(layout)->short_turns ? POLICY_SHORT_TURN_NS : held_ns;
    uint64_t virtual_ns = LOAD(self->virtual_ns) + weighted_ns(self, charged_ns), least_ns, most_ns;
    uint32_t level = LOAD(self->level);

    self->held_ns += held_ns;
    self->virtual_ns = virtual_ns;
    self->lag_ns =
        spent && others(layout, tenant, &least_ns, &most_ns) ? less(least_ns, virtual_ns) : 0;
    if (end != POLICY_YIELDED)
        self->level = level_below(level);
    else
        self->level = level > 0 ? level - 1 : 0;
}
