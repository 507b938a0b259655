/*
 * When to probe whether a tenant has work, and what to make of the answer. A probe is some calls to
 * the device's firmware, and costs a tenant that works some of its time. It tells exactly whether
 * there was work since the last one. So one probe that finds none, after a while of its own, is
 * enough to call a tenant idle. A tenant that does next to nothing works now and then, so it takes
 * two in a row to call it busy.
 */
#include "base/clock.h"
#include "base/random.h"
#include "guard/sched/share_internal.h"
#include "sched/sched_params.h"

static uint32_t random_bits(struct share *share)
{
    return (uint32_t)(random_next(&share->random) >> 20);
}

void share_probes_init(struct share *share, uint64_t now_ns)
{
    share->idle = true;
    share->probed_ns = share->idle_ns = share->idled_ns = share->still_ns = now_ns;
    share->cost_ns = SHARE_PROBE_FIRST_NS;
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
    return idle_ns < SHARE_LATE_NS        ? SHARE_ASIDE_NS
           : idle_ns < SHARE_VERY_LATE_NS ? SHARE_ASIDE_LATE_NS
                                          : SHARE_ASIDE_VERY_LATE_NS;
}

static bool in_company(const struct share *share)
{
    return share->joined && (share->preempt.contended || share->preempt.others);
}

/* UINT64_MAX: a probe would say nothing. */
static uint64_t usual_ns(const struct share *share, uint64_t now_ns)
{
    if (!share->on)
        return UINT64_MAX;
    if (!in_company(share))
        return SHARE_LONE_NS;
    if (share->last_worked == share->idle)
        return SHARE_SOON_NS;
    if (share->idle)
        return aside_ns(now_ns - share->idle_ns);
    if (!claimed(share))
        return SHARE_UNCLAIMED_NS;
    return share->fresh ? SHARE_FRESH_NS : SHARE_HOLDS_NS;
}

static uint64_t costly_ns(const struct share *share, uint64_t now_ns)
{
    return (now_ns - share->idled_ns < SHARE_LATELY_NS ? SHARE_COSTLY_IDLER : SHARE_COSTLY) *
           share->cost_ns;
}

static uint64_t probe_in_ns(const struct share *share, uint64_t now_ns)
{
    uint64_t usual = usual_ns(share, now_ns), least_ns = costly_ns(share, now_ns), ns, throttle_ns;

    throttle_ns = throttle_probe_in_ns(&share->throttle);
    if (usual == UINT64_MAX)
        return throttle_ns;
    /* Looks that settle a doubt are few. */
    if (usual != SHARE_SOON_NS && usual != SHARE_FRESH_NS && usual < least_ns)
        usual = least_ns;
    ns = usual * share->part / 1024;
    ns = share->probed_ns + ns > now_ns ? share->probed_ns + ns - now_ns : 0;
    return ns < throttle_ns ? ns : throttle_ns;
}

uint64_t share_probes_in_ns(const struct share *share, uint64_t now_ns)
{
    uint64_t ns = probe_in_ns(share, now_ns);

    if (share->joined && share->preempt.contended && share->on && ns > SHARE_STEP_NS)
        ns = SHARE_STEP_NS;
    return ns;
}

/* `from_ns`: since when the probe says what it says. */
static void believe(struct share *share, bool worked, uint64_t from_ns, uint64_t now_ns)
{
    bool again = worked == share->last_worked;

    /* It has begun to work, and may wait to go on. */
    if (!worked && share->idle && share->last_worked &&
        now_ns - share->still_ns < SHARE_TIME_SLICE_NS)
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
    if (worked ? again : now_ns - share->still_ns >= SHARE_TIME_SLICE_NS) {
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
        return ++share->lone_probes % SHARE_LONE_STOPS == 0;
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
    if (stop && cost_ns < SHARE_PROBE_MOST_NS)
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
    if (probe_in_ns(share, clock_ns()) <= SHARE_SLACK_NS)
        probe(share);
}
