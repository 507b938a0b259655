/* Event pairs around launches, with a driver that answers what a test wants. */
#include "unit.h"

#include "hook/work/capture.h"
#include "sched/sample.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define STREAM 0x1000

/* The driver */

struct CUevent_st {
    CUcontext context;
    bool gone, stuck;
    atomic_uint records;
};

enum { EVENTS_MAX = 4096 };

static struct CUevent_st events[EVENTS_MAX];
static atomic_uint events_made, asked, unrelaxed, misused;
static _Thread_local bool relaxed;
static _Thread_local CUcontext current;

static struct {
    CUresult stream, event_before,
        event_after; /* answers to queries: of a stream, while launching, while harvesting */
    CUresult create, record;
    uint64_t pair_ns, empty_ns, waited_most_ns;
    uint64_t takes_ns; /* from a launch's return until its events are asked about */
    bool launching, slow;
    long begin_ns,
        end_ns; /* how long the call takes that records an event before and behind the launch */
    CUresult event_in_queue; /* to queries behind an end that took long */
} answer;

void *hook_real[SYMBOL_COUNT];
atomic_int capture_active;

void capture_relax(struct capture_mode *mode)
{
    mode->changed = true;
    mode->before = relaxed ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL;
    relaxed = true;
}

void capture_restore(struct capture_mode *mode)
{
    relaxed = mode->before == CU_STREAM_CAPTURE_MODE_RELAXED;
}

static CUresult get_current(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

static CUresult query_stream(CUstream stream)
{
    (void)stream;
    atomic_fetch_add(&asked, 1);
    if (!relaxed || capture_running())
        atomic_fetch_add(&unrelaxed, 1);
    return answer.stream;
}

static CUresult create(CUevent *event, unsigned flags)
{
    unsigned i;

    if (answer.create != CUDA_SUCCESS)
        return answer.create;
    i = atomic_fetch_add(&events_made, 1);
    if (flags != 0 || i >= EVENTS_MAX)
        abort();
    events[i].context = current;
    *event = &events[i];
    return CUDA_SUCCESS;
}

/* The clocks that the library reads: of this test, so that no other program's work is in them. */
#define READ_NS 25

static _Atomic uint64_t time_ns, thread_ns;

uint64_t __wrap_clock_ns(void);
uint64_t __wrap_clock_thread_ns(void);

uint64_t __wrap_clock_ns(void)
{
    return atomic_fetch_add(&time_ns, READ_NS);
}

uint64_t __wrap_clock_thread_ns(void)
{
    return atomic_fetch_add(&thread_ns, READ_NS);
}

/* The thread sleeps. */
static void pause_ns(long ns)
{
    atomic_fetch_add(&time_ns, (uint64_t)ns);
}

/* It has the CPU meanwhile. */
static void compute_for_ns(long ns)
{
    pause_ns(ns);
    atomic_fetch_add(&thread_ns, (uint64_t)ns);
}

static CUresult record(CUevent event, CUstream stream)
{
    pause_ns((event - events) % 3 == 0   ? answer.begin_ns
             : (event - events) % 3 == 1 ? answer.end_ns
                                         : 0);
    if (answer.end_ns && (event - events) % 3 == 1)
        answer.event_before = answer.event_in_queue;
    if (event->gone || stream == NULL || capture_running())
        atomic_fetch_add(&misused, 1);
    atomic_fetch_add(&event->records, 1);
    return answer.record;
}

static CUresult query_event(CUevent event)
{
    atomic_fetch_add(&asked, 1);
    if (!relaxed || capture_running())
        atomic_fetch_add(&unrelaxed, 1);
    if (event->gone || atomic_load(&event->records) == 0)
        atomic_fetch_add(&misused, 1);
    if (answer.slow && atomic_load(&asked) % 16 == 0)
        sched_yield();
    if (event->stuck)
        return CUDA_ERROR_NOT_READY;
    return answer.launching ? answer.event_before : answer.event_after;
}

/* Events are made by threes: before, behind, and behind that. */
static CUresult elapsed(float *ms, CUevent from, CUevent to)
{
    if (from->gone || to->gone || to != from + 1)
        atomic_fetch_add(&misused, 1);
    *ms = (float)((double)((from - events) % 3 == 0 ? answer.pair_ns : answer.empty_ns) / 1e6);
    return CUDA_SUCCESS;
}

static int setup(void **state)
{
    (void)state;
    for (unsigned i = 0; i < EVENTS_MAX; i++)
        events[i] = (struct CUevent_st){.context = NULL};
    atomic_store(&time_ns, NS_PER_S);
    atomic_store(&thread_ns, NS_PER_S);
    atomic_store(&events_made, 0);
    atomic_store(&capture_active, 0);
    memset(&answer, 0, sizeof(answer));
    answer.event_before = CUDA_ERROR_NOT_READY;
    answer.empty_ns = 1280;
    answer.waited_most_ns = UINT64_MAX;
    answer.takes_ns = NS_PER_S;
    hook_real[SYMBOL_cuCtxGetCurrent] = (void *)get_current;
    hook_real[SYMBOL_cuStreamQuery] = (void *)query_stream;
    hook_real[SYMBOL_cuEventCreate] = (void *)create;
    hook_real[SYMBOL_cuEventRecord] = (void *)record;
    hook_real[SYMBOL_cuEventQuery] = (void *)query_event;
    hook_real[SYMBOL_cuEventElapsedTime] = (void *)elapsed;
    hook_real[SYMBOL_cuEventElapsedTime_v2] = (void *)elapsed;
    current = (CUcontext)(uintptr_t)0x10;
    sample_forked();
    return 0;
}

static int teardown(void **state)
{
    unsigned wrong = atomic_exchange(&misused, 0) + atomic_exchange(&unrelaxed, 0);

    (void)state;
    return wrong ? -1 : 0;
}

/* What the tests do */

static struct {
    atomic_uint count, flags;
    _Atomic uint64_t measured_ns, charged_ns;
} seen;

static void done(struct cost_cell *cell, uint64_t measured_ns, const struct sample_charge *charge,
                 void *arg)
{
    (void)cell;
    (void)arg;
    atomic_fetch_add(&seen.count, 1);
    atomic_store(&seen.measured_ns, measured_ns);
    atomic_store(&seen.charged_ns, charge->ns);
    atomic_store(&seen.flags, charge->flags);
}

static struct cost_table *cells; /* of new_cell() */
static uint64_t cell_key;        /* of the last */

static struct cost_cell *new_cell(bool known)
{
    static uint64_t number;
    struct cost_cell *cell;

    if (!cells)
        cells = cost_table_new();
    cell_key = cost_key(++number, 1, 1);
    cell = cost_find(cells, cell_key);
    if (known)
        cost_learn(cell, 20000, false);
    return cell;
}

static const struct sample_charge charged = {.ns = 777, .flags = 42 << 2};

static bool launch(struct cost_cell *cell, long gap_ns, CUresult result)
{
    struct sample *sample;

    answer.launching = true;
    sample = sample_begin(STREAM, cell);
    if (sample) {
        pause_ns(gap_ns);
        sample_end(sample, STREAM, result == CUDA_SUCCESS, answer.waited_most_ns, &charged);
    }
    answer.launching = false;
    pause_ns((long)answer.takes_ns);
    return sample != NULL;
}

/* How many arrive. */
static unsigned harvest(void)
{
    atomic_store(&seen.count, 0);
    for (unsigned i = 0; i < 8; i++)
        sample_harvest(done, NULL);
    return atomic_load(&seen.count);
}

/* One launch, and the one sample that it leaves. */
static uint64_t sampled(bool known, long gap_ns)
{
    assert_true(launch(new_cell(known), gap_ns, CUDA_SUCCESS));
    assert_int_equal(harvest(), 1);
    return atomic_load(&seen.measured_ns);
}

static uint64_t measure(uint64_t pair_ns)
{
    answer.pair_ns = pair_ns;
    return sampled(true, 0);
}

/* The figures of an H200. */
TEST(on_a_busy_stream, setup, teardown)
{
    answer.stream = CUDA_ERROR_NOT_READY;
    assert_in_range(measure(23260), 19700, 20200);
    assert_int_equal(atomic_load(&seen.charged_ns), 777);
    assert_int_equal(atomic_load(&seen.flags), 42 << 2);
    assert_in_range(measure(203300), 199700, 200300);
    /* An empty kernel is not free. */
    assert_in_range(measure(3300), 500, 1100);
    assert_int_equal(measure(1200), 1);
}

TEST(on_an_idle_stream, setup, teardown)
{
    answer.event_before = CUDA_SUCCESS;
    assert_in_range(measure(22600), 19000, 20200);
    answer.pair_ns = NS_PER_S;
    assert_in_range(sampled(false, 3000000), NS_PER_S / 2, NS_PER_S - 3000000);
}

/* The simulator's events cost nothing, so nothing is taken off. */
TEST(calibrated, setup, teardown)
{
    answer.stream = CUDA_ERROR_NOT_READY;
    answer.empty_ns = 0;
    assert_in_range(measure(20000), 19990, 20001);
    setup(NULL);
    answer.stream = CUDA_ERROR_NOT_READY;
    /* Once the thread was away between the two. */
    answer.empty_ns = 9000000;
    assert_in_range(measure(23260), 19700, 20200);
    for (unsigned i = 0; i < 20; i++) {
        answer.empty_ns = i == 3 ? 2000 : 2500;
        measure(23260);
    }
    assert_in_range(measure(27200), 21900, 22100);
}

TEST(imprecise_samples, setup, teardown)
{
    answer.pair_ns = NS_PER_MS;
    /* Ran dry just then: no telling how long the device has waited. */
    answer.stream = CUDA_ERROR_NOT_READY;
    answer.event_before = CUDA_SUCCESS;
    assert_int_equal(sampled(true, 100000), 0);
    assert_in_range(sampled(false, 100000), NS_PER_MS / 2, 9 * NS_PER_MS / 10);
    assert_int_equal(atomic_load(&seen.flags), 42 << 2 | SAMPLE_DOUBTFUL);
    /* The thread was held up. */
    answer.pair_ns = 30000;
    answer.stream = CUDA_SUCCESS;
    assert_int_equal(sampled(true, 200000), 0);
    assert_int_equal(sampled(false, 200000), 777);
    assert_int_equal(atomic_load(&seen.flags), 42 << 2 | SAMPLE_DOUBTFUL | SAMPLE_VAGUE);
    /* Where the kernel takes a hundred times that, neither matters. */
    answer.pair_ns = 100 * 1000000ULL;
    assert_in_range(sampled(true, 200000), 95000000, 100000000);
    assert_int_equal(atomic_load(&seen.flags), 42 << 2);
    answer.pair_ns = 30000;
    /* On a busy stream that does not matter. */
    answer.event_before = CUDA_ERROR_NOT_READY;
    assert_true(launch(new_cell(true), 200000, CUDA_SUCCESS));
    assert_int_equal(harvest(), 1);
    assert_int_equal(atomic_load(&seen.flags), 42 << 2);
}

/* What was launched before its graph was changed or destroyed tells about its own charge, and
 * nothing about the cell.
 */
TEST(outdated_samples, setup, teardown)
{
    void (*const changes[])(struct cost_table *, uint64_t) = {cost_doubt, cost_forget};

    answer.stream = CUDA_ERROR_NOT_READY;
    answer.pair_ns = 203300;
    for (unsigned i = 0; i < 4; i++) {
        struct cost_cell *cell = new_cell(i / 2);

        assert_true(launch(cell, 0, CUDA_SUCCESS));
        assert_true(sample_owed_ns(cell, atomic_load(&time_ns) + NS_PER_S) > 0);
        changes[i % 2](cells, cell_key);
        assert_int_equal(sample_owed_ns(cell, atomic_load(&time_ns) + NS_PER_S), 0);
        assert_int_equal(harvest(), 1);
        assert_in_range(atomic_load(&seen.measured_ns), 199700, 200300);
        assert_int_equal(atomic_load(&seen.flags), 42 << 2 | SAMPLE_VAGUE);
    }
    /* In doubt, a sample that is doubtful is as good as where nothing is known. */
    struct cost_cell *cell = new_cell(true);
    cost_doubt(cells, cell_key);
    answer.pair_ns = NS_PER_MS;
    answer.event_before = CUDA_SUCCESS;
    assert_true(launch(cell, 100000, CUDA_SUCCESS));
    assert_int_equal(harvest(), 1);
    assert_in_range(atomic_load(&seen.measured_ns), NS_PER_MS / 2, 9 * NS_PER_MS / 10);
}

/*
 * A thread that sleeps for `ns` in one of the calls, beside a kernel of 2 ms: nothing is learned.
 * Where nothing is known either, the charge is put right as far as that is certain.
 */
static void held_up(long *where_ns, long ns)
{
    *where_ns = ns;
    answer.pair_ns = 2 * NS_PER_MS + (uint64_t)ns;
    assert_int_equal(sampled(true, 0), 0);
    assert_in_range(sampled(false, 0), 777, 2 * NS_PER_MS);
    assert_int_equal(atomic_load(&seen.flags), 42 << 2 | SAMPLE_DOUBTFUL | SAMPLE_VAGUE);
    *where_ns = 0;
}

TEST(held_up_in_a_call, setup, teardown)
{
    answer.event_before = CUDA_SUCCESS; /* of an idle stream */
    held_up(&answer.begin_ns, 20000000);
    held_up(&answer.end_ns, 20000000);
    /* It was busy until the launch was in it, and ran dry while the thread slept. */
    answer.stream = CUDA_ERROR_NOT_READY;
    answer.event_before = CUDA_ERROR_NOT_READY;
    answer.end_ns = 20000000;
    assert_int_equal(sampled(true, 0), 0);
    /* A full queue: the call waits for room in it, and the pair is as good as any. */
    answer.event_before = answer.event_in_queue = CUDA_ERROR_NOT_READY;
    answer.pair_ns = 203300;
    assert_in_range(sampled(true, 0), 199700, 200300);
    assert_int_equal(atomic_load(&seen.flags), 42 << 2);
}

/* Of a graph the device may have begun with the launch: what counts as waiting is that the thread
 * had no CPU. */
TEST(held_up_in_a_graph, setup, teardown)
{
    struct sample *sample;

    answer.event_before = CUDA_SUCCESS;
    answer.waited_most_ns = 4000;
    answer.pair_ns = 22 * NS_PER_MS;
    assert_in_range(sampled(false, 20000000), 777, 2 * NS_PER_MS);
    assert_int_equal(atomic_load(&seen.flags), 42 << 2 | SAMPLE_DOUBTFUL | SAMPLE_VAGUE);
    sample = sample_begin(STREAM, new_cell(false));
    assert_non_null(sample);
    compute_for_ns(5 * NS_PER_MS);
    sample_end(sample, STREAM, true, answer.waited_most_ns, &charged);
    assert_int_equal(harvest(), 1);
    assert_true(atomic_load(&seen.measured_ns) > 2 * NS_PER_MS);
}

/* A driver that answers nonsense: no kernel took longer than it was under way for. */
TEST(longer_than_it_can_be, setup, teardown)
{
    answer.stream = CUDA_ERROR_NOT_READY;
    answer.takes_ns = NS_PER_MS;
    assert_int_equal(measure(1000 * NS_PER_S), 0);
    answer.pair_ns = 1000 * NS_PER_S;
    assert_in_range(sampled(false, 0), 777, NS_PER_MS + 1000);
    assert_true(atomic_load(&seen.flags) & SAMPLE_DOUBTFUL);
    /* The clocks need not go exactly alike. */
    assert_in_range(measure(NS_PER_MS + NS_PER_MS / 200), NS_PER_MS - 5000, NS_PER_MS + 5000);
}

TEST(what_fails_is_put_back, setup, teardown)
{
    struct cost_cell *cell = new_cell(true);

    for (unsigned i = 0; i < 100; i++)
        assert_true(launch(cell, 0, CUDA_ERROR_UNKNOWN));
    answer.record = CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < 100; i++)
        assert_false(launch(cell, 0, CUDA_SUCCESS));
    answer.record = CUDA_SUCCESS;
    assert_int_equal(harvest(), 0);
    /* A context that has failed. */
    for (unsigned i = 0; i < 100; i++) {
        assert_true(launch(cell, 0, CUDA_SUCCESS));
        answer.event_after = CUDA_ERROR_UNKNOWN;
        assert_int_equal(harvest(), 0);
        answer.event_after = CUDA_SUCCESS;
    }
    /* No more room for events, for a while. */
    sample_context_ends(current);
    answer.create = CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < 100; i++)
        assert_false(launch(cell, 0, CUDA_SUCCESS));
    answer.create = CUDA_SUCCESS;
    assert_true(launch(cell, 0, CUDA_SUCCESS));
    assert_int_equal(harvest(), 1);
    current = NULL;
    assert_false(launch(cell, 0, CUDA_SUCCESS));
}

TEST(driver_without_events, setup, teardown)
{
    static const enum hook_symbol needed[] = {SYMBOL_cuEventCreate, SYMBOL_cuEventRecord,
                                              SYMBOL_cuEventQuery, SYMBOL_cuCtxGetCurrent};

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        hook_real[needed[i]] = NULL;
        assert_false(launch(new_cell(true), 0, CUDA_SUCCESS));
        setup(NULL);
    }
    hook_real[SYMBOL_cuEventElapsedTime_v2] = NULL;
    assert_in_range(measure(23260), 19700, 20200);
    hook_real[SYMBOL_cuEventElapsedTime] = NULL;
    assert_false(launch(new_cell(true), 0, CUDA_SUCCESS));
}

TEST(nothing_during_a_capture, setup, teardown)
{
    struct cost_cell *cell = new_cell(true);
    struct sample *sample;
    unsigned before;

    assert_true(launch(cell, 0, CUDA_SUCCESS));
    sample = sample_begin(STREAM, cell);
    assert_non_null(sample);
    before = atomic_load(&asked);
    atomic_store(&capture_active, 1);
    assert_false(launch(cell, 0, CUDA_SUCCESS));
    sample_end(sample, STREAM, true, UINT64_MAX, &charged); /* it began meanwhile */
    assert_int_equal(harvest(), 0);
    assert_int_equal(atomic_load(&asked), before);
    atomic_store(&capture_active, 0);
    assert_int_equal(harvest(), 1);
}

/* Few questions at a time, and all of them come round. */
TEST(many_under_way, setup, teardown)
{
    struct cost_cell *cell = new_cell(true);
    unsigned held = 0, before;

    answer.event_after = CUDA_ERROR_NOT_READY;
    while (held < 1000 && launch(cell, 0, CUDA_SUCCESS))
        held++;
    assert_in_range(held, 16, 64);
    before = atomic_load(&asked);
    sample_harvest(done, NULL);
    assert_in_range(atomic_load(&asked) - before, 1, 10);
    assert_int_equal(harvest(), 0);
    answer.event_after = CUDA_SUCCESS;
    assert_int_equal(harvest(), held);
    before = atomic_load(&asked);
    assert_int_equal(harvest(), 0);
    assert_int_equal(atomic_load(&asked), before);
}

/* Kernels that never end do not hide those that have. */
TEST(some_never_end, setup, teardown)
{
    struct cost_cell *cell = new_cell(true);
    unsigned held = 0, stuck;

    answer.event_after = CUDA_ERROR_NOT_READY;
    while (held < 1000 && launch(cell, 0, CUDA_SUCCESS))
        held++;
    answer.event_after = CUDA_SUCCESS;
    stuck = held / 2;
    for (unsigned i = 0; i < 3 * stuck; i++)
        events[i].stuck = true;
    assert_int_equal(harvest(), held - stuck);
}

static void end_context(CUcontext context)
{
    sample_context_ends(context);
    for (unsigned i = 0; i < EVENTS_MAX; i++)
        events[i].gone |= events[i].context == context;
}

TEST(contexts, setup, teardown)
{
    struct cost_cell *cell = new_cell(true);
    struct sample *sample;
    unsigned made = 0;

    for (uintptr_t i = 1; i <= 30; i++) {
        current = (CUcontext)(i * 16);
        made += launch(cell, 0, CUDA_SUCCESS);
    }
    assert_in_range(made, 8, 29);
    for (uintptr_t i = 1; i <= 30; i++)
        end_context((CUcontext)(i * 16));
    assert_int_equal(harvest(), 0);
    /* The same handle again; and one that ends between the two calls. */
    for (unsigned i = 0; i < 100; i++) {
        current = (CUcontext)(uintptr_t)16;
        assert_true(launch(cell, 0, CUDA_SUCCESS));
        assert_int_equal(harvest(), 1);
        sample = sample_begin(STREAM, cell);
        assert_non_null(sample);
        end_context(current);
        assert_true(launch(cell, 0, CUDA_SUCCESS));
        sample_end(sample, STREAM, true, UINT64_MAX, &charged);
        assert_int_equal(harvest(), 1);
        end_context(current);
    }
}

static atomic_uint begun;

static void *launches(void *arg)
{
    current = (CUcontext)(uintptr_t)0x10;
    for (unsigned i = 0; i < 20000; i++) {
        struct sample *sample = sample_begin(STREAM, arg);

        if (sample) {
            sample_end(sample, STREAM, true, UINT64_MAX, &charged);
            atomic_fetch_add(&begun, 1);
        }
        sample_harvest(done, NULL);
    }
    return NULL;
}

TEST(threads, setup, teardown)
{
    struct cost_cell *cell = new_cell(false); /* whatever is imprecise comes too */
    pthread_t thread[4];
    unsigned arrived;

    /* All events are made here, as the driver of this test has them by threes. */
    answer.event_after = CUDA_ERROR_NOT_READY;
    while (launch(cell, 0, CUDA_SUCCESS))
        ;
    answer.event_after = CUDA_SUCCESS;
    harvest();
    answer.slow = true;
    atomic_store(&seen.count, 0);
    atomic_store(&begun, 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, launches, cell), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    arrived = atomic_load(&seen.count);
    arrived += harvest();
    assert_int_equal(arrived, atomic_load(&begun));
    assert_in_range(arrived, 100, 80000);
    assert_int_equal(atomic_load(&events_made), 96);
}
