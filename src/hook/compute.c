#include "hook/compute.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/forkwatch.h"
#include "core/bucket.h"
#include "core/hami.h"
#include "core/meter.h"
#include "hook/capture.h"
#include "hook/device.h"
#include "hook/gate.h"
#include "hook/sample.h"
#include "hook/stream_key.h"

#include <time.h>

#define UNKNOWN_NS      20000ULL     /* what a launch is charged about whose cost nothing is known */
#define OWED_MOST_NS    100000000ULL /* see cautious_estimate() */
#define GRAPH_WAITED_NS 4000ULL      /* a graph's launch goes on after the device has begun with it */
#define LONG_NS         1000000ULL
#define NAP_MOST_NS     2000000ULL
#define NAP_MARK_NS     50000ULL /* a pause worth telling others of */
#define BLOCK_MOST_NS   10000000000ULL
#define HARVEST_NS      100000ULL
#define REFRESH_NS      50000000ULL

struct compute_device {
    atomic_bool ready;
    CUdevice device;
    unsigned slice;
    struct gate gate;
    _Atomic uint64_t refreshed_ns; /* settings, counts of turns */
    _Atomic uint32_t cap_policy;
};

static const _Atomic uint32_t always = 1, never = 0;
static const int32_t no_monitor = HAMI_RECENT;
static const uint64_t no_rate = 0;
static _Atomic uint32_t nobody_counts;

struct compute_fast compute_fast = {
    .cap = &always, .flags = &always, .monitor = &no_monitor, .copy_rate = &no_rate, .launches = &nobody_counts};
atomic_bool compute_turns;

static struct compute_device devices[VGPU_DEVICES_MAX]; /* by slice */
static struct vgpu_mutex setup_lock = VGPU_MUTEX_INIT;
static _Atomic(struct cost_table *) costs;
static _Atomic(struct compute_device *) the_device; /* where there is one only, and it is ready */
static atomic_int only_device = -1;                 /* the one with contexts; -1: none yet, -2: several */
static _Atomic uint64_t harvested_ns;
static _Atomic uint64_t random_state;
static atomic_bool forks_watched;

static bool joined(const struct compute_device *device)
{
    return atomic_load_explicit(&device->gate.joined, memory_order_acquire);
}

/* The cap of a slice as it is now; 0: none. */
static uint32_t cap_of(unsigned slice)
{
    return atomic_load_explicit(meter_cap(hook_region(), slice), memory_order_relaxed);
}

static uint32_t flags_of(const struct compute_device *device)
{
    return joined(device) ? lease_flags(&device->gate.lease) : 0;
}

/* Getting to know devices */

static void set_fast(const _Atomic uint32_t *cap, const _Atomic uint32_t *flags, _Atomic uint32_t *launches)
{
    atomic_store(&compute_fast.launches, launches);
    atomic_store(&compute_fast.cap, cap);
    atomic_store(&compute_fast.flags, flags);
}

/* The short way knows one device only: with more, there is none. */
static void choose_fast(const struct compute_device *device)
{
    if (hook_region() == NULL)
        set_fast(&never, &never, &nobody_counts);
    else if (atomic_load(&only_device) != device->device)
        set_fast(&always, &always, &nobody_counts);
    else if (joined(device))
        set_fast(meter_cap(hook_region(), device->slice), &device->gate.lease.page->flags,
                 &device->gate.lease.page->launches);
    else
        set_fast(meter_cap(hook_region(), device->slice), &never, &nobody_counts);
}

static void refresh_settings(struct compute_device *device, uint64_t now_ns)
{
    struct vgpu_compute settings = meter_settings(hook_region());

    atomic_store_explicit(&device->refreshed_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&device->cap_policy, settings.cap_policy, memory_order_relaxed);
    if (joined(device)) {
        uint64_t turns, waited_ns;

        gate_settings(&device->gate, &settings, &turns, &waited_ns);
        if (turns > 0)
            meter_turns(hook_region(), device->slice, turns, waited_ns);
    }
    choose_fast(device);
}

static void refresh_sometimes(struct compute_device *device, uint64_t now_ns)
{
    if (now_ns - atomic_load_explicit(&device->refreshed_ns, memory_order_relaxed) > REFRESH_NS)
        refresh_settings(device, now_ns);
}

static void in_child(void *arg)
{
    (void)arg;
    compute_forked();
}

static struct fork_watch fork_watch = {.child = in_child};

static void set_up(struct compute_device *device, CUdevice number, unsigned slice)
{
    struct vgpu_compute settings = meter_settings(hook_region());
    struct lease_self self = {
        .id = meter_instance_id(hook_region()),
        .weight = settings.weight,
        .priority = settings.priority,
    };
    char uuid[VGPU_UUID_LEN];
    int none = -1;

    MUTEX_SCOPE(&setup_lock);
    if (atomic_load(&device->ready))
        return;
    if (!atomic_exchange(&forks_watched, true))
        fork_watch_add(&fork_watch);
    if (!atomic_load(&costs))
        atomic_store(&costs, cost_table_new());
    meter_instance_name(hook_region(), self.name);
    device->device = number;
    device->slice = slice;
    atomic_store(&compute_fast.monitor, hami_word(hook_ledger()));
    atomic_store(&compute_fast.copy_rate, meter_copy_rate(hook_region()));
    if (device_slice_uuid(slice, uuid) == 0)
        gate_join(&device->gate, uuid, &self, settings.turn_policy);
    atomic_compare_exchange_strong(&only_device, &none, number);
    refresh_settings(device, clock_ns());
    atomic_store_explicit(&device->ready, true, memory_order_release);
    if (atomic_load(&only_device) == number && atomic_load(&costs))
        atomic_store(&the_device, device);
}

/* NULL: the instance has nothing to do with what is launched here. */
static struct compute_device *device_now(void)
{
    struct compute_device *device;
    CUdevice number;
    unsigned slice;

    if (hook_region() == NULL) {
        set_fast(&never, &never, &nobody_counts);
        return NULL;
    }
    device = atomic_load_explicit(&the_device, memory_order_acquire);
    if (device)
        return device;
    if (device_current(&number, &slice) < 0 || slice >= VGPU_DEVICES_MAX)
        return NULL;
    device = &devices[slice];
    if (!atomic_load_explicit(&device->ready, memory_order_acquire))
        set_up(device, number, slice);
    return atomic_load(&costs) ? device : NULL;
}

void compute_context_made(CUdevice device)
{
    int none = -1;

    fork_check();
    if (atomic_compare_exchange_strong(&only_device, &none, device) || none == device || none == -2)
        return;
    MUTEX_SCOPE(&setup_lock);
    atomic_store(&only_device, -2);
    atomic_store(&the_device, NULL);
    set_fast(&always, &always, &nobody_counts);
}

/* Measurements */

#define FLAG_SLICE_SHIFT  2 /* the bits below are SAMPLE_DOUBTFUL and SAMPLE_VAGUE */
#define FLAG_CORRECTS     64u
#define FLAG_KIND_SHIFT   8
#define FLAG_WEIGHT_SHIFT 16

static uint32_t random_bits(void)
{
    uint64_t state = atomic_load_explicit(&random_state, memory_order_relaxed);
    uint32_t bits = cost_random(&state);

    atomic_store_explicit(&random_state, state, memory_order_relaxed);
    return bits;
}

/* A launch turns out to have cost something else than it was charged. */
static void measured(struct cost_cell *cell, uint64_t measured_ns, uint64_t charged_ns, unsigned flags, void *arg)
{
    unsigned slice = flags >> FLAG_SLICE_SHIFT & 15, weight = flags >> FLAG_WEIGHT_SHIFT;
    enum vgpu_work kind = flags >> FLAG_KIND_SHIFT & 255;
    uint64_t now_ns = clock_ns(), unseen = 0;
    int64_t wrong_ns;

    (void)arg;
    if (measured_ns > 0 && !(flags & SAMPLE_VAGUE))
        unseen = cost_learn(cell, measured_ns, flags & SAMPLE_DOUBTFUL);
    else if (measured_ns == 0 && (flags & FLAG_CORRECTS))
        measured_ns = cost_estimate(cell, charged_ns);
    else if (measured_ns == 0)
        return;
    /* What was launched on the first guess while the sample was under way is put right with it. */
    wrong_ns = ((int64_t)measured_ns - (int64_t)charged_ns) * (int64_t)(1 + unseen);
    if (flags & FLAG_CORRECTS)
        bucket_correct(meter_bucket(hook_region(), slice), now_ns, wrong_ns, cap_of(slice));
    meter_add(hook_region(), slice, kind, 0, wrong_ns * (int64_t)weight, now_ns);
}

static void harvest(uint64_t now_ns)
{
    uint64_t last_ns = atomic_load_explicit(&harvested_ns, memory_order_relaxed);

    if (now_ns - last_ns < HARVEST_NS)
        return;
    atomic_store_explicit(&harvested_ns, now_ns, memory_order_relaxed);
    sample_harvest(measured, NULL);
}

/* The cap */

static bool capped(const struct compute_device *device, uint32_t flags, uint32_t *ret_percent)
{
    uint32_t percent = cap_of(device->slice);
    uint32_t policy = atomic_load_explicit(&device->cap_policy, memory_order_relaxed);

    *ret_percent = percent;
    if (percent == 0 || policy == VGPU_CAP_OFF || hami_unlimited(hook_ledger()))
        return false;
    return policy != VGPU_CAP_ELASTIC || (flags & ARENA_CONTENDED);
}

static void nap(uint64_t ns)
{
    struct timespec time = {.tv_nsec = (long)(ns < NAP_MOST_NS ? ns : NAP_MOST_NS)};

    nanosleep(&time, NULL);
}

/*
 * HAMi's monitor hears of launches, and holds instances of low priority back; but should it die, they are not held for
 * ever. Returns the time when it is done.
 */
static uint64_t heed_monitor(uint64_t now_ns)
{
    struct vgpu_ledger *ledger = hook_ledger();
    uint64_t until_ns = now_ns + BLOCK_MOST_NS;

    if (!hami_mirrored(ledger))
        return now_ns;
    hami_launch(ledger, (uint64_t)time(NULL));
    while (hami_blocked(ledger) && now_ns < until_ns) {
        nap(NAP_MOST_NS);
        now_ns = clock_ns();
    }
    return now_ns;
}

/* Launches */

static uint64_t estimate(const struct work *work)
{
    return cost_estimate(work->cell, work->guess_ns ? work->guess_ns : UNKNOWN_NS);
}

/*
 * Launches whose charges are put right by their samples: on average others are right without. Of long ones each is
 * measured, which is nothing beside what they take: the next may take another time, by an argument that nobody sees.
 */
static bool unsure(const struct work *work)
{
    return !cost_known(work->cell) || cost_measured_always(work->cell) || estimate(work) >= LONG_NS;
}

static bool wants_sample(const struct work *work, uint32_t flags)
{
    if (work->weight > 1)
        return true;
    if (work->limited || (flags & ARENA_CONTENDED))
        return cost_wants_sample(work->cell, random_bits()) || (work->limited && unsure(work));
    return random_bits() % COMPUTE_SURVEY == 0;
}

/*
 * A launch of which little is known costs at least as much as one like it has been under way for, and so do those that
 * are; their samples will put it right. So what is queued ahead of the first sample gets rarer and rarer; on guesses
 * alone a long kernel would be queued for seconds, and be followed by seconds of silence. Within a bound, for the
 * oldest may wait for one of those that come.
 */
static uint64_t cautious_estimate(const struct work *work, uint64_t now_ns)
{
    uint64_t estimate_ns = estimate(work), owed_ns;

    /* In a capture nothing is harvested, so all seem to go on. */
    if (capture_running() || sample_owed_ns(work->cell, now_ns) <= estimate_ns)
        return estimate_ns;
    sample_harvest(measured, NULL);
    estimate_ns = estimate(work);
    owed_ns = sample_owed_ns(work->cell, now_ns);
    if (owed_ns > OWED_MOST_NS)
        owed_ns = OWED_MOST_NS;
    return owed_ns > estimate_ns ? owed_ns : estimate_ns;
}

/* 0: the bucket lets the launch through, and it is charged. Else how long until then. */
static uint64_t try_charge(struct work *work, const struct compute_device *device, uint32_t percent, uint64_t now_ns)
{
    _Atomic uint64_t *bucket = meter_bucket_at(hook_region(), device->slice, percent, now_ns);

    work->charged_ns = work->corrects ? cautious_estimate(work, now_ns) : estimate(work);
    return bucket_take(bucket, now_ns, work->charged_ns, percent);
}

/*
 * Waits until the bucket lets the launch through, and charges it; false: nothing limits it any more. Looks at the cap
 * anew all the time: it may be changed or lifted.
 */
static bool throttle(struct work *work, struct compute_device *device, uint64_t wait_ns, uint64_t *now_ns)
{
    uint64_t start_ns = *now_ns;
    bool limited, told = false;
    uint32_t percent;

    do {
        if (!told && wait_ns > NAP_MARK_NS && (flags_of(device) & ARENA_CONTENDED)) {
            gate_pause(&device->gate, true);
            told = true;
        }
        nap(wait_ns);
        *now_ns = clock_ns();
        refresh_sometimes(device, *now_ns);
        harvest(*now_ns);
        limited = capped(device, flags_of(device), &percent);
    } while (limited && (wait_ns = try_charge(work, device, percent, *now_ns)) > 0);
    if (told)
        gate_pause(&device->gate, false);
    meter_throttled(hook_region(), device->slice, *now_ns - start_ns);
    return limited;
}

/* What was charged beyond the estimate is put right by a sample; here there is none. */
static void charge_estimate(struct work *work, struct compute_device *device)
{
    uint64_t ns = estimate(work);

    if (ns < work->charged_ns)
        bucket_correct(meter_bucket(hook_region(), device->slice), clock_ns(), (int64_t)(ns - work->charged_ns),
                       cap_of(device->slice));
    work->charged_ns = ns;
}

static void begin_survey(void)
{
    uint32_t count = atomic_load_explicit(atomic_load(&compute_fast.launches), memory_order_relaxed);

    /* Half to one and a half of that number from here, at random: no rhythm of the program's hides from it. */
    atomic_store_explicit(&compute_fast.survey, count + COMPUTE_SURVEY / 2 + random_bits() % COMPUTE_SURVEY,
                          memory_order_relaxed);
}

/* Waits for the cap, and is charged. */
static void admit(struct work *work, struct compute_device *device)
{
    uint64_t now_ns = heed_monitor(clock_ns()), wait_ns = 0;
    uint32_t flags = flags_of(device), percent;

    work->device = device;
    work->cell = cost_find(atomic_load(&costs), work->key);
    refresh_sometimes(device, now_ns);
    if (flags & ARENA_RESUME) {
        gate_resume(&device->gate, now_ns);
        flags = flags_of(device);
    }
    work->limited = capped(device, flags, &percent);
    work->measures = wants_sample(work, flags);
    if (work->limited) {
        work->corrects = work->measures && unsure(work);
        wait_ns = try_charge(work, device, percent, now_ns);
    }
    if (wait_ns > 0)
        work->limited = throttle(work, device, wait_ns, &now_ns);
    if (!work->limited)
        work->charged_ns = estimate(work);
    work->begun_ns = now_ns;
}

void compute_admit(struct work *work)
{
    KEEP_ERRNO;
    struct compute_device *device;

    fork_check();
    work->device = NULL;
    work->sample = NULL;
    work->place = -1;
    if (work->weight == 0)
        work->weight = compute_weight();
    device = device_now();
    /* In a capture the work becomes part of a graph: nothing runs now, and nothing may be asked or recorded. */
    if (device && !capture_records(work->stream, work->per_thread))
        admit(work, device);
}

void compute_enter(struct work *work)
{
    KEEP_ERRNO;

    if (!work->device)
        return;
    if (flags_of(work->device) & ARENA_CONTENDED) {
        atomic_store_explicit(&compute_turns, true, memory_order_relaxed);
        work->place = gate_enter(&work->device->gate, work->stream, work->per_thread, work->charged_ns, work->begun_ns);
    } else if (work->weight > 1) {
        begin_survey();
    }
}

void compute_measure(struct work *work)
{
    KEEP_ERRNO;

    if (!work->device)
        return;
    if (work->measures)
        work->sample = sample_begin(work->stream, work->per_thread, work->cell);
    if (work->limited && work->corrects && !work->sample)
        charge_estimate(work, work->device);
    if (!work->sample && !cost_known(work->cell))
        cost_defer(work->cell);
}

void compute_end(struct work *work, CUresult result)
{
    KEEP_ERRNO;
    struct compute_device *device = work->device;
    unsigned flags;

    if (!device)
        return;
    flags =
        device->slice << FLAG_SLICE_SHIFT | (unsigned)work->kind << FLAG_KIND_SHIFT | work->weight << FLAG_WEIGHT_SHIFT;
    if (work->corrects)
        flags |= FLAG_CORRECTS;
    if ((flags_of(device) & ARENA_CONTENDED) && work->place < 0)
        flags |= SAMPLE_DOUBTFUL;
    gate_leave(&device->gate, work->place);
    if (work->sample)
        sample_end(work->sample, work->stream, work->per_thread, result,
                   work->kind == VGPU_WORK_GRAPH ? GRAPH_WAITED_NS : UINT64_MAX, work->charged_ns, flags);
    if (result != CUDA_SUCCESS) {
        if (work->limited)
            bucket_correct(meter_bucket(hook_region(), device->slice), clock_ns(), -(int64_t)work->charged_ns,
                           cap_of(device->slice));
        return;
    }
    /* The time it began is good enough, and a clock costs as much as the rest. */
    meter_add(hook_region(), device->slice, work->kind, work->weight, (int64_t)(work->charged_ns * work->weight),
              work->begun_ns);
    harvest(work->begun_ns);
}

void compute_waits_slow(bool blocks)
{
    KEEP_ERRNO;
    bool contended = false;

    fork_check();
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        if (!(flags_of(&devices[i]) & ARENA_CONTENDED))
            continue;
        gate_mark(&devices[i].gate, blocks);
        contended = true;
    }
    if (!contended)
        atomic_store_explicit(&compute_turns, false, memory_order_relaxed);
}

void compute_wait_begins_slow(CUstream stream, bool per_thread, bool context, struct gate_wait *ret_wait)
{
    KEEP_ERRNO;
    struct compute_device *device = atomic_load_explicit(&the_device, memory_order_acquire);

    fork_check();
    if (!device || !(flags_of(device) & ARENA_CONTENDED)) {
        compute_waits_slow(true);
        return;
    }
    gate_wait_begins(&device->gate, context ? 0 : stream_handle(stream, per_thread), ret_wait);
}

void compute_wait_ends_slow(const struct gate_wait *wait)
{
    KEEP_ERRNO;
    struct compute_device *device = atomic_load_explicit(&the_device, memory_order_acquire);

    if (device)
        gate_wait_ends(&device->gate, wait);
}

/* Copies between host and device */

static void wait_to_copy(const struct compute_device *device, enum vgpu_work direction, uint64_t bytes)
{
    const uint64_t *rate = meter_copy_rate(hook_region());
    _Atomic uint64_t *bucket = meter_copy_bucket(hook_region(), device->slice, direction);
    uint64_t now_ns = clock_ns(), start_ns = now_ns, wait_ns;

    /* The rate is looked at anew all the time: it may be changed or lifted. */
    while ((wait_ns = bucket_take_bytes(bucket, now_ns, bytes, __atomic_load_n(rate, __ATOMIC_RELAXED))) > 0) {
        nap(wait_ns);
        now_ns = clock_ns();
    }
    if (now_ns > start_ns)
        meter_copy_waited(hook_region(), device->slice, now_ns - start_ns);
}

void compute_host_copy(enum vgpu_work direction, uint64_t bytes, unsigned weight)
{
    KEEP_ERRNO;
    struct compute_device *device;

    fork_check();
    if (bytes == 0 || !(device = device_now()))
        return;
    meter_add(hook_region(), device->slice, direction, weight, (int64_t)(bytes * weight), 0);
    if (compute_copies_limited())
        wait_to_copy(device, direction, bytes);
}

/* Ends */

void compute_forget(uint64_t key)
{
    struct cost_table *table = atomic_load(&costs);

    if (table)
        cost_forget(table, key);
}

void compute_changed(uint64_t key)
{
    struct cost_table *table = atomic_load(&costs);

    if (table)
        cost_doubt(table, key);
}

void compute_context_ends(CUcontext context)
{
    KEEP_ERRNO;

    fork_check();
    sample_context_ends(context);
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++)
        if (joined(&devices[i]))
            gate_context_ends(&devices[i].gate, context);
}

void compute_stream_ends(CUstream stream, bool per_thread)
{
    KEEP_ERRNO;

    fork_check();
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++)
        if (joined(&devices[i]))
            gate_stream_ends(&devices[i].gate, stream, per_thread);
}

/* The child has no device of its own yet; its parent's page, gates and events are the parent's. */
void compute_forked(void)
{
    set_fast(&always, &always, &nobody_counts);
    mutex_init(&setup_lock);
    atomic_store(&only_device, -1);
    atomic_store(&the_device, NULL);
    atomic_store(&compute_turns, false);
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        atomic_store(&devices[i].ready, false);
        gate_forked(&devices[i].gate);
    }
    sample_forked();
}
