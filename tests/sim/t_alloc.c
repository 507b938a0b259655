/* The quota against every way of allocating: alone, mixed, from threads and from processes at
 * once. */
#include "harness.h"
#include "ways.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define HELD_MAX 4096

static uint64_t used_now(const struct way *way)
{
    return way->counts == WAY_HOST ? truth_host() : truth_used(0);
}

static uint64_t limit_of(const struct way *way)
{
    const char *host = getenv("TEST_HOST_QUOTA");
    return way->counts == WAY_HOST ? (host ? strtoull(host, NULL, 10) : 0) : quota_bytes();
}

static unsigned fill(const struct way *way, struct held *held, unsigned count)
{
    for (; count < HELD_MAX; count++) {
        CUresult result = way->take(&held[count]);
        if (result != CUDA_SUCCESS) {
            CU_IS(CUDA_ERROR_OUT_OF_MEMORY, result);
            return count;
        }
    }
    FAIL("%s was never refused: %u allocations", way->name, count);
}

static void drop_from(const struct way *way, struct held *held, unsigned from, unsigned count)
{
    for (unsigned i = from; i < count; i++)
        way->drop(&held[i]);
    if (way->settle)
        way->settle();
}

/* Filled up, emptied by half, filled again, emptied: each time it stops within one allocation of
 * the quota. */
static void fill_and_empty(const struct way *way)
{
    static struct held held[HELD_MAX];
    uint64_t before = used_now(way), quota = limit_of(way);
    unsigned first = fill(way, held, 0);
    CHECK_U(first, >=, way->alone ? 1 : 2);
    CHECK_U(used_now(way), <=, quota);
    CHECK_U(used_now(way) + way->step_bytes, >, quota);
    check_agreement();
    drop_from(way, held, first / 2, first);
    unsigned second = fill(way, held, first / 2);
    CHECK_U(second, ==, first);
    CHECK_U(used_now(way), <=, quota);
    drop_from(way, held, 0, second);
    check_agreement();
    CHECK_U(used_now(way), ==, before);
}

/* alloc_path WAY */
TEST(alloc_path)
{
    CHECK(argc > 0);
    open_device(0);
    ways_init();
    const struct way *way = way_find(argv[0]);
    if (way->available && !way->available()) {
        printf("skip: this driver has no such way\n");
        return 77;
    }
    /* Once to have what a way needs for itself (a pool's first block, a module's loader), then
     * twice for the check. */
    struct held warm = {0};
    CU_OK(way->take(&warm));
    drop_from(way, &warm, 0, 1);
    fill_and_empty(way);
    fill_and_empty(way);
    ways_done();
    close_device(0);
    CHECK_U(truth_used(0), ==, 0);
    check_agreement();
    return 0;
}

/* Several ways in turn, until each is refused: together they stop at the quota, and everything
 * comes back. */
TEST(alloc_mixed)
{
    static struct held held[HELD_MAX];
    static const struct way *kind[HELD_MAX];
    open_device(0);
    ways_init();
    uint64_t before = truth_used(0);
    for (unsigned round = 0; round < 3; round++) {
        unsigned count = 0, refused = 0;
        for (unsigned i = round; refused < 2 * way_count && count < HELD_MAX; i++) {
            const struct way *way = &ways[i % way_count];
            if (way->alone || way->counts == WAY_HOST || (way->available && !way->available())) {
                refused++;
                continue;
            }
            CUresult result = way->take(&held[count]);
            if (result == CUDA_SUCCESS) {
                kind[count++] = way;
                refused = 0;
            } else {
                CU_IS(CUDA_ERROR_OUT_OF_MEMORY, result);
                refused++;
            }
        }
        CHECK_U(count, >, way_count / 2);
        CHECK_U(truth_used(0), <=, quota_bytes());
        CHECK_U(truth_used(0) + BLOCK_BYTES, >, quota_bytes());
        while (count > 0) {
            count--;
            kind[count]->drop(&held[count]);
        }
        for (unsigned i = 0; i < way_count; i++)
            if (ways[i].settle && (!ways[i].available || ways[i].available()))
                ways[i].settle();
        check_agreement();
        CHECK_U(truth_used(0), ==, before);
    }
    ways_done();
    close_device(0);
    return 0;
}

/* --- at once --- */

struct racer {
    pthread_t thread;
    CUcontext context;
    uint64_t seed;
    unsigned successes, refusals;
};

#define RACE_SLOTS  6
#define RACE_ROUNDS 60

/* The ways that take part: all that share the device, or those named on the command line. */
static const struct way *racing[64];
static unsigned racing_count;

static void choose_ways(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        racing[racing_count++] = way_find(argv[i]);
    for (unsigned i = 0; i < way_count && argc == 0; i++)
        if (!ways[i].alone && ways[i].counts == WAY_DEVICE &&
            (!ways[i].available || ways[i].available()))
            racing[racing_count++] = &ways[i];
}

/* Takes and drops whatever chance says; only successes and refusals may come of it. */
static void race(struct racer *racer)
{
    struct held held[RACE_SLOTS];
    const struct way *kind[RACE_SLOTS] = {NULL};
    for (unsigned round = 0; round < RACE_ROUNDS; round++) {
        unsigned slot = (unsigned)(random_next(&racer->seed) % RACE_SLOTS);
        if (kind[slot]) {
            kind[slot]->drop(&held[slot]);
            kind[slot] = NULL;
            continue;
        }
        const struct way *way = racing[random_next(&racer->seed) % racing_count];
        CUresult result = way->take(&held[slot]);
        if (result == CUDA_SUCCESS) {
            kind[slot] = way;
            racer->successes++;
        } else {
            CU_IS(CUDA_ERROR_OUT_OF_MEMORY, result);
            racer->refusals++;
        }
    }
    for (unsigned slot = 0; slot < RACE_SLOTS; slot++)
        if (kind[slot])
            kind[slot]->drop(&held[slot]);
}

static void settle_all(void)
{
    for (unsigned i = 0; i < way_count; i++)
        if (ways[i].settle && (!ways[i].available || ways[i].available()))
            ways[i].settle();
}

static void *race_thread(void *arg)
{
    struct racer *racer = arg;
    CU_OK(cu.cuCtxSetCurrent(racer->context));
    race(racer);
    return NULL;
}

TEST(race_threads)
{
    enum { THREADS = 8 };
    static struct racer racers[THREADS];
    CUcontext context = open_device(0);
    ways_init();
    choose_ways(argc, argv);
    uint64_t before = truth_used(0);
    unsigned successes = 0, refusals = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){.context = context, .seed = 1000 + i};
        CHECK(pthread_create(&racers[i].thread, NULL, race_thread, &racers[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(racers[i].thread, NULL);
        successes += racers[i].successes;
        refusals += racers[i].refusals;
    }
    settle_all();
    printf("%u allocations, %u refusals\n", successes, refusals);
    CHECK_U(successes, >, 50);
    CHECK_U(refusals, >, 10);
    CHECK_U(truth_used(0), ==, before);
    check_agreement();
    ways_done();
    close_device(0);
    return 0;
}

TEST(race_one_process)
{
    struct racer racer = {.seed = (uint64_t)getpid() * 77 + 1};
    open_device(0);
    ways_init();
    choose_ways(argc, argv);
    race(&racer);
    settle_all();
    ways_done();
    close_device(0);
    return 0;
}

TEST(race_processes)
{
    enum { PROCESSES = 8 };
    pid_t pids[PROCESSES];
    driver_load();
    for (unsigned i = 0; i < PROCESSES; i++)
        pids[i] = spawn_test("race_one_process", NULL);
    for (unsigned i = 0; i < PROCESSES; i++)
        wait_ok(pids[i]);
    CHECK_U(truth_used(0), ==, 0);
    CHECK_U(truth_peak(0), <=, quota_bytes());
    CHECK_U(truth_peak(0), >, quota_bytes() / 2);
    check_agreement();
    return 0;
}

/* --- at once, until each is refused: together they stop within one allocation of the quota --- */

enum { FILLERS = 8 };

struct filler {
    pthread_t thread;
    CUcontext context;
    const struct way *way;
    struct held held[HELD_MAX];
    unsigned count;
};

static void check_full(const struct way *way)
{
    CHECK_U(truth_used(0), <=, quota_bytes());
    CHECK_U(truth_used(0) + way->step_bytes, >, quota_bytes());
    check_agreement();
}

static void *fill_thread(void *arg)
{
    struct filler *filler = arg;
    CU_OK(cu.cuCtxSetCurrent(filler->context));
    filler->count = fill(filler->way, filler->held, 0);
    return NULL;
}

/* fill_threads WAY */
TEST(fill_threads)
{
    static struct filler fillers[FILLERS];
    CHECK(argc > 0);
    CUcontext context = open_device(0);
    ways_init();
    for (unsigned i = 0; i < FILLERS; i++) {
        fillers[i].context = context;
        fillers[i].way = way_find(argv[0]);
        CHECK(pthread_create(&fillers[i].thread, NULL, fill_thread, &fillers[i]) == 0);
    }
    for (unsigned i = 0; i < FILLERS; i++)
        pthread_join(fillers[i].thread, NULL);
    check_full(fillers[0].way);
    for (unsigned i = 0; i < FILLERS; i++)
        drop_from(fillers[i].way, fillers[i].held, 0, fillers[i].count);
    check_agreement();
    ways_done();
    close_device(0);
    return 0;
}

struct fill_stage {
    atomic_uint ready, full, leave;
};

static void await_count(atomic_uint *counter, unsigned count)
{
    while (atomic_load(counter) < count)
        usleep(200);
}

static void fill_process(const struct way *way, struct fill_stage *stage)
{
    static struct held held[HELD_MAX];
    open_device(0);
    ways_init();
    atomic_fetch_add(&stage->ready, 1);
    await_count(&stage->ready, FILLERS);
    unsigned count = fill(way, held, 0);
    atomic_fetch_add(&stage->full, 1);
    await_count(&stage->leave, 1);
    drop_from(way, held, 0, count);
    ways_done();
    close_device(0);
    exit(0);
}

/* fill_processes WAY */
TEST(fill_processes)
{
    pid_t pids[FILLERS];
    CHECK(argc > 0);
    struct fill_stage *stage = shared_page(sizeof *stage);
    const struct way *way = way_find(argv[0]);
    driver_load();
    for (unsigned i = 0; i < FILLERS; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0)
            fill_process(way, stage);
    }
    await_count(&stage->full, FILLERS);
    check_full(way);
    atomic_store(&stage->leave, 1);
    for (unsigned i = 0; i < FILLERS; i++)
        wait_ok(pids[i]);
    CHECK_U(truth_used(0), ==, 0);
    CHECK_U(truth_peak(0), <=, quota_bytes());
    check_agreement();
    return 0;
}

/* N processes behind a barrier, each wants 60 % of what is left: exactly one may have it. The
 * driver is slow. */
struct a11 {
    atomic_uint ready, go, done, successes;
    atomic_uint leave;
    uint64_t want_bytes;
};

static void a11_process(struct a11 *shared, unsigned rounds)
{
    open_device(0);
    for (unsigned round = 1; round <= rounds; round++) {
        CUdeviceptr address = 0;
        atomic_fetch_add(&shared->ready, 1);
        while (atomic_load(&shared->go) < round)
            usleep(50);
        CUresult result = cu.cuMemAlloc_v2(&address, shared->want_bytes);
        if (result == CUDA_SUCCESS)
            atomic_fetch_add(&shared->successes, 1);
        else
            CU_IS(CUDA_ERROR_OUT_OF_MEMORY, result);
        atomic_fetch_add(&shared->done, 1);
        while (atomic_load(&shared->leave) < round)
            usleep(50);
        if (result == CUDA_SUCCESS)
            CU_OK(cu.cuMemFree_v2(address));
    }
    close_device(0);
}

TEST(race_processes_on_slow_driver)
{
    enum { PROCESSES = 4, ROUNDS = 40 };
    struct a11 *shared = shared_page(sizeof *shared);
    pid_t pids[PROCESSES];
    driver_load();
    for (unsigned i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            a11_process(shared, ROUNDS);
            exit(0);
        }
    }
    for (unsigned round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&shared->ready) < PROCESSES * round)
            usleep(100);
        if (round == 1) /* all contexts are there: this much is left */
            shared->want_bytes = (quota_bytes() - truth_used(0)) / 10 * 6;
        atomic_store(&shared->successes, 0);
        atomic_store(&shared->go, round);
        while (atomic_load(&shared->done) < PROCESSES * round)
            usleep(100);
        CHECK_U(atomic_load(&shared->successes), ==, 1);
        atomic_store(&shared->leave, round);
    }
    for (unsigned i = 0; i < PROCESSES; i++)
        wait_ok(pids[i]);
    CHECK_U(truth_peak(0), <=, quota_bytes());
    check_agreement();
    return 0;
}

/* The thread version of A11. */
struct a11_thread {
    pthread_t thread;
    pthread_barrier_t *barrier;
    CUcontext context;
    uint64_t want_bytes;
    CUresult result;
    CUdeviceptr address;
};

static void *a11_thread(void *arg)
{
    struct a11_thread *self = arg;
    CU_OK(cu.cuCtxSetCurrent(self->context));
    pthread_barrier_wait(self->barrier);
    self->result = cu.cuMemAlloc_v2(&self->address, self->want_bytes);
    return NULL;
}

TEST(race_threads_on_slow_driver)
{
    enum { THREADS = 8, ROUNDS = 25 };
    struct a11_thread threads[THREADS];
    CUcontext context = open_device(0);
    uint64_t want = (quota_bytes() - truth_used(0)) / 10 * 6;
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_barrier_t barrier;
        unsigned successes = 0;
        pthread_barrier_init(&barrier, NULL, THREADS);
        for (unsigned i = 0; i < THREADS; i++) {
            threads[i] =
                (struct a11_thread){.barrier = &barrier, .context = context, .want_bytes = want};
            CHECK(pthread_create(&threads[i].thread, NULL, a11_thread, &threads[i]) == 0);
        }
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(threads[i].thread, NULL);
        for (unsigned i = 0; i < THREADS; i++) {
            if (threads[i].result == CUDA_SUCCESS) {
                successes++;
                CU_OK(cu.cuMemFree_v2(threads[i].address));
            } else {
                CU_IS(CUDA_ERROR_OUT_OF_MEMORY, threads[i].result);
            }
        }
        pthread_barrier_destroy(&barrier);
        CHECK_U(successes, ==, 1);
    }
    check_agreement();
    close_device(0);
    return 0;
}
