/*
 * Waiting for the cap, and charging it.
 *
 * A launch of unknown cost could take any time, and the next one too. So it holds the bucket (core/bucket.h): whoever
 * comes next, in whatever process, waits until it is measured or the hold is paid. Those of this process ask for its
 * sample meanwhile, so what is short costs a question, not a wait.
 *
 * A hold never blocks for good: a launch that waits for another one, for the host or for another device goes on being
 * measured while the next one passes. Of holds in a row that end so each is half as long, until there are none.
 */
#include "hook/capture.h"
#include "hook/compute_internal.h"
#include "hook/sample.h"

#include "base/clock.h"
#include "base/nocancel.h"
#include "core/bucket.h"
#include "core/hami.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HOLD_NS      100000000ULL  /* of device time */
#define HOLD_PAID_NS 1000000000ULL /* it is paid after so long, however low the cap */
#define STUCK_MOST   10            /* then there are no holds */
#define OWED_MOST_NS 100000000ULL  /* see cautious_estimate() */
#define LONG_NS      1000000ULL
#define LATE_NS      1000000ULL /* between the charge and the launch */
#define NAP_MARK_NS  50000ULL   /* a pause worth telling others of */
#define NAP_LEAST_NS 100000ULL
#define NAP_PART     4           /* a wait for another process's hold is looked at after so much of it again */
#define HELD_LONG_NS 20000000ULL /* longer waits may be others' holds, which end any time */
#define SPIN_NS      200000ULL
#define SPIN_TURN_NS 20000000ULL /* while others have turns: whoever sleeps through its own turn waits for the next */
#define POLL_PART    16          /* later it is asked about when it has taken so much of its time more */
#define POLL_MOST_NS 500000ULL

bool cap_applies(const struct compute_device *device, uint32_t flags, uint32_t *ret_percent)
{
    uint32_t percent = compute_cap(device->slice);
    uint32_t policy = atomic_load_explicit(&device->cap_policy, memory_order_relaxed);

    *ret_percent = percent;
    if (percent == 0 || policy == VGPU_CAP_OFF || hami_unlimited(hook_ledger()))
        return false;
    return policy != VGPU_CAP_ELASTIC || (flags & ARENA_CONTENDED);
}

void compute_nap(uint64_t ns)
{
    struct timespec time = {.tv_nsec = (long)(ns < COMPUTE_NAP_MOST_NS ? ns : COMPUTE_NAP_MOST_NS)};

    syscall(SYS_nanosleep, &time, NULL); /* nanosleep() would be a cancellation point */
}

bool cap_unsure(const struct work *work)
{
    return !cost_trusted(work->cell) || cost_measured_always(work->cell) || compute_estimate(work) >= LONG_NS;
}

/*
 * A launch of which little is known costs at least as much as one like it has been under way for, and so do those that
 * are; their samples will put it right. This is for what passes while there is no hold, or after one. Within a bound,
 * for the oldest may wait for one of those that come.
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
    if (owed_ns > OWED_MOST_NS)
        owed_ns = OWED_MOST_NS;
    return owed_ns > estimate_ns ? owed_ns : estimate_ns;
}

/* What a launch holds, of device time. */
static uint64_t hold_ns(const struct work *work, uint32_t percent)
{
    unsigned stuck = atomic_load_explicit(&work->device->hold.stuck, memory_order_relaxed);
    uint64_t ns = HOLD_PAID_NS / 100 * percent;

    if (cost_trusted(work->cell) || capture_running() || stuck >= STUCK_MOST)
        return 0;
    if (ns > HOLD_NS)
        ns = HOLD_NS;
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

static uint64_t charge_unsure(struct work *work, _Atomic uint64_t *bucket, uint32_t percent, uint64_t now_ns)
{
    uint64_t wait_ns = bucket_wait(bucket, now_ns), held_ns;

    if (wait_ns > 0)
        return wait_ns;
    work->charged_ns = cautious_estimate(work, now_ns);
    held_ns = hold_ns(work, percent);
    if (held_ns == 0)
        return bucket_take(bucket, now_ns, work->charged_ns, percent);
    wait_ns = bucket_take_and_hold(bucket, now_ns, work->charged_ns, held_ns, percent, &work->hold);
    if (wait_ns == 0)
        hold_begins(&work->device->hold, held_ns, percent, now_ns);
    return wait_ns;
}

uint64_t cap_charge(struct work *work, uint32_t percent, uint64_t now_ns)
{
    _Atomic uint64_t *bucket = meter_bucket_at(hook_region(), work->device->slice, percent, now_ns);

    if (atomic_load_explicit(&work->device->hold.wait_ns, memory_order_relaxed) > 0)
        compute_harvest_now();
    if (work->corrects)
        return charge_unsure(work, bucket, percent, now_ns);
    work->charged_ns = compute_estimate(work);
    return bucket_take(bucket, now_ns, work->charged_ns, percent);
}

/* How long to sleep before a launch of this process, which holds the bucket, is asked about. */
static uint64_t sleep_for_held(const struct compute_device *device, uint64_t wait_ns, uint64_t held_ns, uint64_t now_ns)
{
    uint64_t age_ns = now_ns - atomic_load(&device->hold.since_ns);
    uint64_t spin_ns = compute_flags(device) & ARENA_CONTENDED ? SPIN_TURN_NS : SPIN_NS;

    if (wait_ns > held_ns + BUCKET_SLACK_NS) /* without the hold there would be this to wait for */
        return wait_ns - held_ns;
    if (age_ns < spin_ns)
        return 0;
    return age_ns / POLL_PART < POLL_MOST_NS ? age_ns / POLL_PART : POLL_MOST_NS;
}

static uint64_t sleep_for(const struct compute_device *device, uint64_t wait_ns, uint64_t waited_ns, uint64_t now_ns)
{
    uint64_t held_ns = atomic_load(&device->hold.wait_ns), part_ns = waited_ns / NAP_PART;

    if (held_ns > 0)
        return sleep_for_held(device, wait_ns, held_ns, now_ns);
    if (wait_ns < HELD_LONG_NS)
        return wait_ns;
    return part_ns > NAP_LEAST_NS ? part_ns : NAP_LEAST_NS;
}

bool cap_wait(struct work *work, uint64_t wait_ns, uint64_t *now_ns)
{
    NO_CANCEL;
    struct compute_device *device = work->device;
    uint64_t start_ns = *now_ns, sleep_ns;
    bool limited, told = false;
    uint32_t percent;

    do {
        sleep_ns = sleep_for(device, wait_ns, *now_ns - start_ns, *now_ns);
        if (!told && sleep_ns > NAP_MARK_NS && (compute_flags(device) & ARENA_CONTENDED)) {
            gate_pause(&device->gate, true);
            told = true;
        }
        if (sleep_ns > 0)
            compute_nap(sleep_ns);
        *now_ns = clock_ns();
        compute_refresh_sometimes(device, *now_ns);
        compute_harvest(*now_ns);
        limited = cap_applies(device, compute_flags(device), &percent);
    } while (limited && (wait_ns = cap_charge(work, percent, *now_ns)) > 0);
    if (told)
        gate_pause(&device->gate, false);
    meter_throttled(hook_region(), device->slice, *now_ns - start_ns);
    return limited;
}

void cap_settle(struct compute_device *device, const struct bucket_hold *hold, uint64_t now_ns, int64_t delta_ns)
{
    _Atomic uint64_t *bucket = meter_bucket(hook_region(), device->slice);
    bool in_time = bucket_settle(bucket, now_ns, delta_ns, hold, compute_cap(device->slice));

    if (hold->ns > 0)
        atomic_store(&device->hold.wait_ns, 0);
    if (in_time && atomic_load_explicit(&device->hold.stuck, memory_order_relaxed) > 0)
        less_stuck(&device->hold);
}

/* What was charged beyond the estimate is put right by a sample; here there is none. */
void cap_unmeasured(struct work *work)
{
    uint64_t ns = compute_estimate(work);

    if (ns > work->charged_ns)
        ns = work->charged_ns;
    cap_settle(work->device, &work->hold, clock_ns(), (int64_t)(ns - work->charged_ns));
    work->charged_ns = ns;
    work->hold.ns = 0;
}

void cap_launched(struct work *work, bool succeeded, uint64_t launched_ns)
{
    unsigned slice = work->device->slice;

    if (!succeeded)
        cap_settle(work->device, &work->hold, clock_ns(), -(int64_t)work->charged_ns);
    else if (work->corrects && launched_ns == 0 && work->hold.ns > 0)
        cap_settle(work->device, &work->hold, clock_ns(), 0);
    else if (launched_ns > work->begun_ns + LATE_NS)
        bucket_started(meter_bucket(hook_region(), slice), launched_ns, work->charged_ns, compute_cap(slice));
}
