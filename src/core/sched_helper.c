/*
 * A process's helper: what it sees of the others, and when it hands the device on.
 */
#include "core/gang.h"
#include "core/sched_internal.h"

#include <stdint.h>

#define DRAIN_NS      1000000000ULL
#define STRANGE_MOST  12u
#define MUCH_LAUNCHES 64u
#define DRAINED_MOST  10000000000ULL

#define NEAR_NS     60000ULL /* before the expected end, a look costs less than being late */
#define STEP_NS     30000ULL
#define STEP_MOST   500000ULL
#define NOT_NEXT_NS 2000000ULL

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
    return LOAD(client->page->wants) && LOAD(client->arena->layout->tenant[tenant].wanted_ns);
}

struct sight {
    bool any;        /* the holder has a page at all */
    bool idle;       /* nothing of it runs, as far as marks and estimates say */
    bool left;       /* all of its processes have ended their part; */
    uint32_t early;  /* some although they had time: ARENA_EARLY_* */
    bool pausing;    /* all of them sleep because of their cap */
    bool unknown;    /* it may be work of the time before the device was contended */
    uint32_t passed; /* launches of the turn */
    uint32_t launches;
    uint64_t busy_until_ns, burst_ns;
    bool gang;         /* turns are slots of the clock; */
    bool elsewhere;    /* and work of the holder runs on another device */
    uint64_t grace_ns; /* how long it may keep the device without work */
};

static struct sight look_at(const struct vgpu_arena *arena, unsigned tenant, uint32_t turn, uint64_t now_ns)
{
    struct sight sight = {.idle = true, .left = true, .pausing = true};

    for (unsigned i = 0; i < arena_pages_high(arena); i++) {
        const struct arena_page *page = &arena->layout->page[i];
        uint64_t busy_ns = LOAD(page->busy_until_ns), burst_ns = LOAD(page->burst_ns);
        bool idle;

        if (!sched_page_of(page, tenant))
            continue;
        idle = sched_idle(page, now_ns);
        sight.any = true;
        sight.launches += LOAD(page->launches);
        sight.unknown = sight.unknown || LOAD(page->unknown);
        sight.passed += LOAD(page->passed);
        sight.idle = sight.idle && idle;
        sight.left = sight.left && (LOAD(page->left) == turn || (idle && !LOAD(page->active)));
        sight.early |= LOAD(page->left) == turn ? LOAD(page->early) : 0;
        sight.pausing = sight.pausing && (LOAD(page->pausing) || LOAD(page->left) == turn);
        if (busy_ns > sight.busy_until_ns)
            sight.busy_until_ns = busy_ns;
        if (burst_ns > sight.burst_ns)
            sight.burst_ns = burst_ns;
    }
    sight.grace_ns = policy_grace_ns(arena->layout, tenant, sight.burst_ns);
    return sight;
}

/* What is said of a turn: it goes on; its time is up, and it ends unless the tenant is due again; it is over; it has
 * not ended when it should have. */
enum verdict { GOES_ON, UP, OVER, OVERDUE };

static uint64_t bound_ns(const struct sight *sight)
{
    return sight->gang ? GANG_DRAIN_NS : sight->unknown ? SCHED_STRANGE_NS : SCHED_BOUND_NS;
}

static enum verdict judge(const struct arena_layout *layout, const struct sight *sight,
                          const struct sched_observer *observer, uint64_t now_ns)
{
    uint64_t end_ns = sched_end_ns(layout, now_ns);
    uint64_t last_ns = sight->busy_until_ns > end_ns ? sight->busy_until_ns : end_ns;

    if (!sight->any)
        return OVER;
    if (sight->idle) {
        if (sight->elsewhere && now_ns < end_ns + GANG_DRAIN_NS)
            return GOES_ON;
        /* Who has left by estimates alone may be due again. */
        if (sight->left && !sight->early)
            return UP;
        if (sight->left || sight->pausing || now_ns - observer->idle_ns >= sight->grace_ns)
            return OVER;
        /* Not between two launches. */
        return now_ns >= end_ns && now_ns - observer->idle_ns >= POLICY_QUICK_NS ? UP : GOES_ON;
    }
    if (last_ns > end_ns + BOUND_MOST_NS)
        last_ns = end_ns + BOUND_MOST_NS;
    return now_ns > last_ns + bound_ns(sight) ? OVERDUE : GOES_ON;
}

static uint64_t look_again_ns(const struct sched_client *client, unsigned tenant, const struct sight *sight,
                              const struct sched_observer *observer, bool ended, uint64_t now_ns)
{
    uint64_t left_ns = sight->busy_until_ns > now_ns ? sight->busy_until_ns - now_ns : 0;

    if (LOAD(client->arena->layout->next) != tenant + 1)
        return NOT_NEXT_NS;
    if (sight->idle)
        return now_ns - observer->idle_ns < sight->grace_ns ? observer->idle_ns + sight->grace_ns - now_ns : 0;
    if (left_ns > NEAR_NS + STEP_NS)
        return left_ns - NEAR_NS < STEP_MOST ? left_ns - NEAR_NS : STEP_MOST;
    return ended && now_ns < sight->busy_until_ns + 2 * NEAR_NS ? 0 : STEP_NS;
}

/*
 * Work of before the device was contended may be a lot: the driver queues a thousand launches. So may work that takes
 * longer than was thought. While it runs, beside the turns of others, its tenant's launches wait; unless it does not
 * end.
 */
static void outlast(struct vgpu_arena *arena, unsigned tenant, bool much, uint64_t now_ns)
{
    struct arena_tenant *self = &arena->layout->tenant[tenant];

    if (much && self->strange++ < STRANGE_MOST)
        sched_drain(arena, tenant, now_ns + DRAIN_NS, now_ns);
    else
        sched_set_native(arena, tenant, now_ns);
}

/* A tenant that is idle when its time is up has yielded. */
static enum policy_end how_it_ended(const struct sight *sight, bool ended)
{
    if (ended && (sight->left || !sight->idle))
        return POLICY_SPENT;
    return sight->left && sight->early == ARENA_EARLY_BURST ? POLICY_BURST : POLICY_YIELDED;
}

/* Under the arena's lock: the turn that was judged is still the one. */
static void end_turn(struct sched_client *client, enum verdict verdict, const struct sight *sight, enum policy_end end,
                     uint64_t now_ns)
{
    struct arena_layout *layout = client->arena->layout;
    int holder = sched_holder(layout);

    /* Where turns are slots, what still runs may wait for the next slot: the device goes on beside it. */
    if (holder >= 0 && verdict == OVERDUE && !sight->gang)
        outlast(client->arena, (unsigned)holder,
                sight->unknown || sight->passed > MUCH_LAUNCHES || layout->tenant[holder].strange, now_ns);
    else if (holder >= 0 && (sight->unknown || layout->tenant[holder].strange))
        sched_known(client->arena, (unsigned)holder);
    if (holder >= 0 && end == POLICY_YIELDED)
        policy_yields(layout, (unsigned)holder, now_ns);
    sched_next(client->arena, end, verdict == UP, now_ns);
}

static void hand_on(struct sched_client *client, uint32_t turn, enum verdict verdict, const struct sight *sight,
                    enum policy_end end, uint64_t now_ns)
{
    uint32_t word;

    if (!arena_lock(client->arena, client->index, &word))
        return;
    if (LOAD(client->arena->layout->turn) == turn)
        end_turn(client, verdict, sight, end, now_ns);
    arena_unlock(client->arena, word);
}

/* The gates of this process are opened; no work of it waits any more. */
static uint64_t let_go(struct sched_client *client, struct sched_observer *observer)
{
    observer->waiting_ns = 0;
    STORE(client->page->wants, 0);
    sched_open(client->page, LOAD(client->gated));
    return UINT64_MAX;
}

/* Nothing that others do or leave undone makes a process wait for ever; what waits for its own work waits for longer.
 */
static bool rescue(struct sched_client *client, unsigned tenant, struct sched_observer *observer, uint64_t now_ns)
{
    uint64_t draining_ns = LOAD(client->arena->layout->tenant[tenant].draining_until_ns);
    bool draining = draining_ns > now_ns && draining_ns <= now_ns + DRAIN_NS && !sched_drained(client->page);

    if (!observer->waiting_ns || observer->gated != LOAD(client->gated))
        observer->waiting_ns = now_ns;
    observer->gated = LOAD(client->gated);
    if (draining && now_ns - observer->waiting_ns < DRAINED_MOST)
        return false;
    if (now_ns - observer->waiting_ns < SCHED_RESCUE_NS)
        return false;
    STORE(client->native_until_ns, now_ns + SCHED_RESCUE_NS);
    return true;
}

/* What others find this process by is as it should be. */
static void restore_page(const struct sched_client *client, unsigned tenant)
{
    uint32_t high = client->index + 1;

    if (LOAD(client->page->tenant) != tenant)
        STORE(client->page->tenant, tenant);
    if (!LOAD(client->page->used))
        STORE(client->page->used, 1);
    if (LOAD(client->page->filling) != LOAD(client->gated))
        STORE(client->page->filling, LOAD(client->gated));
    if (LOAD(client->arena->layout->pages_high) < high)
        STORE(client->arena->layout->pages_high, high);
}

/* A tenant gets turns again once its work of long ago is over, or a little before that could be seen by others. */
static void look_at_draining(struct sched_client *client, unsigned tenant, uint64_t now_ns)
{
    struct vgpu_arena *arena = client->arena;
    uint64_t until_ns = LOAD(arena->layout->tenant[tenant].draining_until_ns);
    uint32_t turn = LOAD(arena->layout->turn), word;
    bool idle;

    if (!until_ns)
        return;
    idle = look_at(arena, tenant, turn, now_ns).idle;
    if ((!idle && until_ns > now_ns + 2 * NOT_NEXT_NS) || !arena_lock(arena, client->index, &word))
        return;
    if (idle)
        sched_known(arena, tenant);
    sched_drain(arena, tenant, 0, now_ns);
    arena_unlock(arena, word);
}

/* Where the owner of a slot does nothing on any device, others may have the rest. */
static void look_at_slot(struct sched_client *client, struct sched_observer *observer, uint64_t now_ns)
{
    struct arena_layout *layout = client->arena->layout;
    int owner = policy_slot_owner(layout, now_ns);
    bool idle = owner >= 0 && owner != (int)client->tenant && !LOAD(layout->tenant[owner].wanted_ns) &&
                !gang_busy(client, LOAD(layout->tenant[owner].id), now_ns);

    if (!idle)
        observer->slot_idle_ns = 0;
    else if (!observer->slot_idle_ns)
        observer->slot_idle_ns = now_ns;
    else if (now_ns - observer->slot_idle_ns >= GANG_IDLE_NS)
        STORE(layout->free_slot, now_ns / POLICY_SLOT_NS);
}

uint64_t sched_client_watch(struct sched_client *client, struct sched_observer *observer, uint64_t now_ns)
{
    struct arena_layout *layout = client->arena->layout;
    unsigned tenant = client->tenant; /* a thread that launches may change it meanwhile */
    uint32_t turn = LOAD(layout->turn);
    int holder = sched_holder(layout);
    struct sight sight = {0};
    enum verdict verdict;
    bool ended;

    if (tenant >= ARENA_TENANTS || sched_client_open(client, LOAD(client->gated))) {
        observer->waiting_ns = 0;
        return UINT64_MAX;
    }
    restore_page(client, tenant);
    /* The last of these: the grant came between two words of ours. */
    if (rescue(client, tenant, observer, now_ns) || sched_native(layout, tenant, now_ns) ||
        (holder == (int)tenant && LOAD(client->page->left) != turn))
        return let_go(client, observer);
    sched_client_tidy(client, now_ns);
    if (!sched_client_waiting(client, tenant) && !sched_client_wants(client, tenant, now_ns))
        return STEP_NS;
    look_at_draining(client, tenant, now_ns);
    if (policy_gang(layout))
        look_at_slot(client, observer, now_ns);
    if (holder < 0) {
        hand_on(client, turn, OVER, &sight, POLICY_YIELDED, now_ns);
        return STEP_NS;
    }
    sight = look_at(client->arena, (unsigned)holder, turn, now_ns);
    sight.gang = policy_gang(layout);
    sight.elsewhere = sight.gang && gang_busy_elsewhere(client, LOAD(layout->tenant[holder].id), now_ns);
    if (!sight.idle || observer->holder != holder || observer->launches != sight.launches || !observer->idle_ns)
        observer->idle_ns = sight.idle ? now_ns : 0;
    observer->holder = holder;
    observer->launches = sight.launches;
    verdict = judge(layout, &sight, observer, now_ns);
    ended = (sight.left && !sight.early) || now_ns >= sched_end_ns(layout, now_ns);
    if (verdict != GOES_ON) {
        hand_on(client, turn, verdict, &sight, how_it_ended(&sight, ended), now_ns);
        return 0;
    }
    return look_again_ns(client, tenant, &sight, observer, ended, now_ns);
}
