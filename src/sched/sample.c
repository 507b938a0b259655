/*
 * A pair of events around a kernel shows more time than the kernel took:
 *
 *   - The pair itself costs time, which a pair without work between shows (1.28 us on an H200).
 *     It is measured here.
 *   - If the stream was idle, the device waits between the first event and the kernel until the
 *     CPU has launched it. Clocks on both sides of the launch tell how long. If the stream runs
 *     dry just then, the device has waited for an unknown part of it: such a sample is used
 *     only while nothing is known.
 *   - If a thread loses the CPU between the calls, the device is idle before or after the
 *     kernel. The duration of the calls shows that, and the sample is doubtful.
 *   - Starting a kernel and letting it run dry takes the device about 2 us (an empty kernel),
 *     taken to be SAMPLE_LAUNCH_SHARE times the pair's cost. Of a short kernel at least half of
 *     the occupied time counts, or it would be free.
 *
 * Measured on an H200: kernels of 20, 200 and 2000 us come out as 19.9, 199.9 and 2001 us.
 */
#include "sched/sample.h"

#include "base/clock.h"
#include "base/nocancel.h"
#include "sched/sched_params.h"

#include <sched.h>

enum sample_state { SAMPLE_FREE, SAMPLE_TAKEN, SAMPLE_UNDER_WAY };

struct sample {
    atomic_int state;
    bool idle;       /* the stream was idle before */
    bool queued;     /* the stream was busy until the launch was queued */
    bool calibrates; /* `after` was recorded right behind `end` */
    gpu_event begin, end, after;
    struct sample_pool *pool;
    _Atomic(struct cost_cell *) cell;
    _Atomic uint32_t generation;            /* the cell's at the launch */
    uint64_t start_ns;                      /* before `begin` was recorded */
    _Atomic uint64_t launch_ns, charged_ns; /* charged_ns is charge.ns, for sample_owed_ns() */
    uint64_t begin_ns;                      /* how long recording `begin` took, if long */
    uint64_t gap_ns;
    uint64_t waited_ns; /* the device's part of that, if it was idle */
    uint64_t cpu_ns;    /* the thread's CPU time before the launch; 0: the cost is known, and a
                           doubtful sample is dropped */
    uint64_t off_ns;    /* the part of gap_ns in which the thread had no CPU, by cpu_ns */
    uint64_t end_ns;    /* from the launch's return until `end` was recorded, if long */
    struct sample_charge charge;
};

struct sample_pool {
    _Atomic(gpu_context) context; /* NULL: free */
    atomic_flag busy;             /* a thread harvests, or ends it */
    atomic_uint calibrations;
    _Atomic uint64_t bias_ns;
    unsigned next; /* under `busy` */
    struct sample samples[SAMPLE_SAMPLES_MAX];
};

static struct sample_pool pools[SAMPLE_POOLS_MAX];
static atomic_int under_way;

static struct sample_pool *pool_of_current(void)
{
    gpu_context context = gpu_current_context();

    if (!context)
        return NULL;
    for (unsigned i = 0; i < SAMPLE_POOLS_MAX; i++) {
        gpu_context none = NULL;

        if (atomic_load_explicit(&pools[i].context, memory_order_acquire) == context)
            return &pools[i];
        if (atomic_compare_exchange_strong(&pools[i].context, &none, context)) {
            atomic_store(&pools[i].bias_ns, SAMPLE_BIAS_FIRST_NS);
            atomic_store(&pools[i].calibrations, 0);
            return &pools[i];
        }
        if (none == context)
            return &pools[i];
    }
    return NULL;
}

static bool make_events(struct sample *sample)
{
    gpu_event *events[] = {&sample->begin, &sample->end, &sample->after};

    for (unsigned i = 0; i < 3; i++)
        if (!*events[i] && !(*events[i] = gpu_event_new()))
            return false;
    return true;
}

static struct sample *take(struct sample_pool *pool)
{
    for (unsigned i = 0; i < SAMPLE_SAMPLES_MAX; i++) {
        struct sample *sample = &pool->samples[i];
        int free = SAMPLE_FREE;

        if (atomic_load_explicit(&sample->state, memory_order_relaxed) == SAMPLE_FREE &&
            atomic_compare_exchange_strong(&sample->state, &free, SAMPLE_TAKEN))
            return sample;
    }
    return NULL;
}

static bool stream_idle(gpu_stream stream)
{
    struct gpu_question question;
    bool idle;

    gpu_question_begin(&question);
    idle = gpu_stream_idle(stream);
    gpu_question_end(&question);
    return idle;
}

static bool event_pending(gpu_event event)
{
    struct gpu_question question;
    bool pending;

    gpu_question_begin(&question);
    pending = gpu_event_state(event) == GPU_EVENT_PENDING;
    gpu_question_end(&question);
    return pending;
}

static bool record(gpu_event event, gpu_stream stream)
{
    return event && gpu_event_record(event, stream);
}

static uint64_t less(uint64_t from, double by)
{
    return (double)from > by ? from - (uint64_t)by : 0;
}

static uint64_t if_long(uint64_t ns)
{
    return ns > SAMPLE_GAP_MOST_NS ? ns : 0;
}

struct sample *sample_begin(gpu_stream stream, struct cost_cell *cell)
{
    NO_CANCEL;
    struct sample_pool *pool;
    struct sample *sample;
    uint64_t start_ns;

    if (gpu_capturing() || !gpu_can_time() || !(pool = pool_of_current()) || !(sample = take(pool)))
        return NULL;
    sample->idle = stream_idle(stream);
    start_ns = make_events(sample) ? clock_ns() : 0;
    if (start_ns == 0 || !record(sample->begin, stream)) {
        atomic_store(&sample->state, SAMPLE_FREE);
        return NULL;
    }
    sample->pool = pool;
    sample->cell = cell;
    sample->generation = cost_generation(cell);
    sample->start_ns = start_ns;
    sample->cpu_ns = cost_trusted(cell) ? 0 : clock_thread_ns();
    sample->launch_ns = clock_ns();
    sample->begin_ns = if_long(sample->launch_ns - start_ns);
    return sample;
}

uint64_t sample_end(struct sample *sample, gpu_stream stream, bool launched,
                    uint64_t waited_most_ns, const struct sample_charge *charge)
{
    NO_CANCEL;
    uint64_t returned_ns = clock_ns();

    sample->gap_ns = returned_ns - sample->launch_ns;
    sample->off_ns =
        sample->cpu_ns ? less(sample->gap_ns, (double)(clock_thread_ns() - sample->cpu_ns)) : 0;
    sample->waited_ns = sample->gap_ns < waited_most_ns ? sample->gap_ns : waited_most_ns;
    sample->charged_ns = charge->ns;
    sample->charge = *charge;
    sample->calibrates = atomic_load(&sample->pool->calibrations) < SAMPLE_CALIBRATIONS;
    sample->queued = launched && sample->begin && !gpu_capturing() && event_pending(sample->begin);
    if (!launched || gpu_capturing() || !record(sample->end, stream) ||
        (sample->calibrates && !record(sample->after, stream))) {
        atomic_store(&sample->state, SAMPLE_FREE);
        return 0;
    }
    sample->end_ns = if_long(clock_ns() - returned_ns);
    /* The device had other work until then: the call only waited for room in the queue. */
    if (sample->end_ns > 0 && sample->begin && !gpu_capturing() && event_pending(sample->begin))
        sample->end_ns = 0;
    atomic_fetch_add(&under_way, 1);
    atomic_store(&sample->state, SAMPLE_UNDER_WAY);
    return returned_ns;
}

/* Learns the pair's own cost: the least that an empty pair has shown. */
static void calibrate(struct sample_pool *pool, const struct sample *sample)
{
    uint64_t ns;

    if (!gpu_elapsed_ns(sample->end, sample->after, &ns) || ns > SAMPLE_BIAS_MOST_NS)
        return;
    if (atomic_fetch_add(&pool->calibrations, 1) == 0 || ns < atomic_load(&pool->bias_ns))
        atomic_store(&pool->bias_ns, ns);
}

/* How long the device may have been idle while the thread was in a call: an unknown part of the
 * call. */
static uint64_t unknown_ns(const struct sample *sample)
{
    uint64_t ns = sample->end_ns;

    if (!sample->queued)
        ns += sample->begin_ns + (sample->idle ? if_long(sample->gap_ns) : sample->gap_ns);
    return ns;
}

/* The time to take off a pair. Of a doubtful one that is all by which it may be too long, as far as
 * the thread slept. */
static double waited_ns(const struct sample *sample, bool doubtful, double bias)
{
    uint64_t ns = 0;

    if (doubtful)
        ns = sample->end_ns + (sample->queued ? 0 : sample->begin_ns);
    if (sample->queued)
        return (double)ns + bias;
    return (double)(ns + (doubtful && sample->off_ns > sample->waited_ns ? sample->off_ns
                                                                         : sample->waited_ns)) +
           SAMPLE_IDLE_PART * bias;
}

/* The kernel's own part of the time for which the device was occupied. */
static uint64_t own_ns(uint64_t occupied_ns, double bias)
{
    uint64_t own = less(occupied_ns, SAMPLE_LAUNCH_SHARE * bias);

    own = own > occupied_ns / 2 ? own : occupied_ns / 2;
    return own > 0 ? own : 1;
}

/* Whether the cell was forgotten, doubted or given away meanwhile. Then the sample settles its own
 * launch and nothing else. */
static bool outdated(const struct sample *sample, const struct cost_cell *cell)
{
    return atomic_load(&sample->generation) != cost_generation(cell);
}

/*
 * The kernel's time by the sample; 0: it tells nothing. A doubtful sample is used only while
 * nothing else is known: for the cell if it is wrong by half at most, else for its own charge, if
 * that is out of its bounds.
 */
static uint64_t read_sample(const struct sample *sample, struct cost_cell *cell, unsigned *flags)
{
    double bias = (double)atomic_load(&sample->pool->bias_ns);
    uint64_t pair_ns, least_ns, most_ns = clock_ns() - sample->start_ns;
    bool doubtful;

    if (!gpu_elapsed_ns(sample->begin, sample->end, &pair_ns))
        return 0;
    doubtful = unknown_ns(sample) > pair_ns / SAMPLE_GAP_PART;
    /* The whole pair was between then and now. The two clocks may differ a little. */
    if (pair_ns > most_ns + most_ns / SAMPLE_CLOCKS_PART + SAMPLE_CLOCKS_NS) {
        pair_ns = most_ns;
        doubtful = true;
    }
    *flags |= doubtful ? SAMPLE_DOUBTFUL : 0;
    if (outdated(sample, cell))
        *flags |= SAMPLE_VAGUE;
    else if (doubtful && cost_trusted(cell))
        return 0;
    least_ns = own_ns(less(pair_ns, waited_ns(sample, doubtful, bias)), bias);
    if (!doubtful || least_ns >= pair_ns / 2)
        return least_ns;
    *flags |= SAMPLE_VAGUE;
    if (sample->charged_ns < least_ns)
        return least_ns;
    return sample->charged_ns < pair_ns ? sample->charged_ns : pair_ns;
}

static void drop(struct sample *sample)
{
    atomic_fetch_sub(&under_way, 1);
    atomic_store(&sample->state, SAMPLE_FREE);
}

static void finish(struct sample_pool *pool, struct sample *sample, sample_done *done, void *arg)
{
    struct cost_cell *cell = sample->cell;
    struct sample_charge charge = sample->charge;
    uint64_t measured_ns;

    if (sample->calibrates)
        calibrate(pool, sample);
    measured_ns = read_sample(sample, cell, &charge.flags);
    drop(sample);
    done(cell, measured_ns, &charge, arg);
}

static void harvest_pool(struct sample_pool *pool, unsigned *budget, sample_done *done, void *arg)
{
    unsigned i;

    if (!atomic_load_explicit(&pool->context, memory_order_acquire) ||
        atomic_flag_test_and_set(&pool->busy))
        return;
    for (i = 0; i<SAMPLE_SAMPLES_MAX && * budget> 0; i++) {
        struct sample *sample = &pool->samples[(pool->next + i) % SAMPLE_SAMPLES_MAX];
        enum gpu_event_state state;

        if (atomic_load(&sample->state) != SAMPLE_UNDER_WAY)
            continue;
        --*budget;
        state = gpu_event_state(sample->calibrates ? sample->after : sample->end);
        if (state == GPU_EVENT_DONE)
            finish(pool, sample, done, arg);
        else if (state == GPU_EVENT_FAILED)
            drop(sample);
    }
    pool->next += i;
    atomic_flag_clear(&pool->busy);
}

void sample_harvest(sample_done *done, void *arg)
{
    NO_CANCEL;
    struct gpu_question question;
    unsigned budget = SAMPLE_HARVEST_MOST;

    if (atomic_load_explicit(&under_way, memory_order_relaxed) <= 0 || gpu_capturing())
        return;
    gpu_question_begin(&question);
    for (unsigned i = 0; i < SAMPLE_POOLS_MAX && budget > 0; i++)
        harvest_pool(&pools[i], &budget, done, arg);
    gpu_question_end(&question);
}

struct pending {
    uint64_t count, charged_ns, oldest_ns;
};

static void count_pending(const struct sample_pool *pool, const struct cost_cell *cell,
                          struct pending *pending)
{
    for (unsigned i = 0; i < SAMPLE_SAMPLES_MAX; i++) {
        const struct sample *sample = &pool->samples[i];
        uint64_t launch_ns;

        if (atomic_load(&sample->state) != SAMPLE_UNDER_WAY || atomic_load(&sample->cell) != cell ||
            outdated(sample, cell))
            continue;
        launch_ns = atomic_load(&sample->launch_ns);
        pending->count++;
        pending->charged_ns += atomic_load(&sample->charged_ns);
        pending->oldest_ns = launch_ns < pending->oldest_ns ? launch_ns : pending->oldest_ns;
    }
}

uint64_t sample_owed_ns(const struct cost_cell *cell, uint64_t now_ns)
{
    struct pending pending = {.oldest_ns = now_ns};
    uint64_t owed_ns;

    if (atomic_load_explicit(&under_way, memory_order_relaxed) <= 0)
        return 0;
    for (unsigned i = 0; i < SAMPLE_POOLS_MAX; i++)
        if (atomic_load_explicit(&pools[i].context, memory_order_relaxed))
            count_pending(&pools[i], cell, &pending);
    owed_ns = (pending.count + 1) * (now_ns - pending.oldest_ns);
    return owed_ns > pending.charged_ns ? owed_ns - pending.charged_ns : 0;
}

/* A sample that a thread has taken stays the thread's: it finds no events there and puts it
 * back. */
static void empty_pool(struct sample_pool *pool)
{
    for (unsigned i = 0; i < SAMPLE_SAMPLES_MAX; i++) {
        struct sample *sample = &pool->samples[i];

        sample->begin = sample->end = sample->after = NULL;
        if (atomic_load(&sample->state) == SAMPLE_UNDER_WAY)
            drop(sample);
    }
    atomic_store(&pool->context, NULL);
}

void sample_context_ends(gpu_context context)
{
    NO_CANCEL;
    for (unsigned i = 0; i < SAMPLE_POOLS_MAX; i++) {
        if (atomic_load(&pools[i].context) != context)
            continue;
        while (atomic_flag_test_and_set(&pools[i].busy))
            sched_yield();
        empty_pool(&pools[i]);
        atomic_flag_clear(&pools[i].busy);
    }
}

void sample_forked(void)
{
    for (unsigned i = 0; i < SAMPLE_POOLS_MAX; i++) {
        empty_pool(&pools[i]);
        for (unsigned n = 0; n < SAMPLE_SAMPLES_MAX; n++)
            atomic_store(&pools[i].samples[n].state, SAMPLE_FREE);
        atomic_flag_clear(&pools[i].busy);
    }
    atomic_store(&under_way, 0);
}
