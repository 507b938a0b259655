/* What a program sees of the card: CUDA and NVML must agree, and must show the quota. */
#include "harness.h"
#include "nvml.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

struct nvml nvml;

void nvml_load(void)
{
    void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        FAIL("libnvidia-ml.so.1: %s", dlerror());
#define FIND(symbol)          nvml.symbol = dlsym(handle, #symbol);
#define HOOK(symbol, handler) FIND(symbol)
#include "nvml.def"
    FIND(nvmlDeviceGetUUID)
}

#define NVML_IS(expected, call)                                                                    \
    do {                                                                                           \
        nvmlReturn_t answer_ = (call);                                                             \
        if (answer_ != (expected))                                                                 \
            FAIL("%s returned %d, not %d", #call, answer_, (int)(expected));                       \
    } while (0)
#define NVML_OK(call) NVML_IS(NVML_SUCCESS, call)

static nvmlDevice_t first_device(void)
{
    nvmlDevice_t device = NULL;
    nvml_load();
    NVML_OK(nvml.nvmlInit_v2());
    NVML_OK(nvml.nvmlDeviceGetHandleByIndex_v2(0, &device));
    return device;
}

/* All the figures of one device; they must be equal. Returns what is shown as free. */
static uint64_t check_views(nvmlDevice_t device, uint64_t total)
{
    size_t cuda_free = 0, cuda_total = 0, device_total = 0;
    nvmlMemory_t memory = {0};
    nvmlMemory_v2_t memory2 = {.version = NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2)};
    CUdevice current = 0;
    CU_OK(cu.cuCtxGetDevice(&current));
    CU_OK(cu.cuMemGetInfo_v2(&cuda_free, &cuda_total));
    CU_OK(cu.cuDeviceTotalMem_v2(&device_total, current));
    NVML_OK(nvml.nvmlDeviceGetMemoryInfo(device, &memory));
    NVML_OK(nvml.nvmlDeviceGetMemoryInfo_v2(device, &memory2));
    CHECK_U(cuda_total, ==, total);
    CHECK_U(device_total, ==, total);
    CHECK_U(memory.total, ==, total);
    CHECK_U(memory2.total, ==, total);
    CHECK_U(memory.free, ==, cuda_free);
    CHECK_U(memory2.free, ==, cuda_free);
    CHECK_U(memory.free + memory.used, ==, total);
    CHECK_U(memory2.free + memory2.used + memory2.reserved, ==, total);
    CHECK_U(memory2.version, ==, NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2));
    return cuda_free;
}

/* The same total and free everywhere, and free moves by exactly what the truth moves by. */
TEST(view_all_agree)
{
    CUdeviceptr address = 0;
    open_device(0);
    nvmlDevice_t device = first_device();
    uint64_t free_before = check_views(device, quota_bytes());
    CHECK_U(free_before, ==, quota_bytes() - truth_used(0));
    CU_OK(cu.cuMemAlloc_v2(&address, 100 * MIB));
    CHECK_U(check_views(device, quota_bytes()), ==, free_before - 100 * MIB);
    CHECK_U(check_views(device, quota_bytes()), ==, quota_bytes() - truth_used(0));
    CU_OK(cu.cuMemFree_v2(address));
    CHECK_U(check_views(device, quota_bytes()), ==, free_before);
    NVML_OK(nvml.nvmlShutdown());
    close_device(0);
    return 0;
}

/* Capturing and launching a graph with memory lowers free by what the graph's pool took. */
TEST(view_graph_pool)
{
    open_device(0);
    if (!cu.cuGraphAddMemAllocNode) {
        printf("skip: this driver has no memory in graphs\n");
        return 77;
    }
    nvmlDevice_t device = first_device();
    CUstream stream = new_stream();
    CUdeviceptr address = 0;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    uint64_t before = check_views(device, quota_bytes());
    CU_OK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU_OK(cu.cuMemAllocAsync(&address, 50 * MIB, stream));
    CU_OK(cu.cuMemFreeAsync(address, stream));
    CU_OK(cu.cuStreamEndCapture(stream, &graph));
    CHECK_U(check_views(device, quota_bytes()), ==, before);
    CU_OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU_OK(cu.cuGraphLaunch(exec, stream));
    CU_OK(cu.cuStreamSynchronize(stream));
    CHECK_U(check_views(device, quota_bytes()), ==, before - 64 * MIB);
    CU_OK(cu.cuGraphLaunch(exec, stream));
    CU_OK(cu.cuStreamSynchronize(stream));
    CHECK_U(check_views(device, quota_bytes()), ==, before - 64 * MIB);
    check_agreement();
    CU_OK(cu.cuGraphExecDestroy(exec));
    CU_OK(cu.cuGraphDestroy(graph));
    CU_OK(cu.cuDeviceGraphMemTrim(0));
    CHECK_U(check_views(device, quota_bytes()), ==, before);
    CU_OK(cu.cuStreamDestroy_v2(stream));
    NVML_OK(nvml.nvmlShutdown());
    close_device(0);
    return 0;
}

struct view_child {
    volatile int step;
};

static void hold(struct view_child *shared, uint64_t bytes)
{
    CUdeviceptr address = 0;
    open_device(0);
    CU_OK(cu.cuMemAlloc_v2(&address, bytes));
    __sync_fetch_and_add(&shared->step, 1);
    while (shared->step < 100)
        sleep_ms(1);
    CU_OK(cu.cuMemFree_v2(address));
    close_device(0);
}

static uint64_t listed(const nvmlProcessInfo_v2_t *list, unsigned count, pid_t pid)
{
    for (unsigned i = 0; i < count; i++)
        if (list[i].pid == (unsigned)pid)
            return list[i].usedGpuMemory;
    return 0;
}

/* The list holds this instance's processes and nobody else, each with its size, in every
 * version of the call. */
TEST(view_process_lists)
{
    struct view_child *shared = shared_page(sizeof *shared);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        hold(shared, 200 * MIB);
        exit(0);
    }
    while (shared->step < 1)
        sleep_ms(1);
    open_device(0);
    nvmlDevice_t device = first_device();
    nvmlProcessInfo_v1_t v1[8] = {0};
    nvmlProcessInfo_v2_t v2[8] = {0}, v3[8] = {0};
    unsigned count = 0;
    NVML_IS(NVML_ERROR_INSUFFICIENT_SIZE,
            nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL));
    CHECK_U(count, >=, 2);
    count = 1;
    NVML_IS(NVML_ERROR_INSUFFICIENT_SIZE,
            nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, v3));
    CHECK_U(count, >=, 2);
    unsigned n1 = 8, n2 = 8, n3 = 8;
    NVML_OK(nvml.nvmlDeviceGetComputeRunningProcesses(device, &n1, v1));
    NVML_OK(nvml.nvmlDeviceGetComputeRunningProcesses_v2(device, &n2, v2));
    NVML_OK(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &n3, v3));
    CHECK_U(n1, ==, 2);
    CHECK_U(n2, ==, 2);
    CHECK_U(n3, ==, 2);
    CHECK_U(listed(v3, n3, child), ==, truth_process(0, child));
    CHECK_U(listed(v3, n3, getpid()), ==, truth_process(0, getpid()));
    CHECK_U(listed(v2, n2, child), ==, listed(v3, n3, child));
    CHECK_U(listed(v2, n2, getpid()), ==, listed(v3, n3, getpid()));
    for (unsigned i = 0; i < n1; i++)
        CHECK_U(v1[i].usedGpuMemory, ==, listed(v3, n3, (pid_t)v1[i].pid));
    CHECK(v1[0].pid != v1[1].pid);
    unsigned graphics = 8, mps = 8;
    NVML_OK(nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(device, &graphics, v3));
    CHECK_U(graphics, ==, 0);
    NVML_OK(nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(device, &mps, v3));
    CHECK_U(mps, ==, 0);
    shared->step = 100;
    wait_ok(child);
    n3 = 8;
    NVML_OK(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &n3, v3));
    CHECK_U(n3, ==, 1);
    NVML_OK(nvml.nvmlShutdown());
    close_device(0);
    return 0;
}

/* A program that never touches CUDA (a monitor, nvidia-smi) sees the quota and what the others
 * hold, too. */
TEST(view_nvml_only)
{
    struct view_child *shared = shared_page(sizeof *shared);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        hold(shared, 200 * MIB);
        exit(0);
    }
    while (shared->step < 1)
        sleep_ms(1);
    nvmlMemory_t memory = {0};
    nvmlDevice_t device = first_device();
    NVML_OK(nvml.nvmlDeviceGetMemoryInfo(device, &memory));
    CHECK_U(memory.total, ==, quota_bytes());
    CHECK_U(memory.used, ==, truth_used(0));
    nvmlProcessInfo_v2_t list[8] = {0};
    unsigned count = 8;
    NVML_OK(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, list));
    CHECK_U(count, ==, 1);
    CHECK_U(listed(list, count, child), ==, truth_process(0, child));
    shared->step = 100;
    wait_ok(child);
    NVML_OK(nvml.nvmlShutdown());
    return 0;
}

/* What NVML itself answers is passed on: run with SIMGPU_FAULT=nvmlInit_v2:1:999. */
TEST(view_nvml_error_passes)
{
    nvml_load();
    NVML_IS(NVML_ERROR_UNKNOWN, nvml.nvmlInit_v2());
    NVML_OK(nvml.nvmlInit_v2());
    NVML_OK(nvml.nvmlShutdown());
    return 0;
}

/* The driver's own address of a function, as a program that reads the symbol table itself would
 * find it. */
static void *unhooked(const char *name)
{
    struct link_map *map = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    CHECK(handle != NULL && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0);
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            symbols = (const void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB)
            names = (const void *)entry->d_un.d_ptr;
    }
    CHECK(symbols != NULL && names != NULL);
    for (const ElfW(Sym) *symbol = symbols; (const char *)symbol < names;
         symbol++) /* the names follow the symbols */
        if (symbol->st_shndx != SHN_UNDEF && !strcmp(names + symbol->st_name, name))
            return (void *)(map->l_addr + symbol->st_value);
    FAIL("the driver has no %s", name);
}

/*
 * Memory that no hook saw counts all the same, and an instance that holds more than its quota
 * is shown as full, never as 18 EB free. Everything is as before once that memory is gone.
 */
TEST(view_usage_above_quota)
{
    enum { SETTLE_MS = 150 }; /* the driver's own figure is looked at every 100 ms */
    CUdeviceptr unseen[2] = {0}, address = CANARY;
    open_device(0);
    nvmlDevice_t device = first_device();
    CUresult (*alloc)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))unhooked("cuMemAlloc_v2");
    CUresult (*drop)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))unhooked("cuMemFree_v2");
    CHECK(alloc != cu.cuMemAlloc_v2);
    uint64_t before = check_views(device, quota_bytes());
    CU_OK(alloc(&unseen[0], 300 * MIB));
    sleep_ms(SETTLE_MS);
    CHECK_U(check_views(device, quota_bytes()), ==, before - 300 * MIB);
    check_agreement();
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&address, before - 200 * MIB));
    CHECK_U(address, ==, CANARY);
    CU_OK(alloc(&unseen[1], 300 * MIB));
    sleep_ms(SETTLE_MS);
    CHECK_U(truth_used(0), >, quota_bytes());
    CHECK_U(check_views(device, quota_bytes()), ==, 0);
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&address, 1));
    CHECK_U(address, ==, CANARY);
    CU_OK(drop(unseen[0]));
    CU_OK(drop(unseen[1]));
    sleep_ms(SETTLE_MS);
    CHECK_U(check_views(device, quota_bytes()), ==, before);
    CU_OK(cu.cuMemAlloc_v2(&address, before / 2));
    CU_OK(cu.cuMemFree_v2(address));
    check_agreement();
    NVML_OK(nvml.nvmlShutdown());
    close_device(0);
    return 0;
}

/* A quota above the card is shown as the card. */
TEST(view_quota_above_card)
{
    open_device(0);
    nvmlDevice_t device = first_device();
    size_t free_bytes = 0, total_bytes = 0;
    nvmlMemory_t memory = {0};
    CU_OK(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
    NVML_OK(nvml.nvmlDeviceGetMemoryInfo(device, &memory));
    CHECK_U(total_bytes, <=, strtoull(getenv("TEST_CARD"), NULL, 10));
    CHECK_U(memory.total, <=, strtoull(getenv("TEST_CARD"), NULL, 10));
    CHECK_U(free_bytes, <, total_bytes);
    close_device(0);
    return 0;
}

/* All of D2's combinations, and that only what was asked for is written. */
TEST(view_null_pointers)
{
    driver_load();
    CU_IS(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemGetInfo_v2(NULL, NULL));
    open_device(0);
    size_t both[2] = {0}, one = CANARY, two = CANARY;
    CU_OK(cu.cuMemGetInfo_v2(&both[0], &both[1]));
    CU_OK(cu.cuMemGetInfo_v2(NULL, NULL));
    CU_OK(cu.cuMemGetInfo_v2(&one, NULL));
    CU_OK(cu.cuMemGetInfo_v2(NULL, &two));
    CHECK_U(one, ==, both[0]);
    CHECK_U(two, ==, both[1]);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cu.cuDeviceTotalMem_v2(NULL, 0));
    close_device(0);
    return 0;
}
