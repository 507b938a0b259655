/* Threads that are cancelled while they allocate leave no lock taken and no charge without memory.
 */
#include "harness.h"

#include <pthread.h>

#define WORKERS 4
#define CANCELS 48

/* What a worker has; whoever cancels it frees that. Nothing is a cancellation point between a call
 * and its record. */
struct worker {
    pthread_t thread;
    CUcontext context;
    CUstream stream;
    CUmemoryPool pool;
    const char *way;
    uint64_t random;
    CUdeviceptr plain, stream_ordered;
    CUmemGenericAllocationHandle handle;
    CUarray array;
    void *host;
};

static bool allowed(CUresult result)
{
    return result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY;
}

static uint64_t some_bytes(struct worker *worker)
{
    return (random_next(&worker->random) % 128 + 1) * MIB;
}

static void plain(struct worker *worker)
{
    if (!worker->plain) {
        CHECK(allowed(cu.cuMemAlloc_v2(&worker->plain, some_bytes(worker))));
    } else {
        CU_OK(cu.cuMemFree_v2(worker->plain));
        worker->plain = 0;
    }
}

static void managed(struct worker *worker)
{
    if (!worker->plain)
        CHECK(allowed(
            cu.cuMemAllocManaged(&worker->plain, some_bytes(worker), CU_MEM_ATTACH_GLOBAL)));
    else
        plain(worker);
}

static void free_in_stream(struct worker *worker)
{
    CU_OK(cu.cuMemFreeAsync(worker->stream_ordered, worker->stream));
    worker->stream_ordered = 0;
}

static void async(struct worker *worker)
{
    if (worker->stream_ordered)
        free_in_stream(worker);
    else
        CHECK(allowed(
            cu.cuMemAllocAsync(&worker->stream_ordered, some_bytes(worker), worker->stream)));
}

static void pool(struct worker *worker)
{
    if (worker->stream_ordered)
        free_in_stream(worker);
    else
        CHECK(allowed(cu.cuMemAllocFromPoolAsync(&worker->stream_ordered, some_bytes(worker),
                                                 worker->pool, worker->stream)));
}

static void vmm(struct worker *worker)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    if (!worker->handle) {
        CHECK(allowed(cu.cuMemCreate(&worker->handle,
                                     some_bytes(worker) / BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES,
                                     &prop, 0)));
    } else {
        CU_OK(cu.cuMemRelease(worker->handle));
        worker->handle = 0;
    }
}

static void array(struct worker *worker)
{
    CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = 1024, .Height = 8192, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    if (!worker->array) {
        CHECK(allowed(cu.cuArrayCreate_v2(&worker->array, &shape)));
    } else {
        CU_OK(cu.cuArrayDestroy(worker->array));
        worker->array = NULL;
    }
}

static void host(struct worker *worker)
{
    if (!worker->host) {
        CHECK(allowed(
            cu.cuMemHostAlloc(&worker->host, (random_next(&worker->random) % 24 + 1) * MIB, 0)));
    } else {
        CU_OK(cu.cuMemFreeHost(worker->host));
        worker->host = NULL;
    }
}

static void ipc(struct worker *worker)
{
    CUipcMemHandle handle;
    plain(worker);
    if (worker->plain)
        CU_OK(cu.cuIpcGetMemHandle(&handle, worker->plain));
}

static void view(struct worker *worker)
{
    size_t free_bytes, total;
    plain(worker);
    CU_OK(cu.cuMemGetInfo_v2(&free_bytes, &total));
    CHECK_U(total, ==, quota_bytes());
}

static const struct {
    const char *name;
    void (*step)(struct worker *worker);
} ways[] = {{"plain", plain}, {"managed", managed}, {"async", async}, {"pool", pool}, {"vmm", vmm},
            {"array", array}, {"host", host},       {"ipc", ipc},     {"view", view}};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void *work(void *arg)
{
    struct worker *worker = arg;
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    CU_OK(cu.cuCtxSetCurrent(worker->context));
    pthread_setcancelstate(before, &before);
    for (;;) {
        unsigned way = (unsigned)(random_next(&worker->random) % WAYS);
        for (unsigned i = 0; i < WAYS; i++) {
            if (strcmp(ways[i].name, worker->way) == 0)
                way = i;
        }
        ways[way].step(worker);
        pthread_testcancel();
    }
    return NULL;
}

/* The thread is gone: takes over what it had. */
static void cancel(struct worker *worker)
{
    void *result = NULL;
    CHECK(pthread_cancel(worker->thread) == 0);
    CHECK(pthread_join(worker->thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    if (worker->plain)
        CU_OK(cu.cuMemFree_v2(worker->plain));
    if (worker->stream_ordered)
        free_in_stream(worker);
    if (worker->handle)
        CU_OK(cu.cuMemRelease(worker->handle));
    if (worker->array)
        CU_OK(cu.cuArrayDestroy(worker->array));
    if (worker->host)
        CU_OK(cu.cuMemFreeHost(worker->host));
    worker->plain = 0;
    worker->handle = 0;
    worker->array = NULL;
    worker->host = NULL;
}

TEST(cancel)
{
    struct worker workers[WORKERS] = {0};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemoryPool pool_of_all = NULL, own = NULL;
    uint64_t random = 1, used;
    CUdeviceptr rest = 0;
    CUcontext context = open_device(0);
    CU_OK(cu.cuMemPoolCreate(&own, &props));
    CU_OK(cu.cuDeviceGetDefaultMemPool(&pool_of_all, 0));
    used = truth_used(0);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] =
            (struct worker){.context = context, .pool = own, .way = argc > 0 ? argv[0] : "mixed"};
        workers[i].random = i + 1;
        workers[i].stream = new_stream();
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (unsigned i = 0; i < CANCELS; i++) {
        struct worker *worker = &workers[random_next(&random) % WORKERS];
        sleep_ms((unsigned)(random_next(&random) % 4));
        cancel(worker);
        CHECK(pthread_create(&worker->thread, NULL, work, worker) == 0);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        cancel(&workers[i]);
        CU_OK(cu.cuStreamSynchronize(workers[i].stream));
        CU_OK(cu.cuStreamDestroy_v2(workers[i].stream));
    }
    CU_OK(cu.cuMemPoolTrimTo(pool_of_all, 0));
    CU_OK(cu.cuMemPoolDestroy(own));
    CHECK_U(truth_used(0), ==, used);
    CHECK_U(truth_host(), ==, 0);
    check_agreement();
    CU_OK(cu.cuMemAlloc_v2(&rest, (quota_bytes() - used) / BLOCK_BYTES * BLOCK_BYTES));
    CU_OK(cu.cuMemFree_v2(rest));
    close_device(0);
    return 0;
}
