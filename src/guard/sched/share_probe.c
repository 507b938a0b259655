/*
 * When to look whether a tenant has work, and what to make of it. A probe is some calls to the
 * card's firmware; while the tenant works it costs the tenant something, too. It tells exactly
 * whether there was work since the last one, so one that finds none after a while of its own is
 * enough to call a tenant idle; one that does next to nothing has some now and then, so it takes
 * two in a row to call it busy.
 */
#include "base/clock.h"
#include "guard/sched/share_internal.h"

#define US 1000ULL
#define MS 1000000ULL

/* The usual time between looks. */
/* So that others know that the device is used; every LONE_STOPSth for what people see. */
#define LONE_NS      (50 * MS)
#define LONE_STOPS   10u
#define FRESH_NS     (700 * US) /* it has just been switched on: whether there is anything to do */
#define HOLDS_NS     (2 * MS)   /* it has the device, and others wait */
#define UNCLAIMED_NS (20 * MS)  /* and nobody waits */
/* It has nothing to do; for longer than LATE_NS, than VERY_LATE_NS. */
#define ASIDE_NS           (1600 * US)
#define ASIDE_LATE_NS      (4 * MS)
#define ASIDE_VERY_LATE_NS (8 * MS)
#define SOON_NS            (300 * US)
/* Others may come and wait without being noticed otherwise: a step, without a probe. */
#define STEP_NS (1 * MS)

#define LATE_NS      (1000 * MS)
#define VERY_LATE_NS (10000 * MS)
#define SLACK_NS     1000 /* a probe is not worth another step */

/* No look before so many times what one takes: of a tenant that works on and on, of one that was
 * idle lately. */
#define COSTLY       30u
#define COSTLY_IDLER 6u
#define LATELY_NS    (500 * MS)

/* Work that waits for somebody else's time slice to end is not seen. */
#define VDEV_NS (3 * MS)

static uint32_t random_bits(struct share *share)
{
    uint64_t *state = &share->random;

    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 20);
}

void share_probes_init(struct share *share, uint64_t now_ns)
{
    share->idle = true;
    share->probed_ns = share->idle_ns = share->idled_ns = share->still_ns = now_ns;
    share->cost_ns = 800 * US;
    share->part = 1024;
    if (share->random == 0)
        share->random = 1;
}

void share_probes_switched(struct share *share, uint64_t now_ns)
{
    share->fresh = share->on;
    share->probed_ns = share->still_ns = now_ns;
}

static bool claimed(const struct share *share)
{
    return atomic_load(&share->arena->layout->waiting) > 0;
}

static uint64_t aside_ns(uint64_t idle_ns)
{
    return idle_ns < LATE_NS        ? ASIDE_NS
           : idle_ns < VERY_LATE_NS ? ASIDE_LATE_NS
                                    : ASIDE_VERY_LATE_NS;
}

static bool in_company(const struct share *share)
{
    return share->joined && (share->preempt.contended || share->preempt.others);
}

/* UINT64_MAX: none is of use, as things are. */
static uint64_t usual_ns(const struct share *share, uint64_t now_ns)
{
    if (!share->on)
        return UINT64_MAX;
    if (!in_company(share))
        return LONE_NS;
    if (share->last_worked == share->idle)
        return SOON_NS;
    if (share->idle)
        return aside_ns(now_ns - share->idle_ns);
    if (!claimed(share))
        return UNCLAIMED_NS;
    return share->fresh ? FRESH_NS : HOLDS_NS;
}

static uint64_t costly_ns(const struct share *share, uint64_t now_ns)
{
    return (now_ns - share->idled_ns < LATELY_NS ? COSTLY_IDLER : COSTLY) * share->cost_ns;
}

static uint64_t probe_in_ns(const struct share *share, uint64_t now_ns)
{
    uint64_t usual = usual_ns(share, now_ns), least_ns = costly_ns(share, now_ns), ns, throttle_ns;

    throttle_ns = throttle_probe_in_ns(&share->throttle);
    if (usual == UINT64_MAX)
        return throttle_ns;
    /* Looks that settle a doubt are few. */
    if (usual != SOON_NS && usual != FRESH_NS && usual < least_ns)
        usual = least_ns;
    ns = usual * share->part / 1024;
    ns = share->probed_ns + ns > now_ns ? share->probed_ns + ns - now_ns : 0;
    return ns < throttle_ns ? ns : throttle_ns;
}

uint64_t share_probes_in_ns(const struct share *share, uint64_t now_ns)
{
    uint64_t ns = probe_in_ns(share, now_ns);

    if (share->joined && share->preempt.contended && share->on && ns > STEP_NS)
        ns = STEP_NS;
    return ns;
}

/* `from_ns`: since when the probe says what it says. */
static void believe(struct share *share, bool worked, uint64_t from_ns, uint64_t now_ns)
{
    bool again = worked == share->last_worked;

    /* It has begun to work, and may wait to go on. */
    if (!worked && share->idle && share->last_worked && now_ns - share->still_ns < VDEV_NS)
        return;
    share->last_worked = worked;
    if (worked)
        share->still_ns = now_ns;
    else if (!again)
        share->still_ns = from_ns;
    if (worked == !share->idle) {
        if (share->idle)
            share->idled_ns = now_ns;
        return;
    }
    if (worked ? again : now_ns - share->still_ns >= VDEV_NS) {
        share->idle = !worked;
        share->idle_ns = share->idled_ns = now_ns;
    }
}

/* Whether it is worth the tenant's time. */
static bool may_stop(struct share *share)
{
    if (!share->on)
        return false;
    if (share->throttle.cap > 0)
        return true;
    if (!in_company(share))
        return ++share->lone_probes % LONE_STOPS == 0;
    return !share->fresh;
}

static void probe(struct share *share)
{
    uint64_t begin_ns = clock_ns(), end_ns, cost_ns;
    bool stop = may_stop(share);
    struct share_probe seen = {.worked = false};
    int rc = share->ops.probe(share->arg, stop, &seen);

    if (rc < 0)
        seen = (struct share_probe){.runs = 1, .worked = true};
    end_ns = clock_ns();
    cost_ns = end_ns > begin_ns ? end_ns - begin_ns : 0;
    if (stop && cost_ns < 10 * MS)
        share->cost_ns = (7 * share->cost_ns + cost_ns) / 8;
    if (stop || !seen.worked || rc < 0)
        throttle_probe(&share->throttle, seen.runs, begin_ns, end_ns);
    believe(share, seen.worked, share->probed_ns, end_ns);
    share->probed_ns = end_ns;
    share->fresh = false;
    share->part = 512 + random_bits(share) % 1024;
    if (seen.worked && share->joined)
        preempt_active(&share->preempt, end_ns);
}

void share_probes_step(struct share *share)
{
    if (probe_in_ns(share, clock_ns()) <= SLACK_NS)
        probe(share);
}
