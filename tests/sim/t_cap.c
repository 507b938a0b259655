/* Caps: every way to start work is charged, the cap holds over any 100 ms, and nothing else waits.
 */
#include "starts.h"
#include "tenants.h"

#include "sched/bucket.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <unistd.h>

#define PROCESSES 16

extern char **environ;

/*
 * Each way, in a process and on a device of its own, all at once; the load itself compares with
 * the book. The first argument: options of all loads; then the ways, each with options of its own
 * after colons.
 */
TEST(cap_of_ways)
{
    pid_t pids[PROCESSES];
    int device = 0, bad = 0;

    for (int i = 1; i < argc && i <= PROCESSES; i++, device++) {
        for (char *colon = argv[i]; (colon = strchr(colon, ':')) != NULL;)
            *colon = ' ';
        pids[i - 1] = tenant_start(NULL, "load way=%s device=%d %s", argv[i], device, argv[0]);
        device += !strcmp(argv[i], "cooperative_multi");
    }
    for (int i = 1; i < argc; i++)
        bad |= wait_status(pids[i - 1]);
    CHECK(bad == 0);
    return 0;
}

static void check_share(const char *what, double share, double least, double most)
{
    printf("%s: %.4f\n", what, share);
    if (share < least || share > most)
        FAIL("%s: %.4f of the device, not %.3f to %.3f", what, share, least, most);
}

/* The same of a watch: never more than that, and at least so much once it has settled. */
static void settle_share(struct watch *watch, unsigned who, const char *what, double least,
                         double most)
{
    double share = watch_share(watch, who);

    check_share(what, share, 0, most);
    watch_expect(watch, share >= least, "%s: only %.4f of the device", what, share);
}

/* After a change: between these once it has settled. */
static void settle_between(struct watch *watch, unsigned who, const char *what, double least,
                           double most)
{
    double share = watch_share(watch, who);

    watch_expect(watch, share >= least && share <= most, "%s: %.4f of the device", what, share);
}

static void check_gap(const char *what, uint64_t gap_ns, uint64_t most_ns)
{
    printf("%s: %.1f ms\n", what, (double)gap_ns / 1e6);
    if (gap_ns > most_ns)
        FAIL("%s: %.1f ms, more than %.1f", what, (double)gap_ns / 1e6, (double)most_ns / 1e6);
}

/* Processes of an instance draw on one bucket: two on device 0, four on device 1. */
TEST(cap_of_all_processes)
{
    struct watch watch = {0};
    pid_t pids[6];

    watch_add(&watch, 0, NULL);
    watch_add(&watch, 1, NULL);
    for (int i = 0; i < 6; i++)
        pids[i] = tenant_start(NULL, "load us=2000 secs=600 sync=%d device=%d", i % 2, i > 1);
    watch_until_busy(&watch, 0);
    watch_until_busy(&watch, 1);
    while (watch_settles(&watch, 900)) {
        double most = (double)watch_most(&watch, 1, 100 * MS) / 1e8;

        settle_share(&watch, 0, "two processes at 40 %", 0.33, 0.42);
        settle_share(&watch, 1, "four processes at 40 %", 0.33, 0.42);
        check_share("four processes in 100 ms", most, 0, 0.40 + 0.02 * 4 + 0.02);
        watch_expect(&watch, most >= 0.33, "in no 100 ms more than %.4f", most);
    }
    for (int i = 0; i < 6; i++)
        tenant_end(pids[i]);
    watch_done(&watch);
    return 0;
}

/*
 * A load in a `vgpu run` inside one with a cap of 60 %. Instances of one name are one, so each has
 * a chain of its own: what ends the first of it ends all. The simulator sums the load under the
 * name `group`.
 */
static pid_t start_inside(const char *inner_cores, const char *group)
{
    char vgpu[4096], self[4096], sums[64];
    const char *const argv[] = {vgpu, "run",  "--name",  "outer",     "--cores", "60",  "--",
                                vgpu, "run",  "--cores", inner_cores, "--",      "env", sums,
                                self, "load", "us=2000", "secs=600",  "sync=1",  NULL};
    pid_t pid = 0;

    snprintf(vgpu, sizeof vgpu, "%s/vgpu", getenv("TEST_BUILD"));
    snprintf(self, sizeof self, "%s", getenv("TEST_SIMTEST"));
    snprintf(sums, sizeof sums, "SIMGPU_GROUP=%s", group);
    CHECK(posix_spawn(&pid, vgpu, NULL, NULL, (char **)(uintptr_t)argv, environ) == 0);
    return pid;
}

/* Each run inside keeps to its own cap, and both together to that of the instance. */
TEST(cap_of_runs_inside)
{
    struct watch watch = {0};
    pid_t pids[2];

    watch_add(&watch, 0, "low");
    watch_add(&watch, 0, NULL);
    pids[0] = start_inside("30", "low");
    watch_until_busy(&watch, 0);
    while (watch_settles(&watch, 900))
        settle_share(&watch, 0, "a run at 30 % inside", 0.24, 0.32);
    pids[1] = start_inside("80", "high");
    watch_add(&watch, 0, "high");
    watch_restart(&watch);
    watch_until_busy(&watch, 2);
    while (watch_settles(&watch, 900)) {
        settle_share(&watch, 0, "the run at 30 % inside", 0.10, 0.32);
        settle_share(&watch, 1, "both runs in 60 %", 0.50, 0.62);
    }
    tenant_end(pids[0]);
    watch_restart(&watch);
    while (watch_settles(&watch, 900))
        settle_share(&watch, 2, "the run at 80 % inside, alone in 60 %", 0.50, 0.62);
    tenant_end(pids[1]);
    watch_done(&watch);
    return 0;
}

static void run_start(struct start *start, unsigned ms, const atomic_bool *stop)
{
    uint64_t end_ns = now_ns() + ms * MS;

    while (now_ns() < end_ns && !(stop && atomic_load(stop))) {
        CU_OK(start_once(start));
        start_wait(start);
    }
}

struct runner {
    pthread_t thread;
    CUcontext context;
    struct start *start;
    atomic_bool stop;
};

static void *run_until_stopped(void *arg)
{
    struct runner *runner = arg;

    CU_OK(cu.cuCtxSetCurrent(runner->context));
    run_start(runner->start, 2 * PATIENCE_NS / MS, &runner->stop);
    return NULL;
}

/*
 * Children share the bucket and are counted, those from before there was CUDA; one of a process
 * with CUDA has none, and disturbs nobody.
 */
TEST(cap_in_children)
{
    int version = 0;
    struct start start;
    struct watch watch = {0};
    atomic_bool *stop = shared_page(sizeof *stop);
    pid_t pids[2];

    driver_load();
    CU_OK(cu.cuDriverGetVersion(&version));
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (i == 0 && pids[i] == 0) {
            open_device(0);
            start_prepare(&start, "kernel", MS, 1);
            run_start(&start, 2 * PATIENCE_NS / MS, stop);
            start_done(&start);
            close_device(0);
            exit(0);
        }
        if (i == 0) {
            open_device(0);
            start_prepare(&start, "kernel", MS, 1);
            run_start(&start, 100, NULL);
        } else if (pids[i] == 0) {
            CU_IS(CUDA_ERROR_NOT_INITIALIZED, start_once(&start));
            CU_IS(CUDA_ERROR_NOT_INITIALIZED, cu.cuCtxSynchronize());
            exit(0);
        }
    }
    struct runner runner = {.start = &start};
    CU_OK(cu.cuCtxGetCurrent(&runner.context));
    CHECK(pthread_create(&runner.thread, NULL, run_until_stopped, &runner) == 0);
    watch_add(&watch, 0, NULL);
    while (watch_settles(&watch, 600))
        settle_share(&watch, 0, "parent and child at 30 %", 0.20, 0.32);
    watch_done(&watch);
    atomic_store(&runner.stop, true);
    pthread_join(runner.thread, NULL);
    atomic_store(stop, true);
    wait_ok(pids[0]);
    wait_ok(pids[1]);
    start_done(&start);
    close_device(0);
    uint64_t counted_ns = tenant_number(NULL, 0, "gpu_ns"), book_ns = book_device(0);
    /* While both have work on the device, either's takes up to twice as long. */
    check_share("counted, against the book", (double)counted_ns / (double)book_ns, 0.97, 2);
    return 0;
}

/* Work on a device until it is told to end, in a thread. */
struct worker {
    pthread_t thread;
    int device;
    unsigned sync; /* starts between two waits */
    const char *way;
    uint64_t duration_ns;
    atomic_bool *stop;
};

static void *work_thread(void *arg)
{
    struct worker *worker = arg;
    struct start start;

    open_device(worker->device);
    start_prepare(&start, worker->way, worker->duration_ns, 1);
    for (unsigned i = 1; !atomic_load(worker->stop); i++) {
        CU_OK(start_once(&start));
        if (worker->sync && i % worker->sync == 0)
            start_wait(&start);
    }
    start_done(&start);
    close_device(worker->device);
    return NULL;
}

static void begin_work(struct worker *worker)
{
    CHECK(pthread_create(&worker->thread, NULL, work_thread, worker) == 0);
}

/* Two devices of a process, each with a cap of its own; and two on which a launch starts at once:
 * the lower cap holds.
 */
TEST(cap_of_each_device)
{
    atomic_bool stop = false;
    struct worker workers[] = {{.way = "kernel", .duration_ns = MS, .sync = 1, .stop = &stop},
                               {.way = "kernel", .duration_ns = MS, .device = 1, .stop = &stop}};
    pid_t pid = tenant_start(NULL, "load way=cooperative_multi us=1000 secs=600 device=2");
    struct watch watch = {0};

    open_device(0);
    for (int i = 0; i < 2; i++)
        begin_work(&workers[i]);
    for (unsigned i = 0; i < 4; i++)
        watch_add(&watch, (int)i, NULL);
    for (unsigned i = 0; i < 4; i++)
        watch_until_busy(&watch, i);
    while (watch_settles(&watch, 600)) {
        settle_share(&watch, 0, "device 0 at 20 %", 0.13, 0.22);
        settle_share(&watch, 1, "device 1 at 60 %", 0.40, 0.625);
        settle_share(&watch, 2, "device 2 at 60 %, with 3", 0.13, 0.22);
        settle_share(&watch, 3, "device 3 at 20 %, with 2", 0.13, 0.22);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(workers[i].thread, NULL);
    tenant_end(pid);
    close_device(0);
    watch_done(&watch);
    return 0;
}

/* Limits that change bite. */
TEST(cap_changed_meanwhile)
{
    struct watch watch = {0};
    pid_t pids[2];

    for (int i = 0; i < 2; i++) {
        watch_add(&watch, i, NULL);
        pids[i] = tenant_start(NULL, "load us=1000 secs=600 sync=4 device=%d", i);
    }
    watch_until_busy(&watch, 0);
    watch_until_busy(&watch, 1);
    while (watch_settles(&watch, 300)) {
        settle_share(&watch, 0, "at 80 %", 0.65, 0.84);
        settle_share(&watch, 1, "at 20 %", 0.13, 0.24);
    }
    tenant_set(NULL, "cores=20,80");
    while (watch_settles(&watch, 400)) {
        settle_between(&watch, 0, "lowered to 20 %", 0.15, 0.22);
        settle_between(&watch, 1, "raised to 80 %", 0.65, 0.82);
    }
    tenant_set(NULL, "cap_policy=2");
    while (watch_settles(&watch, 200)) {
        settle_between(&watch, 0, "off, 20 %", 0.80, 1.01);
        settle_between(&watch, 1, "off, 80 %", 0.80, 1.01);
    }
    for (int i = 0; i < 2; i++)
        tenant_end(pids[i]);
    watch_done(&watch);
    return 0;
}

/* What is owed at a low cap is not waited for at a higher one; nor where the cap is lifted by its
 * policy. */
TEST(cap_raised_in_debt)
{
    struct watch watch = {0};
    pid_t pids[2];

    for (int i = 0; i < 2; i++) {
        watch_add(&watch, i, NULL);
        pids[i] = tenant_start(NULL, "load us=400000 secs=6000 sync=1 device=%d", i);
    }
    watch_until_busy(&watch, 0);
    watch_until_busy(&watch, 1);
    /* Nothing starts any more: there are debts of 40 s and more, which nobody may wait for once the
     * cap is another. */
    while (watch_settles(&watch, 600)) {
        settle_between(&watch, 0, "in debt", 0, 0);
        settle_between(&watch, 1, "in debt", 0, 0);
    }
    uint64_t begin_ns = now_ns();
    tenant_set(NULL, "cores=80,1");
    watch_gains(&watch, 0, 3 * 400 * MS);
    check_gap("of 1.2 s at 80 %", now_ns() - begin_ns, 20000 * MS);
    tenant_set(NULL, "cap_policy=2");
    watch_gains(&watch, 1, 3 * 400 * MS);
    check_gap("and without a cap", now_ns() - begin_ns, 30000 * MS);
    for (int i = 0; i < 2; i++)
        tenant_end(pids[i]);
    watch_done(&watch);
    return 0;
}

/* Host functions are no work for the device: under a cap, they run as without. */
static void sleep_a_ms(void *arg)
{
    sleep_ms(1);
    atomic_fetch_add((atomic_int *)arg, 1);
}

TEST(cap_leaves_host_functions)
{
    CUstream stream;
    atomic_int count = 0;

    open_device(0);
    stream = new_stream();
    for (int i = 0; i < 100; i++)
        CU_OK(cu.cuLaunchHostFunc(stream, sleep_a_ms, &count));
    CU_OK(cu.cuStreamSynchronize(stream));
    CHECK_U(atomic_load(&count), ==, 100);
    CHECK_U(tenant_number(NULL, 0, "calls"), ==, 0);
    CHECK_U(tenant_number(NULL, 0, "throttles"), ==, 0);
    CU_OK(cu.cuStreamDestroy_v2(stream));
    close_device(0);
    return 0;
}

/* Copies between host and device have a rate for each direction, by whatever call, and leave the
 * cap alone. */
#define PIECE                                                                                      \
    (70 * MIB) /* the simulator keeps no contents of it, so it takes no time but simulated one */

struct copier {
    pthread_t thread;
    bool to_host, async;
    uint64_t end_ns, ended_ns;
};

static void *copy_thread(void *arg)
{
    struct copier *copier = arg;
    CUdeviceptr memory = 0;
    void *host = NULL;

    open_device(0);
    CUstream stream = new_stream();
    CU_OK(cu.cuMemAlloc_v2(&memory, PIECE));
    CU_OK(cu.cuMemHostAlloc(&host, PIECE, 0));
    while (now_ns() < copier->end_ns) {
        if (copier->to_host && copier->async)
            CU_OK(cu.cuMemcpyDtoHAsync_v2(host, memory, PIECE, stream));
        else if (copier->to_host)
            CU_OK(cu.cuMemcpyDtoH_v2(host, memory, PIECE));
        else if (copier->async)
            CU_OK(cu.cuMemcpyHtoDAsync_v2(memory, host, PIECE, stream));
        else
            CU_OK(cu.cuMemcpyHtoD_v2(memory, host, PIECE));
    }
    CU_OK(cu.cuStreamSynchronize(stream));
    copier->ended_ns = now_ns();
    CU_OK(cu.cuMemFreeHost(host));
    CU_OK(cu.cuMemFree_v2(memory));
    CU_OK(cu.cuStreamDestroy_v2(stream));
    close_device(0);
    return NULL;
}

/*
 * Both directions for a while. Never more than the rate lets through, its burst and the piece that
 * was let through last included; false: not even 70 % of it, as on a machine that has other things
 * to do.
 */
static bool copy_both_ways(double rate, bool async)
{
    const char *group = getenv("SIMGPU_GROUP");
    struct copier copiers[2];
    uint64_t begin_ns = now_ns(), before[2];
    bool enough = true;

    for (int i = 0; i < 2; i++) {
        before[i] = book_copied(0, group, i);
        copiers[i] = (struct copier){.to_host = i, .async = async, .end_ns = begin_ns + 300 * MS};
        CHECK(pthread_create(&copiers[i].thread, NULL, copy_thread, &copiers[i]) == 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(copiers[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        uint64_t end_ns = copiers[i].ended_ns;
        double seconds = (double)(end_ns - begin_ns) / 1e9,
               burst = (double)(BUCKET_BURST_NS + BUCKET_SLACK_NS) / 1e9;
        double share = (double)(book_copied(0, group, i) - before[i]) / (seconds * rate);

        check_share(i ? "to the host, of the rate" : "to the device, of the rate", share, 0,
                    1 + (burst + (double)PIECE / rate) / seconds);
        enough = enough && share >= 0.70;
    }
    return enough;
}

TEST(copy_rate_of_each_direction)
{
    const char *group = getenv("SIMGPU_GROUP");
    double rate = argc > 0 ? strtod(argv[0], NULL) : 5.0 * (double)GIB;

    open_device(0);
    for (int async = 0; async < 2; async++) {
        uint64_t end_ns = now_ns() + PATIENCE_NS;

        while (!copy_both_ways(rate, async))
            CHECK_U(now_ns(), <, end_ns);
    }
    CHECK_U(tenant_number(NULL, 0, "calls"), ==, 0);
    CHECK_U(tenant_number(NULL, 0, "copy_wait_ns"), >, 0);
    CHECK_U(tenant_number(NULL, 0, "htod"), ==, book_copied(0, group, false));
    CHECK_U(tenant_number(NULL, 0, "dtoh"), ==, book_copied(0, group, true));

    /* A copy that would wait for 35 s goes on when the rate is lifted. */
    uint64_t begin_ns = now_ns();
    struct copier copier = {.async = true, .end_ns = begin_ns + 100 * MS};
    tenant_set(NULL, "copy_bytes_s=2097152");
    CHECK(pthread_create(&copier.thread, NULL, copy_thread, &copier) == 0);
    sleep_ms(200);
    tenant_set(NULL, "copy_bytes_s=0");
    pthread_join(copier.thread, NULL);
    check_gap("copies, when the rate is lifted", now_ns() - begin_ns, 20000 * MS);
    close_device(0);
    return 0;
}

/* In a run inside an instance that has ten times the rate; the first argument is the run's own. */
TEST(copy_rate_inside)
{
    double rate = argc > 0 ? strtod(argv[0], NULL) : 0;
    uint64_t end_ns = now_ns() + PATIENCE_NS;

    open_device(0);
    for (int async = 0; async < 2; async++) {
        while (!copy_both_ways(rate, async))
            CHECK_U(now_ns(), <, end_ns);
    }
    close_device(0);
    return 0;
}

/*
 * Where nothing limits it, a launch is measured once a second and stream at most: three events, and
 * a question now and then. But all are counted.
 */
TEST(samples_are_rare)
{
    enum { STREAMS = 4, LAUNCHES = 100000 };
    uint64_t begin_ns, seconds, duration_ns = 2000;
    void *arguments[] = {&duration_ns};
    CUstream streams[STREAMS];
    CUmodule module = NULL;

    open_device(0);
    CUfunction kernel = new_kernel("simgpu_busy", &module);
    for (unsigned i = 0; i < STREAMS; i++)
        streams[i] = new_stream();
    begin_ns = now_ns();
    for (unsigned i = 0; i < LAUNCHES; i++)
        CU_OK(cu.cuLaunchKernel(kernel, 1 + i % 50, 1, 1, 1, 1, 1, 0, streams[i % STREAMS],
                                arguments, NULL));
    for (unsigned i = 0; i < STREAMS; i++)
        CU_OK(cu.cuStreamSynchronize(streams[i]));
    seconds = (now_ns() - begin_ns) / (1000 * MS) + 1;
    uint64_t recorded = truth_calls("cuEventRecord"), asked = truth_calls("cuEventQuery");
    printf("%d launches in %" PRIu64 " s: %" PRIu64 " events recorded, %" PRIu64 " asked about\n",
           LAUNCHES, seconds, recorded, asked);
    CHECK_U(recorded, >=, 2);
    CHECK_U(recorded, <=, 3 * STREAMS * (seconds + 1));
    /* Behind every 16th launch at most, and that only while one of the few is under way. */
    CHECK_U(asked, <=, LAUNCHES / 16);
    check_share("calls counted, of those made", (double)tenant_number(NULL, 0, "calls") / LAUNCHES,
                0.9, 1.1);
    for (unsigned i = 0; i < STREAMS; i++)
        CU_OK(cu.cuStreamDestroy_v2(streams[i]));
    CU_OK(cu.cuModuleUnload(module));
    close_device(0);
    return 0;
}
