/* Contexts, modules and device limits. */
#include "harness.h"

#include <pthread.h>
#include <unistd.h>

/* A context alone raises the usage by what it costs; destroying it gives that back. */
TEST(context_charged)
{
    CUcontext primary = NULL, created = NULL;
    driver_load();
    CU_OK(cu.cuInit(0));
    CHECK_U(truth_used(0), ==, 0);
    CU_OK(cu.cuDevicePrimaryCtxRetain(&primary, 0));
    uint64_t cost = truth_used(0);
    CHECK_U(cost, >, 0);
    check_agreement();
    CU_OK(cu.cuCtxCreate_v2(&created, 0, 0));
    CHECK_U(truth_used(0), ==, 2 * cost);
    check_agreement();
    /* Retained twice is still one context. */
    CU_OK(cu.cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK_U(truth_used(0), ==, 2 * cost);
    check_agreement();
    CU_OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    CHECK_U(truth_used(0), ==, 2 * cost);
    check_agreement();
    CU_OK(cu.cuCtxDestroy_v2(created));
    CHECK_U(truth_used(0), ==, cost);
    check_agreement();
    if (cu.cuCtxCreate_v4) {
        CU_OK(cu.cuCtxCreate_v4(&created, NULL, 0, 0));
        CHECK_U(truth_used(0), ==, 2 * cost);
        check_agreement();
        CU_OK(cu.cuCtxDestroy_v2(created));
    }
    CU_OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    CHECK_U(truth_used(0), ==, 0);
    check_agreement();
    return 0;
}

/* What a context held goes with it: allocations, modules, pools' reservations, arrays. */
TEST(context_takes_its_memory_along)
{
    CUcontext created = NULL, before = NULL;
    CUdeviceptr address = 0;
    CUmodule module = NULL;
    CUarray array = NULL;
    CUDA_ARRAY_DESCRIPTOR desc = {1024, 1024, CU_AD_FORMAT_FLOAT, 1};
    open_device(0);
    uint64_t base = truth_used(0);
    for (unsigned round = 0; round < 3; round++) {
        CU_OK(cu.cuCtxGetCurrent(&before));
        CU_OK(cu.cuCtxCreate_v2(&created, 0, 0));
        CU_OK(cu.cuMemAlloc_v2(&address, 30 * MIB));
        CU_OK(cu.cuMemAllocManaged(&address, 30 * MIB, CU_MEM_ATTACH_GLOBAL));
        CU_OK(cu.cuModuleLoadData(&module, ".version 8.0\n"));
        CU_OK(cu.cuArrayCreate_v2(&array, &desc));
        check_agreement();
        CU_OK(cu.cuCtxDestroy_v2(created));
        CU_OK(cu.cuCtxSetCurrent(before));
        CHECK_U(truth_used(0), ==, base);
        check_agreement();
    }
    close_device(0);
    /* The primary context, by reset and by its last release. */
    open_device(0);
    CU_OK(cu.cuMemAlloc_v2(&address, 30 * MIB));
    CU_OK(cu.cuDevicePrimaryCtxReset_v2(0));
    check_agreement();
    cu.cuDevicePrimaryCtxRelease_v2(
        0); /* whether a reset context has still to be released is the driver's affair */
    CHECK_U(truth_used(0), ==, 0);
    check_agreement();
    return 0;
}

/* The driver does not destroy the first one, once (SIMGPU_FAULT): nothing is forgotten of it, nor
 * of the others. */
TEST(context_destroy_fails)
{
    enum { CONTEXTS = 3 };
    CUcontext created[CONTEXTS] = {NULL}, before = NULL;
    open_device(0);
    uint64_t base = truth_used(0);
    CU_OK(cu.cuCtxGetCurrent(&before));
    for (unsigned i = 0; i < CONTEXTS; i++)
        CU_OK(cu.cuCtxCreate_v2(&created[i], 0, 0));
    CU_OK(cu.cuCtxSetCurrent(before));
    CHECK(cu.cuCtxDestroy_v2(created[0]) != CUDA_SUCCESS);
    check_agreement();
    for (unsigned i = 0; i < CONTEXTS; i++)
        CU_OK(cu.cuCtxDestroy_v2(created[i]));
    CHECK_U(truth_used(0), ==, base);
    check_agreement();
    close_device(0);
    return 0;
}

/* A context that does not fit is refused with 2, and the next smaller wish still works. */
TEST(context_refused)
{
    CUcontext created = (CUcontext)(uintptr_t)CANARY, before = NULL;
    open_device(0);
    CU_OK(cu.cuCtxGetCurrent(&before));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuCtxCreate_v2(&created, 0, 0));
    CHECK(created == (CUcontext)(uintptr_t)CANARY);
    CUcontext current = NULL;
    CU_OK(cu.cuCtxGetCurrent(&current));
    CHECK(current == before);
    check_agreement();
    CHECK_U(region_refusals(0), >=, 1);
    close_device(0);
    return 0;
}

/*
 * A quota that is less than a context: even the first one is refused. What it costs is known only
 * once the driver has made it, so that one is undone again; from then on the cost is known and the
 * driver is not even asked.
 */
TEST(context_first_refused)
{
    CUcontext context = (CUcontext)(uintptr_t)CANARY;
    driver_load();
    CU_OK(cu.cuInit(0));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(context == (CUcontext)(uintptr_t)CANARY);
    CHECK_U(truth_used(0), ==, 0);
    uint64_t made = truth_calls("cuDevicePrimaryCtxRetain");
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuDevicePrimaryCtxRetain(&context, 0));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuCtxCreate_v2(&context, 0, 0));
    CHECK(context == (CUcontext)(uintptr_t)CANARY);
    CHECK_U(truth_calls("cuDevicePrimaryCtxRetain"), ==, made);
    CHECK_U(truth_calls("cuCtxCreate_v2"), ==, 0);
    CHECK_U(region_refusals(0), ==, 3);
    return 0;
}

/* Limits that cost memory: at the quota, refused with 2 and unchanged; below it, charged and given
 * back. */
TEST(context_stack_heap_printf)
{
    static const CUlimit limits[] = {CU_LIMIT_STACK_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE,
                                     CU_LIMIT_PRINTF_FIFO_SIZE};
    CUmodule module = NULL;
    open_device(0);
    CUfunction kernel = new_kernel("any", &module);
    uint64_t base = truth_used(0);
    for (unsigned i = 0; i < 3; i++) {
        size_t standard = 0, now = 0;
        CU_OK(cu.cuCtxGetLimit(&standard, limits[i]));
        size_t more = limits[i] == CU_LIMIT_STACK_SIZE ? standard + 256 : standard + 64 * MIB;
        CU_OK(cu.cuCtxSetLimit(limits[i], more));
        CU_OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        CU_OK(cu.cuCtxSynchronize());
        check_agreement();
        CHECK_U(truth_used(0), <=, quota_bytes());
        size_t huge = limits[i] == CU_LIMIT_STACK_SIZE ? 128 * KIB : (size_t)quota_bytes();
        CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuCtxSetLimit(limits[i], huge));
        CU_OK(cu.cuCtxGetLimit(&now, limits[i]));
        CHECK_U(now, ==, more);
        CU_OK(cu.cuCtxSetLimit(limits[i], standard));
        check_agreement();
    }
    CU_OK(cu.cuModuleUnload(module));
    printf("left after lowering the limits: %" PRIu64 " bytes\n", truth_used(0) - base);
    close_device(0);
    check_agreement();
    return 0;
}

/* The library makes no context of its own: none before the program's first, and then exactly
 * one. */
TEST(context_none_of_our_own)
{
    int count = 0, active = -1;
    unsigned flags = 0;
    driver_load();
    CU_OK(cu.cuInit(0));
    CU_OK(cu.cuDeviceGetCount(&count));
    CHECK_U(count, ==, argc > 0 ? atoi(argv[0]) : 1);
    for (int i = 0; i < count; i++) {
        size_t bytes = 0;
        CUdevice device = -1;
        CU_OK(cu.cuDeviceGet(&device, i));
        CU_OK(cu.cuDeviceTotalMem_v2(&bytes, device));
        CU_OK(cu.cuDevicePrimaryCtxGetState(device, &flags, &active));
        CHECK_U(active, ==, 0);
        CHECK_U(truth_used(i), ==, 0);
    }
    int last = count - 1;
    open_device(last);
    for (int i = 0; i < count; i++) {
        CU_OK(cu.cuDevicePrimaryCtxGetState(i, &flags, &active));
        CHECK_U(active, ==, i == last);
        CHECK(i == last ? truth_used(i) > 0 : truth_used(i) == 0);
    }
    check_agreement();
    close_device(last);
    return 0;
}

/* Start-up from many threads at once: each does cuInit, and the first contexts come at the same
 * time. */
struct starter {
    pthread_t thread;
    pthread_barrier_t *barrier;
};

static void *starter_thread(void *arg)
{
    struct starter *self = arg;
    CUcontext context = NULL;
    CUdeviceptr address = 0;
    pthread_barrier_wait(self->barrier);
    CU_OK(cu.cuInit(0));
    CU_OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    CU_OK(cu.cuCtxSetCurrent(context));
    CU_OK(cu.cuMemAlloc_v2(&address, 3 * MIB));
    CU_OK(cu.cuMemFree_v2(address));
    CU_OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    return NULL;
}

TEST(context_started_by_threads)
{
    enum { THREADS = 16 };
    struct starter starters[THREADS];
    pthread_barrier_t barrier;
    driver_load();
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        starters[i].barrier = &barrier;
        CHECK(pthread_create(&starters[i].thread, NULL, starter_thread, &starters[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(starters[i].thread, NULL);
    CHECK_U(truth_used(0), ==, 0);
    CHECK_U(region_procs(), <=, 1);
    check_agreement();
    return 0;
}
