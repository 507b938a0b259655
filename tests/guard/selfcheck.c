/*
 * The fake driver's own test, without any guard: that it behaves as the driver does (see
 * fake/fakerm.c). Wants two GPUs of 4 GiB that nobody else uses.
 */
#include "selfcheck.h"

#include "abi/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CARD_BYTES (4096 * MIB)

struct fakerm_stats book(struct rmclient *client, uint32_t pid)
{
    struct fakerm_stats stats;

    CHECK_EQUAL(rmclient_stats(client, pid, &stats), 0);
    return stats;
}

void nap_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

int finish(int pid)
{
    int status;

    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The kernel tells the file system after the process has ended, so it may take a moment. */
static void await_used(struct rmclient *client, uint64_t bytes)
{
    for (int i = 0; i < 3000 && book(client, 0).gpu_used != bytes; i++)
        nap_ms(10);
    CHECK_EQUAL(book(client, 0).gpu_used, bytes);
}

static void check_ledger(void)
{
    struct rmclient client, other;
    uint64_t bytes = 1, size, free_bytes, again;
    uint32_t memory = 0, second = 0;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    CHECK_EQUAL(rmclient_reset(&client), 0);
    CHECK_EQUAL(rmclient_memory(&client, &bytes, &memory), 0);
    CHECK_EQUAL(bytes, 65536);
    CHECK(memory != 0);
    bytes = 100 * MIB + 1;
    CHECK_EQUAL(rmclient_memory(&client, &bytes, &second), 0);
    CHECK_EQUAL(bytes, 100 * MIB + 65536);
    CHECK_EQUAL(book(&client, 0).pid_bytes, 100 * MIB + 131072);
    CHECK_EQUAL(book(&client, 0).private, 100 * MIB + 131072);
    CHECK_EQUAL(book(&client, 0).allocations, 2);
    CHECK_EQUAL(book(&client, 0).biggest, 100 * MIB + 1);
    CHECK_EQUAL(book(&client, 0).last_allocation_pid, getpid());
    CHECK_EQUAL(rmclient_pid_bytes(&client, (uint32_t)getpid(), &size), 0);
    CHECK_EQUAL(size, 100 * MIB + 131072);
    CHECK_EQUAL(rmclient_fb_info(&client, &size, &free_bytes), 0);
    CHECK_EQUAL(size, CARD_BYTES);
    CHECK_EQUAL(free_bytes, CARD_BYTES - 100 * MIB - 131072);
    CHECK_EQUAL(rmclient_fb_info_list(&client, &size, &again), 0);
    CHECK_EQUAL(again, free_bytes);
    CHECK_EQUAL(rmclient_heap_info(&client, &size, &again), 0);
    CHECK_EQUAL(again, free_bytes);
    CHECK_EQUAL(rmclient_open(NULL, 1, &other), 0);
    CHECK_EQUAL(book(&other, 0).gpu_used, 0);
    CHECK(memcmp(client.uuid, other.uuid, sizeof(client.uuid)) != 0);
    rmclient_close(&other);
    CHECK_EQUAL(rmclient_free(&client, memory), 0);
    CHECK_EQUAL(rmclient_free(&client, memory), RM_ERR_OBJECT_NOT_FOUND);
    CHECK_EQUAL(rmclient_free(&client, second), 0);
    CHECK_EQUAL(book(&client, 0).pid_bytes, 0);
    CHECK_EQUAL(book(&client, 0).pid_peak, 100 * MIB + 131072);
    rmclient_close(&client);
}

static void check_full(void)
{
    uint64_t bytes = CARD_BYTES + 1;
    struct rmclient client;
    uint32_t memory = 0, handle;
    unsigned blocks = 0;
    int rc;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    CHECK_EQUAL(rmclient_memory(&client, &bytes, &memory), RM_ERR_NO_MEMORY);
    CHECK_EQUAL(memory, 0);
    bytes = UINT64_MAX;
    CHECK_EQUAL(rmclient_memory(&client, &bytes, &memory), RM_ERR_NO_MEMORY);
    bytes = 0;
    CHECK_EQUAL(rmclient_memory(&client, &bytes, &memory), RM_ERR_INVALID_ARGUMENT);
    for (;; blocks++) {
        bytes = 512 * MIB;
        handle = 0;
        rc = rmclient_memory(&client, &bytes, &handle);
        if (rc != 0)
            break;
    }
    CHECK_EQUAL(rc, RM_ERR_NO_MEMORY);
    CHECK_EQUAL(blocks, 8);
    CHECK_EQUAL(book(&client, 0).gpu_used, CARD_BYTES);
    CHECK_EQUAL(rmclient_free_root(&client), 0);
    CHECK_EQUAL(book(&client, 0).gpu_used, 0);
    rmclient_close(&client);
}

/* Number and size tell a call; nothing else of the word does, and the argument is read when the
 * call is worked on. */
/* A mask is read if there is one, whatever it says. */
static void check_rights(struct rmclient *client)
{
    uint32_t mask = 0;
    const uint64_t addresses[] = {0, (uintptr_t)&mask, 8};

    for (unsigned i = 0; i < 3; i++) {
        struct rm_memory_params params = {.flags = RM_MEMORY_FLAG_VIRTUAL, .size = MIB};
        struct rm_alloc alloc = {.root = client->client,
                                 .parent = client->device,
                                 .class_id = RM_CLASS_MEMORY_LOCAL_USER,
                                 .params = (uintptr_t)&params,
                                 .rights = addresses[i]};

        CHECK_EQUAL(rmclient_call(client->ctl, RM_ESC_ALLOC, sizeof(alloc), &alloc), 0);
        CHECK_EQUAL(alloc.status, addresses[i] == 8 ? RM_ERR_INVALID_ADDRESS : RM_OK);
    }
}

static void check_calls(void)
{
    struct rm_memory_params params = {.size = MIB};
    struct rm_alloc alloc;
    struct rm_xfer nested;
    struct rmclient client, other;
    uint32_t handle = 0;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    CHECK_EQUAL(rmclient_alloc_short(&client, client.device, &handle, 0x40, &params, 0), 0);
    CHECK_EQUAL(book(&client, 0).pid_bytes, MIB);
    handle = 0;
    CHECK_EQUAL(rmclient_alloc_xfer(&client, client.device, &handle, 0x40, &params, 12345), 0);
    CHECK_EQUAL(book(&client, 0).pid_bytes, 2 * MIB);
    alloc = (struct rm_alloc){.root = client.client,
                              .parent = client.device,
                              .class_id = 0x40,
                              .params = (uintptr_t)&params,
                              .status = 99};
    CHECK_EQUAL(rmclient_ioctl(client.ctl, _IOC(0, 'X', RM_ESC_ALLOC, sizeof(alloc)), &alloc), 0);
    CHECK_EQUAL(alloc.status, 0);
    CHECK(alloc.handle != 0);
    CHECK_EQUAL(rmclient_free(&client, alloc.handle), 0);
    alloc.status = 99;
    alloc.handle = 0x1234;
    CHECK_EQUAL(
        rmclient_ioctl(client.ctl,
                       0xdeadbeef00000000ul | _IOC(_IOC_READ, 'F', RM_ESC_ALLOC, sizeof(alloc)),
                       &alloc),
        0);
    CHECK_EQUAL(alloc.status, 0);
    CHECK_EQUAL(rmclient_free(&client, 0x1234), 0);
    CHECK_EQUAL(rmclient_call(client.ctl, RM_ESC_ALLOC, 40, &alloc), -EINVAL);
    CHECK_EQUAL(rmclient_call(client.ctl, 0x11, 40, &alloc), -EINVAL);
    nested = (struct rm_xfer){RM_ESC_ALLOC, sizeof(alloc), (uintptr_t)&alloc};
    CHECK_EQUAL(rmclient_call_xfer(client.ctl, RM_ESC_XFER, sizeof(nested), &nested), -EINVAL);
    CHECK_EQUAL(rmclient_call_xfer(client.ctl, RM_ESC_ALLOC, 40, &alloc), -EINVAL);
    CHECK_EQUAL(rmclient_call_xfer(client.ctl, RM_ESC_ALLOC, sizeof(alloc), NULL), -EFAULT);
    handle = 0;
    CHECK_EQUAL(rmclient_alloc(&client, client.device, &handle, 0x40, (void *)8, 0),
                RM_ERR_INVALID_ADDRESS);
    CHECK_EQUAL(rmclient_alloc(&client, client.device, &handle, 0x40, NULL, 0),
                RM_ERR_INVALID_ARGUMENT);
    params.flags = RM_MEMORY_FLAG_VIRTUAL;
    CHECK_EQUAL(rmclient_alloc(&client, client.device, &handle, 0x40, &params, 0), 0);
    CHECK_EQUAL(book(&client, 0).pid_bytes, 2 * MIB);
    CHECK_EQUAL(rmclient_control(&client, client.subdevice, 0x2080ffff, NULL, 0),
                RM_ERR_NOT_SUPPORTED);
    check_rights(&client);

    /* Clients belong to the file. */
    other = client;
    other.ctl = rmclient_open_file(NULL, "nvidiactl");
    CHECK(other.ctl >= 0);
    CHECK_EQUAL(rmclient_free(&other, client.device), RM_ERR_INVALID_CLIENT);
    CHECK_EQUAL(rmclient_alloc(&other, client.device, &handle, 0x40, &params, 0),
                RM_ERR_INVALID_CLIENT);
    close(other.ctl);
    other.ctl = dup(client.ctl);
    CHECK_EQUAL(rmclient_free(&other, client.device), 0);
    CHECK_EQUAL(book(&client, 0).pid_bytes, 0);
    close(other.ctl);
    rmclient_close(&client);
}

static void *flip(void *arg)
{
    uint64_t *size = arg;

    for (;;) {
        __atomic_store_n(size, 2 * MIB, __ATOMIC_RELAXED);
        __atomic_store_n(size, MIB, __ATOMIC_RELAXED);
        pthread_testcancel();
    }
    return NULL;
}

/* Both sizes come through: so there is a second look at the memory, and nothing else to race
 * with. */
static void check_race(void)
{
    struct rm_memory_params params = {.size = MIB};
    struct rmclient client;
    bool seen[2] = {false, false};
    pthread_t thread;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    CHECK_EQUAL(pthread_create(&thread, NULL, flip, &params.size), 0);
    for (int i = 0; i < 2000000 && !(seen[0] && seen[1]); i++) {
        uint32_t handle = 0;

        CHECK_EQUAL(rmclient_alloc(&client, client.device, &handle, 0x40, &params, sizeof(params)),
                    0);
        seen[book(&client, 0).gpu_used == 2 * MIB] = true;
        CHECK_EQUAL(rmclient_free(&client, handle), 0);
    }
    CHECK(seen[0] && seen[1]);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    rmclient_close(&client);
}

static void check_dup(void)
{
    uint64_t bytes = 8 * MIB;
    struct rmclient client, other;
    uint32_t memory = 0, copy = 0, third = 0;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    CHECK_EQUAL(rmclient_open(NULL, 0, &other), 0);
    CHECK(client.client != other.client);
    CHECK_EQUAL(rmclient_memory(&client, &bytes, &memory), 0);
    CHECK_EQUAL(rmclient_dup(&other, client.client, memory, &copy), 0);
    CHECK_EQUAL(rmclient_dup(&client, client.client, memory, &third), 0);
    CHECK_EQUAL(book(&client, 0).gpu_used, 8 * MIB);
    CHECK_EQUAL(book(&client, 0).pid_bytes, 8 * MIB);
    CHECK_EQUAL(book(&client, 0).owned, 8 * MIB);
    CHECK_EQUAL(book(&client, 0).duped, 16 * MIB);
    CHECK_EQUAL(rmclient_free(&client, memory), 0);
    CHECK_EQUAL(book(&client, 0).pid_bytes, 8 * MIB);
    CHECK_EQUAL(rmclient_free(&client, third), 0);
    CHECK_EQUAL(book(&client, 0).private, 8 * MIB);
    CHECK_EQUAL(book(&client, 0).owned + book(&client, 0).duped, 0);
    CHECK_EQUAL(rmclient_free(&other, copy), 0);
    CHECK_EQUAL(book(&client, 0).gpu_used, 0);
    CHECK_EQUAL(rmclient_dup(&other, client.client, memory, &copy), RM_ERR_OBJECT_NOT_FOUND);
    rmclient_close(&client);
    rmclient_close(&other);
}

static void check_trees(void)
{
    struct rmclient client;
    uint64_t bytes = MIB;
    uint32_t memory = 0, below = 0, group, channels[3];
    unsigned objects;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    objects = book(&client, 0).objects;
    CHECK_EQUAL(rmclient_memory(&client, &bytes, &memory), 0);
    CHECK_EQUAL(rmclient_alloc(&client, client.subdevice, &below, 0x40,
                               &(struct rm_memory_params){.size = MIB}, 0),
                0);
    CHECK_EQUAL(rmclient_compute(&client, 3, &group, channels), 0);
    CHECK_EQUAL(book(&client, 0).objects, objects + 6);
    CHECK_EQUAL(book(&client, 0).channels, 3);
    CHECK_EQUAL(rmclient_free(&client, group), 0);
    CHECK_EQUAL(book(&client, 0).channels, 0);
    CHECK_EQUAL(rmclient_free(&client, client.subdevice), 0);
    CHECK_EQUAL(book(&client, 0).gpu_used, MIB);
    CHECK_EQUAL(rmclient_free(&client, client.device), 0);
    CHECK_EQUAL(book(&client, 0).gpu_used, 0);
    CHECK_EQUAL(book(&client, 0).objects, objects - 2);
    CHECK_EQUAL(rmclient_free_root(&client), 0);
    CHECK_EQUAL(rmclient_free_root(&client), RM_ERR_INVALID_CLIENT);
    rmclient_close(&client);
}

static void check_heap(void)
{
    static const uint32_t functions[] = {RM_HEAP_ALLOC_SIZE, RM_HEAP_ALLOC_TILED_PITCH,
                                         RM_HEAP_ALLOC_SIZE_RANGE};
    struct rmclient client;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t bytes = 3 * MIB + 5;
        uint32_t handle = 0;

        CHECK_EQUAL(rmclient_heap_alloc(&client, functions[i], &bytes, &handle), 0);
        CHECK_EQUAL(bytes, 3 * MIB + 65536);
        CHECK_EQUAL(book(&client, 0).pid_bytes, 3 * MIB + 65536);
        CHECK_EQUAL(i ? rmclient_heap_free(&client, handle) : rmclient_free(&client, handle), 0);
        CHECK_EQUAL(book(&client, 0).pid_bytes, 0);
        bytes = CARD_BYTES * 2;
        handle = 0;
        CHECK_EQUAL(rmclient_heap_alloc(&client, functions[i], &bytes, &handle), RM_ERR_NO_MEMORY);
    }
    rmclient_close(&client);
}

/* UVM does not map what another process has allocated; and it counts for the process that made the
 * client. */
static void check_other_process(struct rmclient *client, uint64_t base)
{
    uint64_t bytes = MIB;
    uint32_t memory = 0;
    pid_t child;

    child = fork();
    if (child == 0) {
        CHECK_EQUAL(rmclient_memory(client, &bytes, &memory), 0);
        CHECK_EQUAL(book(client, (uint32_t)getppid()).pid_bytes, MIB);
        CHECK_EQUAL(book(client, 0).last_allocation_pid, getpid());
        CHECK_EQUAL(rmclient_uvm_range(client, base, 16 * MIB), 0);
        CHECK_EQUAL(rmclient_uvm_map(client, base, MIB, 0, memory),
                    RM_ERR_INSUFFICIENT_PERMISSIONS);
        exit(0);
    }
    CHECK_EQUAL(finish(child), 0);
}

static void check_uvm(void)
{
    uint64_t bytes = 4 * MIB, base = 0x500000000000ULL;
    struct rmclient client;
    struct rmclient_block block;
    uint32_t memory = 0, word = 7;
    char *mapped;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    CHECK_EQUAL(rmclient_memory(&client, &bytes, &memory), 0);
    CHECK_EQUAL(rmclient_uvm_map(&client, base, bytes, 0, memory), RM_ERR_INVALID_ADDRESS);
    CHECK_EQUAL(rmclient_uvm_range(&client, base, 16 * MIB), 0);
    CHECK_EQUAL(rmclient_uvm_range(&client, base + 8 * MIB, 16 * MIB), RM_ERR_UVM_ADDRESS_IN_USE);
    CHECK_EQUAL(rmclient_uvm_map(&client, base, 8 * MIB, 0, memory), RM_ERR_INVALID_OFFSET);
    CHECK_EQUAL(rmclient_uvm_map(&client, base + MIB, bytes, 0, memory), 0);
    CHECK_EQUAL(book(&client, 0).pid_bytes, 4 * MIB);
    CHECK_EQUAL(book(&client, 0).nobody, 0);
    CHECK_EQUAL(rmclient_free(&client, memory), 0);
    CHECK_EQUAL(book(&client, 0).pid_bytes, 0); /* and yet it is not free: */
    CHECK_EQUAL(book(&client, 0).nobody, 4 * MIB);
    CHECK_EQUAL(book(&client, 0).gpu_used, 4 * MIB);
    CHECK_EQUAL(rmclient_uvm_unmap(&client, base + 2 * MIB, MIB),
                0); /* a piece out of the middle */
    CHECK_EQUAL(rmclient_uvm_unmap(&client, base, 2 * MIB), 0);
    CHECK_EQUAL(book(&client, 0).gpu_used, 4 * MIB);
    CHECK_EQUAL(rmclient_uvm_unmap(&client, base + 3 * MIB, 2 * MIB), 0);
    CHECK_EQUAL(book(&client, 0).gpu_used, 0);

    /* By freeing the range; by closing the file. */
    bytes = 4 * MIB;
    memory = 0;
    CHECK_EQUAL(rmclient_memory(&client, &bytes, &memory), 0);
    CHECK_EQUAL(rmclient_uvm_map(&client, base, bytes, 0, memory), 0);
    CHECK_EQUAL(rmclient_free(&client, memory), 0);
    CHECK_EQUAL(rmclient_uvm_free(&client, base + MIB, 15 * MIB), RM_ERR_INVALID_ADDRESS);
    CHECK_EQUAL(rmclient_uvm_free(&client, base, 16 * MIB), 0);
    CHECK_EQUAL(book(&client, 0).gpu_used, 0);
    CHECK_EQUAL(rmclient_malloc(&client, 2 * MIB, &block), 0);
    CHECK_EQUAL(rmclient_mfree(&client, &block), 0);
    CHECK_EQUAL(book(&client, 0).gpu_used, 0);
    CHECK_EQUAL(rmclient_malloc(&client, 2 * MIB, &block), 0);
    CHECK_EQUAL(rmclient_free(&client, block.memory), 0);
    CHECK_EQUAL(book(&client, 0).nobody, 2 * MIB);

    check_other_process(&client, base);
    mapped = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, client.uvm, (off_t)(64 * MIB));
    CHECK(mapped != MAP_FAILED);
    CHECK_EQUAL(mapped[5], 0);
    mapped[5] = 1;
    CHECK_EQUAL(munmap(mapped, MIB), 0);
    CHECK_EQUAL(rmclient_ioctl(client.uvm, 99999, &word), -EINVAL);
    close(client.uvm);
    client.uvm = -1;
    await_used(&client, MIB);
    rmclient_close(&client);
}

static int alloc_on_card(const struct rmclient *client, uint32_t class_id, uint32_t *ret_status)
{
    uint64_t params[3] = {client->client};
    struct rm_alloc alloc = {.root = client->client,
                             .parent = client->subdevice,
                             .class_id = class_id,
                             .params = (uintptr_t)params};
    int rc = rmclient_call(client->card, RM_ESC_ALLOC, sizeof(alloc), &alloc);

    *ret_status = alloc.status;
    return rc;
}

/* On a card's node events are made for clients of the process, and nothing else. */
static void check_events(void)
{
    static const uint32_t events[] = {0x5, 0x78, 0x79, 0x7e};
    static const uint32_t others[] = {0x0,    0x41,   0x40,   0x3e,   0x80,
                                      0x2080, 0xa06c, 0xc86f, 0x503c, 0x1234};
    uint32_t handle = 0, status;
    struct rmclient client;
    unsigned objects;
    pid_t child;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    objects = book(&client, 0).objects;
    CHECK_EQUAL(rmclient_event(&client, client.card, client.subdevice, &handle), 0);
    CHECK(handle != 0);
    CHECK_EQUAL(book(&client, 0).objects, objects + 1);
    CHECK_EQUAL(rmclient_free(&client, handle), 0);
    for (unsigned i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        CHECK_EQUAL(alloc_on_card(&client, events[i], &status), 0);
        CHECK_EQUAL(status, RM_OK);
    }
    CHECK_EQUAL(book(&client, 0).objects, objects + 4);
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CHECK_EQUAL(alloc_on_card(&client, others[i], &status), -EINVAL);
    CHECK_EQUAL(
        rmclient_call(client.card, RM_ESC_FREE, sizeof(struct rm_free), &(struct rm_free){0}),
        -EINVAL);
    handle = 0;
    CHECK_EQUAL(rmclient_event(&client, client.ctl, client.device, &handle), 0);
    CHECK_EQUAL(book(&client, 0).objects, objects + 5);
    child = fork();
    if (child == 0) {
        CHECK_EQUAL(alloc_on_card(&client, events[0], &status), 0);
        CHECK_EQUAL(status, RM_ERR_INVALID_CLIENT);
        exit(0);
    }
    CHECK_EQUAL(finish(child), 0);
    rmclient_close(&client);
}

static void check_exit(void)
{
    struct rmclient client;
    int ways;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    await_used(&client, 0);
    for (ways = 0; ways < 2; ways++) {
        pid_t child = fork();

        if (child == 0) {
            struct rmclient own;
            struct rmclient_block block;

            CHECK_EQUAL(rmclient_open(NULL, 0, &own), 0);
            CHECK_EQUAL(rmclient_malloc(&own, 64 * MIB, &block), 0);
            CHECK_EQUAL(book(&own, 0).pid_bytes, 64 * MIB);
            CHECK_EQUAL(book(&own, (uint32_t)getppid()).pid_bytes, 0);
            if (ways == 1)
                kill(getpid(), SIGKILL);
            exit(0);
        }
        CHECK_EQUAL(finish(child), ways == 1 ? 1000 + SIGKILL : 0);
        await_used(&client, 0);
        CHECK_EQUAL(book(&client, (uint32_t)child).pid_peak, 64 * MIB);
    }
    for (int i = 0; i < 3000 && book(&client, 0).clients != 1; i++)
        nap_ms(10);
    CHECK_EQUAL(book(&client, 0).clients, 1);
    rmclient_close(&client);
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);

    CHECK(found);
    return found;
}

static void check_nvml(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    nvmlReturn_t (*init)(void), (*by_uuid)(const char *, nvmlDevice_t *),
        (*uuid)(nvmlDevice_t, char *, unsigned);
    nvmlReturn_t (*by_index)(unsigned, nvmlDevice_t *),
        (*memory_info)(nvmlDevice_t, nvmlMemory_t *);
    nvmlReturn_t (*processes)(nvmlDevice_t, unsigned *, nvmlProcessInfo_v2_t *),
        (*version)(char *, unsigned);
    nvmlProcessInfo_v2_t infos[8];
    nvmlMemory_t memory;
    nvmlDevice_t device, same;
    struct rmclient client;
    struct rmclient_block block;
    unsigned count = 8;
    char text[96];

    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library);
    *(void **)&init = symbol(library, "nvmlInit_v2");
    *(void **)&by_index = symbol(library, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&by_uuid = symbol(library, "nvmlDeviceGetHandleByUUID");
    *(void **)&uuid = symbol(library, "nvmlDeviceGetUUID");
    *(void **)&memory_info = symbol(library, "nvmlDeviceGetMemoryInfo");
    *(void **)&processes = symbol(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    *(void **)&version = symbol(library, "nvmlSystemGetDriverVersion");
    CHECK_EQUAL(rmclient_open(NULL, 1, &client), 0);
    CHECK_EQUAL(rmclient_malloc(&client, 32 * MIB, &block), 0);
    CHECK_EQUAL(by_index(0, &device), NVML_ERROR_UNINITIALIZED);
    CHECK_EQUAL(init(), NVML_SUCCESS);
    CHECK_EQUAL(by_index(2, &device), NVML_ERROR_INVALID_ARGUMENT);
    CHECK_EQUAL(by_index(1, &device), NVML_SUCCESS);
    CHECK_EQUAL(uuid(device, text, sizeof(text)), NVML_SUCCESS);
    CHECK(strcmp(text, "GPU-face0fd0-1122-4344-8556-6778899aab01") == 0);
    CHECK_EQUAL(by_uuid(text, &same), NVML_SUCCESS);
    CHECK(same == device);
    CHECK_EQUAL(memory_info(device, &memory), NVML_SUCCESS);
    CHECK_EQUAL(memory.total, CARD_BYTES);
    CHECK_EQUAL(memory.used, 32 * MIB);
    CHECK_EQUAL(processes(device, &count, infos), NVML_SUCCESS);
    CHECK_EQUAL(count, 1);
    CHECK_EQUAL(infos[0].pid, getpid());
    CHECK_EQUAL(infos[0].usedGpuMemory, 32 * MIB);
    CHECK_EQUAL(version(text, sizeof(text)), NVML_SUCCESS);
    CHECK(atoi(text) >= 550);
    rmclient_close(&client);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*check)(void);
    } checks[] = {
        {"ledger", check_ledger},
        {"full", check_full},
        {"calls", check_calls},
        {"race", check_race},
        {"dup", check_dup},
        {"trees", check_trees},
        {"heap", check_heap},
        {"uvm", check_uvm},
        {"exit", check_exit},
        {"nvml", check_nvml},
        {"wait", check_wait},
        {"slices", check_slices},
        {"disable", check_disable},
        {"end", check_end},
        {"schedule", check_schedule},
        {"wait ends", check_wait_ends},
        {"events", check_events},
        {"wedged", check_wedged},
        {"contexts", check_contexts},
        {"preempt", check_preempt},
        {"two contexts", check_two_contexts},
        {"group dup", check_group_dup},
    };

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        printf("%s\n", checks[i].name);
        checks[i].check();
    }
    return 0;
}
