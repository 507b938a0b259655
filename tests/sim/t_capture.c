/* Captures, also under a cap on a device that others use. The library must not break a capture, and
 * must not put work of its own into it. */
#include "starts.h"
#include "tenants.h"

#include <pthread.h>
#include <stdatomic.h>

#define KERNELS 6

/* Another thread that goes on launching. */
struct beside {
    pthread_t thread;
    CUcontext context;
    atomic_bool stop;
    atomic_uint launched;
};

static void *launch_beside(void *arg)
{
    struct beside *beside = arg;
    struct start start;

    CU_OK(cu.cuCtxSetCurrent(beside->context));
    start_prepare(&start, "kernel", MS, 1);
    while (!atomic_load(&beside->stop)) {
        CU_OK(start_once(&start)); /* the cap is what holds it back: waiting is refused while
                                      another thread captures */
        atomic_fetch_add(&beside->launched, 1);
    }
    start_done(&start);
    return NULL;
}

static void await_launches(struct beside *beside, unsigned more)
{
    unsigned from = atomic_load(&beside->launched);
    uint64_t begin_ns = now_ns();

    while (atomic_load(&beside->launched) < from + more) {
        CHECK_U(now_ns() - begin_ns, <, PATIENCE_NS);
        sleep_ms(1);
    }
}

/* The graph has what the program launched, and nothing else. */
static void check_nodes(CUgraph graph)
{
    CUgraphNode nodes[2 * KERNELS];
    size_t count = 2 * KERNELS;

    CU_OK(cu.cuGraphGetNodes(graph, NULL, &count));
    CHECK_U(count, ==, KERNELS);
    CU_OK(cu.cuGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type = -1;
        CU_OK(cu.cuGraphNodeGetType(nodes[i], &type));
        CHECK_U(type, ==, CU_GRAPH_NODE_TYPE_KERNEL);
    }
}

/* `other`: a stream that does not capture, where this thread launches too; a global capture does
 * not mind. */
static void capture(struct beside *beside, CUstreamCaptureMode mode, struct start *captured,
                    struct start *other, CUgraph *ret_graph)
{
    CUstreamCaptureStatus status = 0;

    CU_OK(cu.cuStreamBeginCapture_v2(captured->stream, mode));
    for (unsigned i = 0; i < KERNELS; i++) {
        CU_OK(start_once(captured));
        CU_OK(start_once(other));
        if (i % 2)
            await_launches(beside, 3);
    }
    CU_OK(cu.cuStreamIsCapturing(captured->stream, &status));
    CHECK_U(status, ==, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CU_OK(cu.cuStreamEndCapture(captured->stream, ret_graph));
    CHECK(*ret_graph != NULL);
    check_nodes(*ret_graph);
}

static void run_graph(CUgraph graph, struct start *captured)
{
    CUgraphExec exec = NULL;

    CU_OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (unsigned i = 0; i < 3; i++)
        CU_OK(cu.cuGraphLaunch(exec, captured->stream));
    CU_OK(cu.cuStreamSynchronize(captured->stream));
    CU_OK(cu.cuGraphExecDestroy(exec));
    CU_OK(cu.cuGraphDestroy(graph));
}

/*
 * The second round is on a contended device; it becomes that while the last capture of the first
 * goes on.
 */
TEST(capture_limited)
{
    struct beside beside = {.stop = false};
    struct start captured, other;
    pid_t pid = 0;

    beside.context = open_device(0);
    start_prepare(&captured, "kernel", MS, 1);
    start_prepare(&other, "kernel", MS / 2, 1);
    CHECK(pthread_create(&beside.thread, NULL, launch_beside, &beside) == 0);
    await_launches(&beside, 8);
    tenant_make("other", "");
    for (int round = 0; round < 2; round++) {
        for (CUstreamCaptureMode mode = 0; mode <= 2; mode++) {
            CUgraph graph = NULL;
            if (!pid && mode == 2) {
                uint64_t before_ns = book_group(0, "other");
                CU_OK(cu.cuStreamBeginCapture_v2(captured.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
                pid = tenant_start("other", "load secs=60 us=1000 sync=8");
                while (book_group(0, "other") < before_ns + 100 * MS)
                    sleep_ms(5);
                await_launches(&beside, 20);
                for (unsigned i = 0; i < KERNELS; i++)
                    CU_OK(start_once(&captured));
                CU_OK(cu.cuStreamEndCapture(captured.stream, &graph));
                check_nodes(graph);
                run_graph(graph, &captured);
            }
            capture(&beside, mode, &captured, &other, &graph);
            run_graph(graph, &captured);
            await_launches(&beside, 4);
        }
    }
    CHECK_U(tenant_number(NULL, 0, "throttles"), >, 0);
    CHECK_U(tenant_number(NULL, 0, "turns"), >, 0);
    atomic_store(&beside.stop, true);
    pthread_join(beside.thread, NULL);
    tenant_end(pid);
    start_done(&captured);
    start_done(&other);
    close_device(0);
    tenant_check_empty("other");
    return 0;
}

/* During capture nothing is charged, nothing is synchronised, the capture
 * stays valid. */
TEST(capture_unbroken)
{
    open_device(0);
    CUmodule module = NULL;
    CUfunction kernel = new_kernel("any", &module);
    CUstream stream = new_stream(), other = new_stream();
    CUdeviceptr captured = 0, plain = 0;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUdeviceptr held = 0;
    CU_OK(cu.cuMemAllocAsync(&held, 8 * MIB, other));
    uint64_t before = truth_used(0);
    CU_OK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU_OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    CU_OK(cu.cuMemAllocAsync(&captured, 40 * MIB, stream));
    CU_OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    CU_OK(cu.cuMemFreeAsync(captured, stream));
    size_t free_bytes = 0, total_bytes = 0;
    CU_OK(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
    CUstreamCaptureStatus status = 0;
    CU_OK(cu.cuStreamIsCapturing(stream, &status));
    CHECK_U(status, ==, 1);
    CU_OK(cu.cuStreamEndCapture(stream, &graph));
    CHECK(graph != NULL);
    CU_OK(cu.cuStreamSynchronize(other));
    CHECK_U(truth_used(0), ==, before);
    check_agreement();
    CU_OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK_U(truth_used(0), ==, before);
    for (unsigned i = 0; i < 3; i++) {
        CU_OK(cu.cuGraphLaunch(exec, stream));
        CU_OK(cu.cuStreamSynchronize(stream));
        CHECK_U(truth_used(0), ==, before + 64 * MIB);
        check_agreement();
    }
    /* A launch that does not fit is refused with 2, and works once there is room. */
    CU_OK(cu.cuDeviceGraphMemTrim(0));
    CHECK_U(truth_used(0), ==, before);
    CU_OK(
        cu.cuMemAlloc_v2(&plain, (quota_bytes() - before) / BLOCK_BYTES * BLOCK_BYTES - 16 * MIB));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuGraphLaunch(exec, stream));
    check_agreement();
    CU_OK(cu.cuMemFree_v2(plain));
    CU_OK(cu.cuGraphLaunch(exec, stream));
    CU_OK(cu.cuStreamSynchronize(stream));
    CU_OK(cu.cuGraphExecDestroy(exec));
    CU_OK(cu.cuGraphDestroy(graph));
    CU_OK(cu.cuDeviceGraphMemTrim(0));
    CU_OK(cu.cuMemFreeAsync(held, other));
    CU_OK(cu.cuStreamSynchronize(other));
    check_agreement();
    CU_OK(cu.cuStreamDestroy_v2(stream));
    CU_OK(cu.cuStreamDestroy_v2(other));
    CU_OK(cu.cuModuleUnload(module));
    close_device(0);
    return 0;
}

/* A thread captures for itself (as PyTorch does it); another one goes on allocating, in every
 * way. */
static void *beside_capture(void *arg)
{
    CUdeviceptr address[2] = {0};
    CU_OK(cu.cuCtxSetCurrent(arg));
    CUstream stream = new_stream();
    for (unsigned i = 0; i < 50; i++) {
        CU_OK(cu.cuMemAllocAsync(&address[0], 20 * MIB, stream));
        CU_OK(cu.cuMemAlloc_v2(&address[1], 3 * MIB));
        CU_OK(cu.cuMemFreeAsync(address[0], stream));
        CU_OK(cu.cuMemFree_v2(address[1]));
    }
    CU_OK(cu.cuStreamSynchronize(stream));
    CU_OK(cu.cuStreamDestroy_v2(stream));
    return NULL;
}

TEST(capture_of_one_thread)
{
    CUcontext context = open_device(0);
    CUmodule module = NULL;
    CUfunction kernel = new_kernel("any", &module);
    CUstream stream = new_stream();
    uint64_t before = truth_used(0);
    for (CUstreamCaptureMode mode = 1; mode <= 2; mode++) {
        pthread_t thread;
        CUgraph graph = NULL;
        CUdeviceptr address = 0;
        CU_OK(cu.cuStreamBeginCapture_v2(stream, mode));
        CU_OK(cu.cuMemAllocAsync(&address, 40 * MIB, stream));
        CHECK(pthread_create(&thread, NULL, beside_capture, context) == 0);
        pthread_join(thread, NULL);
        CU_OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
        CU_OK(cu.cuMemFreeAsync(address, stream));
        CU_OK(cu.cuStreamEndCapture(stream, &graph));
        CU_OK(cu.cuGraphDestroy(graph));
        CHECK_U(truth_used(0), ==, before);
        check_agreement();
    }
    CU_OK(cu.cuStreamDestroy_v2(stream));
    CU_OK(cu.cuModuleUnload(module));
    close_device(0);
    return 0;
}
