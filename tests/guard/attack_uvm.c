/*
 * Memory that is freed and still mapped by UVM. The driver counts it to no process. The guard
 * charges the tenant until the memory is unmapped, its range is freed, the file is closed or the
 * process ends. The memory is as large as the quota.
 */
#include "attack.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BASE 0x500000000000ULL

static struct rmclient client;
static uint64_t whole;
static bool no_length;

static uint32_t begin(void)
{
    attack_await_used(&client, 0);
    CHECK_EQUAL(rmclient_uvm_range(&client, BASE, 4 * whole), 0);
    return attack_must_alloc(&client, whole);
}

static void check_held(void)
{
    uint32_t handle = 0;

    CHECK_EQUAL(book(&client, 0).gpu_used, whole);
    CHECK_EQUAL(attack_alloc(&client, PAGE, &handle), RM_ERR_NO_MEMORY);
}

static void check_gone(void)
{
    CHECK_EQUAL(book(&client, 0).gpu_used, 0);
    attack_check_room(&client);
}

static void end(void)
{
    CHECK_EQUAL(rmclient_uvm_free(&client, BASE, 4 * whole), 0);
    check_gone();
}

static void map(uint64_t at, uint64_t offset, uint64_t length, uint32_t memory)
{
    CHECK_EQUAL(rmclient_uvm_map(&client, BASE + at, length, offset, memory), 0);
}

static void unmap(uint64_t at, uint64_t length)
{
    CHECK_EQUAL(rmclient_uvm_unmap(&client, BASE + at, length), 0);
}

/* Piece by piece; each holds the whole. */
static void check_pieces(void)
{
    uint32_t memory = begin();
    uint64_t quarter = whole / 4;

    map(0, 0, whole, memory);
    attack_must_free(&client, memory);
    CHECK_EQUAL(book(&client, 0).nobody, whole);
    check_held();
    unmap(quarter, quarter); /* the middle */
    check_held();
    unmap(0, quarter);
    check_held();
    unmap(0, 2 * quarter); /* nothing is there any more */
    check_held();
    unmap(3 * quarter, quarter);
    check_held();
    unmap(2 * quarter, PAGE);
    check_held();
    unmap(2 * quarter + PAGE, quarter - 2 * PAGE);
    check_held();
    unmap(3 * quarter - PAGE, PAGE);
    check_gone();
    end();
}

/*
 * The same memory in two places, in parts, in two ranges and in two spaces. From branch 590 on a
 * range is freed without its length: what does not begin where it does is charged until it is
 * unmapped.
 */
static void check_twice(void)
{
    struct rmclient second = client;
    uint32_t memory = begin();

    second.uvm = -1;
    map(0, 0, whole, memory);
    map(2 * whole, whole / 2, whole / 2, memory);
    CHECK_EQUAL(rmclient_uvm_range(&client, BASE + 8 * whole, whole), 0);
    map(8 * whole, 0, PAGE, memory);
    CHECK_EQUAL(rmclient_uvm_range(&second, BASE, whole), 0);
    CHECK_EQUAL(rmclient_uvm_map(&second, BASE, whole, 0, memory), 0);
    attack_must_free(&client, memory);
    check_held();
    unmap(0, whole);
    check_held();
    CHECK_EQUAL(rmclient_uvm_free(&client, BASE + 8 * whole, whole), 0);
    check_held();
    if (no_length)
        unmap(2 * whole, whole / 2);
    CHECK_EQUAL(rmclient_uvm_free(&client, BASE, 4 * whole), 0);
    check_held();
    CHECK_EQUAL(rmclient_uvm_unmap(&second, BASE, whole), 0);
    check_gone();
    CHECK_EQUAL(rmclient_uvm_free(&second, BASE, whole), 0);
    close(second.uvm);
}

/* Something else in its place: what was there is gone with the driver, and soon enough here. */
static void check_replaced(void)
{
    uint32_t memory = begin(), other;

    attack_must_free(&client, memory);
    memory = attack_must_alloc(&client, whole / 2);
    other = attack_must_alloc(&client, whole / 2);
    map(0, 0, whole / 2, memory);
    map(0, 0, whole / 2, other);
    attack_must_free(&client, memory);
    attack_must_free(&client, other);
    CHECK_EQUAL(book(&client, 0).gpu_used, whole / 2);
    CHECK_EQUAL(attack_alloc(&client, whole / 2 + PAGE, &other), RM_ERR_NO_MEMORY);
    unmap(0, whole / 2);
    check_gone();
    end();
}

/* What fails may be held for as long as the range is there, and releases nothing. */
static void check_failures(void)
{
    uint32_t memory = begin();

    CHECK(rmclient_uvm_map(&client, BASE, 2 * whole, 0, memory) > 0);
    CHECK(rmclient_uvm_map(&client, BASE, whole, PAGE, memory) > 0);
    CHECK(rmclient_uvm_map(&client, BASE, 0, 0, memory) > 0);
    map(0, 0, whole, memory);
    attack_must_free(&client, memory);
    CHECK(rmclient_uvm_unmap(&client, BASE + 16 * whole, whole) > 0);
    check_held();
    CHECK(rmclient_uvm_unmap(&client, BASE, 0) > 0);
    CHECK(rmclient_uvm_free(&client, BASE + PAGE, whole) > 0);
    CHECK_EQUAL(rmclient_ioctl(client.uvm, UVM_UNMAP_EXTERNAL, (void *)8), -14);
    CHECK_EQUAL(rmclient_ioctl(client.uvm, UVM_FREE, NULL), -14);
    CHECK_EQUAL(rmclient_ioctl(client.uvm, UVM_MAP_EXTERNAL_ALLOCATION, (void *)8), -14);
    check_held();
    end();
}

/* Of another GPU's name: nothing is unmapped here. */
static void check_other_gpu(void)
{
    struct rmclient other;
    struct rmclient wrong = client;
    uint32_t memory = begin();

    CHECK_EQUAL(rmclient_open(NULL, 1, &other), 0);
    map(0, 0, whole, memory);
    attack_must_free(&client, memory);
    memcpy(wrong.uuid, other.uuid, sizeof(wrong.uuid));
    CHECK_EQUAL(rmclient_uvm_unmap(&wrong, BASE, whole), 0);
    check_held();
    unmap(0, whole);
    check_gone();
    rmclient_close(&other);
    end();
}

/* A child that has the memory mapped in a space of its own. */
static pid_t begin_child(bool closes)
{
    pid_t child = attack_fork();

    if (child == 0) {
        struct rmclient own;
        uint32_t memory, handle = 0;

        CHECK_EQUAL(rmclient_open(NULL, 0, &own), 0);
        memory = attack_must_alloc(&own, whole);
        CHECK_EQUAL(rmclient_uvm_range(&own, BASE, whole), 0);
        CHECK_EQUAL(rmclient_uvm_map(&own, BASE, whole, 0, memory), 0);
        attack_must_free(&own, memory);
        CHECK_EQUAL(attack_alloc(&own, PAGE, &handle), RM_ERR_NO_MEMORY);
        if (closes) { /* that nobody has it any more, the guard cannot tell as long as the address
                         space is there */
            close(own.uvm);
            for (unsigned i = 0; i < 24; i++) {
                CHECK_EQUAL(attack_alloc(&own, PAGE, &handle), RM_ERR_NO_MEMORY);
                nap_ms(50);
            }
        }
        _exit(7);
    }
    return child;
}

/* Pages of the program's own: the guard has not seen them become memory. */
static void check_host(void)
{
    struct fakerm_alloc_memory host = {.root = client.client,
                                       .parent = client.device,
                                       .handle = 0x7100,
                                       .class_id = RM_CLASS_MEMORY_OS_DESCRIPTOR,
                                       .memory = BASE,
                                       .limit = PAGE - 1,
                                       .status = 0xbad};

    CHECK_EQUAL(rmclient_uvm_range(&client, BASE, 4 * whole), 0);
    CHECK_EQUAL(rmclient_ioctl(client.ctl, RM_IOCTL(RM_ESC_ALLOC_MEMORY, sizeof(host)), &host), 0);
    CHECK_EQUAL(host.status, 0);
    map(0, 0, PAGE, host.handle);
    attack_must_free(&client, host.handle);
    end();
}

/* By the end of the process, whether or not it has closed the file before. */
static void check_exit(void)
{
    for (unsigned closes = 0; closes < 2; closes++) {
        CHECK_EQUAL(finish(begin_child(closes)), 7);
        attack_must_free(&client, attack_await_alloc(&client, PAGE));
        attack_await_used(&client, 0);
        attack_check_room(&client);
    }
}

/* As programs do it, many times. */
static void check_malloc(void)
{
    for (unsigned i = 0; i < 200; i++) {
        struct rmclient_block block[2];

        CHECK_EQUAL(rmclient_malloc(&client, whole / 2, &block[0]), 0);
        CHECK_EQUAL(rmclient_malloc(&client, whole / 2, &block[1]), 0);
        CHECK_EQUAL(rmclient_malloc(&client, PAGE, &block[1]), RM_ERR_NO_MEMORY);
        CHECK_EQUAL(rmclient_mfree(&client, &block[i % 2]), 0);
        CHECK_EQUAL(rmclient_mfree(&client, &block[1 - i % 2]), 0);
    }
    check_gone();
}

static const struct {
    const char *name;
    void (*check)(void);
} checks[] = {
    {"pieces", check_pieces},     {"twice", check_twice},         {"replaced", check_replaced},
    {"failures", check_failures}, {"other GPU", check_other_gpu}, {"malloc", check_malloc},
    {"host", check_host},         {"exit", check_exit},
};

/* attack_uvm [no-length] */
int main(int argc, char **argv)
{
    no_length = argc > 1 && strcmp(argv[1], "no-length") == 0;
    attack_open(&client);
    whole = attack_quota();
    for (unsigned i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        fprintf(stderr, "%s\n", checks[i].name);
        checks[i].check();
    }
    rmclient_close(&client);
    return 0;
}
