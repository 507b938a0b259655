/*
 * What the driver's calls tell a program about the card: the quota as its size, and the rest of the
 * quota as free, whichever process of the instance holds the other part. Without a quota they tell
 * what the driver says.
 */
#include "attack.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rmclient client;
static uint64_t size_bytes; /* that is to be seen */

#define OTHER_INDEX 0x0bu /* nothing of memory sizes */

/* All indices that have to do with it, in the newer control and the older one; and the heap's own
 * call. */
static void check_seen(uint64_t free_bytes)
{
    static const uint32_t sizes[] = {RM_FB_RAM_SIZE, RM_FB_TOTAL_RAM_SIZE, RM_FB_HEAP_SIZE,
                                     RM_FB_MAPPABLE_HEAP_SIZE, RM_FB_USABLE_RAM_SIZE};
    static const uint32_t rests[] = {RM_FB_HEAP_FREE, RM_FB_LARGEST_FREE_REGION_SIZE};
    struct rm_fb_info_item items[8] = {{OTHER_INDEX, 77}};
    struct rm_fb_info info = {.count = 8};
    struct rm_fb_info_list list = {.count = 8, .items = (uintptr_t)items};
    uint64_t size, rest;

    for (unsigned i = 0; i < 5; i++)
        items[1 + i].index = sizes[i];
    for (unsigned i = 0; i < 2; i++)
        items[6 + i].index = rests[i];
    memcpy(info.item, items, sizeof(items));
    CHECK_EQUAL(
        rmclient_control(&client, client.subdevice, RM_CTRL_FB_GET_INFO_V2, &info, sizeof(info)),
        0);
    CHECK_EQUAL(
        rmclient_control(&client, client.subdevice, RM_CTRL_FB_GET_INFO, &list, sizeof(list)), 0);
    CHECK_EQUAL(info.count, 8);
    for (unsigned i = 0; i < 8; i++) {
        CHECK_EQUAL(info.item[i].index, items[i].index);
        CHECK_EQUAL(info.item[i].value, items[i].value);
        CHECK_EQUAL((uint64_t)items[i].value << 10, i == 0 ? 0 : i < 6 ? size_bytes : free_bytes);
    }
    CHECK_EQUAL(list.items, (uintptr_t)items);
    CHECK_EQUAL(rmclient_heap_info(&client, &size, &rest), 0);
    CHECK_EQUAL(size, size_bytes);
    CHECK_EQUAL(rest, free_bytes);
}

/* What the driver does not take, or the guard does not know, is the driver's to answer. */
static void check_odd(void)
{
    struct rm_fb_info info = {.count = 1, .item = {{RM_FB_HEAP_SIZE, 0}}};
    struct rm_fb_info_list list = {.count = 1};

    CHECK(rmclient_control(&client, client.subdevice, RM_CTRL_FB_GET_INFO_V2, &info, 12) > 0);
    info.count = RM_FB_INFO_MAX + 1;
    CHECK(rmclient_control(&client, client.subdevice, RM_CTRL_FB_GET_INFO_V2, &info, sizeof(info)) >
          0);
    info.count = 0;
    CHECK_EQUAL(
        rmclient_control(&client, client.subdevice, RM_CTRL_FB_GET_INFO_V2, &info, sizeof(info)),
        0);
    CHECK(rmclient_control(&client, client.device, RM_CTRL_FB_GET_INFO_V2, &info, sizeof(info)) >
          0);
    CHECK(rmclient_control(&client, client.subdevice, RM_CTRL_FB_GET_INFO_V2, (void *)8,
                           sizeof(info)) != 0);
    CHECK(rmclient_control(&client, client.subdevice, RM_CTRL_FB_GET_INFO_V2, NULL, sizeof(info)) !=
          0);
    CHECK(rmclient_control(&client, client.subdevice, RM_CTRL_FB_GET_INFO, &list, sizeof(list)) !=
          0);
    list.items = 8;
    CHECK(rmclient_control(&client, client.subdevice, RM_CTRL_FB_GET_INFO, &list, sizeof(list)) !=
          0);
    list.count = 0xffffffff;
    CHECK(rmclient_control(&client, client.subdevice, RM_CTRL_FB_GET_INFO, &list, sizeof(list)) >
          0);
}

static void with_quota(void)
{
    uint32_t memory;
    char byte = 0;
    int ends[2][2];
    pid_t child;

    size_bytes = attack_quota();
    check_seen(size_bytes);
    memory = attack_must_alloc(&client, size_bytes / 4);
    check_seen(size_bytes - size_bytes / 4);
    CHECK_EQUAL(pipe(ends[0]) | pipe(ends[1]), 0);
    child = attack_fork();
    if (child == 0) { /* another process, with a client of its own, sees and has the same rest */
        attack_open(&client);
        check_seen(size_bytes - size_bytes / 4);
        attack_must_alloc(&client, size_bytes / 2);
        check_seen(size_bytes / 4);
        CHECK_EQUAL(write(ends[0][1], &byte, 1), 1);
        CHECK_EQUAL(read(ends[1][0], &byte, 1), 1);
        check_seen(0);
        _exit(0);
    }
    CHECK_EQUAL(read(ends[0][0], &byte, 1), 1);
    check_seen(size_bytes / 4);
    attack_must_alloc(&client, size_bytes / 4);
    check_seen(0);
    CHECK_EQUAL(write(ends[1][1], &byte, 1), 1);
    CHECK_EQUAL(finish(child), 0);
    attack_must_free(&client, memory);
    attack_await_used(&client, size_bytes / 4);
    /* What the other one had is back with its end, or a little later. */
    for (unsigned i = 0;; i++) {
        uint64_t size, rest;

        CHECK(i < 3000);
        CHECK_EQUAL(rmclient_fb_info(&client, &size, &rest), 0);
        if (rest == size_bytes - size_bytes / 4)
            break;
        nap_ms(1);
    }
    check_odd();
}

static void without_quota(void)
{
    struct fakerm_stats stats = book(&client, 0);

    size_bytes = stats.gpu_size;
    check_seen(size_bytes);
    attack_must_alloc(&client, size_bytes / 2);
    check_seen(size_bytes / 2);
    attack_must_alloc(&client, size_bytes / 2);
    check_seen(0);
    check_odd();
}

int main(void)
{
    attack_open(&client);
    if (attack_quota())
        with_quota();
    else
        without_quota();
    rmclient_close(&client);
    return 0;
}
