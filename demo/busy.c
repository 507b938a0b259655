/*
 * What a share of time looks like from inside: kernels of a millisecond, one after the other, for
 * some seconds. Like demo.c it knows nothing of vgpu and runs on a real card and on the simulator,
 * where a kernel of this name and argument takes the same time.
 *
 *   busy NAME SECONDS     one line: which part of the time the card worked for this program
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define KERNEL_NS 1000000ULL

/* Runs until as many nanoseconds have passed as its argument says. */
static const char ptx[] = ".version 6.0\n"
                          ".target sm_50\n"
                          ".address_size 64\n"
                          ".visible .entry simgpu_busy(.param .u64 duration_ns)\n"
                          "{\n"
                          "    .reg .pred %over;\n"
                          "    .reg .u64 %start, %now, %passed, %duration;\n"
                          "    ld.param.u64 %duration, [duration_ns];\n"
                          "    mov.u64 %start, %globaltimer;\n"
                          "again:\n"
                          "    mov.u64 %now, %globaltimer;\n"
                          "    sub.u64 %passed, %now, %start;\n"
                          "    setp.lt.u64 %over, %passed, %duration;\n"
                          "    @%over bra again;\n"
                          "    ret;\n"
                          "}\n";

#define CALLS(F)                                                                                   \
    F(cuInit, (unsigned flags))                                                                    \
    F(cuDevicePrimaryCtxRetain, (void **context, int device))                                      \
    F(cuDevicePrimaryCtxRelease_v2, (int device))                                                  \
    F(cuCtxSetCurrent, (void *context))                                                            \
    F(cuModuleLoadData, (void **module, const void *image))                                        \
    F(cuModuleGetFunction, (void **function, void *module, const char *name))                      \
    F(cuStreamCreate, (void **stream, unsigned flags))                                             \
    F(cuStreamSynchronize, (void *stream))                                                         \
    F(cuLaunchKernel, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,          \
                       unsigned block_x, unsigned block_y, unsigned block_z,                       \
                       unsigned shared_bytes, void *stream, void **params, void **extra))

static struct {
#define F(name, params) int(*name) params;
    CALLS(F)
#undef F
} cu;

static void need(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "busy: %s failed with %d\n", what, result);
    exit(1);
}

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    need(library == NULL, "dlopen(libcuda.so.1)");
#define F(name, params)                                                                            \
    cu.name = (int(*) params)dlsym(library, #name);                                                \
    need(cu.name == NULL, #name);
    CALLS(F)
#undef F
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    uint64_t duration_ns = KERNEL_NS;
    void *context, *module, *kernel, *stream, *arguments[] = {&duration_ns};
    double start, passed;
    unsigned done = 0;

    if (argc != 3) {
        fprintf(stderr, "usage: busy NAME SECONDS\n");
        return 2;
    }
    load();
    need(cu.cuInit(0), "cuInit");
    need(cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    need(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    need(cu.cuModuleLoadData(&module, ptx), "cuModuleLoadData");
    need(cu.cuModuleGetFunction(&kernel, module, "simgpu_busy"), "cuModuleGetFunction");
    need(cu.cuStreamCreate(&stream, 1), "cuStreamCreate");
    for (start = now_s(); now_s() < start + strtod(argv[2], NULL); done++) {
        need(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL),
             "cuLaunchKernel");
        need(cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
    }
    passed = now_s() - start;
    printf("  %-6s %5.1f %% of the card's time\n", argv[1],
           100 * done * (double)KERNEL_NS * 1e-9 / passed);
    need(cu.cuDevicePrimaryCtxRelease_v2(0), "cuDevicePrimaryCtxRelease");
    return 0;
}
