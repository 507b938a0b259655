#include "hook/work/compute_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/forkwatch.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "sched/bucket.h"
#include "account/hami.h"
#include "hook/work/capture.h"
#include "hook/loader/device.h"
#include "hook/work/gang.h"
#include "sched/sample.h"
#include "hook/work/stream_key.h"
#include "sched/survey.h"

#include <string.h>
#include <time.h>

static const _Atomic uint32_t always = 1, never = 0;
static const int32_t no_monitor = HAMI_RECENT;
static const uint64_t no_rate = 0;
static _Atomic uint32_t nobody_counts;

struct compute_fast compute_fast = {.cap = &always,
                                    .flags = &always,
                                    .monitor = &no_monitor,
                                    .copy_rate = &no_rate,
                                    .launches = &nobody_counts};
atomic_bool compute_turns, compute_holds;

struct compute_device compute_devices[VGPU_DEVICES_MAX];
static struct vgpu_mutex setup_lock = VGPU_MUTEX_INIT;
static _Atomic(struct cost_table *) costs;
static _Atomic(struct compute_device *)
    the_device;                     /* the only device with contexts, once it is ready */
static atomic_int only_device = -1; /* the one with contexts; -1: none yet, -2: several */
static _Atomic uint64_t random_state;
static atomic_bool forks_watched;

/* Getting to know devices */

static void set_fast(const _Atomic uint32_t *cap, const _Atomic uint32_t *flags,
                     _Atomic uint32_t *launches)
{
    atomic_store(&compute_fast.launches, launches);
    atomic_store(&compute_fast.cap, cap);
    atomic_store(&compute_fast.flags, flags);
}

/* The short way knows one device only. With several there is none. */
static void choose_fast(const struct compute_device *device)
{
    const _Atomic uint32_t *cap = NULL;

    if (hook_region() != NULL) {
        unsigned group = compute_group();

        /* One word tells whether a launch is limited: that of the group, which never goes, if it
         * has a cap. */
        cap = usage_cap(hook_region(), group && compute_cap(group, device->vdev) ? group : 0,
                        device->vdev);
        atomic_store(
            &compute_fast.copy_rate,
            usage_copy_rate(hook_region(), *usage_copy_rate(hook_region(), group) ? group : 0));
    }
    if (hook_region() == NULL)
        set_fast(&never, &never, &nobody_counts);
    else if (atomic_load(&only_device) != device->device)
        set_fast(&always, &always, &nobody_counts);
    else if (compute_joined(device))
        set_fast(cap, &device->semaphore.client.page->flags,
                 &device->semaphore.client.page->launches);
    else
        set_fast(cap, &never, &nobody_counts);
}

static void refresh_settings(struct compute_device *device, uint64_t now_ns)
{
    NO_CANCEL;
    struct vgpu_compute settings = usage_settings(hook_region());

    atomic_store_explicit(&device->refreshed_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&device->cap_policy, settings.cap_policy, memory_order_relaxed);
    if (compute_joined(device)) {
        struct vgpu_arena *others[VGPU_DEVICES_MAX];
        uint64_t turns, waited_ns;

        semaphore_settings(&device->semaphore, &settings, &turns, &waited_ns);
        semaphore_set_others(&device->semaphore, others, gang_others(device->vdev, others));
        if (turns > 0)
            usage_turns(hook_region(), device->vdev, turns, waited_ns);
    }
    choose_fast(device);
}

static void refresh_sometimes(struct compute_device *device, uint64_t now_ns)
{
    if (now_ns - atomic_load_explicit(&device->refreshed_ns, memory_order_relaxed) >
        COMPUTE_REFRESH_NS)
        refresh_settings(device, now_ns);
}

/* The child has no device of its own yet. Its parent's page, semaphores and events are the
 * parent's. */
static void compute_in_child(void *arg)
{
    (void)arg;
    set_fast(&always, &always, &nobody_counts);
    mutex_init(&setup_lock);
    atomic_store(&only_device, -1);
    atomic_store(&the_device, NULL);
    atomic_store(&compute_turns, false);
    atomic_store(&compute_holds, false);
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        atomic_store(&compute_devices[i].ready, false);
        atomic_store(&compute_devices[i].hold.wait_ns, 0);
        atomic_store(&compute_devices[i].hold.stuck, 0);
        semaphore_forked(&compute_devices[i].semaphore);
    }
    sample_forked();
    survey_forked();
}

static struct fork_watch fork_watch = {.child = compute_in_child};

static void set_up(struct compute_device *device, CUdevice number, unsigned vdev)
{
    NO_CANCEL;
    struct vgpu_compute settings = usage_settings(hook_region());
    struct sched_identity self = {
        .id = usage_instance_id(hook_region()),
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
    usage_instance_name(hook_region(), self.name);
    device->device = number;
    device->vdev = vdev;
    atomic_store(&compute_fast.monitor, hami_word(hook_ledger()));
    if (device_vdev_uuid(vdev, uuid) == 0)
        semaphore_join(&device->semaphore, uuid, &self, settings.turn_policy);
    atomic_compare_exchange_strong(&only_device, &none, number);
    refresh_settings(device, clock_ns());
    atomic_store_explicit(&device->ready, true, memory_order_release);
    if (atomic_load(&only_device) == number && atomic_load(&costs))
        atomic_store(&the_device, device);
}

/* NULL: the instance does not limit or count what is launched here. */
static struct compute_device *device_now(void)
{
    struct compute_device *device;
    CUdevice number;
    unsigned vdev;

    if (hook_region() == NULL) {
        set_fast(&never, &never, &nobody_counts);
        return NULL;
    }
    device = atomic_load_explicit(&the_device, memory_order_acquire);
    if (device)
        return device;
    if (device_current(&number, &vdev) < 0 || vdev >= VGPU_DEVICES_MAX)
        return NULL;
    device = &compute_devices[vdev];
    if (!atomic_load_explicit(&device->ready, memory_order_acquire))
        set_up(device, number, vdev);
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

static uint32_t random_bits(void)
{
    uint64_t state = atomic_load_explicit(&random_state, memory_order_relaxed);
    uint32_t bits = cost_random(&state);

    atomic_store_explicit(&random_state, state, memory_order_relaxed);
    return bits;
}

void compute_waited_slow(void)
{
    KEEP_ERRNO;

    fork_check();
    atomic_store_explicit(&compute_holds, false, memory_order_relaxed);
    compute_harvest_now();
}

/*
 * HAMi's monitor learns of launches, and holds back instances of low priority for as long as it
 * likes, by HAMi's contract. Returns the time when it is done.
 */
static uint64_t heed_monitor(uint64_t now_ns)
{
    struct vgpu_ledger *ledger = hook_ledger();
    uint64_t since_ns = now_ns;

    if (!hami_mirrored(ledger))
        return now_ns;
    hami_launch(ledger, (uint64_t)time(NULL));
    while (hami_blocked(ledger, now_ns - since_ns)) {
        compute_nap(COMPUTE_NAP_MOST_NS);
        now_ns = clock_ns();
    }
    return now_ns;
}

/* Launches */

static bool wants_sample(const struct work *work, uint64_t now_ns)
{
    if (work->surveyed && cost_known(work->cell) && random_bits() % COMPUTE_KNOWN_PART > 0)
        return false; /* rather one of unknown cost */
    if (work->surveyed)
        return survey_due(stream_handle(work->stream, work->per_thread), now_ns);
    return cost_wants_sample(work->cell, random_bits()) || (work->limited && cap_unsure(work));
}

static void begin_survey(void)
{
    uint32_t count =
        atomic_load_explicit(atomic_load(&compute_fast.launches), memory_order_relaxed);

    /* Half to one and a half of that number from here, at random: no rhythm of the program hides
     * from it. */
    atomic_store_explicit(&compute_fast.survey,
                          count + COMPUTE_SURVEY / 2 + random_bits() % COMPUTE_SURVEY,
                          memory_order_relaxed);
}

/* Waits until the bucket lets the launch through, and charges it. False: nothing limits it any
 * more. Reads the cap anew all the time: it may be changed or lifted. */
static bool wait_for_cap(struct work *work, uint64_t wait_ns, uint64_t *now_ns)
{
    NO_CANCEL;
    struct compute_device *device = work->device;
    uint64_t start_ns = *now_ns, sleep_ns;
    bool limited, told = false;
    struct caps caps;

    do {
        sleep_ns = cap_sleep_ns(device, wait_ns, *now_ns - start_ns, *now_ns);
        if (!told && sleep_ns > CAP_NAP_FENCE_NS && (compute_flags(device) & ARENA_CONTENDED)) {
            semaphore_pause(&device->semaphore, true);
            told = true;
        }
        if (sleep_ns > 0)
            compute_nap(sleep_ns);
        *now_ns = clock_ns();
        refresh_sometimes(device, *now_ns);
        compute_harvest(*now_ns);
        limited = cap_applies(device, compute_flags(device), &caps);
    } while (limited && (wait_ns = cap_charge(work, &caps, *now_ns)) > 0);
    if (told)
        semaphore_pause(&device->semaphore, false);
    usage_throttled(hook_region(), device->vdev, *now_ns - start_ns);
    return limited;
}

/* Waits for the cap, and charges. */
static void charge_launch(struct work *work, struct compute_device *device)
{
    uint64_t now_ns = heed_monitor(clock_ns()), wait_ns = 0;
    uint32_t flags = compute_flags(device);
    struct caps caps;

    work->device = device;
    work->cell = cost_find(atomic_load(&costs), work->key);
    refresh_sometimes(device, now_ns);
    if (flags & ARENA_RESUME) {
        semaphore_resume(&device->semaphore, now_ns);
        flags = compute_flags(device);
    }
    work->limited = cap_applies(device, flags, &caps);
    work->surveyed = !work->limited && !(flags & ARENA_CONTENDED);
    work->measures = wants_sample(work, now_ns);
    if (work->limited) {
        work->corrects = work->measures && cap_unsure(work);
        wait_ns = cap_charge(work, &caps, now_ns);
    }
    if (wait_ns > 0)
        work->limited = wait_for_cap(work, wait_ns, &now_ns);
    if (!work->limited) {
        work->charged_ns = compute_estimate(work);
        work->corrects = false;
    }
    work->begun_ns = now_ns;
}

void compute_admit(struct work *work)
{
    KEEP_ERRNO;
    struct compute_device *device;

    fork_check();
    work->device = NULL;
    work->sample = NULL;
    work->slot = -1;
    memset(work->hold, 0, sizeof(work->hold));
    if (work->weight == 0)
        work->weight = compute_weight();
    device = device_now();
    /* In a capture the work becomes part of a graph: nothing runs now, and nothing may be asked or
     * recorded. */
    if (device && !capture_records(work->stream, work->per_thread))
        charge_launch(work, device);
}

/* What the work counts for in a turn. */
static uint64_t turn_cost_ns(const struct work *work)
{
    return cost_known(work->cell) || work->charged_ns > SCHED_UNKNOWN_NS ? work->charged_ns
                                                                         : SCHED_UNKNOWN_NS;
}

void compute_enter(struct work *work)
{
    KEEP_ERRNO;

    if (!work->device)
        return;
    if (compute_flags(work->device) & ARENA_CONTENDED) {
        NO_CANCEL;
        atomic_store_explicit(&compute_turns, true, memory_order_relaxed);
        work->slot = semaphore_enter(&work->device->semaphore, work->stream, work->per_thread,
                                     turn_cost_ns(work), work->begun_ns);
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
        work->sample = sample_begin(stream_handle(work->stream, work->per_thread), work->cell);
    if (work->limited && work->corrects && !work->sample)
        cap_unmeasured(work);
    if (work->sample && work->surveyed) /* the next wait reads it, for the program may end then */
        atomic_store_explicit(&compute_holds, true, memory_order_relaxed);
    if (work->sample || cost_known(work->cell))
        return;
    if (work->surveyed)
        work->charged_ns =
            survey_estimate(work->device->vdev, work->kind, work->weight * compute_guess(work)) /
            work->weight;
    else
        cost_defer(work->cell);
}

void compute_end(struct work *work, CUresult result)
{
    KEEP_ERRNO;
    struct compute_device *device = work->device;
    struct sample_charge charge;
    uint64_t launched_ns = 0;
    unsigned flags;
    bool unknown;

    if (!device)
        return;
    unknown = work->surveyed && !cost_known(work->cell);
    flags = device->vdev << FLAG_VDEV_SHIFT | (unsigned)work->kind << FLAG_KIND_SHIFT |
            work->weight << FLAG_WEIGHT_SHIFT;
    if (work->corrects)
        flags |= FLAG_CORRECTS;
    if ((compute_flags(device) & ARENA_CONTENDED) && work->slot < 0)
        flags |= SAMPLE_DOUBTFUL;
    if (work->slot >= 0) {
        NO_CANCEL;
        semaphore_leave(&device->semaphore, work->slot);
    }
    charge = (struct sample_charge){
        .ns = work->charged_ns, .guess_ns = unknown ? compute_guess(work) : 0, .flags = flags};
    memcpy(charge.hold, work->hold, sizeof(charge.hold));
    if (work->sample)
        launched_ns = sample_end(
            work->sample, stream_handle(work->stream, work->per_thread), result == CUDA_SUCCESS,
            work->kind == VGPU_WORK_GRAPH ? COMPUTE_GRAPH_WAITED_NS : UINT64_MAX, &charge);
    if (work->limited)
        cap_launched(work, result == CUDA_SUCCESS, launched_ns);
    if (result != CUDA_SUCCESS)
        return;
    /* The time it began is good enough, and a clock costs as much as the rest. */
    usage_add(hook_region(), device->vdev, work->kind, work->weight,
              (int64_t)(work->charged_ns * work->weight), work->begun_ns);
    compute_harvest(work->begun_ns);
}

void compute_waits_slow(bool blocks)
{
    NO_CANCEL;
    KEEP_ERRNO;
    bool contended = false;

    fork_check();
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        if (!(compute_flags(&compute_devices[i]) & ARENA_CONTENDED))
            continue;
        semaphore_fence(&compute_devices[i].semaphore, blocks);
        contended = true;
    }
    if (!contended)
        atomic_store_explicit(&compute_turns, false, memory_order_relaxed);
}

void compute_wait_begins_slow(CUstream stream, bool per_thread, bool context,
                              struct semaphore_wait *ret_wait)
{
    NO_CANCEL;
    KEEP_ERRNO;
    struct compute_device *device = atomic_load_explicit(&the_device, memory_order_acquire);

    fork_check();
    if (!device || !(compute_flags(device) & ARENA_CONTENDED)) {
        compute_waits_slow(true);
        return;
    }
    semaphore_wait_begins(&device->semaphore, context ? 0 : stream_handle(stream, per_thread),
                          ret_wait);
}

void compute_wait_ends_slow(const struct semaphore_wait *wait)
{
    NO_CANCEL;
    KEEP_ERRNO;
    struct compute_device *device = atomic_load_explicit(&the_device, memory_order_acquire);

    if (device)
        semaphore_wait_ends(&device->semaphore, wait);
}

/* Copies between host and device */

static void wait_to_copy(const struct compute_device *device, unsigned group,
                         enum vgpu_work direction, uint64_t bytes)
{
    NO_CANCEL;
    const uint64_t *rate = usage_copy_rate(hook_region(), group);
    _Atomic uint64_t *bucket = usage_copy_bucket(hook_region(), group, device->vdev, direction);
    uint64_t now_ns = clock_ns(), start_ns = now_ns, wait_ns;

    /* The rate is read anew all the time: it may be changed or lifted. */
    while ((wait_ns = bucket_take_bytes(bucket, now_ns, bytes,
                                        __atomic_load_n(rate, __ATOMIC_RELAXED))) > 0) {
        compute_nap(wait_ns);
        now_ns = clock_ns();
    }
    if (now_ns > start_ns)
        usage_copy_waited(hook_region(), device->vdev, now_ns - start_ns);
}

void compute_host_copy(enum vgpu_work direction, uint64_t bytes, unsigned weight)
{
    KEEP_ERRNO;
    struct compute_device *device;

    fork_check();
    if (bytes == 0 || !(device = device_now()))
        return;
    usage_add(hook_region(), device->vdev, direction, weight, (int64_t)(bytes * weight), 0);
    if (!compute_copies_limited())
        return;
    /* One after the other: a copy that has waited for its group's rate is late, and never early,
     * for the instance's. */
    if (compute_group())
        wait_to_copy(device, compute_group(), direction, bytes);
    wait_to_copy(device, 0, direction, bytes);
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

void compute_context_ending(CUcontext context)
{
    NO_CANCEL;
    KEEP_ERRNO;

    fork_check();
    for (unsigned i = 0; i < 4;
         i++) /* the charge of what is measured and not read yet would be a guess */
        compute_harvest_now();
    compute_context_ends(context);
}

void compute_context_ends(CUcontext context)
{
    NO_CANCEL;
    KEEP_ERRNO;

    fork_check();
    sample_context_ends(context);
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++)
        if (compute_joined(&compute_devices[i]))
            semaphore_context_ends(&compute_devices[i].semaphore, context);
}

void compute_stream_ends(CUstream stream, bool per_thread)
{
    NO_CANCEL;
    KEEP_ERRNO;

    fork_check();
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++)
        if (compute_joined(&compute_devices[i]))
            semaphore_stream_ends(&compute_devices[i].semaphore, stream, per_thread);
}
