/* Virtual memory management and imports: charged to the device in the properties, until no process
 * uses the memory. */
#include "harness.h"
#include "peers.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static CUmemAllocationProp device_prop(int device)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
}

/* NCCL's way. Two handles of 60 % of what is left: the second is refused. */
TEST(vmm_charged)
{
    CUmemGenericAllocationHandle first = 0, second = CANARY;
    CUmemAllocationProp prop = device_prop(0);
    open_device(0);
    uint64_t want = (quota_bytes() - truth_used(0)) / 10 * 6 / BLOCK_BYTES * BLOCK_BYTES;
    CU_OK(cu.cuMemCreate(&first, want, &prop, 0));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemCreate(&second, want, &prop, 0));
    CHECK_U(second, ==, CANARY);
    check_agreement();
    CU_OK(cu.cuMemRelease(first));
    check_agreement();
    CU_OK(cu.cuMemCreate(&second, want, &prop, 0));
    CU_OK(cu.cuMemRelease(second));
    close_device(0);
    return 0;
}

/* Charged until handle and mappings are gone, in either order, with retained handles and two
 * mappings of one handle. */
TEST(vmm_lifetime)
{
    const uint64_t size = 64 * MIB;
    CUmemGenericAllocationHandle handle = 0, again = 0;
    CUdeviceptr range = 0;
    CUmemAllocationProp prop = device_prop(0);
    open_device(0);
    uint64_t before = truth_used(0);
    CU_OK(cu.cuMemAddressReserve(&range, 4 * size, 0, 0, 0));
    CHECK_U(truth_used(0), ==, before);
    for (unsigned variant = 0; variant < 4; variant++) {
        CU_OK(cu.cuMemCreate(&handle, size, &prop, 0));
        CU_OK(cu.cuMemMap(range, size, 0, handle, 0));
        if (variant & 1)
            CU_OK(cu.cuMemMap(range + size, size, 0, handle, 0));
        if (variant & 2) {
            CU_OK(cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)range));
            CU_OK(cu.cuMemRelease(again));
        }
        CHECK_U(truth_used(0), ==, before + size);
        check_agreement();
        CU_OK(cu.cuMemRelease(handle));
        CHECK_U(truth_used(0), ==, before + size);
        check_agreement();
        CU_IS(CUDA_ERROR_INVALID_VALUE, cu.cuMemUnmap(range, size / 2));
        check_agreement();
        CU_OK(cu.cuMemUnmap(range, size));
        if (variant & 1) {
            CHECK_U(truth_used(0), ==, before + size);
            check_agreement();
            CU_OK(cu.cuMemUnmap(range + size, size));
        }
        CHECK_U(truth_used(0), ==, before);
        check_agreement();
    }
    /* Handle outlives its mapping; one unmap may cover two mappings. */
    CU_OK(cu.cuMemCreate(&handle, size, &prop, 0));
    CU_OK(cu.cuMemCreate(&again, size, &prop, 0));
    CU_OK(cu.cuMemMap(range, size, 0, handle, 0));
    CU_OK(cu.cuMemMap(range + size, size, 0, again, 0));
    CU_OK(cu.cuMemRelease(again));
    CU_OK(cu.cuMemUnmap(range, 2 * size));
    CHECK_U(truth_used(0), ==, before + size);
    check_agreement();
    CU_OK(cu.cuMemRelease(handle));
    CU_OK(cu.cuMemAddressFree(range, 4 * size));
    CHECK_U(truth_used(0), ==, before);
    check_agreement();
    close_device(0);
    return 0;
}

/* From a thread without a context; host locations are not the device's memory. */
static void *d1_thread(void *arg)
{
    static const int host_types[] = {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA,
                                     CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = CANARY;
    CUdevice device = (CUdevice)(intptr_t)arg;
    uint64_t before = truth_used(0), other = truth_used(1);
    CUmemAllocationProp prop = device_prop(device);
    CU_IS(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxGetDevice(&device));
    CU_OK(cu.cuMemCreate(&handle, 10 * MIB, &prop, 0));
    CHECK_U(truth_used(0), ==, before);
    CHECK_U(truth_used(1), ==,
            other + 10 * MIB); /* the device in the properties, not the current one */
    CHECK_U(region_used(1), ==, truth_used(1));
    CU_OK(cu.cuMemRelease(handle));
    for (unsigned i = 0; i < 3; i++) {
        prop.location = (CUmemLocation){host_types[i], 0};
        CUresult result = cu.cuMemCreate(&handle, 10 * MIB, &prop, 0);
        CHECK_U(truth_used(0), ==, before);
        CHECK_U(truth_used(1), ==, other);
        CHECK_U(region_used(0), ==, before);
        CHECK_U(region_used(1), ==, other);
        if (result == CUDA_SUCCESS)
            CU_OK(cu.cuMemRelease(handle));
    }
    prop.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 99};
    CHECK(cu.cuMemCreate(&handle, 10 * MIB, &prop, 0) != CUDA_SUCCESS);
    CU_IS(CUDA_ERROR_INVALID_CONTEXT, cu.cuMemAlloc_v2(&address, 10 * MIB));
    CU_IS(CUDA_ERROR_INVALID_CONTEXT,
          cu.cuMemAllocManaged(&address, 10 * MIB, CU_MEM_ATTACH_GLOBAL));
    CU_IS(CUDA_ERROR_INVALID_CONTEXT, cu.cuMemAllocAsync(&address, 10 * MIB, NULL));
    CHECK_U(address, ==, CANARY);
    CHECK_U(truth_used(0), ==, before);
    CHECK_U(region_used(0), ==, before);
    CU_OK(cu.cuMemFree_v2(0));
    return NULL;
}

TEST(vmm_without_context)
{
    pthread_t thread;
    CUcontext second = NULL;
    open_device(0);
    CU_OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
    CHECK(pthread_create(&thread, NULL, d1_thread, (void *)(intptr_t)1) == 0);
    pthread_join(thread, NULL);
    CU_OK(cu.cuDevicePrimaryCtxRelease_v2(1));
    close_device(0);
    return 0;
}

/* Exported in one process, imported in another: in the ledger and in the region it is there
 * once. */
static void g3_importer(int socket)
{
    const uint64_t size = 64 * MIB;
    open_device(0);
    uint64_t mine = region_held(0, getpid());
    int fd = receive_fd(socket);
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr range = 0;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CU_OK(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    CU_OK(cu.cuMemAddressReserve(&range, size, 0, 0, 0));
    CU_OK(cu.cuMemMap(range, size, 0, handle, 0));
    CU_OK(cu.cuMemSetAccess(range, size, &access, 1));
    CHECK_U(region_held(0, getpid()), ==, mine);
    send_byte(socket);
    await_byte(socket); /* the exporter looks at the totals meanwhile */
    CU_OK(cu.cuMemUnmap(range, size));
    CU_OK(cu.cuMemRelease(handle));
    CU_OK(cu.cuMemAddressFree(range, size));
    CHECK_U(region_held(0, getpid()), ==, mine);
    close_device(0);
}

TEST(ipc_export_import)
{
    int ends[2], fd = -1;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[0]); /* so that the exporter's end is noticed */
        g3_importer(ends[1]);
        exit(0);
    }
    close(ends[1]);
    open_device(0);
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = device_prop(0);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CU_OK(cu.cuMemCreate(&handle, 64 * MIB, &prop, 0));
    CU_OK(
        cu.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    send_fd(ends[0], fd);
    close(fd);
    await_byte(ends[0]);
    check_agreement();
    send_byte(ends[0]);
    wait_ok(child);
    check_agreement();
    CU_OK(cu.cuMemRelease(handle));
    check_agreement();
    close_device(0);
    return 0;
}

static int export_to_fd(CUmemGenericAllocationHandle handle)
{
    int fd = -1;
    CU_OK(
        cu.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return fd;
}

static CUmemGenericAllocationHandle import_from_fd(int fd)
{
    CUmemGenericAllocationHandle handle = 0;
    CU_OK(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    return handle;
}

static CUmemAllocationProp exported_prop(void)
{
    CUmemAllocationProp prop = device_prop(0);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return prop;
}

/* Imported by its own maker and let go of by its first handle: charged once, until the last handle
 * is gone. */
TEST(ipc_import_own_export)
{
    const uint64_t size = 128 * MIB;
    CUmemGenericAllocationHandle handle = 0, held[64], second;
    CUmemAllocationProp prop = exported_prop();
    unsigned count = 0;
    CUresult result;
    open_device(0);
    uint64_t before = truth_used(0);
    while (count < 64 && (result = cu.cuMemCreate(&handle, size, &prop, 0)) == CUDA_SUCCESS) {
        int fd = export_to_fd(handle), again = export_to_fd(handle);
        held[count++] = import_from_fd(fd);
        second = import_from_fd(again);
        close(fd);
        close(again);
        check_agreement();
        CU_OK(cu.cuMemRelease(handle));
        CU_OK(cu.cuMemRelease(second));
        CHECK_U(truth_used(0), ==, before + count * size);
        check_agreement();
    }
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, result);
    CHECK_U(count, ==, (quota_bytes() - before) / size);
    while (count > 0)
        CU_OK(cu.cuMemRelease(held[--count]));
    CHECK_U(truth_used(0), ==, before);
    check_agreement();
    close_device(0);
    return 0;
}

/* A descriptor alone keeps the memory: it stays charged until the last one is closed, or imported
 * and let go of. */
TEST(ipc_export_kept_by_descriptor)
{
    const uint64_t size = 256 * MIB;
    CUmemGenericAllocationHandle handle = 0, other = 0;
    CUmemAllocationProp prop = exported_prop();
    open_device(0);
    uint64_t before = truth_used(0),
             rest = (quota_bytes() - before - size) / BLOCK_BYTES * BLOCK_BYTES;
    size_t free_before = 0, free_after = 0, total = 0;
    CU_OK(cu.cuMemGetInfo_v2(&free_before, &total));
    CU_OK(cu.cuMemCreate(&handle, size, &prop, 0));
    int fd = export_to_fd(handle), again = export_to_fd(handle);
    CU_OK(cu.cuMemRelease(handle));
    close(fd);
    CHECK_U(truth_orphan(0), ==, size);
    check_agreement();
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemCreate(&other, rest + BLOCK_BYTES, &prop, 0));
    CU_OK(cu.cuMemCreate(&other, rest, &prop, 0));
    check_agreement();
    CU_OK(cu.cuMemRelease(other));
    handle = import_from_fd(again);
    CU_OK(cu.cuMemRelease(handle));
    CHECK_U(truth_orphan(0), ==, size);
    check_agreement();
    close(again);
    CHECK_U(truth_orphan(0), ==, 0);
    CU_OK(cu.cuMemGetInfo_v2(&free_after, &total));
    CHECK_U(free_after, ==, free_before);
    check_agreement();

    /* Another process has the last descriptor; nothing but a lack of room makes anybody look. */
    CU_OK(cu.cuMemCreate(&handle, size, &prop, 0));
    fd = export_to_fd(handle);
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        await_byte(ends[1]);
        _exit(0);
    }
    close(fd);
    CU_OK(cu.cuMemRelease(handle));
    CHECK_U(truth_orphan(0), ==, size);
    check_agreement();
    send_byte(ends[0]);
    wait_ok(child);
    CHECK_U(truth_orphan(0), ==, 0);
    CU_OK(cu.cuMemCreate(&handle, rest + size, &prop, 0));
    CU_OK(cu.cuMemRelease(handle));
    check_agreement();
    close_device(0);
    return 0;
}

/* Has two imports of one memory; lets go of one at each order. */
static void keeping_importer(int maker, int orders)
{
    CUmemGenericAllocationHandle handle[2];
    open_device(0);
    for (unsigned i = 0; i < 2; i++) {
        int fd = receive_fd(maker);
        handle[i] = import_from_fd(fd);
        close(fd);
    }
    send_byte(maker);
    for (unsigned i = 0; i < 2; i++) {
        await_byte(orders);
        CU_OK(cu.cuMemRelease(handle[i]));
        send_byte(orders);
    }
    await_byte(orders);
    exit(0);
}

/* Makes memory, has the other process import it, and lets go of it as `end` says. */
static void short_lived_maker(int importer, int orders, const char *end)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = exported_prop();
    open_device(0);
    CU_OK(cu.cuMemCreate(&handle, 256 * MIB, &prop, 0));
    for (unsigned i = 0; i < 2; i++) {
        int fd = export_to_fd(handle);
        send_fd(importer, fd);
        close(fd);
    }
    await_byte(importer);
    if (strcmp(end, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(end, "release") == 0) {
        CU_OK(cu.cuMemRelease(handle));
        send_byte(orders);
        await_byte(orders);
    }
    exit(0);
}

static void run_importer(int peer, int orders, const char *end)
{
    (void)end;
    keeping_importer(peer, orders);
}

/* The maker lets go, and another process has the memory still: the instance is charged until that
 * lets go, too. */
TEST(ipc_import_outlives_maker)
{
    const char *end = argc > 0 ? argv[0] : "release";
    int peers[2], to_importer, to_maker;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, peers) == 0);
    pid_t importer = with_orders(run_importer, peers[1], end, &to_importer);
    pid_t maker = with_orders(short_lived_maker, peers[0], end, &to_maker);
    if (strcmp(end, "release") == 0) {
        await_byte(to_maker);
        CHECK_U(truth_orphan(0), ==, 256 * MIB);
        check_agreement();
        send_byte(to_maker);
    }
    CHECK(wait_status(maker) == (strcmp(end, "kill") == 0 ? 128 + SIGKILL : 0));
    CHECK_U(truth_orphan(0), ==, 256 * MIB);
    check_agreement();
    CHECK_U(region_held(0, importer), ==, region_used(0));
    send_byte(to_importer);
    await_byte(to_importer);
    CHECK_U(truth_orphan(0), ==, 256 * MIB);
    check_agreement();
    send_byte(to_importer);
    await_byte(to_importer);
    CHECK_U(truth_orphan(0), ==, 0);
    check_agreement();
    send_byte(to_importer);
    wait_ok(importer);
    check_agreement();
    return 0;
}

static void checkpointed_child(int peer, int orders, const char *end)
{
    CUdeviceptr memory = 0, more = 0;
    (void)peer;
    (void)end;
    open_device(0);
    CU_OK(cu.cuMemAlloc_v2(&memory, GIB));
    send_byte(orders);
    await_byte(orders);
    CU_OK(cu.cuMemAlloc_v2(&more, 64 * MIB));
    check_agreement();
    CU_OK(cu.cuMemFree_v2(more));
    CU_OK(cu.cuMemFree_v2(memory));
    check_agreement();
    exit(0);
}

static CUresult checkpoint_call(const char *symbol, pid_t pid)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult (*function)(int, void *) =
        library ? (CUresult(*)(int, void *))dlsym(library, symbol) : NULL;
    CHECK(function != NULL);
    return function(pid, NULL);
}

/* What a checkpoint has put away is charged to nobody; it comes back only where it fits. */
TEST(process_checkpoint_gives_back)
{
    CUdeviceptr memory = 0;
    int orders;
    pid_t child = with_orders(checkpointed_child, -1, NULL, &orders);
    await_byte(orders);
    driver_load();
    CU_OK(cu.cuInit(0));
    uint64_t held = truth_used(0);
    CHECK_U(held, >, GIB);
    CU_OK(checkpoint_call("cuCheckpointProcessLock", child));
    CU_OK(checkpoint_call("cuCheckpointProcessCheckpoint", child));
    CHECK_U(truth_used(0), ==, 0);
    check_agreement();
    CHECK_U(region_held(0, child), ==, 0);
    open_device(0);
    CU_OK(cu.cuMemAlloc_v2(&memory, quota_bytes() - held));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, checkpoint_call("cuCheckpointProcessRestore", child));
    CHECK_U(region_refusals(0), ==, 1);
    check_agreement();
    CU_OK(cu.cuMemFree_v2(memory));
    CU_OK(checkpoint_call("cuCheckpointProcessRestore", child));
    check_agreement();
    /* What is not away is not taken away by a restore that the driver refuses. */
    CHECK(checkpoint_call("cuCheckpointProcessRestore", child) != CUDA_SUCCESS);
    check_agreement();
    CU_OK(checkpoint_call("cuCheckpointProcessUnlock", child));
    send_byte(orders);
    wait_ok(child);
    check_agreement();
    close_device(0);
    return 0;
}
