/*
 * Transitions of an arena, under its lock (STATES.md).
 */
#include "sched/sched.h"

#include <string.h>

bool sched_drained(const struct arena_page *page)
{
    if (LOAD(page->unfenced))
        return false;
    for (unsigned i = 0; i < ARENA_STREAMS; i++)
        if ((int32_t)(LOAD(page->fence_completed[i]) - LOAD(page->fence_required[i])) < 0)
            return false;
    return true;
}

bool sched_idle(const struct arena_page *page, uint64_t now_ns)
{
    return sched_drained(page) ||
           (LOAD(page->unfenced) && now_ns > LOAD(page->busy_until_ns) + SCHED_QUIET_NS);
}

void sched_open(struct arena_page *page, uint32_t turn)
{
    if ((int32_t)(turn - LOAD(page->granted_turn)) > 0) {
        STORE(page->granted_turn, turn);
        futex_wake(&page->granted_turn, INT32_MAX, 1);
    }
}

uint64_t sched_end_ns(const struct arena_layout *layout, uint64_t now_ns)
{
    uint64_t end_ns = LOAD(layout->end_ns);

    return end_ns <= now_ns + POLICY_MAX_NS ? end_ns : now_ns;
}

static void add_relaxed(_Atomic uint64_t *word, uint64_t value)
{
    atomic_fetch_add_explicit(word, value, memory_order_relaxed);
}

/* Fences of work at the semaphore belong to the open turn now. */
static void take_fences(struct arena_page *page)
{
    for (unsigned i = 0; i < ARENA_STREAMS; i++)
        STORE(page->fence_required[i], LOAD(page->fence_issued[i]));
    if (atomic_exchange(&page->queued_unfenced, 0))
        atomic_fetch_or(&page->unfenced, UNFENCED);
}

/* Opens the page's semaphore: its turn has come. */
static void open_page(struct arena_page *page, uint64_t waited_ns, uint64_t now_ns)
{
    if (LOAD(page->runnable)) {
        STORE(page->busy_until_ns, now_ns + LOAD(page->backlog_ns));
        add_relaxed(&page->turns, 1);
        add_relaxed(&page->waited_ns, waited_ns);
        take_fences(page);
        STORE(page->runnable, 0);
    }
    sched_open(page, LOAD(page->pending_turn));
    /* Once more: the process may have made a fence just now and seen the semaphore closed. */
    atomic_thread_fence(memory_order_seq_cst);
    take_fences(page);
}

static void open_pages(struct vgpu_arena *arena, unsigned tenant, uint64_t waited_ns,
                       uint64_t now_ns)
{
    for (unsigned i = 0; i < arena_pages_high(arena); i++)
        if (sched_page_of(&arena->layout->page[i], tenant))
            open_page(&arena->layout->page[i], waited_ns, now_ns);
}

static void count_waiting(struct arena_layout *layout)
{
    unsigned count = 0;

    for (unsigned i = 0; i < ARENA_TENANTS; i++)
        count += LOAD(layout->tenant[i].id) && layout->tenant[i].wanted_ns &&
                 (int)i != sched_holder(layout);
    STORE(layout->waiting, count);
}

/* Wakes the helpers of the tenant that is due next. */
static void tell_next(struct vgpu_arena *arena, uint64_t now_ns)
{
    struct arena_layout *layout = arena->layout;
    int next = policy_pick(layout, sched_holder(layout), now_ns);

    if (LOAD(layout->next) == (uint32_t)(next + 1))
        return;
    STORE(layout->next, (uint32_t)(next + 1));
    if (next < 0)
        return;
    for (unsigned i = 0; i < arena_pages_high(arena); i++)
        if (sched_page_of(&layout->page[i], (unsigned)next) && LOAD(layout->page[i].runnable))
            arena_wake(&layout->page[i]);
}

static void preempt(struct arena_layout *layout, unsigned tenant, uint64_t now_ns)
{
    int holder = sched_holder(layout);
    uint64_t end_ns;

    if (holder < 0 || (int)tenant == holder || LOAD(layout->no_preempt))
        return;
    end_ns = policy_preempts_ns(layout, tenant, (unsigned)holder, now_ns);
    if (LOAD(layout->end_ns) > end_ns)
        STORE(layout->end_ns, end_ns);
}

static void grant(struct vgpu_arena *arena, unsigned tenant, uint64_t now_ns)
{
    struct arena_layout *layout = arena->layout;
    struct arena_tenant *self = &layout->tenant[tenant];
    uint64_t wanted_ns = LOAD(self->wanted_ns),
             waited_ns = wanted_ns && now_ns > wanted_ns ? now_ns - wanted_ns : 0;
    bool kept = policy_starved(layout, tenant, now_ns);

    STORE(layout->start_ns, now_ns);
    STORE(layout->end_ns, now_ns + policy_quantum_ns(layout, tenant, now_ns));
    STORE(layout->no_preempt, kept);
    if (kept)
        self->level = 0;
    self->waited_ns += waited_ns;
    self->wanted_ns = 0;
    self->blocked = 0;
    self->turns += sched_holder(layout) != (int)tenant;
    STORE(layout->turn, LOAD(layout->turn) + 1);
    STORE(layout->holder, tenant + 1);
    for (unsigned i = 0; i < ARENA_TENANTS; i++)
        if (layout->tenant[i].wanted_ns && layout->tenant[i].blocked)
            preempt(layout, i, now_ns);
    open_pages(arena, tenant, waited_ns, now_ns);
    count_waiting(layout);
    tell_next(arena, now_ns);
}

static void charge(struct arena_layout *layout, enum policy_end end, uint64_t now_ns)
{
    uint64_t start_ns = LOAD(layout->start_ns), held_ns = now_ns > start_ns ? now_ns - start_ns : 0;
    int holder = sched_holder(layout);

    if (holder >= 0)
        policy_held(layout, (unsigned)holder,
                    held_ns < SCHED_HELD_MOST_NS ? held_ns : SCHED_HELD_MOST_NS, end);
    STORE(layout->start_ns, now_ns);
}

/* A tenant waits if a page of it does. Pages come and go without notice. */
static void look_who_waits(struct vgpu_arena *arena, uint64_t now_ns)
{
    struct arena_layout *layout = arena->layout;
    bool any[ARENA_TENANTS] = {false};

    for (unsigned i = 0; i < arena_pages_high(arena); i++) {
        const struct arena_page *page = &layout->page[i];
        uint32_t tenant = LOAD(page->tenant);

        if (LOAD(page->used) && LOAD(page->runnable) && tenant < ARENA_TENANTS)
            any[tenant] = true;
    }
    for (unsigned i = 0; i < ARENA_TENANTS; i++) {
        if (!any[i])
            layout->tenant[i].wanted_ns = 0;
        else if (!layout->tenant[i].wanted_ns)
            layout->tenant[i].wanted_ns = now_ns;
    }
}

void sched_next(struct vgpu_arena *arena, enum policy_end end, bool keep, uint64_t now_ns)
{
    struct arena_layout *layout = arena->layout;
    int holder = sched_holder(layout), next;

    charge(layout, end, now_ns);
    look_who_waits(arena, now_ns);
    if (keep && holder >= 0 && policy_due_again(layout, (unsigned)holder, 0, now_ns))
        next = holder;
    else
        next = policy_pick(layout, holder, now_ns);
    if (next >= 0) {
        grant(arena, (unsigned)next, now_ns);
        return;
    }
    STORE(layout->holder, 0);
    STORE(layout->turn, LOAD(layout->turn) + 1);
    STORE(layout->next, 0);
    count_waiting(layout);
}

bool sched_renew(struct vgpu_arena *arena, unsigned tenant, uint64_t until_ns, uint64_t now_ns)
{
    struct arena_layout *layout = arena->layout;
    uint64_t start_ns = LOAD(layout->start_ns);

    if (until_ns < now_ns || until_ns > now_ns + SCHED_HELD_MOST_NS)
        until_ns = now_ns;
    if (policy_due_again(layout, tenant, until_ns > start_ns ? until_ns - start_ns : 0, now_ns)) {
        sched_next(arena, POLICY_SPENT, true, now_ns);
        return sched_holder(layout) == (int)tenant;
    }
    /* Tells the other processes of the tenant, and those that wait. */
    if (LOAD(layout->end_ns) > now_ns)
        STORE(layout->end_ns, now_ns);
    return false;
}

void sched_boost(struct vgpu_arena *arena, unsigned tenant, bool capped, uint64_t now_ns)
{
    struct arena_tenant *self = &arena->layout->tenant[tenant];

    if (!self->wanted_ns)
        return;
    self->blocked = capped ? ARENA_BLOCKED_BY_CAP : ARENA_BLOCKED;
    preempt(arena->layout, tenant, now_ns);
}

/* The holder owes newcomers nothing for the time in which nobody waited. */
static void forgive(struct arena_layout *layout, unsigned holder, uint64_t now_ns)
{
    uint64_t quantum_ns = policy_quantum_ns(layout, holder, now_ns);

    if (LOAD(layout->start_ns) + quantum_ns < now_ns)
        STORE(layout->start_ns, now_ns - quantum_ns);
    if (LOAD(layout->end_ns) < now_ns)
        STORE(layout->end_ns, now_ns);
}

void sched_want(struct vgpu_arena *arena, struct arena_page *page, unsigned tenant, uint64_t now_ns)
{
    struct arena_layout *layout = arena->layout;
    struct arena_tenant *self = &layout->tenant[tenant];
    int holder = sched_holder(layout);

    STORE(page->runnable, 1);
    policy_comes_back(layout, tenant, now_ns);
    if ((int)tenant == holder && LOAD(page->yielded_turn) != LOAD(layout->turn)) {
        open_page(page, 0, now_ns);
        return;
    }
    if (!self->wanted_ns) {
        policy_wants(layout, tenant);
        self->wanted_ns = now_ns;
    }
    if (holder < 0) {
        sched_next(arena, POLICY_YIELDED, false, now_ns);
        return;
    }
    if (LOAD(layout->waiting) == 0 && (int)tenant != holder)
        forgive(layout, (unsigned)holder, now_ns);
    preempt(layout, tenant, now_ns);
    count_waiting(layout);
    tell_next(arena, now_ns);
}

/* Each time is longer, until the tenant has kept to its turns for twice as long as the last one. */
void sched_set_unscheduled(struct vgpu_arena *arena, unsigned tenant, uint64_t now_ns)
{
    struct arena_tenant *self = &arena->layout->tenant[tenant];
    uint32_t had = LOAD(self->unscheduled_count),
             count = had < SCHED_UNSCHEDULED_DOUBLINGS ? had : SCHED_UNSCHEDULED_DOUBLINGS;
    uint64_t last_ns = LOAD(self->unscheduled_last_ns), until_ns;

    if (now_ns > last_ns && now_ns - last_ns > 2 * (SCHED_UNSCHEDULED_NS << count))
        count = 0;
    until_ns = now_ns + (SCHED_UNSCHEDULED_NS << count);
    self->unscheduled_last_ns = until_ns;
    self->unscheduled_count = count + 1;
    STORE(self->unscheduled_until_ns, until_ns);
    self->wanted_ns = 0;
    open_pages(arena, tenant, 0, now_ns);
}

void sched_known(struct vgpu_arena *arena, unsigned tenant)
{
    arena->layout->tenant[tenant].untimed_overruns = 0;
    for (unsigned i = 0; i < arena_pages_high(arena); i++)
        if (sched_page_of(&arena->layout->page[i], tenant))
            STORE(arena->layout->page[i].untimed, 0);
}

void sched_drain(struct vgpu_arena *arena, unsigned tenant, uint64_t until_ns, uint64_t now_ns)
{
    struct arena_layout *layout = arena->layout;

    STORE(layout->tenant[tenant].draining_until_ns, until_ns);
    if (until_ns == 0) {
        /* It has used the device meanwhile, for its earlier work. */
        policy_wants(layout, tenant);
        tell_next(arena, now_ns);
    }
}

/* Tenants and pages come and go */

static unsigned find_tenant(struct arena_layout *layout, uint64_t id)
{
    unsigned free = ARENA_TENANTS;

    for (unsigned i = 0; i < ARENA_TENANTS; i++) {
        uint64_t has = LOAD(layout->tenant[i].id);

        if (has == id)
            return i;
        if (!has && free == ARENA_TENANTS)
            free = i;
    }
    return free;
}

unsigned sched_tenant(struct arena_layout *layout, const struct sched_identity *from)
{
    unsigned index = find_tenant(layout, from->id);
    struct arena_tenant *tenant = &layout->tenant[index];

    if (index == ARENA_TENANTS)
        return index;
    if (!LOAD(tenant->id)) {
        *tenant = (struct arena_tenant){.level = 0};
        policy_returns(layout, index);
    }
    tenant->weight = from->weight;
    tenant->priority = from->priority;
    tenant->devices = from->devices;
    memcpy(tenant->name, from->name, sizeof(tenant->name) - 1);
    STORE(tenant->id, from->id);
    return index;
}

/* The device has become contended. The work that runs has no fences yet. */
static void contend(struct arena_page *page, uint64_t now_ns)
{
    if (LOAD(page->flags) & ARENA_CONTENDED)
        return;
    STORE(page->unfenced, UNFENCED);
    STORE(page->untimed, 1);
    STORE(page->busy_until_ns, now_ns + SCHED_UNTIMED_NS);
    atomic_fetch_or(&page->flags, ARENA_CONTENDED);
    arena_wake(page);
}

static void set_contended(struct vgpu_arena *arena, uint64_t now_ns)
{
    struct arena_layout *layout = arena->layout;
    unsigned first = ARENA_TENANTS;
    bool contended = false;

    for (unsigned i = 0; i < arena_pages_high(arena); i++) {
        const struct arena_page *page = &layout->page[i];
        uint32_t tenant = LOAD(page->tenant);

        if (!LOAD(page->used) || !LOAD(page->active))
            continue;
        if (first == ARENA_TENANTS)
            first = tenant;
        contended = contended || tenant != first;
    }
    for (unsigned i = 0; i < arena_pages_high(arena); i++) {
        struct arena_page *page = &layout->page[i];

        if (!LOAD(page->used) || !LOAD(page->active))
            continue;
        if (contended) {
            contend(page, now_ns);
        } else if (LOAD(page->flags) & ARENA_CONTENDED) {
            atomic_fetch_and(&page->flags, ~ARENA_CONTENDED);
            open_page(page, 0, now_ns);
        }
    }
}

/* Whether a page of the tenant other than `but` (may be NULL) is active. */
static bool tenant_active(const struct vgpu_arena *arena, unsigned tenant,
                          const struct arena_page *but)
{
    for (unsigned i = 0; i < arena_pages_high(arena); i++) {
        const struct arena_page *page = &arena->layout->page[i];

        if (page != but && sched_page_of(page, tenant) && LOAD(page->active))
            return true;
    }
    return false;
}

void sched_activate(struct vgpu_arena *arena, struct arena_page *page, unsigned tenant,
                    uint64_t now_ns)
{
    struct arena_layout *layout = arena->layout;

    if (!tenant_active(arena, tenant, NULL))
        policy_returns(layout, tenant);
    page->seen_launches = LOAD(page->launches);
    page->seen_ns = now_ns;
    STORE(page->active, 1);
    STORE(page->used, 1);
    layout->tenant[tenant].active = 1;
    atomic_fetch_and(&page->flags, ~ARENA_RESUME);
    /* A tenant that is alone holds the device, so a newcomer has a holder to wait for. */
    if (sched_holder(layout) < 0) {
        STORE(layout->start_ns, now_ns);
        STORE(layout->end_ns, now_ns + policy_quantum_ns(layout, tenant, now_ns));
        STORE(layout->turn, LOAD(layout->turn) + 1);
        STORE(layout->holder, tenant + 1);
    }
    set_contended(arena, now_ns);
    STORE(page->untimed, 0); /* it has launched nothing yet */
}

/* False: its process is dead, and the page is free now. */
static bool look_after_page(struct vgpu_arena *arena, unsigned index, unsigned own_page,
                            uint64_t now_ns)
{
    struct arena_page *page = &arena->layout->page[index];
    uint32_t launches = LOAD(page->launches);
    uint64_t seen_ns = LOAD(page->seen_ns), quiet_ns = now_ns > seen_ns ? now_ns - seen_ns : 0;

    if (launches != LOAD(page->seen_launches) || LOAD(page->runnable)) {
        STORE(page->seen_launches, launches);
        STORE(page->seen_ns, now_ns);
    } else if (LOAD(page->active) && quiet_ns >= SCHED_INACTIVE_NS &&
               (sched_idle(page, now_ns) || quiet_ns >= 4 * SCHED_INACTIVE_NS)) {
        STORE(page->active, 0);
        atomic_fetch_or(&page->flags, ARENA_RESUME);
    }
    if (index == own_page || arena_alive(arena, index))
        return true;
    STORE(page->used, 0);
    return false;
}

void sched_tidy(struct vgpu_arena *arena, unsigned own_page, uint64_t now_ns)
{
    struct arena_layout *layout = arena->layout;
    bool exists[ARENA_TENANTS] = {false}, active[ARENA_TENANTS] = {false};
    int holder = sched_holder(layout);

    for (unsigned i = 0; i < arena_pages_high(arena); i++) {
        struct arena_page *page = &layout->page[i];
        uint32_t tenant = LOAD(page->tenant);

        if (!LOAD(page->used) || tenant >= ARENA_TENANTS ||
            !look_after_page(arena, i, own_page, now_ns))
            continue;
        exists[tenant] = true;
        active[tenant] = active[tenant] || LOAD(page->active);
    }
    for (unsigned i = 0; i < ARENA_TENANTS; i++) {
        layout->tenant[i].active = active[i];
        if (!exists[i] && LOAD(layout->tenant[i].id)) {
            layout->tenant[i].wanted_ns = 0;
            STORE(layout->tenant[i].id, 0);
        }
    }
    if (holder >= 0 && !active[holder])
        sched_next(arena, POLICY_YIELDED, false, now_ns);
    set_contended(arena, now_ns);
    STORE(layout->tidied_ns, now_ns);
}

void sched_defer(struct vgpu_arena *arena, struct arena_page *page, unsigned tenant,
                 uint64_t now_ns)
{
    open_page(page, 0, now_ns);
    if (sched_holder(arena->layout) == (int)tenant && !tenant_active(arena, tenant, page))
        sched_next(arena, POLICY_YIELDED, false, now_ns);
}
