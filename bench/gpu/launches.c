/*
 * launches MODE: what a program sees that launches kernels by CUDA's driver API. One line of JSON.
 *
 *   tails COUNT               times of cuLaunchKernel, 200 launches between two waits: p50_us, p99_us, p999_us, mean_us
 *   fresh US COUNT [events]   COUNT kernels of US microseconds, each another one to whoever tells kernels by function
 * and shape, without waiting: times, [begin, end] of each in ns by the device's clock same US COUNT [events]    the
 * same one again and again
 *
 * events: only ends are measured, by events, and the length is believed: for simgpu, where kernels compute nothing.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BETWEEN_WAITS 200
#define SHAPE         32u /* a side of a block: there are 1024 shapes, and two functions */

/* X(result name, symbol, parameters) */
#define FUNCTIONS(X)                                                                                                   \
    X(init, cuInit, (unsigned))                                                                                        \
    X(device_get, cuDeviceGet, (int *, int))                                                                           \
    X(retain, cuDevicePrimaryCtxRetain, (void **, int))                                                                \
    X(set_current, cuCtxSetCurrent, (void *))                                                                          \
    X(alloc, cuMemAlloc_v2, (uint64_t *, size_t))                                                                      \
    X(to_host, cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                                                            \
    X(load, cuModuleLoadData, (void **, const void *))                                                                 \
    X(function, cuModuleGetFunction, (void **, void *, const char *))                                                  \
    X(stream, cuStreamCreate, (void **, unsigned))                                                                     \
    X(launch, cuLaunchKernel,                                                                                          \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))        \
    X(wait, cuStreamSynchronize, (void *))                                                                             \
    X(event, cuEventCreate, (void **, unsigned))                                                                       \
    X(record, cuEventRecord, (void *, void *))                                                                         \
    X(elapsed, cuEventElapsedTime, (float *, void *, void *))

static struct {
#define X(name, symbol, parameters) int(*name) parameters;
    FUNCTIONS(X)
#undef X
} cuda;

/* A kernel that takes `ns`, and says when it began and ended where `at` is not 0. simgpu knows the first's name. */
#define KERNEL(name)                                                                                                   \
    ".visible .entry " name "(.param .u64 ns, .param .u64 at)\n{\n"                                                    \
    ".reg .pred %p; .reg .u64 %n, %a, %b, %e, %d; .reg .u32 %x, %y;\n"                                                 \
    "mov.u64 %b, %globaltimer; ld.param.u64 %n, [ns]; ld.param.u64 %a, [at];\n"                                        \
    "loop: mov.u64 %e, %globaltimer; sub.u64 %d, %e, %b; setp.lt.u64 %p, %d, %n; @%p bra loop;\n"                      \
    "mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; or.b32 %x, %x, %y; setp.ne.u32 %p, %x, 0; @%p bra end;\n"                 \
    "setp.eq.u64 %p, %a, 0; @%p bra end;\n"                                                                            \
    "cvta.to.global.u64 %a, %a; st.global.u64 [%a], %b; st.global.u64 [%a+8], %e;\n"                                   \
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
#define X(name, symbol, parameters)                                                                                    \
    *(void **)&cuda.name = dlsym(library, #symbol);                                                                    \
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

    check(cuda.launch(kernels[shape / (SHAPE * SHAPE) % 2], 1, 1, 1, 1 + shape % SHAPE, 1 + shape / SHAPE % SHAPE, 1, 0,
                      stream, arguments, NULL),
          "cuLaunchKernel");
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
    printf("{\"p50_us\":%.3f,\"p99_us\":%.3f,\"p999_us\":%.3f,\"mean_us\":%.3f}\n", (double)times[count / 2] / 1e3,
           (double)times[(uint64_t)count * 99 / 100] / 1e3, (double)times[(uint64_t)count * 999 / 1000] / 1e3,
           (double)sum / count / 1e3);
    return 0;
}

/* begin and end of each */
static void read_times(uint64_t memory, uint64_t *times, unsigned count)
{
    check(cuda.to_host(times, memory, 2 * count * sizeof *times), "cuMemcpyDtoH");
}

static void read_events(void **events, uint64_t *times, unsigned count, uint64_t ns)
{
    for (unsigned i = 0; i < count; i++) {
        float ms = 0;

        check(cuda.elapsed(&ms, events[0], events[1 + i]), "cuEventElapsedTime");
        times[2 * i + 1] = (uint64_t)((double)ms * 1e6) + 1000000000u;
        times[2 * i] = times[2 * i + 1] - ns;
    }
}

static int many(uint64_t ns, unsigned count, int fresh, int with_events)
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
        launch(fresh ? i : 0, ns, memory + 16 * (uint64_t)i);
        if (with_events)
            check(cuda.record(events[1 + i], stream), "cuEventRecord");
    }
    check(cuda.wait(stream), "cuStreamSynchronize");
    if (with_events)
        read_events(events, times, count, ns);
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

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "tails") == 0) {
        set_up();
        return tails((unsigned)atoi(argv[2]));
    }
    if (argc >= 4 && (strcmp(argv[1], "fresh") == 0 || strcmp(argv[1], "same") == 0)) {
        set_up();
        return many((uint64_t)(atof(argv[2]) * 1e3), (unsigned)atoi(argv[3]), argv[1][0] == 'f',
                    argc > 4 && strcmp(argv[4], "events") == 0);
    }
    fprintf(stderr, "usage: launches tails COUNT | {fresh|same} US COUNT [events]\n");
    return 2;
}
