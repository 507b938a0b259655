/*
 * Charging launches to the cap, and the samples that correct the charges.
 *
 * A launch of unknown cost could take any time, and so could the next one. So it holds the bucket
 * (sched/bucket.h): the next launch of any process waits until this one is measured or its hold is
 * paid. Launches of this process ask for its sample meanwhile, so that a short kernel costs a
 * question and no wait.
 *
 * A hold never blocks for good. A launch may wait for another one, for the host or for another
 * device; it goes on being measured while the next one passes. Each hold in a row that ends so is
 * half as long as the one before, until there are none.
 */
#include "hook/work/capture.h"
#include "hook/work/compute_internal.h"
#include "sched/sample.h"
#include "sched/survey.h"

#include "base/clock.h"
#include "base/nocancel.h"
#include "sched/bucket.h"
#include "account/hami.h"
#include "sched/sched_params.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint32_t while_policy(uint32_t percent, uint32_t policy, uint32_t flags)
{
    return policy == VGPU_CAP_OFF || (policy == VGPU_CAP_ELASTIC && !(flags & ARENA_CONTENDED))
               ? 0
               : percent;
}

bool cap_applies(const struct compute_device *device, uint32_t flags, struct caps *ret_caps)
{
    uint32_t policy = atomic_load_explicit(&device->cap_policy, memory_order_relaxed);
    unsigned group = compute_group();
    struct caps caps = {{while_policy(compute_cap(0, device->vdev), policy, flags)}};

    if (__builtin_expect(group != 0, 0))
        caps.percent[BUCKET_GROUP] = while_policy(
            compute_cap(group, device->vdev), usage_group_cap_policy(hook_region(), group), flags);
    *ret_caps = caps;
    return (caps.percent[BUCKET_INSTANCE] || caps.percent[BUCKET_GROUP]) &&
           !hami_unlimited(hook_ledger());
}

/* The lower of the two; at least one of them limits. */
static uint32_t lowest(const struct caps *caps)
{
    uint32_t instance = caps->percent[BUCKET_INSTANCE], group = caps->percent[BUCKET_GROUP];

    return group && (!instance || group < instance) ? group : instance;
}

void compute_nap(uint64_t ns)
{
    struct timespec time = {.tv_nsec = (long)(ns < COMPUTE_NAP_MOST_NS ? ns : COMPUTE_NAP_MOST_NS)};

    syscall(SYS_nanosleep, &time, NULL); /* nanosleep() would be a cancellation point */
}

bool cap_unsure(const struct work *work)
{
    return !cost_trusted(work->cell) || cost_measured_always(work->cell) ||
           compute_estimate(work) >= CAP_LONG_NS;
}

/*
 * A launch of which little is known costs at least as much as one like it has been under way for.
 * So do those that are under way; their samples will correct the charge. This is for launches that
 * pass without a hold, or after one. It is bounded, for the oldest may wait for one that comes
 * later.
 */
static uint64_t cautious_estimate(const struct work *work, uint64_t now_ns)
{
    uint64_t estimate_ns = compute_estimate(work), owed_ns;

    /* In a capture nothing is harvested, so all seem to go on. */
    if (capture_running() || sample_owed_ns(work->cell, now_ns) <= estimate_ns)
        return estimate_ns;
    compute_harvest_now();
    estimate_ns = compute_estimate(work);
    owed_ns = sample_owed_ns(work->cell, now_ns);
    if (owed_ns > CAP_OWED_MOST_NS)
        owed_ns = CAP_OWED_MOST_NS;
    return owed_ns > estimate_ns ? owed_ns : estimate_ns;
}

/* The device time that a launch holds. */
static uint64_t hold_ns(const struct work *work, uint32_t percent)
{
    unsigned stuck = atomic_load_explicit(&work->device->hold.stuck, memory_order_relaxed);
    uint64_t ns = CAP_HOLD_PAID_NS / 100 * percent;

    if (cost_trusted(work->cell) || capture_running() || stuck >= CAP_STUCK_MOST)
        return 0;
    if (ns > CAP_HOLD_NS)
        ns = CAP_HOLD_NS;
    if (work->most_ns && ns > work->most_ns)
        ns = work->most_ns;
    return ns >> stuck;
}

/* The one before is still under way, though its hold was paid: it seems to wait for something. */
static void hold_begins(struct cap_hold *hold, uint64_t ns, uint32_t percent, uint64_t now_ns)
{
    if (atomic_exchange(&hold->wait_ns, ns * 100 / percent) > 0)
        atomic_fetch_add(&hold->stuck, 1);
    atomic_store(&hold->since_ns, now_ns);
    atomic_store_explicit(&compute_holds, true, memory_order_relaxed);
}

static void less_stuck(struct cap_hold *hold)
{
    unsigned stuck = atomic_load(&hold->stuck);

    while (stuck > 0 && !atomic_compare_exchange_weak(&hold->stuck, &stuck, stuck - 1))
        ;
}

static _Atomic uint64_t *bucket_of(const struct compute_device *device, enum bucket_level level)
{
    return usage_bucket(hook_region(), level == BUCKET_GROUP ? compute_group() : 0, device->vdev);
}

static uint32_t cap_of(const struct compute_device *device, enum bucket_level level)
{
    return compute_cap(level == BUCKET_GROUP ? compute_group() : 0, device->vdev);
}

static uint64_t wait_for_both(const struct compute_device *device, const struct caps *caps,
                              uint64_t now_ns)
{
    uint64_t most_ns = 0;

    for (unsigned i = 0; i < BUCKETS; i++) {
        uint64_t wait_ns = caps->percent[i] ? bucket_wait(bucket_of(device, i), now_ns) : 0;

        most_ns = wait_ns > most_ns ? wait_ns : most_ns;
    }
    return most_ns;
}

/*
 * Draws on both buckets or on none. Both are looked at first, so the second one rarely refuses:
 * another launch came first then, and the group gets back what it was charged. Others of the group
 * may have seen that as debt meanwhile. They look again after their wait, as for any debt.
 */
static uint64_t take_both(struct work *work, uint64_t held_ns, const struct caps *caps,
                          uint64_t now_ns)
{
    _Atomic uint64_t *of_group = bucket_of(work->device, BUCKET_GROUP);
    struct bucket_hold *hold = work->hold;
    uint64_t wait_ns = wait_for_both(work->device, caps, now_ns);

    if (wait_ns == 0)
        wait_ns = bucket_take_and_hold(of_group, now_ns, work->charged_ns, held_ns,
                                       caps->percent[BUCKET_GROUP], &hold[BUCKET_GROUP]);
    if (wait_ns > 0)
        return wait_ns;
    wait_ns =
        bucket_take_and_hold(bucket_of(work->device, BUCKET_INSTANCE), now_ns, work->charged_ns,
                             held_ns, caps->percent[BUCKET_INSTANCE], &hold[BUCKET_INSTANCE]);
    if (wait_ns > 0) {
        bucket_correct(of_group, now_ns, -(int64_t)(work->charged_ns + hold[BUCKET_GROUP].ns),
                       caps->percent[BUCKET_GROUP]);
        hold[BUCKET_GROUP] = (struct bucket_hold){0};
    }
    return wait_ns;
}

/* `hold` tells afterwards which buckets were charged, by the percentage of each, and how much each
 * holds. */
static uint64_t take(struct work *work, uint64_t held_ns, const struct caps *caps, uint64_t now_ns)
{
    if (__builtin_expect(caps->percent[BUCKET_GROUP] > 0, 0))
        return take_both(work, held_ns, caps, now_ns);
    return bucket_take_and_hold(bucket_of(work->device, BUCKET_INSTANCE), now_ns, work->charged_ns,
                                held_ns, caps->percent[BUCKET_INSTANCE],
                                &work->hold[BUCKET_INSTANCE]);
}

static uint64_t charge_unsure(struct work *work, const struct caps *caps, uint64_t now_ns)
{
    uint64_t wait_ns = wait_for_both(work->device, caps, now_ns), held_ns;

    if (wait_ns > 0)
        return wait_ns;
    work->charged_ns = cautious_estimate(work, now_ns);
    held_ns = hold_ns(work, lowest(caps));
    wait_ns = take(work, held_ns, caps, now_ns);
    if (wait_ns == 0 && held_ns > 0)
        hold_begins(&work->device->hold, held_ns, lowest(caps), now_ns);
    return wait_ns;
}

uint64_t cap_charge(struct work *work, const struct caps *caps, uint64_t now_ns)
{
    if (caps->percent[BUCKET_INSTANCE])
        usage_bucket_at(hook_region(), work->device->vdev, caps->percent[BUCKET_INSTANCE], now_ns);
    if (atomic_load_explicit(&work->device->hold.wait_ns, memory_order_relaxed) > 0)
        compute_harvest_now();
    if (work->corrects)
        return charge_unsure(work, caps, now_ns);
    work->charged_ns = compute_estimate(work);
    return take(work, 0, caps, now_ns);
}

/* How long to sleep before asking about the launch of this process that holds the bucket. */
static uint64_t sleep_for_held(const struct compute_device *device, uint64_t wait_ns,
                               uint64_t held_ns, uint64_t now_ns)
{
    uint64_t age_ns = now_ns - atomic_load(&device->hold.since_ns);
    uint64_t spin_ns = compute_flags(device) & ARENA_CONTENDED ? CAP_SPIN_TURN_NS : CAP_SPIN_NS;

    if (wait_ns > held_ns + BUCKET_SLACK_NS) /* the wait would be so long without the hold */
        return wait_ns - held_ns;
    if (age_ns < spin_ns)
        return 0;
    return age_ns / CAP_POLL_PART < CAP_POLL_MOST_NS ? age_ns / CAP_POLL_PART : CAP_POLL_MOST_NS;
}

uint64_t cap_sleep_ns(const struct compute_device *device, uint64_t wait_ns, uint64_t waited_ns,
                      uint64_t now_ns)
{
    uint64_t held_ns = atomic_load(&device->hold.wait_ns), part_ns = waited_ns / CAP_NAP_PART;

    if (held_ns > 0)
        return sleep_for_held(device, wait_ns, held_ns, now_ns);
    if (wait_ns < CAP_HELD_LONG_NS)
        return wait_ns;
    return part_ns > CAP_NAP_LEAST_NS ? part_ns : CAP_NAP_LEAST_NS;
}

/* A launch has cost delta_ns more than was charged. `hold` is an array of BUCKETS. */
static void cap_settle(struct compute_device *device, const struct bucket_hold *hold,
                       uint64_t now_ns, int64_t delta_ns)
{
    bool in_time = true, held = false;

    for (unsigned i = 0; i < BUCKETS; i++) {
        if (hold[i].percent == 0)
            continue;
        in_time &=
            bucket_settle(bucket_of(device, i), now_ns, delta_ns, &hold[i], cap_of(device, i));
        held |= hold[i].ns > 0;
    }
    if (held)
        atomic_store(&device->hold.wait_ns, 0);
    if (in_time && atomic_load_explicit(&device->hold.stuck, memory_order_relaxed) > 0)
        less_stuck(&device->hold);
}

/* A sample would correct what was charged beyond the estimate; here there is none. */
void cap_unmeasured(struct work *work)
{
    uint64_t ns = compute_estimate(work);

    if (ns > work->charged_ns)
        ns = work->charged_ns;
    cap_settle(work->device, work->hold, clock_ns(), (int64_t)(ns - work->charged_ns));
    work->charged_ns = ns;
    for (unsigned i = 0; i < BUCKETS; i++)
        work->hold[i].ns = 0;
}

void cap_launched(struct work *work, bool succeeded, uint64_t launched_ns)
{
    bool holds = work->hold[BUCKET_INSTANCE].ns > 0 || work->hold[BUCKET_GROUP].ns > 0;

    if (!succeeded)
        cap_settle(work->device, work->hold, clock_ns(), -(int64_t)work->charged_ns);
    else if (work->corrects && launched_ns == 0 && holds)
        cap_settle(work->device, work->hold, clock_ns(), 0);
    else if (launched_ns > work->begun_ns + CAP_LATE_NS)
        for (unsigned i = 0; i < BUCKETS; i++)
            if (work->hold[i].percent)
                bucket_started(bucket_of(work->device, i), launched_ns, work->charged_ns,
                               cap_of(work->device, i));
}

/* Samples */

/* A launch turns out to have cost more or less than it was charged. */
static void measured(struct cost_cell *cell, uint64_t measured_ns,
                     const struct sample_charge *charge, void *arg)
{
    unsigned flags = charge->flags;
    unsigned vdev = flags >> FLAG_VDEV_SHIFT & 15, weight = flags >> FLAG_WEIGHT_SHIFT;
    enum vgpu_work kind = flags >> FLAG_KIND_SHIFT & 255;
    uint64_t now_ns = clock_ns(), unseen = 0;
    int64_t wrong_ns;

    (void)arg;
    if (measured_ns > 0 && !(flags & SAMPLE_VAGUE))
        unseen = cost_learn(cell, measured_ns, flags & SAMPLE_DOUBTFUL);
    else if (measured_ns == 0 && (flags & FLAG_CORRECTS))
        measured_ns = cost_estimate(cell, charge->ns);
    else if (measured_ns == 0)
        return;
    /* Corrects as well what was launched on the first guess while the sample was under way. */
    wrong_ns = ((int64_t)measured_ns - (int64_t)charge->ns) * (int64_t)(1 + unseen);
    if (flags & FLAG_CORRECTS)
        cap_settle(&compute_devices[vdev], charge->hold, now_ns, wrong_ns);
    wrong_ns *= (int64_t)weight;
    if (charge->guess_ns > 0) /* a vague one bounds it at least */
        wrong_ns += survey_measured(vdev, kind, charge->guess_ns, measured_ns);
    usage_add(hook_region(), vdev, kind, 0, wrong_ns, now_ns);
}

void compute_harvest_now(void)
{
    sample_harvest(measured, NULL);
}

void compute_harvest(uint64_t now_ns)
{
    static _Atomic uint64_t harvested_ns;
    uint64_t last_ns = atomic_load_explicit(&harvested_ns, memory_order_relaxed);

    if (now_ns - last_ns < COMPUTE_HARVEST_NS)
        return;
    atomic_store_explicit(&harvested_ns, now_ns, memory_order_relaxed);
    compute_harvest_now();
}
