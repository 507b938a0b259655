/* Stream memory operations: waits for words in memory, writes, and what goes on meanwhile. */
#include "selftest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void store(volatile uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint32_t look(const volatile uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Zeroed words of pinned memory. */
static uint32_t *new_words(devptr *ret_address)
{
    void *memory;

    CHECK(cuMemHostAlloc(&memory, 4096, 2) == 0 &&
          cuMemHostGetDevicePointer_v2(ret_address, memory, 0) == 0);
    return memory;
}

/* Waits for at most ms milliseconds; true once the word has the value. */
static bool turns_to(const volatile uint32_t *word, uint32_t value, int ms)
{
    for (uint64_t end = now_ns() + (uint64_t)ms * 1000000; now_ns() < end; usleep(100)) {
        if (look(word) == value)
            return true;
    }
    return false;
}

static void conditions(void)
{
    static const struct {
        bool wide;
        unsigned flags;
        uint64_t word, value, opens;
    } cases[] = {
        {false, CU_STREAM_WAIT_VALUE_GEQ, 4, 5, 5},
        {false, CU_STREAM_WAIT_VALUE_GEQ, 0xffffff00, 16, 17}, /* it counts around */
        {false, CU_STREAM_WAIT_VALUE_GEQ, 16, 0x80000010, 0x80000010},
        {false, CU_STREAM_WAIT_VALUE_EQ, 4, 5, 5},
        {false, CU_STREAM_WAIT_VALUE_EQ, 6, 5, 5},
        {false, CU_STREAM_WAIT_VALUE_AND, 4, 3, 6},
        {false, CU_STREAM_WAIT_VALUE_NOR, 0xfffffff0, 0xf, 0xffffff00},
        {true, CU_STREAM_WAIT_VALUE_GEQ, 5, 1ULL << 40, 1ULL << 40},
        {true, CU_STREAM_WAIT_VALUE_EQ, 5, (1ULL << 40) + 5, (1ULL << 40) + 5},
        {true, CU_STREAM_WAIT_VALUE_AND, 0xffffffff, 1ULL << 40, 1ULL << 41 | 1ULL << 40},
        {true, CU_STREAM_WAIT_VALUE_NOR, ~0ULL << 1, 1, ~0ULL << 2},
    };
    devptr address;

    begin();
    void *stream = new_stream(NON_BLOCKING);
    uint32_t *words = new_words(&address);
    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        __atomic_store_n((uint64_t *)words, cases[at].word, __ATOMIC_RELEASE);
        int code = cases[at].wide
                       ? cuStreamWaitValue64_v2(stream, address, cases[at].value, cases[at].flags)
                       : cuStreamWaitValue32_v2(stream, address, (uint32_t)cases[at].value,
                                                cases[at].flags);
        CHECK(code == 0);
        usleep(1000);
        if (cuStreamQuery(stream) != NOT_READY)
            printf("condition %zu is held to be true\n", at);
        CHECK(cuStreamQuery(stream) == NOT_READY);
        __atomic_store_n((uint64_t *)words, cases[at].opens, __ATOMIC_RELEASE);
        CHECK(cuStreamSynchronize(stream) == 0);
        code = cases[at].wide
                   ? cuStreamWaitValue64_v2(stream, address, cases[at].value, cases[at].flags)
                   : cuStreamWaitValue32_v2(stream, address, (uint32_t)cases[at].value,
                                            cases[at].flags);
        CHECK(code == 0 && cuStreamQuery(stream) == 0);
    }
}

static void refusals(void)
{
    CUstreamBatchMemOpParams batch[] = {{.operation = CU_STREAM_MEM_OP_BARRIER},
                                        {.operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES}};
    static uint32_t plain;
    devptr address, big, small;
    int old = -1;

    begin();
    void *stream = new_stream(NON_BLOCKING);
    uint32_t *words = new_words(&address);
    words[0] = 1;
    CHECK(cuStreamWaitValue32_v2(stream, address + 2, 0, 0) == 1);
    CHECK(cuStreamWaitValue64_v2(stream, address + 4, 0, 0) == 1);
    CHECK(cuStreamWaitValue32_v2(stream, address, 0, 4) == 1);
    CHECK(cuStreamWaitValue32_v2(stream, address, 0, CU_STREAM_WAIT_VALUE_FLUSH) == 801);
    CHECK(cuStreamWriteValue32_v2(stream, address, 0, 1) == 1);
    CHECK(cuStreamWaitValue32_v2(stream, (uintptr_t)&plain, 0, 0) == 1);
    CHECK(cuStreamWriteValue32_v2(stream, (uintptr_t)&plain, 7, 0) == 1 && plain == 0);
    CHECK(cuStreamWaitValue32_v2(stream, address + 4096, 0, 0) == 1);
    CHECK(cuMemAlloc_v2(&big, 65 * MIB) == 0 && cuStreamWriteValue32_v2(stream, big, 0, 0) == 801);
    CHECK(cuMemAlloc_v2(&small, 4096) == 0 &&
          cuStreamWriteValue32_v2(stream, small + 4096, 0, 0) == 1);
    CHECK(cuStreamBatchMemOp_v2(stream, 1, batch, 0) == 0 &&
          cuStreamBatchMemOp_v2(stream, 2, batch, 0) == 801);
    CHECK(cuStreamBatchMemOp_v2(stream, 1, batch, 1) == 1 &&
          cuStreamBatchMemOp_v2(stream, 1, NULL, 0) == 1);
    /* the first API is off by default, as on a real card */
    CHECK(cuDeviceGetAttribute(&old, 92, 0) == 0 && old == 0 &&
          cuStreamWaitValue32(stream, address, 0, 0) == 801);
    CHECK(cuStreamQuery(stream) == 0);
}

static void first_api(void)
{
    devptr address;
    int old;

    setenv("SIMGPU_MEMOPS_V1", "1", 1);
    begin();
    void *stream = new_stream(NON_BLOCKING);
    uint32_t *words = new_words(&address);
    CHECK(cuDeviceGetAttribute(&old, 92, 0) == 0 && old == 1);
    CHECK(cuStreamWaitValue32(stream, address, 1, 0) == 0 && cuStreamQuery(stream) == NOT_READY);
    store(words, 1);
    CHECK(cuStreamSynchronize(stream) == 0);
}

/* A wait holds its stream and nothing else, however much work is behind it. */
static void waits(void)
{
    void *busy, *held, *open, *event, *before;
    devptr address;
    float elapsed_ms;

    begin();
    busy = kernel("simgpu_busy");
    held = new_stream(NON_BLOCKING);
    open = new_stream(NON_BLOCKING);
    uint32_t *words = new_words(&address);
    CHECK(cuEventCreate(&event, 0) == 0 && cuEventCreate(&before, 0) == 0);
    CHECK(cuStreamWaitValue32_v2(held, address, 1, 0) == 0 && cuEventRecord(before, held) == 0);
    for (int at = 0; at < 100; at++)
        launch_busy(busy, held, 100000);
    CHECK(cuEventRecord(event, held) == 0);
    uint64_t begun = now_ns(), begun_cpu = cpu_ns();
    for (int at = 0; at < 50; at++) {
        launch_busy(busy, open, 1000000);
        CHECK(cuStreamSynchronize(open) == 0);
    }
    CHECK(now_ns() - begun < 5000000000 && cuStreamQuery(held) == NOT_READY &&
          cuEventQuery(event) == NOT_READY);
    usleep(200000);
    uint64_t cpu = (cpu_ns() - begun_cpu) / ((now_ns() - begun) / 100);
    printf("a process with a wait: %llu %% of a processor\n", (unsigned long long)cpu);
    CHECK(cpu < 95 && ledger("device 0 ", "busy_ns") == 50000000);
    store(words, 1);
    CHECK(cuStreamSynchronize(held) == 0 && cuEventQuery(event) == 0);
    CHECK(cuEventElapsedTime(&elapsed_ms, before, event) == 0 && elapsed_ms >= 10.0f &&
          elapsed_ms < 4000.0f);
    CHECK(ledger("device 0 ", "busy_ns") == 60000000);
}

static int by_size(const void *one, const void *two)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)two;

    return (a > b) - (a < b);
}

/* The median time, in ns, in which a store ends a wait. A write behind the wait tells it. */
static uint64_t end_waits(const char *how, bool wakes)
{
    enum { ROUNDS = 200 };
    uint64_t took[ROUNDS];
    devptr address;

    begin();
    void *stream = new_stream(NON_BLOCKING);
    uint32_t *words = new_words(&address);
    for (uint32_t at = 0; at < ROUNDS; at++) {
        CHECK(cuStreamWaitValue32_v2(stream, address, at + 1, 0) == 0);
        CHECK(cuStreamWriteValue32_v2(stream, address + 64, at + 1, 0) == 0);
        usleep(1000);
        CHECK(look(words + 16) == at);
        uint64_t begun = now_ns();
        store(words, at + 1);
        if (wakes)
            syscall(SYS_futex, words, FUTEX_WAKE, 1, NULL, NULL, 0);
        while (look(words + 16) != at + 1 && now_ns() < begun + 1000000000)
            ;
        took[at] = now_ns() - begun;
    }
    qsort(took, ROUNDS, sizeof(took[0]), by_size);
    printf("%s ends a wait after %llu us (median), %llu us (9 of 10)\n", how,
           (unsigned long long)took[ROUNDS / 2] / 1000,
           (unsigned long long)took[ROUNDS * 9 / 10] / 1000);
    return took[ROUNDS / 2];
}

static void latency(void)
{
    CHECK(end_waits("a store", false) < 50000000);
}

/* With FUTEX_WAKE after the store, polling is not needed. */
static void woken(void)
{
    if (syscall(449, NULL, 0, 0, NULL, 0) < 0 && errno == ENOSYS) /* futex_waitv */
        return;
    setenv("SIMGPU_POLL", "100ms", 1);
    CHECK(end_waits("a store with a wake", true) < 50000000);
}

/* A word is written when the work before it is done: without a query, and before one says so. */
static void writes(void)
{
    devptr address;

    begin();
    void *busy = kernel("simgpu_busy"), *stream = new_stream(NON_BLOCKING);
    uint32_t *words = new_words(&address);
    CHECK(cuStreamWriteValue32_v2(stream, address, 1, 0) == 0 && look(words) == 1);
    uint64_t begun = now_ns();
    launch_busy(busy, stream, 20000000);
    CHECK(cuStreamWriteValue32_v2(stream, address, 2, 0) == 0);
    launch_busy(busy, stream, 20000000);
    CHECK(cuStreamWriteValue32_v2(stream, address, 3, 0) == 0);
    launch_busy(busy, stream, 200000000);
    while (look(words) == 1 && now_ns() < begun + 1000000000)
        ;
    uint64_t took = now_ns() - begun;
    CHECK(took > 20000000 && took < 2000000000);
    printf("a word behind a kernel of 20 ms is written after %llu us\n",
           (unsigned long long)took / 1000);
    CHECK(turns_to(words, 3, 60000) && now_ns() - begun > 40000000 &&
          cuStreamQuery(stream) == NOT_READY);
    for (uint32_t at = 10; at < 200; at++) {
        launch_busy(busy, stream, 20000);
        CHECK(cuStreamWriteValue64_v2(stream, address + 8, (uint64_t)at << 32 | at, 0) == 0);
        CHECK(cuStreamSynchronize(stream) == 0 && look(words + 2) == at && look(words + 3) == at);
    }
    /* markers do not keep the device from going on: 1000 kernels of 20 us take 20 ms */
    begun = now_ns();
    for (uint32_t at = 1000; at < 2000; at++) {
        launch_busy(busy, stream, 20000);
        CHECK(cuStreamWriteValue32_v2(stream, address, at, 0) == 0);
    }
    CHECK(cuStreamSynchronize(stream) == 0 && look(words) == 1999 && now_ns() - begun < 2000000000);
}

/* Waits for a word that the same stream writes. */
static void write_then_wait(void)
{
    devptr address;

    begin();
    void *busy = kernel("simgpu_busy"), *stream = new_stream(NON_BLOCKING);
    uint32_t *words = new_words(&address);
    store(words, 1);
    launch_busy(busy, stream, 10000000);
    CHECK(cuStreamWriteValue32_v2(stream, address, 2, 0) == 0);
    CHECK(cuStreamWaitValue32_v2(stream, address, 1, CU_STREAM_WAIT_VALUE_EQ) == 0);
    CHECK(cuStreamWriteValue32_v2(stream, address + 4, 1, 0) == 0);
    CHECK(turns_to(words, 2, 60000) && !turns_to(words + 1, 1, 50) && look(words) == 2);
    store(words, 1);
    CHECK(cuStreamSynchronize(stream) == 0 && look(words + 1) == 1);
}

/* Memory of every kind that a word may be in. */
static void memories(void)
{
    devptr managed, device;
    uint32_t back = 0;

    begin();
    void *stream = new_stream(NON_BLOCKING);
    CHECK(cuMemAllocManaged(&managed, 4096, 1) == 0 && cuMemAlloc_v2(&device, 4096) == 0);
    CHECK(cuStreamWaitValue32_v2(stream, managed, 3, CU_STREAM_WAIT_VALUE_EQ) == 0);
    CHECK(cuStreamWriteValue32_v2(stream, device + 8, 5, 0) == 0 &&
          cuStreamQuery(stream) == NOT_READY);
    store((uint32_t *)(uintptr_t)managed, 3);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(cuMemcpyDtoH_v2(&back, device + 8, 4) == 0 && back == 5);
    CHECK(cuStreamWaitValue32_v2(stream, device + 8, 6, CU_STREAM_WAIT_VALUE_GEQ) == 0 &&
          cuStreamQuery(stream) == NOT_READY);
    void *other = new_stream(NON_BLOCKING);
    CHECK(cuStreamWriteValue32_v2(other, device + 8, 6, 0) == 0 &&
          cuStreamSynchronize(stream) == 0);
    /* a wait for memory that is freed ends */
    CHECK(cuStreamWaitValue32_v2(stream, device + 8, 7, CU_STREAM_WAIT_VALUE_GEQ) == 0 &&
          cuStreamQuery(stream) == NOT_READY);
    CHECK(cuMemFree_v2(device) == 0 && cuStreamSynchronize(stream) == 0);
}

static int shared_fd;

static uint32_t *map_shared(void)
{
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);

    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Another process, without CUDA: ends the wait, and waits for the answer. */
static void other_end(void)
{
    uint32_t *words = map_shared();

    CHECK(turns_to(words + 2, 1, 60000));
    usleep(30000);
    CHECK(look(words + 1) == 0);
    store(words, 1);
    CHECK(turns_to(words + 1, 9, 60000));
}

/* A page of a shared file, registered as pinned memory, as vgpu's scheduler uses it. */
static void shared_page(void)
{
    char path[64];
    devptr address;

    snprintf(path, sizeof(path), "/dev/shm/simgpu-selftest-page-%d", (int)getpid());
    shared_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(shared_fd >= 0 && unlink(path) == 0 && ftruncate(shared_fd, 4096) == 0);
    pid_t other = start(other_end);
    begin();
    void *stream = new_stream(NON_BLOCKING);
    uint32_t *words = map_shared();
    CHECK(cuMemHostRegister_v2(words, 4096, 2) == 0 &&
          cuMemHostGetDevicePointer_v2(&address, words, 0) == 0);
    CHECK(cuStreamWaitValue32_v2(stream, address, 1, 0) == 0);
    CHECK(cuStreamWriteValue32_v2(stream, address + 4, 9, 0) == 0 &&
          cuStreamQuery(stream) == NOT_READY);
    store(words + 2, 1);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(finish(other) == 0 && cuMemHostUnregister(words) == 0);
    CHECK(cuStreamWaitValue32_v2(stream, address, 1, 0) == 1);
}

static void stay_held(void)
{
    devptr address;

    begin();
    void *busy = kernel("simgpu_busy"), *stream = new_stream(NON_BLOCKING);
    new_words(&address);
    CHECK(cuStreamWaitValue32_v2(stream, address, 1, 0) == 0);
    for (int at = 0; at < 100; at++)
        launch_busy(busy, stream, 1000000);
    for (;;)
        pause();
}

/* Processes that wait do not slow down others. */
static void neighbours(void)
{
    pid_t held[3];

    for (int at = 0; at < 3; at++)
        held[at] = start(stay_held);
    begin();
    for (int tries = 0; tries < 500 && ledger("device 0 ", "used") != (4 * 512 + 3 * 2) * MIB;
         tries++)
        usleep(10000);
    void *busy = kernel("simgpu_busy"), *stream = new_stream(NON_BLOCKING);
    usleep(100000);
    uint64_t begun = now_ns();
    for (int at = 0; at < 200; at++)
        launch_busy(busy, stream, 1000000);
    CHECK(cuStreamSynchronize(stream) == 0);
    uint64_t took = now_ns() - begun;
    printf("200 kernels of 1 ms beside three held processes: %llu us\n",
           (unsigned long long)took / 1000);
    CHECK(took < 3000000000 && ledger("device 0 ", "busy_ns") == 200000000 &&
          ledger("device 0 ", "switches") == 0);
    for (int at = 0; at < 3; at++) {
        kill(held[at], SIGKILL);
        finish(held[at]);
    }
}

/* The legacy stream comes after held work of blocking streams, and these after it. Other streams do
 * not wait. */
static void legacy_order(void)
{
    devptr address;
    void *event;

    begin();
    void *busy = kernel("simgpu_busy"), *blocking = new_stream(BLOCKING),
         *other = new_stream(BLOCKING);
    void *free_stream = new_stream(NON_BLOCKING);
    uint32_t *words = new_words(&address);
    CHECK(cuEventCreate(&event, 0) == 0);
    CHECK(cuStreamWaitValue32_v2(blocking, address, 1, 0) == 0);
    launch_busy(busy, NULL, 1000);
    CHECK(cuEventRecord(event, NULL) == 0);
    launch_busy(busy, other, 1000);
    launch_busy(busy, free_stream, 1000);
    CHECK(cuStreamSynchronize(free_stream) == 0);
    usleep(5000);
    CHECK(cuEventQuery(event) == NOT_READY && cuStreamQuery(other) == NOT_READY &&
          cuStreamQuery(NULL) == NOT_READY);
    store(words, 1);
    CHECK(cuStreamSynchronize(other) == 0 && cuEventQuery(event) == 0 &&
          cuStreamQuery(blocking) == 0);
}

/* An event that is recorded again while held: each wait is for the record at its call. */
static void recorded_again(void)
{
    devptr address;
    void *event;

    begin();
    void *held = new_stream(NON_BLOCKING), *after = new_stream(NON_BLOCKING),
         *open = new_stream(NON_BLOCKING);
    uint32_t *words = new_words(&address);
    CHECK(cuEventCreate(&event, 0) == 0);
    CHECK(cuStreamWaitValue32_v2(held, address, 1, 0) == 0 && cuEventRecord(event, held) == 0);
    CHECK(cuStreamWaitEvent(after, event, 0) == 0 && cuEventRecord(event, after) == 0);
    CHECK(cuStreamQuery(after) == NOT_READY && cuEventQuery(event) == NOT_READY);
    CHECK(cuEventRecord(event, open) == 0 && cuEventQuery(event) == 0 &&
          cuEventSynchronize(event) == 0);
    CHECK(cuStreamWaitEvent(open, event, 0) == 0 && cuStreamQuery(open) == 0 &&
          cuStreamQuery(after) == NOT_READY);
    store(words, 1);
    CHECK(cuStreamSynchronize(after) == 0 && cuStreamSynchronize(held) == 0 &&
          cuEventQuery(event) == 0);
}

static void captured(void)
{
    CUstreamBatchMemOpParams operation = MEMOP(WAIT_VALUE_32, 0, 5);
    CUDA_BATCH_MEM_OP_NODE_PARAMS node_params;
    devptr address;
    void *graph, *exec, *nodes[4];
    size_t count = 4;
    CUgraphNodeType type;

    begin();
    void *busy = kernel("simgpu_busy"), *stream = new_stream(NON_BLOCKING);
    uint32_t *words = new_words(&address);
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0 &&
          cuStreamWaitValue32_v2(stream, address, 1, 0) == 0);
    launch_busy(busy, stream, 10000000);
    CHECK(cuStreamWriteValue32_v2(stream, address + 4, 8, 0) == 0);
    CHECK(cuStreamEndCapture(stream, &graph) == 0 && graph && look(words + 1) == 0);
    CHECK(cuGraphGetNodes(graph, nodes, &count) == 0 && count == 3);
    CHECK(cuGraphNodeGetType(nodes[0], &type) == 0 && type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    CHECK(cuGraphBatchMemOpNodeGetParams(nodes[0], &node_params) == 0 && node_params.count == 1 &&
          node_params.paramArray[0].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 &&
          node_params.paramArray[0].waitValue.value64 == 1);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0) == 0 && cuGraphLaunch(exec, stream) == 0);
    usleep(2000);
    CHECK(cuStreamQuery(stream) == NOT_READY);
    store(words, 1);
    CHECK(turns_to(words + 1, 8, 60000) && cuStreamSynchronize(stream) == 0);
    operation.waitValue.address = address;
    node_params = (CUDA_BATCH_MEM_OP_NODE_PARAMS){.count = 1, .paramArray = &operation};
    CHECK(cuGraphExecBatchMemOpNodeSetParams(exec, nodes[0], &node_params) == 0);
    CHECK(cuGraphLaunch(exec, stream) == 0);
    usleep(2000);
    CHECK(cuStreamQuery(stream) == NOT_READY);
    store(words, 5);
    CHECK(cuStreamSynchronize(stream) == 0 && cuGraphExecDestroy(exec) == 0);
}

static void batches(void)
{
    devptr address;

    begin();
    void *stream = new_stream(NON_BLOCKING);
    uint32_t *words = new_words(&address);
    CUstreamBatchMemOpParams batch[] = {
        MEMOP(WRITE_VALUE_32, address, 1),
        MEMOP(WAIT_VALUE_64, address + 8, 1ULL << 33),
        {.operation = CU_STREAM_MEM_OP_BARRIER},
        MEMOP(WRITE_VALUE_64, address + 16, 1ULL << 34 | 7),
    };
    CHECK(cuStreamBatchMemOp_v2(stream, 4, batch, 0) == 0 && look(words) == 1);
    usleep(2000);
    CHECK(look(words + 4) == 0 && cuStreamQuery(stream) == NOT_READY);
    store(words + 3, 2);
    CHECK(cuStreamSynchronize(stream) == 0 && look(words + 4) == 7 && look(words + 5) == 4);
}

static void wait_for_word(void *word)
{
    CHECK(turns_to(word, 1, 60000));
}

/* A host function that waits for another stream's work stops neither waits nor writes. */
static void host_waits(void)
{
    devptr address;

    begin();
    void *stream = new_stream(NON_BLOCKING), *other = new_stream(NON_BLOCKING);
    uint32_t *words = new_words(&address);
    CHECK(cuStreamWaitValue32_v2(other, address + 4, 1, 0) == 0);
    CHECK(cuStreamWriteValue32_v2(other, address, 1, 0) == 0);
    CHECK(cuLaunchHostFunc(stream, wait_for_word, words) == 0);
    usleep(5000);
    CHECK(cuStreamQuery(stream) == NOT_READY);
    store(words + 1, 1);
    CHECK(cuStreamSynchronize(stream) == 0 && look(words) == 1);
}

static uint32_t *opened;

static void *open_later(void *unused)
{
    (void)unused;
    usleep(50000);
    store(opened, 1);
    return NULL;
}

/* A launch waits behind 1024 held operations; with SIMGPU_LAZY the first of a function, too. */
static void launches_wait(void)
{
    pthread_t thread;
    devptr address;

    setenv("SIMGPU_LAZY", "1", 1);
    begin();
    void *busy = kernel("simgpu_busy"), *any = kernel("any"), *stream = new_stream(NON_BLOCKING);
    opened = new_words(&address);
    launch_busy(busy, stream, 1000);
    CHECK(cuStreamSynchronize(stream) == 0 && cuStreamWaitValue32_v2(stream, address, 1, 0) == 0);
    for (int at = 0; at < 1000; at++)
        launch_busy(busy, stream, 1000);
    CHECK(pthread_create(&thread, NULL, open_later, NULL) == 0);
    uint64_t begun = now_ns();
    for (int at = 0; at < 100; at++)
        launch_busy(busy, stream, 1000);
    CHECK(look(opened) == 1 && now_ns() - begun > 30000000 && pthread_join(thread, NULL) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    store(opened, 0);
    CHECK(cuStreamWaitValue32_v2(stream, address, 1, 0) == 0);
    launch_busy(busy, stream, 1000);
    CHECK(look(opened) == 0 && pthread_create(&thread, NULL, open_later, NULL) == 0);
    CHECK(cuLaunchKernel(any, 1, 1, 1, 1, 1, 1, 0, new_stream(NON_BLOCKING), NULL, NULL) == 0 &&
          look(opened) == 1);
    CHECK(pthread_join(thread, NULL) == 0 && cuStreamSynchronize(stream) == 0);
}

static void nothing_done(void)
{
    devptr address;

    setenv("SIMGPU_NOOP", "1", 1);
    begin();
    void *stream = new_stream(NON_BLOCKING);
    uint32_t *words = new_words(&address);
    CHECK(cuStreamWaitValue32_v2(stream, address, 1, 0) == 0);
    CHECK(cuStreamWriteValue32_v2_ptsz(stream, address + 4, 1, 0) == 0 && words[1] == 1);
    CHECK(cuStreamSynchronize(stream) == 0);
}

int main(void)
{
    static const struct selftest cases[] = {
        {"conditions", conditions},
        {"refusals", refusals},
        {"first_api", first_api},
        {"waits", waits},
        {"latency", latency},
        {"woken", woken},
        {"writes", writes},
        {"write_wait", write_then_wait},
        {"memories", memories},
        {"shared_page", shared_page},
        {"neighbours", neighbours},
        {"legacy_order", legacy_order},
        {"recorded_again", recorded_again},
        {"captured", captured},
        {"batches", batches},
        {"host_waits", host_waits},
        {"launches_wait", launches_wait},
        {"nothing_done", nothing_done},
    };

    return selftest_run(cases, sizeof(cases) / sizeof(cases[0]));
}
