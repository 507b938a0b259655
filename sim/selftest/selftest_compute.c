/* Device time: how long work takes, and which process it is charged to. The ledger is exact. */
#include "selftest.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define MS 1000000ULL

static uint64_t busy_ns(int device)
{
    char start_of_line[32];

    snprintf(start_of_line, sizeof(start_of_line), "device %d ", device);
    return ledger(start_of_line, "busy_ns");
}

/* Device time since the last call, once all work is done. */
static uint64_t done_ns(void)
{
    static uint64_t before;

    CHECK(cuCtxSynchronize() == 0);
    uint64_t now = busy_ns(0), done = now - before;
    before = now;
    return done;
}

#define TAKES(expected_ns, call)                                                                   \
    do {                                                                                           \
        CHECK((call) == 0);                                                                        \
        uint64_t took_ = done_ns(), wants_ = (expected_ns);                                        \
        if (took_ != wants_)                                                                       \
            printf("%s: %llu ns, not %llu\n", #call, (unsigned long long)took_,                    \
                   (unsigned long long)wants_);                                                    \
        CHECK(took_ == wants_);                                                                    \
    } while (0)

/* Every function that launches, with the busy kernel. */
static void launches(void)
{
    uint64_t duration_ns = 3 * MS, short_ns = MS;
    void *parameters[] = {&duration_ns}, *others[] = {&short_ns};
    size_t bytes = sizeof(duration_ns);
    void *extra[] = {(void *)1, &duration_ns, (void *)2, &bytes, NULL};

    setenv("SIMGPU_COUNT", "2", 1);
    void *context = begin(), *second, *old = kernel("simgpu_busy"), *busy = kernel("simgpu_busy"),
         *any = kernel("any");
    void *stream = new_stream(NON_BLOCKING);
    CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, stream, NULL, 0};
    TAKES(10000, cuLaunchKernel(any, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    TAKES(3 * MS, cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    TAKES(3 * MS, cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    TAKES(3 * MS, cuLaunchKernel_ptsz(busy, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    TAKES(3 * MS, cuLaunchKernelEx(&config, busy, parameters, NULL));
    TAKES(3 * MS, cuLaunchKernelEx_ptsz(&config, busy, parameters, NULL));
    TAKES(3 * MS, cuLaunchCooperativeKernel(busy, 1, 1, 1, 1, 1, 1, 0, stream, parameters));
    TAKES(3 * MS, cuLaunchCooperativeKernel_ptsz(busy, 1, 1, 1, 1, 1, 1, 0, stream, parameters));
    CHECK(cuLaunch(old) == 1 && cuFuncSetBlockShape(old, 2048, 1, 1) == 1 &&
          cuFuncSetBlockShape(old, 32, 1, 1) == 0);
    CHECK(cuParamSetSize(old, 8) == 0 && cuParamSetv(old, 0, &duration_ns, 8) == 0);
    TAKES(3 * MS, cuLaunch(old));
    CHECK(cuParamSeti(old, 0, 2 * (unsigned)MS) == 0 && cuParamSeti(old, 4, 0) == 0);
    TAKES(2 * MS, cuLaunchGrid(old, 4, 4));
    TAKES(2 * MS, cuLaunchGridAsync(old, 4, 4, stream));
    CHECK(cuLaunchGrid(old, 0, 4) == 1);
    CHECK(cuCtxCreate_v2(&second, 0, 1) == 0);
    void *away = kernel("simgpu_busy"), *stream_away = new_stream(NON_BLOCKING);
    CHECK(cuCtxSetCurrent(context) == 0);
    CUDA_LAUNCH_PARAMS list[] = {{busy, 1, 1, 1, 32, 1, 1, 0, stream, parameters},
                                 {away, 1, 1, 1, 32, 1, 1, 0, stream_away, others}};
    launch_busy(away, stream_away, 20 * MS);
    uint64_t begun = now_ns();
    TAKES(3 * MS, cuLaunchCooperativeKernelMultiDevice(list, 2, 0));
    CHECK(now_ns() - begun >= 20 * MS &&
          busy_ns(1) == 21 * MS); /* it has waited for the other device */
    list[1].hStream = stream;
    CHECK(cuLaunchCooperativeKernelMultiDevice(list, 2, 0) == 101);
    list[0].hStream = NULL;
    CHECK(cuLaunchCooperativeKernelMultiDevice(list, 1, 0) == 400 && done_ns() == 0);
}

static void graphs(void)
{
    uint64_t duration_ns = MS, longer_ns = 5 * MS;
    void *parameters[] = {&duration_ns}, *longer[] = {&longer_ns};
    void *graph, *exec, *nodes[3], *before = NULL, *node;
    CUgraphExecUpdateResultInfo info;
    devptr memory;

    setenv("SIMGPU_BANDWIDTH", "1000000000", 1);
    begin();
    void *busy = kernel("simgpu_busy"), *stream = new_stream(NON_BLOCKING);
    CUDA_KERNEL_NODE_PARAMS shape = {busy, 1, 1, 1, 32, 1, 1, 0, parameters, NULL, NULL, NULL},
                            back;
    CHECK(cuGraphCreate(&graph, 0) == 0 && cuMemAlloc_v2(&memory, MIB) == 0);
    for (int at = 0; at < 3; at++) {
        CHECK(cuGraphAddKernelNode_v2(&nodes[at], graph, &before, before != NULL, &shape) == 0);
        before = nodes[at];
    }
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
    duration_ns = 100 * MS; /* arguments were taken when the nodes were made */
    TAKES(3 * MS, cuGraphLaunch(exec, stream));
    TAKES(3 * MS, cuGraphLaunch(exec, NULL));
    shape.kernelParams = longer;
    TAKES(7 * MS,
          cuGraphExecKernelNodeSetParams_v2(exec, nodes[1], &shape) || cuGraphLaunch(exec, stream));
    /* the graph itself still says what it said */
    CHECK(cuGraphKernelNodeGetParams_v2(nodes[1], &back) == 0 &&
          *(uint64_t *)back.kernelParams[0] == MS);
    TAKES(3 * MS, cuGraphExecUpdate_v2(exec, graph, &info) || cuGraphLaunch(exec, stream));
    CHECK(cuGraphKernelNodeSetParams_v2(nodes[2], &shape) == 0);
    TAKES(3 * MS, cuGraphLaunch(exec, stream));
    TAKES(7 * MS, cuGraphExecUpdate_v2(exec, graph, &info) || cuGraphLaunch(exec, stream));
    CHECK(cuGraphExecDestroy(exec) == 0);
    CUDA_MEMSET_NODE_PARAMS set = {memory, 0, 0, 1, 500000, 1};
    CHECK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, NULL) == 0);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
    TAKES(7 * MS + 500000, cuGraphLaunch(exec, stream));
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    launch_busy(busy, stream, 2 * MS);
    CHECK(cuMemcpyDtoDAsync_v2(memory, memory + 500000, 500000, stream) == 0);
    CHECK(cuStreamEndCapture(stream, &graph) == 0 &&
          cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
    TAKES(3 * MS, cuGraphLaunch(exec, stream));
}

/* Memsets take their bytes' time, copies within the device twice that; 10^9 bytes a second here. */
static void device_copies(void)
{
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .WidthInBytes = 1000,
                          .Height = 1000};
    CUDA_MEMCPY3D deep = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .WidthInBytes = 100,
                          .Height = 100,
                          .Depth = 100};
    size_t sizes[] = {MIB, 2 * MIB}, first = 0;
    devptr one, two, large, managed;
    uint64_t big = 2000000;
    char byte = 0;

    setenv("SIMGPU_BANDWIDTH", "1000000000", 1);
    begin();
    void *stream = new_stream(NON_BLOCKING), *busy = kernel("simgpu_busy");
    CHECK(cuMemAlloc_v2(&one, 4 * MIB) == 0 && cuMemAlloc_v2(&two, 4 * MIB) == 0);
    CHECK(cuMemAllocManaged(&managed, 4 * MIB, 1) == 0);
    TAKES(big, cuMemsetD8Async(one, 1, big, stream));
    TAKES(big, cuMemsetD16Async(one, 1, big / 2, stream));
    TAKES(big, cuMemsetD32Async(one, 1, big / 4, stream));
    TAKES(big, cuMemsetD32Async_ptsz(one, 1, big / 4, NULL));
    TAKES(big, cuMemsetD2D8Async(one, 2048, 1, 1000, 2000, stream));
    TAKES(big, cuMemsetD2D32Async(one, 2048, 1, 500, 1000, stream));
    TAKES(1000, cuMemsetD8Async(one, 1, 1, stream)); /* the least */
    TAKES(0, cuMemsetD8Async(one, 1, 0, stream));
    TAKES(2 * big, cuMemcpyDtoDAsync_v2(two, one, big, stream));
    TAKES(6 * MIB, cuMemcpyBatchAsync_v2((devptr[]){two, two + MIB}, (devptr[]){one, one + MIB},
                                         sizes, 2, (CUmemcpyAttributes *)sizes, &first, 1, stream));
    flat.srcDevice = deep.srcDevice = one;
    flat.dstDevice = deep.dstDevice = two;
    TAKES(2 * MS, cuMemcpy2DAsync_v2(&flat, stream));
    TAKES(2 * MS, cuMemcpy3DAsync_v2(&deep, stream));
    CHECK(cuMemsetD8Async(one + 4 * MIB - 10, 1, 11, stream) == 1);
    /* synchronous ones on the device's own memory don't wait, on managed memory they do */
    CHECK(cuMemAlloc_v2(&large, 65 * MIB) ==
          0); /* too large to be kept, so nothing but simulated time */
    uint64_t begun = now_ns();
    CHECK(cuMemsetD8_v2(large, 7, 20 * MIB) == 0 &&
          cuMemcpyDtoD_v2(large, large + 30 * MIB, 20 * MIB) == 0);
    launch_busy(busy, stream, 10 * MS);
    CHECK(now_ns() - begun < 40 * MS && cuStreamQuery(NULL) == NOT_READY);
    CHECK(cuMemsetD8_v2(one, 7, 100) == 0 && cuMemcpyDtoD_v2(two, one, 100) == 0);
    CHECK(cuMemcpyDtoH_v2(&byte, two + 5, 1) == 0 && byte == 7 && now_ns() - begun >= 60 * MIB);
    CHECK(done_ns() == 60 * MIB + 10 * MS + 2000);
    begun = now_ns();
    TAKES(4 * MIB, cuMemsetD8_v2(managed, 9, 4 * MIB));
    CHECK(now_ns() - begun >= 4 * MIB && *(char *)(uintptr_t)managed == 9);
}

/* Copies from and to the host have an engine for each direction, and take no device time. Pieces of
 * 100 MB keep no contents here, so they take simulated time only. */
static void host_copies(void)
{
    size_t bytes = 100000000, small = 100000;
    devptr one, two, kept;
    void *pinned, *back;

    setenv("SIMGPU_COPY_BANDWIDTH", "2500000000", 1);
    begin();
    void *stream = new_stream(NON_BLOCKING), *other = new_stream(NON_BLOCKING),
         *busy = kernel("simgpu_busy"), *pageable = malloc(bytes);
    CHECK(pageable && cuMemHostAlloc(&pinned, bytes, 0) == 0 &&
          cuMemHostAlloc(&back, bytes, 0) == 0);
    CHECK(cuMemAlloc_v2(&one, bytes) == 0 && cuMemAlloc_v2(&two, bytes) == 0 &&
          cuMemAlloc_v2(&kept, small) == 0);
    uint64_t begun = now_ns();
    CHECK(cuMemcpyHtoD_v2(one, pageable, bytes) == 0 && now_ns() - begun >= 40 * MS &&
          now_ns() - begun < 75 * MS);
    /* the simulator's threads are made at the first of these */
    CHECK(cuMemcpyHtoDAsync_v2(one, pinned, bytes, stream) == 0 &&
          cuStreamSynchronize(stream) == 0);
    begun = now_ns();
    CHECK(cuMemcpyHtoDAsync_v2(one, pinned, bytes, stream) == 0 &&
          cuMemcpyDtoHAsync_v2(back, two, bytes, other) == 0);
    launch_busy(busy, NULL, MS);
    CHECK(cuStreamSynchronize(NULL) == 0);
    uint64_t kernel_ns = now_ns() - begun;
    CHECK(cuStreamQuery(stream) == NOT_READY && cuStreamQuery(other) == NOT_READY);
    CHECK(cuStreamSynchronize(stream) == 0 && cuStreamSynchronize(other) == 0);
    uint64_t both_ns = now_ns() - begun;
    CHECK(kernel_ns < 36 * MS && both_ns >= 40 * MS && both_ns < 75 * MS);
    /* two of the same direction take turns; what comes after one in a stream waits for it */
    begun = now_ns();
    CHECK(cuMemcpyHtoDAsync_v2(one, pinned, bytes, stream) == 0 &&
          cuMemcpyHtoDAsync_v2(two, pinned, bytes, other) == 0);
    launch_busy(busy, other, MS);
    CHECK(cuStreamSynchronize(other) == 0 && now_ns() - begun >= 81 * MS);
    /* many small ones count too */
    begun = now_ns();
    for (int at = 0; at < 1000; at++)
        CHECK(cuMemcpyHtoDAsync_v2(kept, pinned, small, stream) == 0);
    CHECK(cuStreamSynchronize(stream) == 0 && now_ns() - begun >= 40 * MS &&
          now_ns() - begun < 400 * MS);
    CHECK(cuMemsetD8_v2(kept, 1, small) == 0 &&
          cuMemcpyDtoHAsync_v2(back, kept, small, stream) == 0);
    CHECK(cuStreamSynchronize(stream) == 0 && *(char *)back == 1 && busy_ns(0) == 2 * MS + 1000);
    CHECK(ledger("process ", "to_device") == 5 * bytes + 1000 * small &&
          ledger("process ", "to_host") == bytes + small);
}

static void wait_turn(void *word)
{
    while (!__atomic_load_n((uint32_t *)word, __ATOMIC_ACQUIRE))
        usleep(100);
}

/* Contents of copies in a held stream. Pageable memory may change as soon as the call returns. */
static void held_contents(void)
{
    uint32_t go = 0;
    char source[16] = "first", back[16] = "";
    devptr memory;

    begin();
    void *stream = new_stream(NON_BLOCKING);
    CHECK(cuMemAlloc_v2(&memory, 4096) == 0 && cuMemsetD8_v2(memory, 0, 4096) == 0);
    CHECK(cuLaunchHostFunc(stream, wait_turn, &go) == 0);
    CHECK(cuMemcpyHtoDAsync_v2(memory, source, sizeof(source), stream) == 0);
    CHECK(cuMemcpyDtoDAsync_v2(memory + 64, memory, sizeof(source), stream) == 0);
    CHECK(cuMemcpyDtoDAsync_v2(memory + 4000, memory, 100, stream) == 1); /* said at once */
    strcpy(source, "later");
    CHECK(cuMemcpyDtoH_v2(back, memory, sizeof(back)) == 0 && !back[0]);
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    CHECK(cuMemcpyDtoHAsync_v2(back, memory + 64, sizeof(back), stream) == 0 &&
          !strcmp(back, "first"));
}

static uint32_t *new_word(devptr *ret_address)
{
    void *memory;

    CHECK(cuMemHostAlloc(&memory, 4096, 2) == 0 &&
          cuMemHostGetDevicePointer_v2(ret_address, memory, 0) == 0);
    return memory;
}

static void launch_until(void *function, void *stream, devptr address, uint32_t value)
{
    void *parameters[] = {&address, &value};

    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL) == 0);
}

/* A kernel that runs until a word says so. */
static void until(void)
{
    devptr address;
    void *event;

    begin();
    void *function = kernel("simgpu_until"), *busy = kernel("simgpu_busy"),
         *stream = new_stream(NON_BLOCKING);
    uint32_t *word = new_word(&address);
    CHECK(cuEventCreate(&event, 0) == 0);
    uint64_t begun = now_ns();
    launch_until(function, stream, address, 3);
    CHECK(cuEventRecord(event, stream) == 0);
    launch_busy(busy, stream, MS);
    usleep(50000);
    __atomic_store_n(word, 2, __ATOMIC_RELEASE);
    usleep(10000);
    CHECK(cuEventQuery(event) == NOT_READY && busy_ns(0) >= 50 * MS);
    __atomic_store_n(word, 3, __ATOMIC_RELEASE);
    CHECK(cuStreamSynchronize(stream) == 0 && cuEventQuery(event) == 0);
    CHECK(busy_ns(0) <= now_ns() - begun && busy_ns(0) >= 61 * MS);
    /* one that has not begun yet when it is told ends as soon as it begins */
    uint64_t before = busy_ns(0);
    *word = 0;
    launch_busy(busy, stream, 20 * MS);
    launch_until(function, stream, address, 1);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    CHECK(cuStreamSynchronize(stream) == 0 && busy_ns(0) - before == 20 * MS + 1000);
}

static int pipes[2];

static void never_ends(void)
{
    devptr address;

    begin();
    void *function = kernel("simgpu_until"), *stream = new_stream(NON_BLOCKING);
    new_word(&address);
    launch_until(function, stream, address, 1);
    launch_busy(kernel("simgpu_busy"), new_stream(NON_BLOCKING), UINT64_MAX);
    CHECK(write(pipes[1], "r", 1) == 1);
    CHECK(cuStreamSynchronize(stream) == 0);
}

/* Beside a kernel that never ends, each process has half of the device; all of it once the other is
 * killed. */
static void beside_endless(void)
{
    char byte;

    CHECK(pipe(pipes) == 0);
    pid_t other = start(never_ends);
    CHECK(read(pipes[0], &byte, 1) == 1);
    begin();
    void *busy = kernel("simgpu_busy"), *stream = new_stream(NON_BLOCKING);
    uint64_t begun = now_ns();
    launch_busy(busy, stream, 100 * MS);
    CHECK(cuStreamSynchronize(stream) == 0);
    uint64_t shared_ns = now_ns() - begun;
    kill(other, SIGKILL);
    finish(other);
    begun = now_ns();
    launch_busy(busy, stream, 100 * MS);
    CHECK(cuStreamSynchronize(stream) == 0);
    uint64_t alone_ns = now_ns() - begun;
    printf("100 ms of work beside a kernel that never ends: %llu us; then alone: %llu us\n",
           (unsigned long long)shared_ns / 1000, (unsigned long long)alone_ns / 1000);
    CHECK(shared_ns > 200 * MS && shared_ns < 500 * MS && alone_ns < 190 * MS);
}

static void work_30(void)
{
    begin();
    void *stream = new_stream(NON_BLOCKING), *busy = kernel("simgpu_busy");
    for (int at = 0; at < 30; at++)
        launch_busy(busy, stream, MS);
    CHECK(cuStreamSynchronize(stream) == 0);
}

static void work_50(void)
{
    work_30();
    launch_busy(kernel("simgpu_busy"), NULL, 20 * MS);
    CHECK(cuCtxSynchronize() == 0);
}

/* Runs once its parent has closed its descriptors. */
static void come_by(void)
{
    char byte;

    close(pipes[1]);
    CHECK(read(pipes[0], &byte, 1) == 0);
    begin();
}

/* A program that closes descriptors that it did not open keeps its queue: no other process takes it
 * for dead. */
static void descriptors_closed(void)
{
    void *events[4], *stream, *busy;
    float ms;
    pid_t other;

    CHECK(pipe(pipes) == 0);
    other = start(come_by);
    begin();
    stream = new_stream(NON_BLOCKING);
    busy = kernel("simgpu_busy");
    for (int at = 0; at < 4; at++)
        CHECK(cuEventCreate(&events[at], 0) == 0);
    CHECK(cuEventRecord(events[0], stream) == 0);
    for (int at = 0; at < 20; at++)
        launch_busy(busy, stream, MS);
    CHECK(cuEventRecord(events[1], stream) == 0);
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    CHECK(finish(other) == 0);
    CHECK(cuEventRecord(events[2], stream) == 0);
    for (int at = 0; at < 3; at++)
        launch_busy(busy, stream, MS);
    CHECK(cuEventRecord(events[3], stream) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(cuEventElapsedTime(&ms, events[0], events[1]) == 0 && ms >= 19.9f);
    CHECK(cuEventElapsedTime(&ms, events[1], events[2]) == 0 && ms >= 0);
    CHECK(cuEventElapsedTime(&ms, events[2], events[3]) == 0 && ms >= 2.9f);
    CHECK(busy_ns(0) >= 23 * MS);
}

/* The ledger keeps what the ended processes of a group did. */
static void groups(void)
{
    pid_t pids[4];

    for (int at = 0; at < 4; at++) {
        setenv("SIMGPU_GROUP", at % 2 ? "odd" : "even", 1);
        pids[at] = start(at % 2 ? work_50 : work_30);
    }
    for (int at = 0; at < 4; at++)
        CHECK(finish(pids[at]) == 0);
    CHECK(ledger("group even ", "busy_ns") == 60 * MS &&
          ledger("group odd ", "busy_ns") == 100 * MS);
    CHECK(busy_ns(0) == 160 * MS && ledger("device 0 ", "switches") >= 10);
    char line[32];
    snprintf(line, sizeof(line), "process %d ", (int)pids[1]);
    CHECK(ledger(line, "busy_ns") == 50 * MS && ledger(line, "alive") == 0);
}

int main(void)
{
    static const struct selftest cases[] = {
        {"launches", launches},
        {"graphs", graphs},
        {"device_copies", device_copies},
        {"host_copies", host_copies},
        {"held_contents", held_contents},
        {"until", until},
        {"beside_endless", beside_endless},
        {"descriptors_closed", descriptors_closed},
        {"groups", groups},
    };

    return selftest_run(cases, sizeof(cases) / sizeof(cases[0]));
}
