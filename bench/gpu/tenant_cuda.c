/* The tenant's GPU by CUDA's driver API, loaded at run time: no header or library of CUDA's is
 * needed to build it. */
#include "tenant.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NO_LIBRARY           (-100)
#define PROCESSORS_ATTRIBUTE 16
#define HOST_MAPPED          2u
#define STREAM_OWN           1u /* waits for nobody else's */
#define BLOCK_THREADS        256
#define BLOCKS_EACH          8
#define CALIBRATION          200000
#define CALIBRATION_S        0.5

/* X(result name, symbol, parameters) */
#define FUNCTIONS(X)                                                                               \
    X(init, cuInit, (unsigned))                                                                    \
    X(device_get, cuDeviceGet, (int *, int))                                                       \
    X(attribute, cuDeviceGetAttribute, (int *, int, int))                                          \
    X(device_total, cuDeviceTotalMem_v2, (size_t *, int))                                          \
    X(retain, cuDevicePrimaryCtxRetain, (void **, int))                                            \
    X(set_current, cuCtxSetCurrent, (void *))                                                      \
    X(info, cuMemGetInfo_v2, (size_t *, size_t *))                                                 \
    X(alloc, cuMemAlloc_v2, (uint64_t *, size_t))                                                  \
    X(release, cuMemFree_v2, (uint64_t))                                                           \
    X(host_alloc, cuMemHostAlloc, (void **, size_t, unsigned))                                     \
    X(host_pointer, cuMemHostGetDevicePointer_v2, (uint64_t *, void *, unsigned))                  \
    X(load, cuModuleLoadData, (void **, const void *))                                             \
    X(function, cuModuleGetFunction, (void **, void *, const char *))                              \
    X(stream, cuStreamCreate, (void **, unsigned))                                                 \
    X(launch, cuLaunchKernel,                                                                      \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,       \
       void **, void **))                                                                          \
    X(wait, cuStreamSynchronize, (void *))

static struct {
#define X(name, symbol, parameters) int(*name) parameters;
    FUNCTIONS(X)
#undef X
} cuda;

/* work: a chain of a given length. beat: counts in memory of the host until a word there is not
 * 0. */
static const char code[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry work(.param .u64 out, .param .u32 iterations)\n{\n"
    ".reg .pred %p; .reg .f32 %a, %b, %c; .reg .u32 %i, %n, %t; .reg .u64 %o;\n"
    "ld.param.u32 %n, [iterations]; mov.u32 %t, %tid.x; cvt.rn.f32.u32 %a, %t;\n"
    "mov.f32 %b, 0f3F800347; mov.f32 %c, 0f3F000000; mov.u32 %i, 0;\n"
    "loop: setp.ge.u32 %p, %i, %n; @%p bra done;\n"
    "fma.rn.f32 %a, %a, %b, %c; fma.rn.f32 %b, %b, 0f3F7FF972, 0f358637BD;\n"
    "fma.rn.f32 %c, %c, 0f3F800347, 0fB58637BD; add.u32 %i, %i, 1; bra loop;\n"
    "done: setp.neu.f32 %p, %a, 0f4640E6B7; @%p bra end;\n"
    "ld.param.u64 %o, [out]; cvta.to.global.u64 %o, %o; st.global.f32 [%o], %a;\n"
    "end: ret;\n}\n"
    ".visible .entry beat(.param .u64 words)\n{\n"
    ".reg .pred %p; .reg .u32 %c, %s; .reg .u64 %w;\n"
    "ld.param.u64 %w, [words]; cvta.to.global.u64 %w, %w; mov.u32 %c, 0;\n"
    "loop: add.u32 %c, %c, 1; st.volatile.global.u32 [%w], %c; membar.sys;\n"
    "ld.volatile.global.u32 %s, [%w+64]; setp.eq.u32 %p, %s, 0; @%p bra loop;\n"
    "ret;\n}\n";

static int device, processors;
static void *stream, *work, *beat;
static uint64_t out;
static double iterations_per_us = 1;
static volatile uint32_t *beat_words;

static int find_functions(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    if (!library) {
        fprintf(stderr, "tenant: %s\n", dlerror());
        return NO_LIBRARY;
    }
#define X(name, symbol, parameters)                                                                \
    *(void **)&cuda.name = dlsym(library, #symbol);                                                \
    if (!cuda.name)                                                                                \
        return NO_LIBRARY;
    FUNCTIONS(X)
#undef X
    return 0;
}

int gpu_open(void)
{
    void *context;
    int rc = find_functions();

    if (!rc)
        rc = cuda.init(0);
    if (!rc)
        rc = cuda.device_get(&device, 0);
    if (!rc)
        rc = cuda.retain(&context, device);
    return rc ? rc : cuda.set_current(context);
}

/* Code is loaded when it is wanted first: it is no part of a start. */
static int prepare(void)
{
    void *module;
    int rc;

    if (work)
        return 0;
    rc = cuda.load(&module, code);
    if (!rc)
        rc = cuda.function(&beat, module, "beat");
    if (!rc)
        rc = cuda.attribute(&processors, PROCESSORS_ATTRIBUTE, device);
    if (!rc)
        rc = cuda.stream(&stream, STREAM_OWN);
    if (!rc)
        rc = cuda.alloc(&out, 4096);
    return rc ? rc : cuda.function(&work, module, "work");
}

int gpu_info(uint64_t *ret_free, uint64_t *ret_total)
{
    size_t left, total;
    int rc = cuda.info(&left, &total);

    if (rc)
        return rc;
    *ret_free = left;
    *ret_total = total;
    return 0;
}

int gpu_total(uint64_t *ret_total)
{
    size_t total;
    int rc = cuda.device_total(&total, device);

    if (!rc)
        *ret_total = total;
    return rc;
}

int gpu_alloc(uint64_t bytes, uint64_t *ret_address)
{
    return cuda.alloc(ret_address, bytes);
}

int gpu_free(uint64_t address)
{
    return cuda.release(address);
}

static int launch(uint32_t iterations)
{
    void *arguments[] = {&out, &iterations};
    int rc = prepare();

    /* Without work it is one block: that is what a launch alone costs. */
    return rc ? rc
              : cuda.launch(work, iterations ? (unsigned)processors * BLOCKS_EACH : 1, 1, 1,
                            iterations ? BLOCK_THREADS : 32, 1, 1, 0, stream, arguments, NULL);
}

int gpu_launch(double us)
{
    double iterations = us * iterations_per_us;

    return launch(us <= 0 ? 0 : iterations < 1 ? 1 : (uint32_t)iterations);
}

int gpu_wait(void)
{
    return stream ? cuda.wait(stream) : 0;
}

void gpu_set_iterations(double per_us)
{
    iterations_per_us = per_us;
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The best of a while: the card has to reach its clock first. */
int gpu_calibrate(double *ret_iterations_per_us)
{
    double begin_s = now_s(), best_s = 1e9;

    do {
        double s = now_s();
        int rc = launch(CALIBRATION);

        if (!rc)
            rc = gpu_wait();
        if (rc)
            return rc;
        s = now_s() - s;
        best_s = s < best_s ? s : best_s;
    } while (now_s() < begin_s + CALIBRATION_S);
    *ret_iterations_per_us = CALIBRATION / (best_s * 1e6);
    return 0;
}

int gpu_beat_start(volatile uint32_t **ret_counter)
{
    uint64_t words;
    void *arguments[] = {&words}, *host;
    int rc = prepare();

    if (!rc)
        rc = cuda.host_alloc(&host, 4096, HOST_MAPPED);
    if (rc)
        return rc;
    beat_words = host;
    beat_words[0] = beat_words[16] = 0;
    rc = cuda.host_pointer(&words, host, 0);
    if (!rc)
        rc = cuda.launch(beat, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
    if (!rc)
        *ret_counter = beat_words;
    return rc;
}

int gpu_beat_stop(void)
{
    beat_words[16] = 1;
    return gpu_wait();
}

int gpu_other(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return -1;
}
