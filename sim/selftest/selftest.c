/* Tests of the simulator alone: facts of the real driver that other tests rely on, and what happens
 * between processes. Every case runs in processes of its own, on a state file of its own. */
#include "selftest.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void allocations(void)
{
    devptr one, two, big;
    size_t free_bytes, total;

    CHECK(cuMemAlloc_v2(&one, 1) == 3);
    CHECK(cuInit(0) == 0);
    CHECK(cuMemAlloc_v2(&one, 1) == 201);
    begin();
    CHECK(used() == 512 * MIB);
    CHECK(cuMemAlloc_v2(&one, 100) == 0 && cuMemAlloc_v2(&two, 1 * MIB) == 0);
    CHECK(two - one == 512 && used() == 514 * MIB);
    CHECK(cuMemAlloc_v2(&big, MIB + 1) == 0 && big % (2 * MIB) == 0 && used() == 516 * MIB);
    CHECK(cuMemFree_v2(one + 4) == 1 && cuMemFree_v2(one) == 0 && cuMemFree_v2(one) == 1);
    CHECK(used() == 516 * MIB && cuMemFree_v2(two) == 0 && used() == 514 * MIB);
    CHECK(cuMemAlloc_v2(&one, 16ULL << 30) == 2);
    CHECK(cuMemGetInfo_v2(&free_bytes, &total) == 0 && free_bytes == total - 514 * MIB);
}

static void contents(void)
{
    char text[64] = "simulated", back[64] = "";
    devptr memory, managed;

    begin();
    CHECK(cuMemAlloc_v2(&memory, 4096) == 0 && cuMemAllocManaged(&managed, 4096, 1) == 0);
    CHECK(cuMemcpyHtoD_v2(memory, text, sizeof(text)) == 0);
    CHECK(cuMemcpyDtoD_v2(managed, memory, sizeof(text)) == 0);
    CHECK(!strcmp((char *)(uintptr_t)managed, "simulated"));
    CHECK(cuMemsetD8_v2(memory, 'x', 4) == 0 && cuMemcpyDtoH_v2(back, memory, sizeof(back)) == 0);
    CHECK(!strcmp(back, "xxxxlated"));
    CHECK(cuMemcpyHtoD_v2(memory + 4096 - 8, text, 16) == 1);
}

static void pools(void)
{
    uint64_t reserved = 0;
    devptr one, two;
    void *pool, *stream;

    begin();
    CHECK(cuStreamCreate(&stream, 1) == 0 && cuDeviceGetMemPool(&pool, 0) == 0);
    CHECK(cuMemAllocAsync(&one, 1000, stream) == 0 && cuMemAllocAsync(&two, 40 * MIB, stream) == 0);
    CHECK(cuMemPoolGetAttribute(pool, 5, &reserved) == 0 && reserved == 64 * MIB &&
          used() == 576 * MIB);
    CHECK(cuMemFreeAsync(two, stream) == 0 && used() == 576 * MIB);
    CHECK(cuStreamSynchronize(stream) == 0 && used() == 544 * MIB);
    CHECK(cuMemFree_v2(one) == 0 && cuCtxSynchronize() == 0 && used() == 512 * MIB);
}

static void arrays(void)
{
    static const struct {
        CUDA_ARRAY3D_DESCRIPTOR desc;
        unsigned levels;
        size_t bytes;
    } cases[] = {
        {{64, 0, 0, 0x20, 1, 0}, 0, 65536},          {{1024, 1024, 0, 0x20, 1, 0}, 0, 4194304},
        {{333, 777, 0, 0x20, 2, 0}, 0, 2424832},     {{100, 100, 100, 0x20, 1, 0}, 0, 5242880},
        {{33, 65, 7, 0x20, 4, 0}, 0, 393216},        {{1920, 1080, 0, 1, 4, 0}, 0, 8847360},
        {{333, 77, 5, 0x20, 2, 1}, 0, 1769472},      {{1024, 1024, 0, 0x20, 4, 0}, 1, 16777216},
        {{1024, 1024, 0, 0x20, 4, 0}, 11, 22413312}, {{100, 100, 100, 0x20, 1, 0}, 3, 6291456},
        {{333, 777, 0, 0x20, 2, 0}, 4, 3342336},
    };

    begin();
    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        CUDA_ARRAY3D_DESCRIPTOR desc = cases[at].desc;
        CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {0};
        void *array;
        desc.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
        if (cases[at].levels) {
            CHECK(cuMipmappedArrayCreate(&array, &desc, cases[at].levels) == 0);
            CHECK(cuMipmappedArrayGetMemoryRequirements(&needs, array, 0) == 0);
        } else {
            CHECK(cuArray3DCreate_v2(&array, &desc) == 0 &&
                  cuArrayGetMemoryRequirements(&needs, array, 0) == 0);
        }
        CHECK(needs.size == cases[at].bytes);
    }
    CHECK(used() == 512 * MIB);
}

static void captures(void)
{
    void *stream, *pool, *graph = NULL, *exec;
    uint64_t value;
    devptr memory;
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

    begin();
    CHECK(cuStreamCreate(&stream, 1) == 0 && cuDeviceGetMemPool(&pool, 0) == 0);
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0 && cuMemPoolGetAttribute(pool, 5, &value) == 900);
    CHECK(cuStreamEndCapture(stream, &graph) == 901);
    CHECK(cuThreadExchangeStreamCaptureMode(&relaxed) == 0 && relaxed == 0);
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0 && cuMemPoolGetAttribute(pool, 5, &value) == 0);
    CHECK(cuMemAllocAsync(&memory, 10 * MIB, stream) == 0 && cuMemFreeAsync(memory, stream) == 0);
    CHECK(cuStreamEndCapture(stream, &graph) == 0 && used() == 512 * MIB);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0) == 0 && used() == 512 * MIB);
    CHECK(cuGraphLaunch(exec, stream) == 0 && cuStreamSynchronize(stream) == 0 &&
          used() == 544 * MIB);
    CHECK(cuGraphLaunch(exec, stream) == 0 && used() == 544 * MIB && cuGraphExecDestroy(exec) == 0);
    CHECK(used() == 544 * MIB && cuDeviceGraphMemTrim(0) == 0 && used() == 512 * MIB);
}

static void count_host(void *user)
{
    ++*(int *)user;
}

static void streams(void)
{
    void *stream, *module, *function, *first, *second;
    uint64_t duration_ns = 20000000;
    void *parameters[] = {&duration_ns};
    int ran = 0;
    float elapsed_ms = 0;

    begin();
    CHECK(cuModuleLoadData(&module, "image") == 0 &&
          cuModuleGetFunction(&function, module, "simgpu_busy") == 0);
    CHECK(cuStreamCreate(&stream, 1) == 0 && cuEventCreate(&first, 0) == 0 &&
          cuEventCreate(&second, 0) == 0);
    /* the simulator's threads are made at the first of these */
    CHECK(cuLaunchHostFunc(stream, count_host, &ran) == 0 && cuStreamSynchronize(stream) == 0 &&
          ran == 1);
    ran = 0;
    CHECK(cuEventRecord(first, stream) == 0);
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL) == 0);
    CHECK(cuLaunchHostFunc(stream, count_host, &ran) == 0);
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL) == 0);
    CHECK(cuEventRecord(second, stream) == 0);
    CHECK(cuStreamQuery(stream) == 600 && cuEventQuery(second) == 600 && ran == 0);
    CHECK(cuEventElapsedTime(&elapsed_ms, first, second) == 600);
    CHECK(cuStreamSynchronize(stream) == 0 && ran == 1 && cuEventQuery(second) == 0);
    CHECK(cuEventElapsedTime(&elapsed_ms, first, second) == 0 && elapsed_ms >= 40.0f &&
          elapsed_ms < 2000.0f);
}

static void hold_forever(void)
{
    devptr memory;

    begin();
    CHECK(cuMemAlloc_v2(&memory, 100 * MIB) == 0);
    CHECK(write(STDERR_FILENO, "", 0) == 0);
    for (;;)
        pause();
}

static void wait_used(uint64_t bytes)
{
    for (int tries = 0; tries < 500 && used() != bytes; tries++)
        usleep(10000);
    CHECK(used() == bytes);
}

static void killed(void)
{
    pid_t pids[4];

    for (int at = 0; at < 4; at++)
        pids[at] = start(hold_forever);
    wait_used(4 * 612 * MIB);
    kill(pids[0], SIGKILL);
    /* dead, though not yet waited for */
    wait_used(3 * 612 * MIB);
    for (int at = 1; at < 4; at++)
        kill(pids[at], SIGKILL);
    wait_used(0);
    for (int at = 0; at < 4; at++)
        finish(pids[at]);
}

static void exec_sleep(void)
{
    begin();
    execlp("sleep", "sleep", "30", (char *)NULL);
}

static void executed(void)
{
    pid_t pid = start(exec_sleep);

    usleep(300000);
    wait_used(0);
    kill(pid, SIGKILL);
    finish(pid);
}

static void in_child(void)
{
    devptr memory;

    CHECK(cuInit(0) == 3);
    CHECK(cuMemAlloc_v2(&memory, 10) == 3);
}

static void forked(void)
{
    begin();
    CHECK(finish(start(in_child)) == 0);
    CHECK(used() == 512 * MIB);
}

static int sockets[2];

static void send_fd(int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(int));
    CHECK(sendmsg(sockets[0], &message, 0) == 1);
}

static int receive_fd(void)
{
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    int fd = -1;

    CHECK(recvmsg(sockets[1], &message, 0) == 1 && CMSG_FIRSTHDR(&message));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    return fd;
}

static void export_memory(void)
{
    CUmemAllocationProp prop = {.type = 1,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    int fd;

    begin();
    CHECK(cuMemCreate(&handle, 100, &prop, 0) == 1 &&
          cuMemCreate(&handle, 64 * MIB, &prop, 0) == 0);
    CHECK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
          0);
    send_fd(fd);
    for (;;)
        pause();
}

/* A pool that gets no addresses refuses, can be asked again, and can be destroyed. */
static void pool_without_addresses(void)
{
    CUmemPoolProps props = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    struct rlimit before, small;
    unsigned long pages;
    devptr address;
    void *pool, *other;
    FILE *file;

    begin();
    CHECK(cuMemPoolCreate(&pool, &props) == 0 && cuMemPoolCreate(&other, &props) == 0);
    CHECK((file = fopen("/proc/self/statm", "r")) && fscanf(file, "%lu", &pages) == 1 &&
          fclose(file) == 0);
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    small = before;
    small.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + 16 * MIB;
    CHECK(setrlimit(RLIMIT_AS, &small) == 0);
    CHECK(cuMemAllocFromPoolAsync(&address, MIB, pool, NULL) == 2);
    CHECK(cuMemAllocFromPoolAsync(&address, MIB, other, NULL) == 2);
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    CHECK(cuMemPoolDestroy(pool) == 0);
    CHECK(cuMemAllocFromPoolAsync(&address, MIB, other, NULL) == 0);
    CHECK(cuMemFreeAsync(address, NULL) == 0 && cuMemPoolDestroy(other) == 0);
}

/* A descriptor alone keeps memory, and can be imported. */
static void kept_by_descriptor(void)
{
    CUmemAllocationProp prop = {.type = 1,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    int fd, again;

    begin();
    CHECK(cuMemCreate(&handle, 64 * MIB, &prop, 0) == 0);
    CHECK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
          0);
    CHECK(cuMemExportToShareableHandle(&again, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                       0) == 0);
    CHECK(cuMemRelease(handle) == 0 && used() == (512 + 64) * MIB);
    CHECK(close(fd) == 0 && used() == (512 + 64) * MIB);
    CHECK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)again,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0);
    CHECK(close(again) == 0 && used() == (512 + 64) * MIB);
    CHECK(cuMemRelease(handle) == 0 && used() == 512 * MIB);
    CHECK((fd = open("/dev/null", O_RDWR)) >= 0);
    CHECK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 1);
}

/* An importer keeps the memory of an exporter that was killed. */
static void exported(void)
{
    CUmemGenericAllocationHandle handle;
    devptr address;
    int fd;

    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0);
    pid_t exporter = start(export_memory);
    begin();
    fd = receive_fd();
    CHECK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0);
    CHECK(close(fd) == 0 && used() == (512 + 512 + 64) * MIB);
    kill(exporter, SIGKILL);
    finish(exporter);
    CHECK(used() == (512 + 64) * MIB);
    CHECK(cuMemAddressReserve(&address, 64 * MIB, 0, 0, 0) == 0 &&
          cuMemMap(address, 64 * MIB, 0, handle, 0) == 0);
    CHECK(cuMemRelease(handle) == 0 && used() == (512 + 64) * MIB);
    CHECK(cuMemUnmap(address, 32 * MIB) == 1 && cuMemUnmap(address, 64 * MIB) == 0 &&
          used() == 512 * MIB);
    CHECK(cuMemUnmap(address, 64 * MIB) == 1); /* nothing is mapped there */
}

#define SHARE_MS 1000

/* Keeps the device's queue filled for a second. Its exit status is its share in percent. */
static void work_a_second(void)
{
    void *module, *function, *stream, *events[8];
    uint64_t duration_ns = 1000000, done = 0, end;
    void *parameters[] = {&duration_ns};

    begin();
    CHECK(cuModuleLoadData(&module, "image") == 0 &&
          cuModuleGetFunction(&function, module, "simgpu_busy") == 0);
    CHECK(cuStreamCreate(&stream, 1) == 0);
    for (int at = 0; at < 8; at++)
        CHECK(cuEventCreate(&events[at], 0) == 0);
    char byte;
    CHECK(read(sockets[1], &byte, 1) == 1);
    end = now_ns() + SHARE_MS * 1000000ULL;
    for (uint64_t launched = 0; now_ns() < end; launched++) {
        if (launched >= 8) {
            CHECK(cuEventSynchronize(events[launched % 8]) == 0);
            for (int kernel = 0; kernel < 20; kernel++)
                done += now_ns() < end;
        }
        for (int kernel = 0; kernel < 20; kernel++)
            CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL) == 0);
        CHECK(cuEventRecord(events[launched % 8], stream) == 0);
    }
    _exit((int)(done * 100 / SHARE_MS));
}

static void shared(void)
{
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    pid_t one = start(work_a_second), two = start(work_a_second);
    wait_used(2 * 514 * MIB);
    CHECK(write(sockets[0], "gg", 2) == 2);
    int first = finish(one), second = finish(two);
    printf("two processes with 1 ms kernels: %d %% and %d %%\n", first, second);
    CHECK(first >= 33 && first <= 55 && second >= 33 && second <= 55);
}

static void faults(void)
{
    devptr memory;

    setenv("SIMGPU_FAULT", "cuMemAlloc_v2:2:2,cuMemFree_v2:1:719", 1);
    begin();
    CHECK(cuMemAlloc_v2(&memory, 10) == 0 && cuMemAlloc_v2(&memory, 10) == 2 &&
          cuMemAlloc_v2(&memory, 10) == 0);
    CHECK(cuMemFree_v2(memory) == 719 && cuMemFree_v2(memory) == 0);
}

static int visible_count(const char *text)
{
    int count = -1;

    setenv("SIMGPU_COUNT", "4", 1);
    setenv("CUDA_VISIBLE_DEVICES", text, 1);
    int code = cuInit(0);
    return code == 100 ? 0 : code || cuDeviceGetCount(&count) ? -code : count;
}

static void visible(void)
{
    static const struct {
        const char *text;
        int count;
    } cases[] = {{"", 0},      {"-1", 0},  {"2", 1},      {"3,1", 2},
                 {"0,9,1", 1}, {"0,0", 0}, {"GPU-10", 1}, {"GPU-zz", 0}};

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        pid_t pid = fork();
        if (!pid)
            _exit(visible_count(cases[at].text));
        int count = finish(pid);
        if (count != cases[at].count)
            printf("CUDA_VISIBLE_DEVICES=%s: %d devices, not %d\n", cases[at].text, count,
                   cases[at].count);
        CHECK(count == cases[at].count);
    }
}

static void entry_points(void)
{
    static const struct {
        const char *name;
        int version, flags;
        const char *symbol;
    } cases[] = {
        {"cuMemAlloc", 2000, 0, "cuMemAlloc"},
        {"cuMemAlloc", 13000, 0, "cuMemAlloc_v2"},
        {"cuMemAllocAsync", 13000, 2, "cuMemAllocAsync_ptsz"},
        {"cuStreamGetCaptureInfo", 11080, 0, "cuStreamGetCaptureInfo_v2"},
        {"cuStreamGetCaptureInfo", 12030, 2, "cuStreamGetCaptureInfo_v3_ptsz"},
        {"cuCtxCreate", 12000, 0, "cuCtxCreate_v3"},
        {"cuMemcpy", 13000, 2, "cuMemcpy_ptds"},
    };
    void *entry;
    CUdriverProcAddressQueryResult status;

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        CHECK(cuGetProcAddress_v2(cases[at].name, &entry, cases[at].version,
                                  (uint64_t)cases[at].flags, &status) == 0);
        CHECK(status == 0 && entry == symbol_address(cases[at].symbol));
    }
    CHECK(cuGetProcAddress_v2("cuMemAllocAsync", &entry, 11010, 0, &status) == 0 && status == 2 &&
          !entry);
    CHECK(cuGetProcAddress_v2("cuMemAlloc_v2", &entry, 13000, 0, &status) == 0 && status == 1 &&
          !entry);
    CHECK(cuGetProcAddress("cuNothing", &entry, 13000, 0) == 500);
}

/* NVML's links, clocks and sensors: rules that hold on every GPU. */
static void sensors(void)
{
    unsigned value, most, period;
    nvmlDevice_t card;

    CHECK(nvmlDeviceGetPowerUsage(NULL, &value) == NVML_ERROR_UNINITIALIZED);
    CHECK(nvmlInit_v2() == 0 && nvmlDeviceGetHandleByIndex_v2(0, &card) == 0);
    for (unsigned clock = 0; clock < 4; clock++) {
        CHECK(nvmlDeviceGetMaxClockInfo(card, clock, &most) == 0 &&
              nvmlDeviceGetClockInfo(card, clock, &value) == 0);
        CHECK(value > 0 && value <= most);
    }
    CHECK(nvmlDeviceGetClockInfo(card, 99, &value) == NVML_ERROR_INVALID_ARGUMENT);
    CHECK(nvmlDeviceGetMaxClockInfo(card, 0, NULL) == NVML_ERROR_INVALID_ARGUMENT);
    CHECK(nvmlDeviceGetMaxPcieLinkWidth(card, &most) == 0 &&
          nvmlDeviceGetCurrPcieLinkWidth(card, &value) == 0);
    CHECK(value >= 1 && value <= most);
    CHECK(nvmlDeviceGetMaxPcieLinkGeneration(card, &most) == 0);
    CHECK(nvmlDeviceGetCurrPcieLinkGeneration(card, &value) == 0 && value >= 1 && value <= most);
    CHECK(nvmlDeviceGetEncoderUtilization(card, &value, &period) == 0 && value <= 100 &&
          period > 0);
    CHECK(nvmlDeviceGetDecoderUtilization(card, &value, &period) == 0 && value <= 100 &&
          period > 0);
    CHECK(nvmlDeviceGetTemperatureThreshold(card, 0, &most) == 0 &&
          nvmlDeviceGetTemperature(card, 0, &value) == 0);
    CHECK(value > 0 && value < most);
    CHECK(nvmlDeviceGetTemperature(card, 99, &value) == NVML_ERROR_INVALID_ARGUMENT);
    CHECK(nvmlDeviceGetEnforcedPowerLimit(card, &most) == 0 &&
          nvmlDeviceGetPowerUsage(card, &value) == 0);
    CHECK(value > 0 && value <= most + most / 4);
    int code = nvmlDeviceGetFanSpeed(card, &value);
    CHECK(code == NVML_ERROR_NOT_SUPPORTED || (code == 0 && value <= 100));
    CHECK(nvmlDeviceGetPcieThroughput(card, 99, &value) == NVML_ERROR_INVALID_ARGUMENT);
}

/* About 50 ms of copies to the device. NVML's window of 20 ms sees some of them; the test repeats
 * until it does. The memory is too large to keep contents, so the calls take no real time. */
static void link_counted(void)
{
    nvmlDevice_t card;
    void *stream, *host;
    unsigned rate = 0;
    devptr memory;

    begin();
    CHECK(nvmlInit_v2() == 0 && nvmlDeviceGetHandleByIndex_v2(0, &card) == 0);
    CHECK(nvmlDeviceGetPcieThroughput(card, 0, &rate) == 0);
    CHECK(cuStreamCreate(&stream, 1) == 0 && cuMemAlloc_v2(&memory, 128 * MIB) == 0);
    CHECK(cuMemHostAlloc(&host, 128 * MIB, 0) == 0);
    for (int tries = 0; tries < 100 && !rate; tries++) {
        for (int copy = 0; copy < 20; copy++)
            CHECK(cuMemcpyHtoDAsync_v2(memory, host, 128 * MIB, stream) == 0);
        CHECK(nvmlDeviceGetPcieThroughput(card, 1, &rate) == 0);
        CHECK(cuStreamSynchronize(stream) == 0);
    }
    CHECK(rate > 0);
}

int main(void)
{
    static const struct selftest cases[] = {
        {"allocations", allocations},
        {"contents", contents},
        {"pools", pools},
        {"arrays", arrays},
        {"captures", captures},
        {"streams", streams},
        {"killed", killed},
        {"executed", executed},
        {"forked", forked},
        {"pool_without_addresses", pool_without_addresses},
        {"exported", exported},
        {"kept_by_descriptor", kept_by_descriptor},
        {"shared", shared},
        {"faults", faults},
        {"visible", visible},
        {"entry_points", entry_points},
        {"sensors", sensors},
        {"link_counted", link_counted},
    };

    return selftest_run(cases, sizeof(cases) / sizeof(cases[0]));
}
