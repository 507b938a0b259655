/*
 * New kernels under a cap. From the first launch on, no 100 ms have more device time than the cap
 * plus 5 ms and one kernel. The book's times of each kernel decide, so a verdict depends on no
 * other clock.
 */
#include "tenants.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define KERNELS   4096
#define WINDOW_NS (100 * MS)
#define SLACK_NS  (5 * MS)
#define THREADS   8
#define TENANTS   6

static const uint64_t lengths[] = {10000, 100000, MS, 5 * MS, 20 * MS, 50 * MS, 100 * MS};
#define LENGTHS (sizeof lengths / sizeof lengths[0])

static CUmodule module;
static CUfunction kernel;

static void launch(CUstream stream, unsigned grid, uint64_t duration_ns)
{
    void *arguments[] = {&duration_ns};

    CU_OK(cu.cuLaunchKernel(kernel, grid, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

/* Some 75 ms of device time, but three kernels at least. */
static unsigned count_of(uint64_t length_ns)
{
    uint64_t count = 75 * MS / length_ns;

    return count < 3 ? 3 : count > 2000 ? 2000 : (unsigned)count;
}

/* Of the part of the book from `from` on: the most that any window has, and the longest time
 * without a kernel. */
static void judge(const struct book_kernel *kernels, size_t count, uint64_t *ret_most_ns,
                  uint64_t *ret_gap_ns)
{
    *ret_most_ns = *ret_gap_ns = 0;
    /* The most is in a window that ends with a kernel; of the first that is in it, it may have a
     * part only. */
    for (size_t last = 0, first = 0, from = 0; last < count; last++) {
        uint64_t end_ns = kernels[last].end_ns, sum_ns = 0;

        while (kernels[first].end_ns + WINDOW_NS <= end_ns)
            first++;
        for (from = first; from <= last; from++)
            sum_ns += kernels[from].end_ns - kernels[from].begin_ns;
        if (kernels[first].begin_ns + WINDOW_NS < end_ns)
            sum_ns -= end_ns - WINDOW_NS - kernels[first].begin_ns;
        *ret_most_ns = sum_ns > *ret_most_ns ? sum_ns : *ret_most_ns;
        if (last > 0 && kernels[last].begin_ns - kernels[last - 1].end_ns > *ret_gap_ns)
            *ret_gap_ns = kernels[last].begin_ns - kernels[last - 1].end_ns;
    }
}

static unsigned percent_of(int argc, char **argv)
{
    CHECK(argc > 0);
    return (unsigned)strtoul(argv[0], NULL, 10);
}

static void check(const char *what, const struct book_kernel *kernels, size_t count,
                  uint64_t length_ns, unsigned percent)
{
    uint64_t bound_ns = WINDOW_NS / 100 * percent + SLACK_NS + length_ns, most_ns, gap_ns;
    /* What one launch owes, and what a busy machine keeps it waiting; what is wrong by orders of
     * magnitude is not. */
    uint64_t silence_ns = 2 * length_ns * 100 / percent + 1000 * MS;

    judge(kernels, count, &most_ns, &gap_ns);
    printf("%s of %7.3f ms: %4zu in %6.1f ms, at most %5.1f in 100 ms (bound %5.1f), silent for "
           "%5.1f ms\n",
           what, (double)length_ns / 1e6, count,
           (double)(kernels[count - 1].end_ns - kernels[0].begin_ns) / 1e6, (double)most_ns / 1e6,
           (double)bound_ns / 1e6, (double)gap_ns / 1e6);
    if (most_ns > bound_ns)
        FAIL("%s of %" PRIu64 " us: %.1f ms in 100 ms, more than %.1f", what, length_ns / 1000,
             (double)most_ns / 1e6, (double)bound_ns / 1e6);
    if (gap_ns > silence_ns)
        FAIL("%s of %" PRIu64 " us: silent for %.1f ms", what, length_ns / 1000,
             (double)gap_ns / 1e6);
}

/* The last kernels of this process: they are checked, those before are left out. */
static void check_last(const char *what, unsigned count, uint64_t length_ns, unsigned percent)
{
    static struct book_kernel kernels[KERNELS];

    CHECK_U(book_kernels(0, getpid(), kernels, count), ==, count);
    check(what, kernels, count, length_ns, percent);
}

static void begin(void)
{
    open_device(0);
    kernel = new_kernel("simgpu_busy", &module);
}

static void end(void)
{
    CU_OK(cu.cuModuleUnload(module));
    close_device(0);
}

/* The same kernel again and again; another one each time; all of them without waiting between. */
TEST(cap_at_start)
{
    unsigned percent = percent_of(argc, argv), grid = 1;
    CUstream stream;

    begin();
    stream = new_stream();
    for (int fresh = 0; fresh < 2; fresh++)
        for (size_t n = 0; n < LENGTHS; n++) {
            grid++;
            for (unsigned i = 0; i < count_of(lengths[n]); i++, grid += (unsigned)fresh)
                launch(stream, grid, lengths[n]);
            CU_OK(cu.cuStreamSynchronize(stream));
            check_last(fresh ? "each another" : "the same    ", count_of(lengths[n]), lengths[n],
                       percent);
        }
    CU_OK(cu.cuStreamDestroy_v2(stream));
    end();
    return 0;
}

/* What is in the stream already when graphs of unknown cost are launched. */
enum before { NOTHING, KNOWN_WORK, SAME_BUT_SHORT };

#define GRAPH_NODES   2
#define BACKLOG       50
#define BACKLOG_NS    500000
#define SHORT_NS      (200000 / GRAPH_NODES)
#define SHORT_STARTED 20

struct graphs {
    CUstream stream;
    CUgraph graph;
    CUgraphNode nodes[GRAPH_NODES];
    CUgraphExec exec;
};

static CUDA_KERNEL_NODE_PARAMS node_of(uint64_t *duration_ns, void **arguments)
{
    arguments[0] = duration_ns;
    return (CUDA_KERNEL_NODE_PARAMS){.func = kernel,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = arguments};
}

static void make_graph(struct graphs *graphs, uint64_t node_ns)
{
    void *arguments[1];
    CUDA_KERNEL_NODE_PARAMS params = node_of(&node_ns, arguments);

    CU_OK(cu.cuGraphCreate(&graphs->graph, 0));
    for (unsigned i = 0; i < GRAPH_NODES; i++)
        CU_OK(cu.cuGraphAddKernelNode_v2(&graphs->nodes[i], graphs->graph,
                                         i ? &graphs->nodes[i - 1] : NULL, i > 0, &params));
    CU_OK(cu.cuGraphInstantiateWithFlags(&graphs->exec, graphs->graph, 0));
}

static void update_graph(struct graphs *graphs, uint64_t node_ns)
{
    void *arguments[1];
    CUDA_KERNEL_NODE_PARAMS params = node_of(&node_ns, arguments);

    for (unsigned i = 0; i < GRAPH_NODES; i++)
        CU_OK(cu.cuGraphExecKernelNodeSetParams_v2(graphs->exec, graphs->nodes[i], &params));
}

static void drop_graph(struct graphs *graphs)
{
    CU_OK(cu.cuGraphExecDestroy(graphs->exec));
    CU_OK(cu.cuGraphDestroy(graphs->graph));
}

/* Returns how many kernels it launched. */
static unsigned put_before(struct graphs *graphs, enum before before)
{
    if (before == KNOWN_WORK)
        for (unsigned i = 0; i < BACKLOG; i++)
            launch(graphs->stream, 1, BACKLOG_NS);
    if (before != SAME_BUT_SHORT)
        return before == KNOWN_WORK ? BACKLOG : 0;
    for (unsigned i = 0; i < SHORT_STARTED; i++)
        CU_OK(cu.cuGraphLaunch(graphs->exec, graphs->stream));
    return SHORT_STARTED * GRAPH_NODES;
}

static void check_graphs(struct graphs *graphs, enum before before, bool fresh, uint64_t length_ns,
                         unsigned percent)
{
    static const char *const names[] = {"graphs", "graphs behind others", "graphs updated"};
    unsigned kernels, count = count_of(length_ns);
    uint64_t node_ns = length_ns / GRAPH_NODES;

    make_graph(graphs, before == SAME_BUT_SHORT ? SHORT_NS : node_ns);
    kernels = put_before(graphs, before);
    for (unsigned i = 0; i < count; i++) {
        if (before == SAME_BUT_SHORT && (fresh || i == 0))
            update_graph(graphs, node_ns);
        else if (fresh && i > 0) {
            drop_graph(graphs);
            make_graph(graphs, node_ns);
        }
        CU_OK(cu.cuGraphLaunch(graphs->exec, graphs->stream));
    }
    CU_OK(cu.cuStreamSynchronize(graphs->stream));
    drop_graph(graphs);
    check_last(names[before], kernels + GRAPH_NODES * count, length_ns, percent);
}

/*
 * A graph, made anew or changed before each launch or the first one: behind nothing, other work,
 * and its former self. The longest kernels are left out, for the time that they take.
 */
TEST(cap_at_start_graphs)
{
    unsigned percent = percent_of(argc, argv);
    struct graphs graphs;

    begin();
    graphs.stream = new_stream();
    for (int before = NOTHING; before <= SAME_BUT_SHORT; before++)
        for (int fresh = 0; fresh < 2; fresh++)
            for (size_t n = 0; n < LENGTHS - 2; n++)
                check_graphs(&graphs, (enum before)before, fresh, lengths[n], percent);
    CU_OK(cu.cuStreamDestroy_v2(graphs.stream));
    end();
    return 0;
}

struct starter {
    pthread_t thread;
    unsigned number;
    uint64_t length_ns;
};

static CUcontext context_of_all;

static void *start_one(void *arg)
{
    struct starter *starter = arg;

    CU_OK(cu.cuCtxSetCurrent(context_of_all));
    CUstream stream = new_stream();
    launch(stream, starter->number, starter->length_ns);
    CU_OK(cu.cuStreamSynchronize(stream));
    CU_OK(cu.cuStreamDestroy_v2(stream));
    return NULL;
}

/*
 * Threads at once, each with a kernel and a stream of its own. One each, for of several launches
 * that were charged and then held up by the machine each may run late.
 */
TEST(cap_at_start_threads)
{
    unsigned percent = percent_of(argc, argv), number = 0;

    begin();
    CU_OK(cu.cuCtxGetCurrent(&context_of_all));
    for (size_t n = 0; n < LENGTHS; n++) {
        struct starter starters[THREADS];

        for (unsigned i = 0; i < THREADS; i++) {
            starters[i] = (struct starter){.number = ++number, .length_ns = lengths[n]};
            CHECK(pthread_create(&starters[i].thread, NULL, start_one, &starters[i]) == 0);
        }
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(starters[i].thread, NULL);
        check_last("of threads  ", THREADS, lengths[n], percent);
    }
    end();
    return 0;
}

TEST(cap_at_start_tenant)
{
    tenant_is_one();
    begin();
    CUstream stream = new_stream();
    launch(stream, 1, strtoull(argv[0], NULL, 10));
    CU_OK(cu.cuStreamSynchronize(stream));
    CU_OK(cu.cuStreamDestroy_v2(stream));
    end();
    return 0;
}

/* Processes of one instance, as threads. The device changes between them, so the book is read as
 * time goes on. */
TEST(cap_at_start_processes)
{
    unsigned percent = percent_of(argc, argv);

    for (size_t n = 4; n < 6; n++) {
        struct watch watch = {0};
        pid_t pids[TENANTS];
        uint64_t bound_ns = WINDOW_NS / 100 * percent + SLACK_NS + lengths[n], most_ns,
                 begin_ns = book_device(0);

        watch_add(&watch, 0, NULL);
        watch_restart(&watch);
        for (int i = 0; i < TENANTS; i++)
            pids[i] = tenant_start(NULL, "cap_at_start_tenant %" PRIu64, lengths[n]);
        while (book_device(0) - begin_ns < TENANTS * lengths[n])
            watch_for(&watch, 10);
        for (int i = 0; i < TENANTS; i++)
            wait_ok(pids[i]);
        most_ns = watch_most(&watch, 0, WINDOW_NS);
        printf("of processes, %7.3f ms: at most %5.1f in 100 ms (bound %5.1f)\n",
               (double)lengths[n] / 1e6, (double)most_ns / 1e6, (double)bound_ns / 1e6);
        if (most_ns > bound_ns)
            FAIL("processes with kernels of %" PRIu64 " us: %.1f ms in 100 ms, more than %.1f",
                 lengths[n] / 1000, (double)most_ns / 1e6, (double)bound_ns / 1e6);
        watch_done(&watch);
    }
    return 0;
}

/*
 * Unknown launches that wait for later ones: behind a word that the program writes after all of
 * them, and kernels that run until another one has run. It must end, and hundreds of them must not
 * wait one by one.
 */
TEST(cap_at_start_held_up)
{
    uint32_t *words = NULL;
    CUdeviceptr address;
    uint64_t begin_ns = now_ns();

    begin();
    CUstream stream = new_stream(), other = new_stream();
    CUfunction until = NULL;
    CU_OK(cu.cuModuleGetFunction(&until, module, "simgpu_until"));
    CU_OK(cu.cuMemHostAlloc((void **)&words, 4096, 0));
    address = (uintptr_t)words;
    words[0] = words[1] = 0;

    CU_OK(cu.cuStreamWaitValue32_v2(stream, address, 1, 0));
    for (unsigned i = 0; i < 500; i++)
        launch(stream, 1 + i, 10000);
    __atomic_store_n(&words[0], 1, __ATOMIC_SEQ_CST);
    CU_OK(cu.cuStreamSynchronize(stream));
    printf("500 behind a word: %.1f ms\n", (double)(now_ns() - begin_ns) / 1e6);
    if (now_ns() - begin_ns > 10000 * MS)
        FAIL("500 launches behind a word took %.1f s", (double)(now_ns() - begin_ns) / 1e9);

    uint64_t at = address + sizeof *words;
    uint32_t value = 1;
    void *arguments[] = {&at, &value};
    begin_ns = now_ns();
    CU_OK(cu.cuLaunchKernel(until, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    launch(other, 1000, 10000);
    launch(other, 1001, 10000);
    __atomic_store_n(&words[1], 1, __ATOMIC_SEQ_CST);
    CU_OK(cu.cuCtxSynchronize());
    printf("behind one that runs until they are launched: %.1f ms\n",
           (double)(now_ns() - begin_ns) / 1e6);
    if (now_ns() - begin_ns > 10000 * MS)
        FAIL("two launches beside one that waits for them took %.1f s",
             (double)(now_ns() - begin_ns) / 1e9);
    CU_OK(cu.cuStreamDestroy_v2(stream));
    CU_OK(cu.cuStreamDestroy_v2(other));
    CU_OK(cu.cuMemFreeHost(words));
    end();
    return 0;
}

static atomic_uint launched;

/* Cancelled from the beginning; it notices at the first cancellation point. */
static void *start_cancelled(void *arg)
{
    CUstream stream = arg;

    CU_OK(cu.cuCtxSetCurrent(context_of_all));
    CHECK(pthread_cancel(pthread_self()) == 0);
    for (unsigned i = 0; i < 20; i++) {
        launch(stream, 1 + i, MS);
        atomic_fetch_add(&launched, 1);
    }
    pthread_testcancel();
    FAIL("the thread was not cancelled");
}

/* No launch of the driver's is a cancellation point, and none becomes one by waiting for the
 * cap. */
TEST(cap_and_cancelled_threads)
{
    pthread_t thread;
    void *result = NULL;

    begin();
    CU_OK(cu.cuCtxGetCurrent(&context_of_all));
    CUstream stream = new_stream();
    CHECK(pthread_create(&thread, NULL, start_cancelled, stream) == 0);
    pthread_join(thread, &result);
    CHECK(result == PTHREAD_CANCELED);
    CHECK_U(atomic_load(&launched), ==, 20);
    /* Nothing was left held. */
    for (unsigned i = 0; i < 20; i++)
        launch(stream, 100 + i, MS);
    CU_OK(cu.cuStreamSynchronize(stream));
    CHECK_U(tenant_number(NULL, 0, "throttles"), >, 0);
    CU_OK(cu.cuStreamDestroy_v2(stream));
    end();
    return 0;
}
