/* Pools: growth, trim, reuse, and memory that stays in them. */
#include "harness.h"

#include <pthread.h>
#include <unistd.h>

static uint64_t reserved_bytes(CUmemoryPool pool)
{
    uint64_t bytes = 0;
    CU_OK(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
    return bytes;
}

static void keep_everything(CUmemoryPool pool)
{
    uint64_t threshold = UINT64_MAX;
    CU_OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

static CUmemoryPool new_pool(uint64_t max_bytes)
{
    CUmemoryPool pool = NULL;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                            .maxSize = max_bytes};
    CU_OK(cu.cuMemPoolCreate(&pool, &props));
    return pool;
}

/* Thousands of pairs on two streams and from a pool of the program's own; usage comes back to
 * where it was. */
TEST(pool_async_pairs)
{
    enum { PAIRS = 10000 };
    open_device(0);
    CUstream stream[2] = {new_stream(), new_stream()};
    CUmemoryPool pool = new_pool(0);
    uint64_t before = truth_used(0),
             quarter = (quota_bytes() - before) / 4 / POOL_BLOCK_BYTES * POOL_BLOCK_BYTES;
    CHECK_U(quarter, >, 0);
    for (unsigned i = 0; i < PAIRS; i++) {
        CUdeviceptr address = 0;
        CU_OK(cu.cuMemAllocAsync(&address, quarter, stream[i % 2]));
        CU_OK(cu.cuMemFreeAsync(address, stream[i % 2]));
    }
    CU_OK(cu.cuStreamSynchronize(stream[0]));
    CU_OK(cu.cuStreamSynchronize(stream[1]));
    check_agreement();
    CHECK_U(truth_used(0), ==, before);
    for (unsigned i = 0; i < PAIRS; i++) {
        CUdeviceptr address = 0;
        CU_OK(cu.cuMemAllocFromPoolAsync(&address, quarter, pool, stream[i % 2]));
        CU_OK(cu.cuMemFreeAsync(address, stream[i % 2]));
    }
    CU_OK(cu.cuStreamSynchronize(stream[0]));
    CU_OK(cu.cuStreamSynchronize(stream[1]));
    CU_OK(cu.cuMemPoolTrimTo(pool, 0));
    check_agreement();
    CHECK_U(truth_used(0), ==, before);
    CU_OK(cu.cuMemPoolDestroy(pool));
    check_agreement();
    CU_OK(cu.cuStreamDestroy_v2(stream[0]));
    CU_OK(cu.cuStreamDestroy_v2(stream[1]));
    close_device(0);
    return 0;
}

/* What a pool keeps is charged until it is trimmed or destroyed, and then it is free for everybody
 * at once. */
TEST(pool_trim)
{
    open_device(0);
    CUstream stream = new_stream();
    CUmemoryPool pool = new_pool(0);
    CUdeviceptr address[4] = {0}, big = CANARY;
    keep_everything(pool);
    uint64_t before = truth_used(0);
    for (unsigned i = 0; i < 4; i++)
        CU_OK(cu.cuMemAllocFromPoolAsync(&address[i], 64 * MIB, pool, stream));
    for (unsigned i = 0; i < 4; i++)
        CU_OK(cu.cuMemFreeAsync(address[i], stream));
    CU_OK(cu.cuStreamSynchronize(stream));
    CHECK_U(reserved_bytes(pool), ==, 256 * MIB);
    CHECK_U(truth_used(0), ==, before + 256 * MIB);
    check_agreement();
    uint64_t left = quota_bytes() - truth_used(0);
    /* What the pool keeps but nobody uses may be taken from it for this; never more than the quota
     * is held. */
    CUresult result = cu.cuMemAlloc_v2(&big, left + BLOCK_BYTES);
    CHECK_U(truth_used(0), <=, quota_bytes());
    check_agreement();
    if (result == CUDA_SUCCESS) {
        CU_OK(cu.cuMemFree_v2(big));
        CU_OK(cu.cuMemAllocFromPoolAsync(&address[0], 256 * MIB, pool, stream));
        CU_OK(cu.cuMemFreeAsync(address[0], stream));
        CU_OK(cu.cuStreamSynchronize(stream));
    } else {
        CU_IS(CUDA_ERROR_OUT_OF_MEMORY, result);
        CHECK_U(big, ==, CANARY);
    }
    CU_OK(cu.cuMemPoolTrimTo(pool, 128 * MIB));
    CHECK_U(truth_used(0), ==, before + 128 * MIB);
    check_agreement();
    CU_OK(cu.cuMemAlloc_v2(&big, left + 64 * MIB));
    CU_OK(cu.cuMemFree_v2(big));
    CU_OK(cu.cuMemPoolDestroy(pool));
    CHECK_U(truth_used(0), ==, before);
    check_agreement();
    CU_OK(cu.cuStreamDestroy_v2(stream));
    close_device(0);
    return 0;
}

/* The device's default pool, and another pool put in its place. */
TEST(pool_default_and_set)
{
    open_device(0);
    CUstream stream = new_stream();
    CUmemoryPool standard = NULL, mine = new_pool(0);
    CUdeviceptr address = 0;
    uint64_t before = truth_used(0);
    CU_OK(cu.cuDeviceGetDefaultMemPool(&standard, 0));
    keep_everything(standard);
    CU_OK(cu.cuMemAllocAsync(&address, 100 * MIB, stream));
    check_agreement();
    CHECK_U(truth_used(0), ==, before + 128 * MIB);
    CU_OK(cu.cuMemFreeAsync(address, stream));
    CU_OK(cu.cuDeviceSetMemPool(0, mine));
    CU_OK(cu.cuMemAllocAsync(&address, 10 * MIB, stream));
    check_agreement();
    CHECK_U(truth_used(0), ==, before + 128 * MIB + 32 * MIB);
    CU_OK(cu.cuMemFreeAsync(address, stream));
    CU_OK(cu.cuCtxSynchronize());
    CU_OK(cu.cuDeviceSetMemPool(0, standard));
    CU_OK(cu.cuMemPoolTrimTo(standard, 0));
    CU_OK(cu.cuMemPoolDestroy(mine));
    check_agreement();
    CHECK_U(truth_used(0), ==, before);
    CU_OK(cu.cuStreamDestroy_v2(stream));
    close_device(0);
    return 0;
}

/* A pool's own limit gives the driver's refusal, and nothing stays charged for it. */
TEST(pool_max_size)
{
    open_device(0);
    CUstream stream = new_stream();
    CUmemoryPool pool = new_pool(64 * MIB);
    CUdeviceptr first = 0, second = CANARY;
    uint64_t before = truth_used(0);
    CU_OK(cu.cuMemAllocFromPoolAsync(&first, 40 * MIB, pool, stream));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocFromPoolAsync(&second, 40 * MIB, pool, stream));
    check_agreement();
    CHECK_U(region_refusals(0), ==, 0); /* the driver refused it, not we */
    CU_OK(cu.cuMemFreeAsync(first, stream));
    CU_OK(cu.cuStreamSynchronize(stream));
    CU_OK(cu.cuMemPoolDestroy(pool));
    CHECK_U(truth_used(0), ==, before);
    check_agreement();
    CU_OK(cu.cuStreamDestroy_v2(stream));
    close_device(0);
    return 0;
}

/* Memory freed before the pool is used up again must not be charged twice, nor a neighbour be kept
 * from it. */
TEST(pool_reuse_is_free)
{
    open_device(0);
    CUstream stream = new_stream();
    CUdeviceptr address = 0, rest = 0;
    uint64_t before = truth_used(0);
    CU_OK(cu.cuMemAllocAsync(&address, 200 * MIB, stream));
    uint64_t left = (quota_bytes() - truth_used(0)) / BLOCK_BYTES * BLOCK_BYTES;
    CU_OK(cu.cuMemAlloc_v2(&rest, left)); /* now the quota is used up */
    for (unsigned i = 0; i < 100; i++) {
        CU_OK(cu.cuMemFreeAsync(address, stream));
        CU_OK(cu.cuMemAllocAsync(&address, 190 * MIB + i * 1000,
                                 stream)); /* fits where the last one was */
    }
    check_agreement();
    CU_OK(cu.cuMemFreeAsync(address, stream));
    CU_OK(cu.cuMemFree_v2(rest));
    CU_OK(cu.cuStreamSynchronize(stream));
    check_agreement();
    CHECK_U(truth_used(0), ==, before);
    CU_OK(cu.cuStreamDestroy_v2(stream));
    close_device(0);
    return 0;
}

/* Everything that may be used is in the pool, which keeps it; all of it is freed, and a larger
 * piece is wanted. */
static void fill_free_and_ask_for_more(CUstream stream, CUfunction kernel, uint64_t busy_ns)
{
    enum { PIECES = 4 };
    CUdeviceptr address[PIECES] = {0}, large = 0;
    void *params[] = {&busy_ns};
    uint64_t piece = (quota_bytes() - truth_used(0)) / PIECES / POOL_BLOCK_BYTES * POOL_BLOCK_BYTES;
    for (unsigned i = 0; i < PIECES; i++)
        CU_OK(cu.cuMemAllocAsync(&address[i], piece, stream));
    uint64_t rest = (quota_bytes() - truth_used(0)) / BLOCK_BYTES * BLOCK_BYTES;
    CUdeviceptr plain = 0;
    if (rest > 0)
        CU_OK(cu.cuMemAlloc_v2(&plain, rest));
    check_agreement();
    if (busy_ns > 0)
        CU_OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    for (unsigned i = 0; i < PIECES; i++)
        CU_OK(cu.cuMemFreeAsync(address[i], stream));
    CU_OK(cu.cuMemAllocAsync(&large, PIECES * piece, stream));
    CHECK_U(truth_peak(0), <=, quota_bytes());
    check_agreement();
    CU_OK(cu.cuMemFreeAsync(large, stream));
    if (plain)
        CU_OK(cu.cuMemFree_v2(plain));
    CU_OK(cu.cuStreamSynchronize(stream));
}

/* Plain memory freed in the order of a stream is held until that stream is waited for, and no
 * longer. */
TEST(pool_plain_freed_in_order)
{
    open_device(0);
    CUstream stream = new_stream(), other = new_stream();
    CUdeviceptr plain = 0, pooled = 0;
    uint64_t before = region_used(0);
    CU_OK(cu.cuMemAlloc_v2(&plain, 512 * MIB));
    CU_OK(cu.cuMemFreeAsync(plain, stream));
    CU_OK(cu.cuStreamSynchronize(other));
    CU_OK(cu.cuStreamSynchronize(NULL));
    CHECK_U(region_used(0), ==, before + 512 * MIB);
    CU_OK(cu.cuStreamSynchronize(stream));
    CHECK_U(region_used(0), ==, before);
    /* It is not in the way of what is asked for in the same order. */
    uint64_t most = (quota_bytes() - before) / POOL_BLOCK_BYTES * POOL_BLOCK_BYTES;
    CU_OK(cu.cuMemAlloc_v2(&plain, 512 * MIB));
    CU_OK(cu.cuMemFreeAsync(plain, stream));
    CU_OK(cu.cuMemAllocAsync(&pooled, most, stream));
    CU_OK(cu.cuMemFreeAsync(pooled, stream));
    CU_OK(cu.cuStreamSynchronize(stream));
    CHECK_U(region_used(0), ==, before);
    CU_OK(cu.cuStreamDestroy_v2(stream));
    CU_OK(cu.cuStreamDestroy_v2(other));
    close_device(0);
    return 0;
}

/* Plain memory cannot be freed into a capture: the driver refuses, and it stays what it was,
 * charged. */
TEST(pool_plain_not_freed_by_capture)
{
    open_device(0);
    CUstream stream = new_stream();
    CUdeviceptr plain[2] = {0};
    CUgraph graph = NULL;
    CUresult result;
    CU_OK(cu.cuMemAlloc_v2(&plain[0], 96 * MIB));
    CU_OK(cu.cuMemAllocManaged(&plain[1], 96 * MIB, 1));
    uint64_t before = region_used(0);
    for (unsigned i = 0; i < 2; i++) {
        CU_OK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        CU_IS(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeAsync(plain[i], stream));
        result = cu.cuStreamEndCapture(stream, &graph);
        if (result == CUDA_SUCCESS && graph != NULL)
            CU_OK(cu.cuGraphDestroy(graph));
        CU_OK(cu.cuStreamSynchronize(stream));
        CHECK_U(region_used(0), ==, before);
        check_agreement();
        CU_OK(cu.cuMemFree_v2(plain[i]));
        before -= 96 * MIB;
        CHECK_U(region_used(0), ==, before);
        check_agreement();
    }
    CU_OK(cu.cuStreamDestroy_v2(stream));
    close_device(0);
    return 0;
}

/* The same with the memory freed on one stream and wanted on another; a stream that is gone by then
 * is left alone. */
TEST(pool_freed_on_another_stream)
{
    open_device(0);
    CUmodule module = NULL;
    CUfunction kernel = new_kernel("simgpu_busy", &module);
    uint64_t duration_ns = 20 * 1000 * 1000, before = truth_used(0);
    void *arguments[] = {&duration_ns};
    CUmemoryPool pool = NULL;
    CUdeviceptr address = 0;
    CU_OK(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    keep_everything(pool);
    for (int destroyed = 0; destroyed < 2; destroyed++) {
        CUstream first = new_stream(), second = new_stream();
        size_t bytes = (quota_bytes() - before) * 2 / 3;
        CU_OK(cu.cuMemAllocAsync(&address, bytes, first));
        CU_OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, first, arguments, NULL));
        CU_OK(cu.cuMemFreeAsync(address, first));
        if (destroyed) {
            CU_OK(cu.cuStreamSynchronize(first));
            CU_OK(cu.cuStreamDestroy_v2(first));
        }
        CU_OK(cu.cuMemAllocAsync(&address, bytes + 64 * MIB, second));
        check_agreement();
        CU_OK(cu.cuMemFreeAsync(address, second));
        CU_OK(cu.cuStreamSynchronize(second));
        CU_OK(cu.cuMemPoolTrimTo(pool, 0));
        if (!destroyed)
            CU_OK(cu.cuStreamDestroy_v2(first));
        CU_OK(cu.cuStreamDestroy_v2(second));
    }
    CHECK_U(region_refusals(0), ==, 0);
    CHECK_U(truth_used(0), ==, before);
    check_agreement();
    CU_OK(cu.cuModuleUnload(module));
    close_device(0);
    return 0;
}

TEST(pool_full_then_larger)
{
    open_device(0);
    CUmodule module = NULL;
    CUfunction kernel = new_kernel("simgpu_busy", &module);
    CUstream stream = new_stream();
    CUmemoryPool pool = NULL;
    CU_OK(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    keep_everything(pool);
    uint64_t before = truth_used(0);
    fill_free_and_ask_for_more(stream, kernel, 0);
    CU_OK(cu.cuMemPoolTrimTo(pool, 0));
    fill_free_and_ask_for_more(stream, kernel, 20 * 1000 * 1000);
    CHECK_U(region_refusals(0), ==, 0);
    CU_OK(cu.cuMemPoolTrimTo(pool, 0));
    check_agreement();
    CHECK_U(truth_used(0), ==, before);
    CU_OK(cu.cuStreamDestroy_v2(stream));
    CU_OK(cu.cuModuleUnload(module));
    close_device(0);
    return 0;
}

/* Idle reservations of a process that did many small asynchronous allocations do not starve its
 * neighbour. */
/*
 * The last step of a pool is used up although the quota has no room for another one, and nothing
 * beyond that is tried: what is free in pieces may make the driver grow.
 */
TEST(pool_last_step_used)
{
    open_device(0);
    CUstream stream = new_stream();
    CUdeviceptr first = 0, second = 0, third = CANARY, rest = 0;
    uint64_t before = truth_used(0);
    CU_OK(cu.cuMemAllocAsync(&first, 20 * MIB, stream)); /* of a step of 32 MiB */
    uint64_t left = (quota_bytes() - truth_used(0)) / BLOCK_BYTES * BLOCK_BYTES;
    CU_OK(cu.cuMemAlloc_v2(&rest, left));
    CU_OK(cu.cuMemAllocAsync(&second, 12 * MIB, stream));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocAsync(&third, 1000, stream));
    CHECK(third == CANARY);
    check_agreement();
    CU_OK(cu.cuMemFreeAsync(first, stream));
    CU_OK(cu.cuMemFreeAsync(second, stream));
    CU_OK(cu.cuMemFree_v2(rest));
    CU_OK(cu.cuStreamSynchronize(stream));
    CHECK_U(truth_used(0), ==, before);
    check_agreement();
    CU_OK(cu.cuStreamDestroy_v2(stream));
    close_device(0);
    return 0;
}

TEST(pool_idle_taken_by_neighbour)
{
    volatile int *step = shared_page(sizeof *step);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CUdeviceptr address = 0;
        open_device(0);
        CUstream stream = new_stream();
        for (unsigned i = 0; i < 200; i++) {
            CU_OK(cu.cuMemAllocAsync(&address, 20 * MIB, stream));
            CU_OK(cu.cuMemFreeAsync(address, stream));
        }
        CU_OK(cu.cuStreamSynchronize(stream));
        *step = 1;
        while (*step < 2)
            sleep_ms(1);
        CU_OK(cu.cuMemAllocAsync(&address, 20 * MIB, stream) == CUDA_ERROR_OUT_OF_MEMORY
                  ? CUDA_SUCCESS
                  : 1);
        CU_OK(cu.cuStreamDestroy_v2(stream));
        close_device(0);
        exit(0);
    }
    while (*step < 1)
        sleep_ms(1);
    CUdeviceptr all = 0;
    open_device(0);
    uint64_t left = (quota_bytes() - truth_used(0)) / BLOCK_BYTES * BLOCK_BYTES;
    CU_OK(cu.cuMemAlloc_v2(&all, left));
    *step = 2;
    wait_ok(child);
    CU_OK(cu.cuMemFree_v2(all));
    check_agreement();
    close_device(0);
    return 0;
}

/* Pairs of both kinds from several threads; afterwards nothing is left, and
 * nothing went below zero.
 */
struct pairs {
    pthread_t thread;
    CUcontext context;
    uint64_t seed;
};

static void *pairs_thread(void *arg)
{
    struct pairs *self = arg;
    CU_OK(cu.cuCtxSetCurrent(self->context));
    CUstream stream = new_stream();
    for (unsigned i = 0; i < 20000; i++) {
        CUdeviceptr address = 0;
        uint64_t bytes = 1 + random_next(&self->seed) % (6 * MIB);
        if (i % 4) {
            CU_OK(cu.cuMemAllocAsync(&address, bytes, stream));
            CU_OK(i % 8 == 1 ? cu.cuMemFree_v2(address) : cu.cuMemFreeAsync(address, stream));
        } else {
            CU_OK(cu.cuMemAlloc_v2(&address, bytes));
            CU_OK(i % 8 == 0 ? cu.cuMemFreeAsync(address, stream) : cu.cuMemFree_v2(address));
        }
        if (i % 32 ==
            31) /* until then the driver holds plain memory that is freed in stream order */
            CU_OK(cu.cuStreamSynchronize(stream));
    }
    CU_OK(cu.cuStreamSynchronize(stream));
    CU_OK(cu.cuStreamDestroy_v2(stream));
    return NULL;
}

TEST(pool_no_drift)
{
    enum { THREADS = 4 };
    struct pairs threads[THREADS];
    CUcontext context = open_device(0);
    uint64_t before = truth_used(0);
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i] = (struct pairs){.context = context, .seed = i + 1};
        CHECK(pthread_create(&threads[i].thread, NULL, pairs_thread, &threads[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i].thread, NULL);
    CU_OK(cu.cuCtxSynchronize());
    CHECK_U(truth_used(0), ==, before);
    check_agreement();
    CHECK_U(region_refusals(0), ==, 0);
    close_device(0);
    return 0;
}

struct late {
    CUcontext context;
    CUstream stream;
    CUmemoryPool pool;
    CUdeviceptr address;
    CUresult result;
};

static void *allocate_late(void *arg)
{
    struct late *late = arg;
    CU_OK(cu.cuCtxSetCurrent(late->context));
    late->result = cu.cuMemAllocFromPoolAsync(&late->address, 20 * MIB, late->pool, late->stream);
    return NULL;
}

/*
 * The quota is full, and an allocation is under way that fits into what a pool has left over.
 * Meanwhile the driver lets go of that block: the allocation brings back all of it, so none of it
 * may be given to others. (Where this thread is too early or too late, the quota holds all the
 * same.)
 */
TEST(pool_block_gone_meanwhile)
{
    struct late late = {.context = open_device(0), .stream = new_stream(), .pool = new_pool(0)};
    CUdeviceptr first = 0, filler = 0, more = 0;
    pthread_t thread;
    keep_everything(late.pool);
    CU_OK(cu.cuMemAllocFromPoolAsync(&first, 10 * MIB, late.pool, late.stream));
    uint64_t rest = (quota_bytes() - region_used(0)) / BLOCK_BYTES * BLOCK_BYTES;
    CU_OK(cu.cuMemAlloc_v2(&filler, rest));
    CHECK(pthread_create(&thread, NULL, allocate_late, &late) == 0);
    sleep_ms(100); /* of the 500 that the driver's call takes */
    CU_OK(cu.cuMemFreeAsync(first, late.stream));
    CU_OK(cu.cuStreamSynchronize(late.stream));
    CU_OK(cu.cuMemPoolTrimTo(late.pool, 0));
    CUresult result = cu.cuMemAlloc_v2(&more, 12 * MIB);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_U(truth_peak(0), <=, quota_bytes());
    check_agreement();
    if (result == CUDA_SUCCESS)
        CU_OK(cu.cuMemFree_v2(more));
    if (late.result == CUDA_SUCCESS)
        CU_OK(cu.cuMemFreeAsync(late.address, late.stream));
    CU_OK(cu.cuStreamSynchronize(late.stream));
    CU_OK(cu.cuMemPoolDestroy(late.pool));
    CU_OK(cu.cuStreamDestroy_v2(late.stream));
    CU_OK(cu.cuMemFree_v2(filler));
    check_agreement();
    close_device(0);
    return 0;
}
