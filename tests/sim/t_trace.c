/* Small programs for the scripts in cases/, such as one that is traced and one that prints how much
 * it got. */
#include "harness.h"
#include "ways.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* cap BYTES: sees BYTES as the total, and is stopped within one step of it. cap 0: no limit is in
 * force. */
TEST(cap)
{
    uint64_t want = argc > 0 ? strtoull(argv[0], NULL, 10) : 0;
    size_t free_bytes = 0, total_bytes = 0;
    uint64_t got = 0;
    CUdeviceptr address = 0;
    open_device(0);
    CU_OK(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
    while (got < 6 * GIB && cu.cuMemAlloc_v2(&address, 16 * MIB) == CUDA_SUCCESS)
        got += 16 * MIB;
    printf("total %zu, free %zu, got %" PRIu64 "\n", total_bytes, free_bytes, got);
    if (want == 0) {
        CHECK_U(total_bytes, >, 8 * GIB);
        CHECK_U(got, >=, 6 * GIB);
        return 0;
    }
    CHECK_U(total_bytes, ==, want);
    CHECK_U(truth_used(0), <=, want);
    CHECK_U(truth_used(0) + 16 * MIB, >, want);
    return 0;
}

/* Goes on once the other has come as far as this, too. The folder is both's; what they have come
 * to, `what`. */
static void meet(const char *folder, const char *own, const char *other, const char *what)
{
    uint64_t end_ns = now_ns() + PATIENCE_NS;
    char path[4096];

    snprintf(path, sizeof path, "%s/%s.%s", folder, own, what);
    CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
    snprintf(path, sizeof path, "%s/%s.%s", folder, other, what);
    while (access(path, F_OK) != 0) {
        CHECK_U(now_ns(), <, end_ns);
        sleep_ms(10);
    }
}

static void fill_device(void)
{
    CUdeviceptr address = 0;

    while (cu.cuMemAlloc_v2(&address, 16 * MIB) == CUDA_SUCCESS)
        ;
}

/*
 * One of two that fill an instance: takes all it can get, and finds no more once the other has done
 * so, too. The arguments: what it sees, its own name, the other's.
 */
TEST(one_of_two)
{
    CHECK(argc == 3);
    uint64_t want = strtoull(argv[0], NULL, 10);
    size_t free_bytes = 0, total_bytes = 0;
    CUdeviceptr address = 0;

    open_device(0);
    CU_OK(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
    CHECK_U(total_bytes, ==, want);
    fill_device();
    meet(getenv("TEST_WORK"), argv[1], argv[2], "full");
    /* A call that is under way may have set aside more than it keeps: what it gives back fits, one
     * after the other. */
    if (strcmp(argv[1], argv[2]) < 0)
        fill_device();
    meet(getenv("TEST_WORK"), argv[1], argv[2], "one");
    if (strcmp(argv[1], argv[2]) > 0)
        fill_device();
    meet(getenv("TEST_WORK"), argv[1], argv[2], "other");
    CU_IS(cu.cuMemAlloc_v2(&address, 16 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    CU_OK(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
    CHECK_U(free_bytes, <, 16 * MIB);
    meet(getenv("TEST_WORK"), argv[1], argv[2], "done");
    return 0;
}

/* The negative control. Without the library the same program takes what it likes. */
TEST(control_without_library)
{
    CUdeviceptr address = 0;
    open_device(0);
    for (unsigned i = 0; i < 3; i++)
        CU_OK(cu.cuMemAlloc_v2(&address, 1 * GIB));
    CHECK_U(truth_used(0), >, 3 * GIB);
    close_device(0);
    return 0;
}

/* init_code N: cuInit answers N. */
TEST(init_code)
{
    driver_load();
    CUresult result = cu.cuInit(0);
    printf("cuInit: %d\n", (int)result);
    CHECK_U(result, ==, argc > 0 ? atoi(argv[0]) : 0);
    return 0;
}

/* hold SECONDS: is attached for that long, and says so in a file that the script waits for. */
TEST(hold)
{
    char path[512];
    const char *folder = getenv("TEST_WORK");
    open_device(0);
    snprintf(path, sizeof path, "%s/holding", folder ? folder : "/tmp");
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fclose(file);
    sleep_ms((unsigned)(argc > 0 ? atof(argv[0]) * 1000 : 1000));
    return 0;
}

/* A program whose calls are known, wrapped ones and others; prints what the driver counted of
 * each. */
TEST(trace_script)
{
    static const char *const counted[] = {
        "cuInit",        "cuMemAlloc_v2",  "cuMemFree_v2",    "cuMemcpyHtoD_v2", "cuMemsetD8_v2",
        "cuEventRecord", "cuLaunchKernel", "cuMemAllocAsync", "cuMemFreeAsync",  "cuEventCreate"};
    static char data[4096];
    CUdeviceptr address[7] = {0};
    CUmodule module = NULL;
    CUevent event = NULL;
    open_device(0);
    CUfunction kernel = new_kernel("any", &module);
    CUstream stream = new_stream();
    CU_OK(cu.cuEventCreate(&event, 0));
    for (unsigned i = 0; i < 7; i++)
        CU_OK(cu.cuMemAlloc_v2(&address[i], (i + 1) * MIB));
    for (unsigned i = 0; i < 5; i++)
        CU_OK(cu.cuMemcpyHtoD_v2(address[i], data, sizeof data));
    for (unsigned i = 0; i < 3; i++)
        CU_OK(cu.cuMemsetD8_v2(address[i], 0, 1000));
    for (unsigned i = 0; i < 11; i++)
        CU_OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    for (unsigned i = 0; i < 4; i++)
        CU_OK(cu.cuEventRecord(event, stream));
    for (unsigned i = 0; i < 7; i++)
        CU_OK(cu.cuMemFree_v2(address[i]));
    for (unsigned i = 0; i < 2; i++) {
        CU_OK(cu.cuMemAllocAsync(&address[i], 5 * MIB, stream));
        CU_OK(cu.cuMemFreeAsync(address[i], stream));
    }
    for (unsigned i = 0; i < sizeof counted / sizeof *counted; i++)
        printf("%s %" PRIu64 "\n", counted[i], truth_calls(counted[i]));
    fflush(stdout);
    CU_OK(cu.cuEventDestroy_v2(event));
    CU_OK(cu.cuStreamSynchronize(stream));
    CU_OK(cu.cuStreamDestroy_v2(stream));
    CU_OK(cu.cuModuleUnload(module));
    close_device(0);
    return 0;
}

/* The driver appears after the program has begun: a clear failure first, and then it works,
 * limited. */
TEST(load_driver_appears_later)
{
    const char *from = getenv("TEST_LATE_FROM"), *to = getenv("TEST_LATE_TO");
    CHECK(from != NULL && to != NULL);
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(handle == NULL);
    CHECK(dlerror() != NULL);
    CHECK(dlsym(RTLD_DEFAULT, "cuNoSuchFunction") == NULL);
    CHECK(symlink(from, to) == 0);
    CUdeviceptr address = CANARY;
    open_device(0);
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&address, quota_bytes()));
    CHECK_U(address, ==, CANARY);
    check_agreement();
    close_device(0);
    return 0;
}

/* Private tables are the driver's business: whatever it answers, for any id, is what the
 * program gets. */
TEST(lookup_export_tables)
{
    open_device(0);
    uint64_t seed = 12345;
    for (unsigned i = 0; i < 20; i++) {
        CUuuid id;
        const void *table = NULL;
        for (unsigned k = 0; k < sizeof id.bytes; k++)
            id.bytes[k] = (char)random_next(&seed);
        printf("%u: %d %s\n", i, (int)cu.cuGetExportTable(&table, &id),
               table ? "a table" : "nothing");
    }
    /* the one that the CUDA runtime asks for first */
    static const CUuuid cudart = {
        "\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9"};
    const void *table = NULL;
    CU_OK(cu.cuGetExportTable(&table, &cudart));
    printf("%zu bytes\n", *(const size_t *)table);
    return 0;
}

static const char *const memory_names[] = {"cuMemAlloc",
                                           "cuMemAllocPitch",
                                           "cuMemAllocManaged",
                                           "cuMemAllocAsync",
                                           "cuMemAllocFromPoolAsync",
                                           "cuMemFree",
                                           "cuMemFreeAsync",
                                           "cuMemCreate",
                                           "cuMemRelease",
                                           "cuArrayCreate",
                                           "cuArray3DCreate",
                                           "cuMipmappedArrayCreate",
                                           "cuMemGetInfo",
                                           "cuDeviceTotalMem",
                                           "cuCtxCreate",
                                           "cuGraphLaunch",
                                           "cuGraphAddMemAllocNode",
                                           "cuLaunchKernel",
                                           "cuImportExternalMemory",
                                           "cuInit",
                                           "cuDevicePrimaryCtxRetain",
                                           "cuModuleLoadData",
                                           "cuLibraryLoadData",
                                           "cuMemMap",
                                           "cuMemUnmap"};
static const char *const other_names[] = {"cuStreamGetCaptureInfo", "cuGraphAddKernelNode",
                                          "cuGraphInstantiate",     "cuMemAdvise",
                                          "cuMemPrefetchAsync",     "cuEventElapsedTime",
                                          "cuStreamBatchMemOp",     "cuStreamBeginCapture",
                                          "cuGraphExecUpdate",      "cuDeviceGetUuid",
                                          "cuIpcOpenMemHandle",     "cuDevicePrimaryCtxRelease"};
static const int versions[] = {11020, 11030, 11040, 11080, 12000, 12030, 12080, 13000};

/*
 * Every allocating function at every version that a runtime asks for: what the driver
 * has, we answer, and it is the library's; what it does not have is NULL with the driver's own
 * status.
 */
TEST(lookup_versions_are_ours)
{
    unsigned checked = 0;
    driver_load();
    CHECK(driver_get_proc_address != NULL);
    for (unsigned i = 0; i < sizeof memory_names / sizeof *memory_names; i++)
        for (unsigned k = 0; k < sizeof versions / sizeof *versions; k++)
            for (uint64_t flags = 0; flags < 3; flags++) {
                void *address = (void *)(uintptr_t)CANARY;
                CUdriverProcAddressQueryResult status = -1;
                Dl_info info;
                CUresult result =
                    driver_get_proc_address(memory_names[i], &address, versions[k], flags, &status);
                if (result != CUDA_SUCCESS || status != 0)
                    continue;
                CHECK(address != NULL);
                CHECK(dladdr(address, &info) != 0);
                if (!strstr(info.dli_fname, "libvgpu"))
                    FAIL("%s at %d with flags %d comes from %s", memory_names[i], versions[k],
                         (int)flags, info.dli_fname);
                checked++;
            }
    printf("%u addresses\n", checked);
    CHECK_U(checked, >, 300);
    return 0;
}

static void print_variants(const char *const *names, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < sizeof versions / sizeof *versions; k++)
            for (uint64_t flags = 0; flags < 3; flags++) {
                void *address = NULL;
                CUdriverProcAddressQueryResult status = -1;
                Dl_info info = {0};
                CUresult result =
                    driver_get_proc_address(names[i], &address, versions[k], flags, &status);
                if (address)
                    dladdr(address, &info);
                printf("%s %d %d: %d %d %s\n", names[i], versions[k], (int)flags, (int)result,
                       status, info.dli_sname ? info.dli_sname : "-");
            }
}

/* For each version and flag the variant that the driver itself gives, be it wrapped or not. */
TEST(lookup_variants)
{
    driver_load();
    CHECK(driver_get_proc_address != NULL);
    print_variants(memory_names, sizeof memory_names / sizeof *memory_names);
    print_variants(other_names, sizeof other_names / sizeof *other_names);
    return 0;
}

/* The _ptsz twins share the body: pairs through them are charged and given back like the others. */
TEST(stream_per_thread_twins)
{
    CUresult (*alloc)(CUdeviceptr *, size_t, CUstream), (*drop)(CUdeviceptr, CUstream),
        (*launch)(CUgraphExec, CUstream);
    CUdeviceptr address = 0, canary = CANARY;
    open_device(0);
    alloc =
        (CUresult(*)(CUdeviceptr *, size_t, CUstream))dlsym(driver_handle, "cuMemAllocAsync_ptsz");
    drop = (CUresult(*)(CUdeviceptr, CUstream))dlsym(driver_handle, "cuMemFreeAsync_ptsz");
    launch = (CUresult(*)(CUgraphExec, CUstream))dlsym(driver_handle, "cuGraphLaunch_ptsz");
    CHECK(alloc && drop && launch);
    uint64_t before = truth_used(0);
    CU_OK(alloc(&address, 100 * MIB, NULL));
    CHECK_U(truth_used(0), ==, before + 128 * MIB);
    check_agreement();
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, alloc(&canary, quota_bytes(), NULL));
    CHECK_U(canary, ==, CANARY);
    CU_OK(drop(address, NULL));
    CU_OK(cu.cuCtxSynchronize());
    check_agreement();
    CHECK_U(truth_used(0), ==, before);
    close_device(0);
    return 0;
}

/* A descriptor count before and after the library was at work: nothing is left open without
 * close-on-exec. */
TEST(descriptors_all_cloexec)
{
    char name[64], target[512], line[256];
    open_device(0);
    for (int fd = 3; fd < 256; fd++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(name, target, sizeof target - 1);
        if (length < 0)
            continue;
        target[length] = '\0';
        snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
        FILE *info = fopen(name, "r");
        if (!info)
            continue; /* fopen's own, or gone */
        unsigned flags = 0;
        while (fgets(line, sizeof line, info))
            sscanf(line, "flags: %o", &flags);
        fclose(info);
        if (!(flags & 02000000) &&
            (strstr(target, "region") || strstr(target, "vgpu") || strstr(target, "run/inst")))
            FAIL("descriptor %d of %s would survive exec", fd, target);
    }
    close_device(0);
    return 0;
}

/* A driver that lacks half of today's functions: what it has works and is limited, the rest is
 * not there. */
TEST(load_old_driver)
{
    CUdeviceptr address = CANARY;
    CUcontext context = NULL;
    driver_load();
    CHECK(cu.cuMemAllocAsync == NULL);
    CHECK(cu.cuMemCreate == NULL);
    CHECK(cu.cuGraphLaunch == NULL);
    CHECK(driver_get_proc_address == NULL);
    CU_OK(cu.cuInit(0));
    CU_OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    CU_OK(cu.cuCtxSetCurrent(context));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&address, quota_bytes()));
    CHECK_U(address, ==, CANARY);
    CU_OK(cu.cuMemAlloc_v2(&address, 100 * MIB));
    check_agreement();
    size_t free_bytes = 0, total_bytes = 0;
    CU_OK(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
    CHECK_U(total_bytes, ==, quota_bytes());
    CHECK_U(free_bytes, ==, quota_bytes() - truth_used(0));
    CUDA_ARRAY_DESCRIPTOR desc = {1024, 1024, CU_AD_FORMAT_FLOAT, 1};
    CUarray array = NULL;
    CU_OK(cu.cuArrayCreate_v2(&array, &desc));
    check_agreement();
    CU_OK(cu.cuArrayDestroy(array));
    CU_OK(cu.cuMemFree_v2(address));
    check_agreement();
    return 0;
}

TEST(view_of_total)
{
    size_t bytes = 0;
    driver_load();
    CU_OK(cu.cuInit(0));
    CU_OK(cu.cuDeviceTotalMem_v2(&bytes, 0));
    printf("total %zu\n", bytes);
    return 0;
}

/* The driver's cuInit waits for a thread that calls cuInit by its exported name: see oldcuda.c. */
TEST(init_from_helper_thread)
{
    int count = 0;
    driver_load();
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    unsigned (*callbacks)(void) =
        library ? (unsigned (*)(void))dlsym(library, "oldcuda_callbacks") : NULL;
    CHECK(callbacks != NULL);
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    CU_OK(cu.cuInit(0));
    CHECK_U(callbacks(), ==, 1);
    CU_OK(cu.cuDeviceGetCount(&count));
    CHECK_U(count, ==, 1);
    CHECK(strcmp(getenv("CUDA_VISIBLE_DEVICES"), "0") == 0);
    return 0;
}

/* A driver whose calls re-enter the hooks: nothing waits for itself, and everything is counted. */
TEST(load_driver_calls_back)
{
    CUdeviceptr plain = 0, managed = 0;
    CUcontext context = NULL;
    CUarray array = NULL;
    void *host = NULL;
    CUDA_ARRAY_DESCRIPTOR desc = {1024, 1024, CU_AD_FORMAT_FLOAT, 1};
    driver_load();
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    unsigned (*callbacks)(void) =
        library ? (unsigned (*)(void))dlsym(library, "oldcuda_callbacks") : NULL;
    CHECK(callbacks != NULL);
    CU_OK(cu.cuInit(0));
    CU_OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    CU_OK(cu.cuCtxSetCurrent(context));
    alarm(20);
    CU_OK(cu.cuMemAlloc_v2(&plain, 100 * MIB));
    CU_OK(cu.cuMemAllocManaged(&managed, 50 * MIB, 1));
    CU_OK(cu.cuArrayCreate_v2(&array, &desc));
    CU_OK(cu.cuMemHostAlloc(&host, MIB, 0));
    check_agreement();
    CU_OK(cu.cuMemFreeHost(host));
    CU_OK(cu.cuArrayDestroy(array));
    CU_OK(cu.cuMemFree_v2(managed));
    CU_OK(cu.cuMemFree_v2(plain));
    CHECK_U(callbacks(), >=, 8);
    check_agreement();
    alarm(0);
    return 0;
}
