/*
 * The result codes that a program gets. Some programs here print them, and `run.sh --same` compares
 * the output with and without the library. The others check the codes themselves.
 */
#include "harness.h"
#include "ways.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static sigjmp_buf crashed;

static void on_crash(int signal)
{
    (void)signal;
    siglongjmp(crashed, 1);
}

/* Calls that block or end the process, and those that hand out pointers of their own. */
static bool left_out(const char *symbol)
{
    static const char *const names[] = {"cuInit", "cuProfilerStart", "cuProfilerStop",
                                        "cuCoredump"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(symbol, names[i], strlen(names[i])))
            return true;
    return false;
}

/* Every function that we wrap, with nothing but zeros: the code, or that it crashed as the driver's
 * does. */
static void call_with_zeros(const char *when)
{
    static const char *const symbols[] = {
#define HOOK(symbol, handler) #symbol,
#define PASS(symbol)
#include "driver.def"
#undef HOOK
#undef PASS
    };
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_NODEFER}, before;
    sigaction(SIGSEGV, &action, &before);
    for (unsigned i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        CUresult (*call)(uintptr_t, ...) =
            (CUresult(*)(uintptr_t, ...))dlsym(driver_handle, symbols[i]);
        if (!call) {
            printf("%s %s: missing\n", when, symbols[i]);
        } else if (!left_out(symbols[i])) {
            /* Volatile: the loop goes on after a longjmp. */
            volatile CUresult result = -1;
            if (sigsetjmp(crashed, 1) == 0)
                result = call(0, 0ULL, 0ULL, 0ULL, 0ULL, 0ULL, 0ULL, 0ULL, 0ULL, 0ULL, 0ULL, 0ULL,
                              0ULL, 0ULL, 0ULL, 0ULL, 0ULL);
            printf("%s %s: %d\n", when, symbols[i], (int)result);
        }
    }
    sigaction(SIGSEGV, &before, NULL);
}

TEST(codes_before_init)
{
    driver_load();
    call_with_zeros("before");
    return 0;
}

TEST(codes_with_zeros)
{
    open_device(0);
    call_with_zeros("after");
    return 0;
}

/* Frees of every kind of pointer, and of what is none. Prints codes only. */
static void print_code(const char *what, CUresult result)
{
    printf("%s: %d\n", what, (int)result);
}

static void frees_of_garbage(void)
{
    CUdeviceptr address = 0;
    CU_OK(cu.cuMemAlloc_v2(&address, 10 * MIB));
    print_code("free NULL", cu.cuMemFree_v2(0));
    print_code("free garbage", cu.cuMemFree_v2(0x123456789));
    print_code("free interior", cu.cuMemFree_v2(address + 4096));
    print_code("free", cu.cuMemFree_v2(address));
    print_code("free twice", cu.cuMemFree_v2(address));
    CUstream stream = new_stream();
    print_code("free async NULL", cu.cuMemFreeAsync(0, stream));
    print_code("free async garbage", cu.cuMemFreeAsync(0x123456789, stream));
    CU_OK(cu.cuMemAlloc_v2(&address, 10 * MIB));
    print_code("free async of a plain one", cu.cuMemFreeAsync(address, stream));
    print_code("synchronise", cu.cuStreamSynchronize(stream));
    print_code("and again", cu.cuMemFree_v2(address));
    CU_OK(cu.cuMemAllocAsync(&address, 10 * MIB, stream));
    print_code("plain free of an async one", cu.cuMemFree_v2(address));
    print_code("free host NULL", cu.cuMemFreeHost(NULL));
    print_code("free host garbage", cu.cuMemFreeHost(&address));
    print_code("array destroy NULL", cu.cuArrayDestroy(NULL));
    print_code("release 0", cu.cuMemRelease(0));
    print_code("unmap nothing", cu.cuMemUnmap(0x200000, 0x200000));
    CU_OK(cu.cuStreamDestroy_v2(stream));
}

static void frees_of_the_rest(void)
{
    for (unsigned i = 0; i < way_count; i++) {
        struct held held = {0};
        if (ways[i].alone || (ways[i].available && !ways[i].available()) ||
            ways[i].take(&held) != CUDA_SUCCESS)
            continue;
        if (!strcmp(ways[i].name, "graph") || !strcmp(ways[i].name, "external") ||
            !strcmp(ways[i].name, "vmm_mapped"))
            printf("plain free of %s: %d\n", ways[i].name, (int)cu.cuMemFree_v2(held.address));
    }
}

TEST(codes_of_frees)
{
    open_device(0);
    ways_init();
    frees_of_garbage();
    frees_of_the_rest();
    return 0;
}

/* Sizes and arguments that the driver refuses itself; a size beyond everything is 2 with and
 * without us. */
TEST(codes_bad_sizes)
{
    CUdeviceptr address = 0;
    size_t pitch = 0;
    CUarray array = NULL;
    CUDA_ARRAY_DESCRIPTOR desc = {0, 0, CU_AD_FORMAT_FLOAT, 3};
    CUDA_ARRAY3D_DESCRIPTOR desc3 = {16, 16, 16, 0x7777, 1, 0};
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    open_device(0);
    print_code("alloc 0", cu.cuMemAlloc_v2(&address, 0));
    print_code("alloc to NULL", cu.cuMemAlloc_v2(NULL, 4096));
    print_code("alloc everything", cu.cuMemAlloc_v2(&address, SIZE_MAX));
    print_code("alloc half of everything", cu.cuMemAlloc_v2(&address, SIZE_MAX / 2));
    print_code("alloc nearly everything", cu.cuMemAlloc_v2(&address, SIZE_MAX - 100));
    print_code("pitch 0", cu.cuMemAllocPitch_v2(&address, &pitch, 0, 10, 4));
    print_code("pitch element 3", cu.cuMemAllocPitch_v2(&address, &pitch, 100, 10, 3));
    print_code("managed 0", cu.cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL));
    print_code("managed flags", cu.cuMemAllocManaged(&address, 4096, 99));
    print_code("async 0", cu.cuMemAllocAsync(&address, 0, NULL));
    print_code("async everything", cu.cuMemAllocAsync(&address, SIZE_MAX, NULL));
    print_code("array of nothing", cu.cuArrayCreate_v2(&array, &desc));
    print_code("array of no format", cu.cuArray3DCreate_v2(&array, &desc3));
    print_code("create odd", cu.cuMemCreate(&handle, 1000, &prop, 0));
    print_code("create 0", cu.cuMemCreate(&handle, 0, &prop, 0));
    print_code("create without properties", cu.cuMemCreate(&handle, 2 * MIB, NULL, 0));
    print_code("create everything",
               cu.cuMemCreate(&handle, SIZE_MAX / BLOCK_BYTES * BLOCK_BYTES, &prop, 0));
    return 0;
}

/* At the quota every way is refused with exactly 2 (the ways check their outputs), and a
 * smaller one goes on. */
TEST(codes_always_two)
{
    CUdeviceptr rest = 0;
    open_device(0);
    ways_init();
    for (unsigned i = 0; i < way_count;
         i++) { /* so that nothing is there for the first time at the quota */
        struct held held = {0};
        if (ways[i].alone || ways[i].counts == WAY_HOST ||
            (ways[i].available && !ways[i].available()))
            continue;
        CU_OK(ways[i].take(&held));
        ways[i].drop(&held);
        if (ways[i].settle)
            ways[i].settle();
    }
    uint64_t left = (quota_bytes() - truth_used(0)) / BLOCK_BYTES * BLOCK_BYTES;
    CU_OK(cu.cuMemAlloc_v2(&rest, left));
    CUdeviceptr tiny[2] = {0};
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&tiny[0], 1));
    unsigned refused = 0;
    for (unsigned i = 0; i < way_count; i++) {
        struct held held = {0};
        if (ways[i].counts == WAY_HOST || (ways[i].available && !ways[i].available()))
            continue;
        CUresult result = ways[i].take(&held);
        if (result != CUDA_ERROR_OUT_OF_MEMORY)
            FAIL("%s at the quota gave %d", ways[i].name, (int)result);
        refused++;
    }
    CHECK_U(refused, >=, 12);
    CHECK_U(truth_used(0), <=, quota_bytes());
    CHECK_U(region_refusals(0), >=, refused);
    CU_OK(cu.cuMemFree_v2(rest));
    CU_OK(cu.cuMemAlloc_v2(&tiny[0], 1));
    CU_OK(cu.cuMemAlloc_v2(&tiny[1], 1));
    check_agreement();
    CU_OK(cu.cuMemFree_v2(tiny[0]));
    CU_OK(cu.cuMemFree_v2(tiny[1]));
    ways_done();
    close_device(0);
    return 0;
}

/* Others have filled the card: the driver's own refusal is passed on, nothing is charged, a
 * retry works. */
TEST(card_filler)
{
    CUdeviceptr address = 0;
    open_device(0);
    while (cu.cuMemAlloc_v2(&address, 100 * MIB) == CUDA_SUCCESS &&
           truth_process(0, getpid()) < 2 * GIB)
        ;
    puts("filled");
    fflush(stdout);
    sleep_ms(argc > 0 ? (unsigned)atoi(argv[0]) : 30000);
    return 0;
}

TEST(card_out_of_memory)
{
    CUdeviceptr address[64], canary = CANARY;
    unsigned count = 0;
    open_device(0);
    while (count < 64 && cu.cuMemAlloc_v2(&address[count], 100 * MIB) == CUDA_SUCCESS)
        count++;
    CHECK_U(count, >, 0);
    CHECK_U(truth_used(0) + 100 * MIB, <, quota_bytes()); /* the quota is not what stopped it */
    check_agreement();
    CHECK_U(region_refusals(0), ==, 0);
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocManaged(&canary, 100 * MIB, CU_MEM_ATTACH_GLOBAL));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&canary, 100 * MIB));
    check_agreement();
    CU_OK(cu.cuMemFree_v2(address[--count]));
    CU_OK(cu.cuMemAlloc_v2(&address[count], 100 * MIB));
    count++;
    check_agreement();
    size_t free_bytes = 0, total_bytes = 0;
    CU_OK(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
    CHECK_U(free_bytes, <, 100 * MIB); /* free is what the card has, not what the quota leaves */
    CHECK_U(total_bytes, ==, quota_bytes());
    while (count > 0)
        CU_OK(cu.cuMemFree_v2(address[--count]));
    check_agreement();
    close_device(0);
    return 0;
}

/* A driver that fails at the nth call (SIMGPU_FAULT): the code comes through, nothing stays
 * charged, the next works. */
TEST(driver_fault_rolls_back)
{
    open_device(0);
    ways_init();
    unsigned failures = 0;
    uint64_t before = truth_used(0);
    for (unsigned i = 0; i < way_count; i++) {
        if (ways[i].alone || ways[i].counts == WAY_HOST ||
            (ways[i].available && !ways[i].available()))
            continue;
        for (unsigned round = 0; round < 3; round++) {
            struct held held = {0};
            CUresult result = ways[i].take(&held);
            if (result != CUDA_SUCCESS) {
                CU_IS(719, result);
                failures++;
                continue;
            }
            ways[i].drop(&held);
            if (ways[i].settle)
                ways[i].settle();
        }
        check_agreement();
        CHECK_U(truth_used(0), ==, before);
    }
    CHECK_U(failures, >=, argc > 0 ? (unsigned)atoi(argv[0]) : 1);
    CHECK_U(region_refusals(0), ==, 0);
    ways_done();
    close_device(0);
    return 0;
}

/* A cuInit that failed is passed on and tried again. Run with SIMGPU_FAULT=cuInit:1:100. */
TEST(init_retried)
{
    driver_load();
    CU_IS(CUDA_ERROR_NO_DEVICE, cu.cuInit(0));
    open_device(0);
    CUdeviceptr address = CANARY;
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&address, quota_bytes()));
    check_agreement();
    close_device(0);
    return 0;
}

/* The whole of a program's first minute without any limit in force: nothing is changed, nothing
 * attached. */
TEST(pointers_are_the_drivers)
{
    driver_load();
    Dl_info info;
    unsigned theirs = 0, ours = 0;
#define EACH(symbol)                                                                               \
    if (cu.symbol && dladdr((void *)(uintptr_t)cu.symbol, &info) && info.dli_fname) {              \
        theirs += strstr(info.dli_fname, "libcuda") != NULL;                                       \
        ours += strstr(info.dli_fname, "libvgpu") != NULL;                                         \
    }
#define HOOK(symbol, handler) EACH(symbol)
#define CALL(symbol, ...)     EACH(symbol)
#define PASS(symbol)
#include "driver.def"
    printf("%u of the driver, %u of the library\n", theirs, ours);
    CHECK_U(theirs, >, 0);
    if (argc > 0 && !strcmp(argv[0], "none"))
        CHECK_U(ours, ==, 0);
    else
        CHECK_U(ours, >, 20);
    return 0;
}
