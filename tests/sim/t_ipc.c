/* IPC handles of plain allocations. The instance is charged once, for as long as any process has
 * the memory. */
#include "harness.h"
#include "peers.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static void send_handle(int socket, CUdeviceptr address)
{
    CUipcMemHandle handle;
    CU_OK(cu.cuIpcGetMemHandle(&handle, address));
    CHECK(write(socket, &handle, sizeof handle) == (ssize_t)sizeof handle);
}

static CUresult open_handle(int socket, CUdeviceptr *ret_address)
{
    CUipcMemHandle handle;
    *ret_address = 0;
    if (read(socket, &handle, sizeof handle) != (ssize_t)sizeof handle)
        return CUDA_ERROR_INVALID_VALUE;
    return cu.cuIpcOpenMemHandle_v2(ret_address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static void socket_pair(int ends[2])
{
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
}

static void ipc_importer(int maker, int orders, const char *end)
{
    CUdeviceptr address;
    (void)orders;
    (void)end;
    open_device(0);
    uint64_t mine = region_held(0, getpid());
    CU_OK(open_handle(maker, &address));
    CHECK_U(region_held(0, getpid()), ==, mine);
    send_byte(maker);
    await_byte(maker);
    CU_OK(cu.cuIpcCloseMemHandle(address));
    CHECK_U(region_held(0, getpid()), ==, mine);
    close_device(0);
    exit(0);
}

TEST(ipc_handles)
{
    int ends[2], orders;
    socket_pair(ends);
    pid_t child = with_orders(ipc_importer, ends[1], NULL, &orders);
    CUdeviceptr address = 0;
    open_device(0);
    CU_OK(cu.cuMemAlloc_v2(&address, 64 * MIB));
    send_handle(ends[0], address);
    await_byte(ends[0]);
    check_agreement();
    send_byte(ends[0]);
    wait_ok(child);
    CU_OK(cu.cuMemFree_v2(address));
    check_agreement();
    close_device(0);
    return 0;
}

/* What is exported: one allocation with blocks of its own, or two that share a block, and how much
 * that is. */
struct exported {
    uint64_t bytes, blocks;
    unsigned count;
};

static struct exported exported_of(const char *end)
{
    bool small = strstr(end, "small") != NULL;
    return small ? (struct exported){64 * KIB, BLOCK_BYTES, 2}
                 : (struct exported){255 * MIB, 256 * MIB, 1};
}

/* Opens each handle twice, as the driver allows, and lets go of what it has at each order. */
static void keeping_importer(int maker, int orders, const char *end)
{
    struct exported exported = exported_of(end);
    CUdeviceptr address[4];
    open_device(0);
    for (unsigned i = 0; i < 2 * exported.count; i++)
        CU_OK(open_handle(maker, &address[i]));
    send_byte(maker);
    for (unsigned i = 0; i < 2 * exported.count; i++) {
        await_byte(orders);
        if (strstr(end, "context") == NULL)
            CU_OK(cu.cuIpcCloseMemHandle(address[i]));
        else if (i == 0)
            close_device(0); /* the context is gone, and all that it had opened */
        send_byte(orders);
    }
    await_byte(orders);
    exit(0);
}

static void short_lived_maker(int importer, int orders, const char *end)
{
    struct exported exported = exported_of(end);
    CUdeviceptr address[2], more = 0;
    open_device(0);
    for (unsigned i = 0; i < exported.count; i++)
        CU_OK(cu.cuMemAlloc_v2(&address[i], exported.bytes));
    uint64_t mine = region_held(0, getpid());
    for (unsigned i = 0; i < exported.count; i++) {
        send_handle(importer, address[i]);
        send_handle(importer, address[i]);
    }
    await_byte(importer);
    if (strstr(end, "kill") != NULL)
        raise(SIGKILL);
    for (unsigned i = 0; strstr(end, "release") != NULL && i < exported.count; i++) {
        CU_OK(cu.cuMemFree_v2(address[i]));
        CHECK_U(truth_orphan(0), ==, i + 1 == exported.count ? exported.blocks : 0);
        check_agreement();
    }
    if (strstr(end, "release") != NULL) {
        CHECK_U(region_held(0, getpid()), ==, mine - exported.blocks);
        uint64_t rest = (quota_bytes() - region_used(0)) / BLOCK_BYTES * BLOCK_BYTES;
        CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&more, rest + BLOCK_BYTES));
        CU_OK(cu.cuMemAlloc_v2(&more, rest));
        CU_OK(cu.cuMemFree_v2(more));
        send_byte(orders);
        await_byte(orders);
    }
    exit(0);
}

/* The maker frees its memory or ends, and another process has it open still: charged until that
 * lets go, too. */
TEST(ipc_outlives_maker)
{
    const char *end = argc > 0 ? argv[0] : "release";
    struct exported exported = exported_of(end);
    bool context = strstr(end, "context") != NULL;
    int peers[2], to_importer, to_maker;
    socket_pair(peers);
    pid_t importer = with_orders(keeping_importer, peers[1], end, &to_importer);
    pid_t maker = with_orders(short_lived_maker, peers[0], end, &to_maker);
    if (strstr(end, "release") != NULL) {
        await_byte(to_maker);
        check_agreement();
        send_byte(to_maker);
    }
    CHECK(wait_status(maker) == (strstr(end, "kill") != NULL ? 128 + SIGKILL : 0));
    CHECK_U(region_held(0, importer), ==, region_used(0));
    if (strstr(end, "importer_dies") != NULL) {
        check_agreement();
        CHECK(kill(importer, SIGKILL) == 0);
        CHECK(wait_status(importer) == 128 + SIGKILL);
        check_agreement();
        CHECK_U(region_used(0), ==, 0);
        return 0;
    }
    for (unsigned i = 0; i < 2 * exported.count; i++) {
        CHECK_U(truth_orphan(0), ==, context && i > 0 ? 0 : exported.blocks);
        check_agreement();
        send_byte(to_importer);
        await_byte(to_importer);
    }
    CHECK_U(truth_orphan(0), ==, 0);
    check_agreement();
    send_byte(to_importer);
    wait_ok(importer);
    check_agreement();
    return 0;
}

/* A handle can be used by nobody once its memory is freed: who tries is charged for nothing. */
static void late_importer(int maker, int orders, const char *end)
{
    CUdeviceptr address;
    (void)orders;
    (void)end;
    open_device(0);
    send_byte(maker);
    await_byte(maker);
    uint64_t mine = region_held(0, getpid());
    CHECK(open_handle(maker, &address) != CUDA_SUCCESS);
    CHECK_U(region_held(0, getpid()), ==, mine);
    check_agreement();
    close_device(0);
    exit(0);
}

TEST(ipc_handle_of_freed_memory)
{
    int peers[2], orders;
    CUdeviceptr address = 0;
    CUipcMemHandle own;
    socket_pair(peers);
    pid_t importer = with_orders(late_importer, peers[1], NULL, &orders);
    close(peers[1]); /* so that its end is noticed */
    open_device(0);
    await_byte(peers[0]);
    CU_OK(cu.cuMemAlloc_v2(&address, 64 * MIB));
    /* The maker itself cannot open it. */
    CU_OK(cu.cuIpcGetMemHandle(&own, address));
    CUdeviceptr other = 0;
    CHECK(cu.cuIpcOpenMemHandle_v2(&other, own, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
          CUDA_SUCCESS);
    check_agreement();
    CU_OK(cu.cuMemFree_v2(address));
    check_agreement();
    send_byte(peers[0]);
    CHECK(write(peers[0], &own, sizeof own) == (ssize_t)sizeof own);
    wait_ok(importer);
    check_agreement();
    close_device(0);
    return 0;
}

/* More small allocations of one block than a share has room for keys: nothing stays charged once
 * all are closed. */
static void crowded_importer(int maker, int orders, const char *end)
{
    CUdeviceptr address;
    (void)end;
    open_device(0);
    for (unsigned i = 0; i < 32; i++)
        CU_OK(open_handle(maker, &address));
    send_byte(maker);
    await_byte(orders);
    exit(0);
}

TEST(ipc_crowded_block)
{
    int peers[2], orders;
    CUdeviceptr address[32];
    socket_pair(peers);
    pid_t importer = with_orders(crowded_importer, peers[1], NULL, &orders);
    open_device(0);
    for (unsigned i = 0; i < 32; i++) {
        CU_OK(cu.cuMemAlloc_v2(&address[i], 4 * KIB));
        send_handle(peers[0], address[i]);
    }
    await_byte(peers[0]);
    for (unsigned i = 0; i < 32; i++) {
        CU_OK(cu.cuMemFree_v2(address[i]));
        check_agreement();
    }
    CHECK_U(truth_orphan(0), ==, BLOCK_BYTES);
    send_byte(orders);
    wait_ok(importer);
    check_agreement();
    close_device(0);
    return 0;
}

/* Shares memory without rest, for as long as its peer lives. */
static void churning_maker(int importer, int orders, const char *end)
{
    uint64_t random = (uint64_t)getpid();
    (void)end;
    open_device(0);
    send_byte(orders);
    for (;;) {
        CUdeviceptr address = 0;
        CUipcMemHandle handle;
        char byte;
        uint64_t bytes = random_next(&random) % 2 ? 64 * KIB : 5 * MIB;
        CU_OK(cu.cuMemAlloc_v2(&address, bytes));
        CU_OK(cu.cuIpcGetMemHandle(&handle, address));
        if (send(importer, &handle, sizeof handle, MSG_NOSIGNAL) != (ssize_t)sizeof handle)
            break;
        bool early = random_next(&random) % 2;
        if (early)
            CU_OK(cu.cuMemFree_v2(address));
        if (read(importer, &byte, 1) != 1)
            break;
        if (!early)
            CU_OK(cu.cuMemFree_v2(address));
    }
    send_byte(orders);
    await_byte(orders); /* what it could not free it has still */
    exit(0);
}

static void churning_importer(int maker, int orders, const char *end)
{
    CUdeviceptr kept = 0, address;
    uint64_t random = (uint64_t)getpid();
    (void)end;
    open_device(0);
    send_byte(orders);
    for (;;) {
        if (open_handle(maker, &address) == CUDA_SUCCESS) {
            if (kept)
                CU_OK(cu.cuIpcCloseMemHandle(kept));
            kept = address;
            if (random_next(&random) % 2) {
                CU_OK(cu.cuIpcCloseMemHandle(kept));
                kept = 0;
            }
        }
        if (send(maker, "x", 1, MSG_NOSIGNAL) != 1)
            break;
    }
    send_byte(orders);
    await_byte(orders);
    exit(0);
}

/* Either of them is killed wherever it is: what the other still has is charged, and afterwards
 * nothing is. */
TEST(ipc_killed_anywhere)
{
    uint64_t random = 1;
    for (unsigned round = 0; round < 24; round++) {
        int peers[2], orders[2];
        pid_t pid[2];
        socket_pair(peers);
        pid[0] = with_orders(churning_maker, peers[0], NULL, &orders[0]);
        pid[1] = with_orders(churning_importer, peers[1], NULL, &orders[1]);
        await_byte(orders[0]);
        await_byte(orders[1]);
        usleep((useconds_t)(random_next(&random) % 3000));
        unsigned victim = round % 2;
        CHECK(kill(pid[victim], SIGKILL) == 0);
        CHECK(wait_status(pid[victim]) == 128 + SIGKILL);
        CHECK(shutdown(peers[victim], SHUT_RDWR) == 0);
        await_byte(orders[!victim]); /* it has found out */
        check_agreement();
        send_byte(orders[!victim]);
        wait_ok(pid[!victim]);
        check_agreement();
        CHECK_U(region_used(0), ==, 0);
        for (unsigned i = 0; i < 2; i++) {
            close(orders[i]);
            close(peers[i]);
        }
    }
    return 0;
}
