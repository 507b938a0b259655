/*
 * launches MODE: what a program sees that launches kernels by CUDA's driver API. One line of JSON.
 *
 *   tails COUNT               times of cuLaunchKernel, 200 launches between two waits: p50_us,
 *                             p99_us, p999_us, mean_us
 *   WHICH US COUNT [events]   COUNT kernels of US microseconds without waiting: times, [begin, end]
 *                             of each in ns
 *
 *     same     the same kernel again and again
 *     fresh    each another one to whoever tells kernels by function and shape
 *     graph    each in a graph of its own, destroyed behind its launch
 *     update   all in one graph, changed before each launch; the first ten take a hundredth of the
 *              time
 *
 * events: only ends are measured, by events, and the length is believed: for simgpu, where kernels
 * compute nothing.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BETWEEN_WAITS 200
#define SHORT_UPDATES 10
#define SHORT_PART    100
#define SHAPE         32u /* a side of a block: there are 1024 shapes, and two functions */

/* CUDA_KERNEL_NODE_PARAMS_v2 */
struct kernel_node {
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void **arguments, **extra;
    void *kernel, *context;
};

/* X(result name, symbol, parameters) */
#define FUNCTIONS(X)                                                                               \
    X(init, cuInit, (unsigned))                                                                    \
    X(device_get, cuDeviceGet, (int *, int))                                                       \
    X(retain, cuDevicePrimaryCtxRetain, (void **, int))                                            \
    X(set_current, cuCtxSetCurrent, (void *))                                                      \
    X(alloc, cuMemAlloc_v2, (uint64_t *, size_t))                                                  \
    X(to_host, cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                                        \
    X(load, cuModuleLoadData, (void **, const void *))                                             \
    X(function, cuModuleGetFunction, (void **, void *, const char *))                              \
    X(stream, cuStreamCreate, (void **, unsigned))                                                 \
    X(launch, cuLaunchKernel,                                                                      \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,       \
       void **, void **))                                                                          \
    X(graph, cuGraphCreate, (void **, unsigned))                                                   \
    X(graph_drop, cuGraphDestroy, (void *))                                                        \
    X(graph_kernel, cuGraphAddKernelNode_v2,                                                       \
      (void **, void *, void *const *, size_t, const struct kernel_node *))                        \
    X(exec, cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                    \
    X(exec_change, cuGraphExecKernelNodeSetParams_v2,                                              \
      (void *, void *, const struct kernel_node *))                                                \
    X(exec_launch, cuGraphLaunch, (void *, void *))                                                \
    X(exec_drop, cuGraphExecDestroy, (void *))                                                     \
    X(wait, cuStreamSynchronize, (void *))                                                         \
    X(event, cuEventCreate, (void **, unsigned))                                                   \
    X(record, cuEventRecord, (void *, void *))                                                     \
    X(elapsed, cuEventElapsedTime, (float *, void *, void *))

static struct {
#define X(name, symbol, parameters) int(*name) parameters;
    FUNCTIONS(X)
#undef X
} cuda;

/* A kernel that takes `ns`, and says when it began and ended where `at` is not 0. simgpu knows the
 * first's name. */
#define KERNEL(name)                                                                               \
    ".visible .entry " name "(.param .u64 ns, .param .u64 at)\n{\n"                                \
    ".reg .pred %p; .reg .u64 %n, %a, %b, %e, %d; .reg .u32 %x, %y;\n"                             \
    "mov.u64 %b, %globaltimer; ld.param.u64 %n, [ns]; ld.param.u64 %a, [at];\n"                    \
    "loop: mov.u64 %e, %globaltimer; sub.u64 %d, %e, %b; setp.lt.u64 %p, %d, %n; @%p bra loop;\n"  \
    "mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; or.b32 %x, %x, %y; setp.ne.u32 %p, %x, 0; @%p bra "   \
    "end;\n"                                                                                       \
    "setp.eq.u64 %p, %a, 0; @%p bra end;\n"                                                        \
    "cvta.to.global.u64 %a, %a; st.global.u64 [%a], %b; st.global.u64 [%a+8], %e;\n"               \
    "end: ret;\n}\n"

static const char code[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n" KERNEL("simgpu_busy") KERNEL("simgpu_busy_2");

static void *stream, *kernels[2];

static void check(int rc, const char *what)
{
    if (rc == 0)
        return;
    printf("{\"error\":%d,\"at\":\"%s\"}\n", rc, what);
    exit(3);
}

static void set_up(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context, *module;
    int device;

    check(library == NULL, "libcuda.so.1");
#define X(name, symbol, parameters)                                                                \
    *(void **)&cuda.name = dlsym(library, #symbol);                                                \
    check(cuda.name == NULL, #symbol);
    FUNCTIONS(X)
#undef X
    check(cuda.init(0), "cuInit");
    check(cuda.device_get(&device, 0), "cuDeviceGet");
    check(cuda.retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuda.set_current(context), "cuCtxSetCurrent");
    check(cuda.load(&module, code), "cuModuleLoadData");
    check(cuda.function(&kernels[0], module, "simgpu_busy"), "cuModuleGetFunction");
    check(cuda.function(&kernels[1], module, "simgpu_busy_2"), "cuModuleGetFunction");
    check(cuda.stream(&stream, 1), "cuStreamCreate");
}

static void launch(unsigned shape, uint64_t ns, uint64_t at)
{
    void *arguments[] = {&ns, &at};

    check(cuda.launch(kernels[shape / (SHAPE * SHAPE) % 2], 1, 1, 1, 1 + shape % SHAPE,
                      1 + shape / SHAPE % SHAPE, 1, 0, stream, arguments, NULL),
          "cuLaunchKernel");
}

static struct {
    void *graph, *node, *exec;
} made;

static void drop_graph(void)
{
    check(cuda.exec_drop(made.exec), "cuGraphExecDestroy");
    check(cuda.graph_drop(made.graph), "cuGraphDestroy");
    made.exec = NULL;
}

static void launch_graph(int keep, uint64_t ns, uint64_t at)
{
    void *arguments[] = {&ns, &at};
    struct kernel_node params = {
        .function = kernels[0], .grid = {1, 1, 1}, .block = {1, 1, 1}, .arguments = arguments};

    if (made.exec != NULL) {
        check(cuda.exec_change(made.exec, made.node, &params), "cuGraphExecKernelNodeSetParams");
    } else {
        check(cuda.graph(&made.graph, 0), "cuGraphCreate");
        check(cuda.graph_kernel(&made.node, made.graph, NULL, 0, &params), "cuGraphAddKernelNode");
        check(cuda.exec(&made.exec, made.graph, 0), "cuGraphInstantiate");
    }
    check(cuda.exec_launch(made.exec, stream), "cuGraphLaunch");
    if (!keep)
        drop_graph();
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static int tails(unsigned count)
{
    uint64_t *times = calloc(count, sizeof *times), sum = 0;

    check(times == NULL || count == 0, "COUNT");
    for (unsigned i = 0; i < 2000; i++) /* caches, the clock of the processor */
        launch(0, 0, 0);
    check(cuda.wait(stream), "cuStreamSynchronize");
    for (unsigned i = 0; i < count; i++) {
        uint64_t begin_ns = now_ns();
        launch(0, 0, 0);
        times[i] = now_ns() - begin_ns;
        sum += times[i];
        if (i % BETWEEN_WAITS == BETWEEN_WAITS - 1)
            check(cuda.wait(stream), "cuStreamSynchronize");
    }
    check(cuda.wait(stream), "cuStreamSynchronize");
    qsort(times, count, sizeof *times, ascending);
    printf("{\"p50_us\":%.3f,\"p99_us\":%.3f,\"p999_us\":%.3f,\"mean_us\":%.3f}\n",
           (double)times[count / 2] / 1e3, (double)times[(uint64_t)count * 99 / 100] / 1e3,
           (double)times[(uint64_t)count * 999 / 1000] / 1e3, (double)sum / count / 1e3);
    return 0;
}

/* begin and end of each */
static void read_times(uint64_t memory, uint64_t *times, unsigned count)
{
    check(cuda.to_host(times, memory, 2 * count * sizeof *times), "cuMemcpyDtoH");
}

static uint64_t length_of(char which, unsigned i, uint64_t ns)
{
    return which == 'u' && i < SHORT_UPDATES ? ns / SHORT_PART : ns;
}

static void read_events(void **events, uint64_t *times, unsigned count, char which, uint64_t ns)
{
    for (unsigned i = 0; i < count; i++) {
        float ms = 0;

        check(cuda.elapsed(&ms, events[0], events[1 + i]), "cuEventElapsedTime");
        times[2 * i + 1] = (uint64_t)((double)ms * 1e6) + 1000000000u;
        times[2 * i] = times[2 * i + 1] - length_of(which, i, ns);
    }
}

/* which: the first letter of its name */
static int many(uint64_t ns, unsigned count, char which, int with_events)
{
    uint64_t *times = calloc(2 * (size_t)count, sizeof *times), memory;
    void **events = calloc(count + 1, sizeof *events);

    check(times == NULL || events == NULL || count == 0, "COUNT");
    check(cuda.alloc(&memory, 2 * count * sizeof *times), "cuMemAlloc");
    for (unsigned i = 0; i <= count && with_events; i++)
        check(cuda.event(&events[i], 0), "cuEventCreate");
    if (with_events)
        check(cuda.record(events[0], stream), "cuEventRecord");
    for (unsigned i = 0; i < count; i++) {
        uint64_t length_ns = length_of(which, i, ns), at = memory + 16 * (uint64_t)i;

        if (which == 'g' || which == 'u')
            launch_graph(which == 'u', length_ns, at);
        else
            launch(which == 'f' ? i : 0, length_ns, at);
        if (with_events)
            check(cuda.record(events[1 + i], stream), "cuEventRecord");
    }
    check(cuda.wait(stream), "cuStreamSynchronize");
    if (made.exec != NULL)
        drop_graph();
    if (with_events)
        read_events(events, times, count, which, ns);
    else
        read_times(memory, times, count);
    printf("{\"us\":%.3f,\"times\":[", (double)ns / 1e3);
    for (unsigned i = 0; i < count; i++)
        printf("%s[%" PRIu64 ",%" PRIu64 "]", i ? "," : "", times[2 * i], times[2 * i + 1]);
    printf("]}\n");
    free(times);
    free(events);
    return 0;
}

static int known(const char *which)
{
    static const char *const names[] = {"same", "fresh", "graph", "update"};

    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(which, names[i]) == 0)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "tails") == 0) {
        set_up();
        return tails((unsigned)atoi(argv[2]));
    }
    if (argc >= 4 && known(argv[1])) {
        set_up();
        return many((uint64_t)(atof(argv[2]) * 1e3), (unsigned)atoi(argv[3]), argv[1][0],
                    argc > 4 && strcmp(argv[4], "events") == 0);
    }
    fprintf(stderr, "usage: launches tails COUNT | {same|fresh|graph|update} US COUNT [events]\n");
    return 2;
}
