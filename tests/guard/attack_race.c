/*
 * A second thread changes the arguments of calls while the guard reads them: sizes, classes, flags,
 * functions, handles and pointers, of every form of call. The device must never give more than the
 * quota, and in the end the guard knows what it gave.
 *
 *   attack_race [TRIES [mapped]]     TRIES in all; mapped: the supervisor maps. Needs two GPUs
 */
#include "attack.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define SMALL (1 * MIB)
#define LEFT  (4 * MIB) /* of the quota; the rest is held throughout */
#define HUGE  (64 * MIB)
#define WORDS 4
#define MOST  200000
#define BASE  0x500000000000ULL

/* What is changed to and fro: as one, or each by itself, or in pairs. */
struct flipped {
    volatile uint32_t *word;
    uint32_t value[2];
};

struct race {
    struct rmclient client, second; /* on GPU 0 and 1, of one file and client */
    struct rm_memory_params params[2];
    struct rm_alloc alloc;
    struct rm_alloc_short alloc_short;
    struct rm_vid_heap_control heap;
    struct rm_free free;
    struct rm_dup_object dup;
    struct rm_xfer xfer;
    struct uvm_map_external map;
    struct uvm_unmap_external unmap;
    struct uvm_range range[2]; /* with room for what comes after it */
    struct flipped flipped[WORDS];
    unsigned count;
    uint64_t tries, granted, refused;
    atomic_bool over;
};

static void *flip(void *arg)
{
    struct race *race = arg;

    for (unsigned i = 0; !atomic_load_explicit(&race->over, memory_order_relaxed); i++) {
        for (unsigned k = 0; k < race->count; k++)
            *race->flipped[k].word = race->flipped[k].value[i & 1];
        /* Each value stands for a while of another length. */
        for (volatile unsigned wait = 0; wait < i % 61; wait++)
            continue;
    }
    return NULL;
}

static void flip_word(struct race *race, void *word, uint32_t first, uint32_t second)
{
    CHECK(race->count < WORDS);
    race->flipped[race->count++] = (struct flipped){.word = word, .value = {first, second}};
    *(uint32_t *)word = first;
}

/* The two differ in the lower half only. */
static void flip_address(struct race *race, uint64_t *address, const void *first,
                         const void *second)
{
    CHECK_EQUAL((uintptr_t)first >> 32, (uintptr_t)second >> 32);
    *address = (uintptr_t)first;
    flip_word(race, address, (uint32_t)(uintptr_t)first, (uint32_t)(uintptr_t)second);
}

static struct rm_alloc alloc_of(const struct race *race, unsigned params)
{
    return (struct rm_alloc){.root = race->client.client,
                             .parent = race->client.device,
                             .class_id = RM_CLASS_MEMORY_LOCAL_USER,
                             .params = (uintptr_t)&race->params[params]};
}

static void count(struct race *race, uint32_t status)
{
    race->granted += status == RM_OK;
    race->refused += status == RM_ERR_NO_MEMORY;
}

static void release(struct race *race, uint32_t status, uint32_t handle)
{
    count(race, status);
    if (status == RM_OK)
        attack_must_free(&race->client, handle);
}

/* One try each. */

static void by_alloc(struct race *race)
{
    race->alloc.handle = 0;
    race->alloc.status = 0xbad;
    CHECK_EQUAL(rmclient_call(race->client.ctl, RM_ESC_ALLOC, sizeof(race->alloc), &race->alloc),
                0);
    release(race, race->alloc.status, race->alloc.handle);
}

static void by_short(struct race *race)
{
    race->alloc_short.handle = 0;
    race->alloc_short.status = 0xbad;
    CHECK_EQUAL(rmclient_call(race->client.ctl, RM_ESC_ALLOC, sizeof(race->alloc_short),
                              &race->alloc_short),
                0);
    release(race, race->alloc_short.status, race->alloc_short.handle);
}

static void by_xfer(struct race *race)
{
    race->alloc.handle = 0;
    race->alloc.status = 0xbad;
    CHECK_EQUAL(
        rmclient_call_xfer(race->client.ctl, RM_ESC_ALLOC, sizeof(race->alloc), &race->alloc), 0);
    release(race, race->alloc.status, race->alloc.handle);
}

static void by_heap(struct race *race)
{
    race->heap.u.alloc.handle = 0;
    race->heap.status = 0xbad;
    CHECK_EQUAL(
        rmclient_call(race->client.ctl, RM_ESC_VID_HEAP_CONTROL, sizeof(race->heap), &race->heap),
        0);
    if (race->heap.u.alloc.handle)
        release(race, race->heap.status, race->heap.u.alloc.handle);
    else
        count(race, race->heap.status);
}

/* With given handles: what it was is free in any case, and whichever there was is freed. */
static void by_handle(struct race *race)
{
    race->alloc.status = 0xbad;
    CHECK_EQUAL(rmclient_call(race->client.ctl, RM_ESC_ALLOC, sizeof(race->alloc), &race->alloc),
                0);
    count(race, race->alloc.status);
    for (unsigned i = 0; i < 2; i++)
        rmclient_free(&race->client, race->flipped[0].value[i]);
}

/*
 * Whatever the outer structure says by the time: some of it is no call, or another. The status may
 * be at either place; the handle is at the same.
 */
static void by_outer(struct race *race)
{
    int rc;

    race->alloc = alloc_of(race, 0);
    race->alloc_short.handle = 0;
    rc = rmclient_ioctl(race->client.ctl, RM_IOCTL(RM_ESC_XFER, sizeof(race->xfer)), &race->xfer);
    CHECK(rc == 0 || rc == -EINVAL || rc == -EFAULT);
    if (race->alloc.handle)
        release(race, RM_OK, race->alloc.handle);
    else if (race->alloc_short.handle)
        attack_must_free(&race->client, race->alloc_short.handle);
    else
        race->refused++;
    race->granted += race->alloc_short.handle != 0;
}

/* Two blocks; one or the other goes, then both. */
static void by_free(struct race *race)
{
    for (unsigned i = 0; i < 2; i++) {
        uint32_t handle = race->flipped[0].value[i];

        CHECK_EQUAL(attack_alloc(&race->client, (i + 1) * SMALL, &handle), 0);
    }
    race->free.status = 0xbad;
    CHECK_EQUAL(rmclient_call(race->client.ctl, RM_ESC_FREE, sizeof(race->free), &race->free), 0);
    CHECK_EQUAL(race->free.status, 0);
    race->granted += rmclient_free(&race->client, race->flipped[0].value[0]) == 0;
    race->refused += rmclient_free(&race->client, race->flipped[0].value[1]) == 0;
}

/* A duplicate of one or the other, which then go; the duplicate keeps one of them. */
static void by_dup(struct race *race)
{
    uint32_t handle;
    uint64_t used = book(&race->client, 0).gpu_used, kept;

    for (unsigned i = 0; i < 2; i++) {
        handle = race->flipped[0].value[i];
        CHECK_EQUAL(attack_alloc(&race->client, (i + 1) * SMALL, &handle), 0);
    }
    race->dup.handle = 0;
    race->dup.status = 0xbad;
    CHECK_EQUAL(rmclient_call(race->client.ctl, RM_ESC_DUP_OBJECT, sizeof(race->dup), &race->dup),
                0);
    CHECK_EQUAL(race->dup.status, 0);
    for (unsigned i = 0; i < 2; i++)
        attack_must_free(&race->client, race->flipped[0].value[i]);
    kept = book(&race->client, 0).gpu_used - used;
    CHECK(kept == SMALL || kept == 2 * SMALL);
    race->granted += kept == SMALL;
    race->refused += kept == 2 * SMALL;
    handle = 0;
    CHECK_EQUAL(attack_alloc(&race->client, LEFT - kept + PAGE, &handle), RM_ERR_NO_MEMORY);
    attack_must_free(&race->client, race->dup.handle);
}

/* Two blocks, mapped and freed: only UVM has them. One or the other goes; what is left is a page
 * less than there is room. */
static void map_both(struct race *race)
{
    for (unsigned i = 0; i < 2; i++) {
        uint32_t memory = 0;

        CHECK_EQUAL(attack_alloc(&race->client, (i + 1) * SMALL, &memory), 0);
        CHECK_EQUAL(rmclient_uvm_range(&race->client, BASE + i * HUGE, HUGE), 0);
        CHECK_EQUAL(rmclient_uvm_map(&race->client, BASE + i * HUGE, (i + 1) * SMALL, 0, memory),
                    0);
        attack_must_free(&race->client, memory);
    }
}

static void check_one_left(struct race *race)
{
    uint64_t left = book(&race->client, 0).gpu_used + LEFT - attack_quota();
    uint32_t handle = 0;

    CHECK(left == SMALL || left == 2 * SMALL);
    race->granted += left == SMALL;
    race->refused += left == 2 * SMALL;
    CHECK_EQUAL(attack_alloc(&race->client, LEFT - left + PAGE, &handle), RM_ERR_NO_MEMORY);
    CHECK_EQUAL(attack_alloc(&race->client, LEFT - left, &handle), 0);
    attack_must_free(&race->client, handle);
}

/* Two blocks, of which one or the other is mapped, and both freed: that one is still there. */
static void by_map(struct race *race)
{
    for (unsigned i = 0; i < 2; i++) {
        uint32_t handle = race->flipped[0].value[i];

        CHECK_EQUAL(attack_alloc(&race->client, (i + 1) * SMALL, &handle), 0);
    }
    CHECK_EQUAL(rmclient_uvm_range(&race->client, BASE, HUGE), 0);
    race->map.status = 0xbad;
    CHECK_EQUAL(rmclient_ioctl(race->client.uvm, UVM_MAP_EXTERNAL_ALLOCATION, &race->map), 0);
    CHECK_EQUAL(race->map.status, 0);
    for (unsigned i = 0; i < 2; i++)
        attack_must_free(&race->client, race->flipped[0].value[i]);
    check_one_left(race);
    CHECK_EQUAL(rmclient_uvm_free(&race->client, BASE, HUGE), 0);
}

static void by_unmap(struct race *race)
{
    map_both(race);
    CHECK_EQUAL(rmclient_ioctl(race->client.uvm, UVM_UNMAP_EXTERNAL, &race->unmap), 0);
    check_one_left(race);
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQUAL(rmclient_uvm_free(&race->client, BASE + i * HUGE, HUGE), 0);
}

static void by_uvm_free(struct race *race)
{
    map_both(race);
    CHECK_EQUAL(rmclient_ioctl(race->client.uvm, UVM_FREE, race->range), 0);
    check_one_left(race);
    for (unsigned i = 0; i < 2; i++)
        rmclient_uvm_free(&race->client, BASE + i * HUGE, HUGE);
}

/* What is changed. */

static void size(struct race *race)
{
    flip_word(race, &race->params[0].size, SMALL, HUGE);
}

static void size_high(struct race *race)
{
    flip_word(race, (uint32_t *)&race->params[0].size + 1, 0, 1);
}

static void params_address(struct race *race)
{
    flip_address(race, &race->alloc.params, &race->params[0], &race->params[1]);
}

static void flags(struct race *race)
{
    race->params[0].size = HUGE;
    flip_word(race, &race->params[0].flags, RM_MEMORY_FLAG_VIRTUAL, 0);
}

static void class_of(struct race *race)
{
    race->params[0].size = HUGE;
    flip_word(race, &race->alloc.class_id, RM_CLASS_MEMORY_VIRTUAL, RM_CLASS_MEMORY_LOCAL_USER);
}

static void pages(struct race *race)
{
    race->params[0].size = LEFT - PAGE;
    race->params[0].attr2 = RM_MEMORY_HUGE_512M << 20;
    flip_word(race, &race->params[0].attr, ATTR_4K, RM_MEMORY_PAGE_HUGE << 23);
}

static void parent(struct race *race)
{
    race->params[0].size = LEFT;
    flip_word(race, &race->alloc.parent, race->client.device, race->second.device);
}

static void heap_size(struct race *race)
{
    race->heap.function = RM_HEAP_ALLOC_SIZE;
    race->heap.u.alloc.attr = ATTR_4K;
    flip_word(race, &race->heap.u.alloc.size, SMALL, HUGE);
}

static void heap_tiled(struct race *race)
{
    race->heap.function = RM_HEAP_ALLOC_TILED_PITCH;
    race->heap.u.tiled.attr = ATTR_4K;
    race->heap.u.tiled.pitch = (int32_t)PAGE;
    flip_word(race, &race->heap.u.tiled.height, SMALL / PAGE, HUGE / PAGE);
    flip_word(race, &race->heap.u.tiled.size, SMALL, HUGE);
}

static void heap_function(struct race *race)
{
    race->heap.u.alloc.attr = ATTR_4K;
    race->heap.u.alloc.size = SMALL;
    race->heap.u.range.size = HUGE;
    flip_word(race, &race->heap.function, RM_HEAP_ALLOC_SIZE, RM_HEAP_ALLOC_SIZE_RANGE);
}

static void heap_flags(struct race *race)
{
    race->heap.function = RM_HEAP_ALLOC_SIZE;
    race->heap.u.alloc.attr = ATTR_4K;
    race->heap.u.alloc.size = HUGE;
    flip_word(race, &race->heap.u.alloc.flags, RM_MEMORY_FLAG_VIRTUAL, 0);
}

static void heap_location(struct race *race)
{
    race->heap.function = RM_HEAP_ALLOC_SIZE;
    race->heap.u.alloc.size = HUGE;
    flip_word(race, &race->heap.u.alloc.attr, 1u << 25, 0);
}

static void handle(struct race *race)
{
    flip_word(race, &race->alloc.handle, 0x1001, 0x1002);
}

static void outer_address(struct race *race)
{
    race->xfer.size = sizeof(struct rm_alloc_short);
    flip_address(race, &race->xfer.params, &race->alloc_short, &race->alloc);
}

static void outer_size(struct race *race)
{
    flip_word(race, &race->xfer.size, sizeof(struct rm_alloc), sizeof(struct rm_alloc_short));
}

static void outer_call(struct race *race)
{
    flip_word(race, &race->xfer.nr, RM_ESC_ALLOC, RM_ESC_FREE);
    flip_word(race, &race->xfer.size, sizeof(struct rm_alloc), sizeof(struct rm_free));
}

static void freed(struct race *race)
{
    flip_word(race, &race->free.handle, 0x1001, 0x1002);
}

static void source(struct race *race)
{
    flip_word(race, &race->dup.source_handle, 0x1001, 0x1002);
}

static void mapped(struct race *race)
{
    flip_word(race, &race->map.memory, 0x1001, 0x1002);
}

static void unmapped(struct race *race)
{
    flip_word(race, &race->unmap.base, (uint32_t)BASE, (uint32_t)(BASE + HUGE));
}

static void range(struct race *race)
{
    flip_word(race, &race->range[0].base, (uint32_t)BASE, (uint32_t)(BASE + HUGE));
}

static const struct {
    const char *name;
    void (*begin)(struct race *race);
    void (*try_it)(struct race *race);
    unsigned share; /* of the tries */
    bool both;      /* outcomes are seen, with enough tries */
} races[] = {
    {"size", size, by_alloc, 24, true},
    {"class", class_of, by_alloc, 4, true},
    {"size, 32 bytes", size, by_short, 10, true},
    {"size, by XFER", size, by_xfer, 10, true},
    {"high half of the size", size_high, by_alloc, 4, true},
    {"address of the parameters", params_address, by_alloc, 8, true},
    {"flags", flags, by_alloc, 2, false},
    {"size of pages", pages, by_alloc, 2, true},
    {"GPU", parent, by_alloc, 4, false},
    {"handle", handle, by_handle, 2, false},
    {"heap: size", heap_size, by_heap, 6, true},
    {"heap: height", heap_tiled, by_heap, 2, true},
    {"heap: function", heap_function, by_heap, 4, true},
    {"heap: flags", heap_flags, by_heap, 2, true},
    {"heap: location", heap_location, by_heap, 2, true},
    {"XFER: address", outer_address, by_outer, 2, false},
    {"XFER: size", outer_size, by_outer, 2, false},
    {"XFER: call", outer_call, by_outer, 2, false},
    {"what is freed", freed, by_free, 3, true},
    {"what is duplicated", source, by_dup, 3, true},
    {"what is unmapped", unmapped, by_unmap, 1, true},
    {"what is freed of UVM's", range, by_uvm_free, 1, true},
    {"what is mapped", mapped, by_map, 1, true},
};

static void begin(struct race *race)
{
    race->count = 0;
    race->granted = race->refused = 0;
    atomic_store(&race->over, false);
    race->params[0] = (struct rm_memory_params){.attr = ATTR_4K, .size = SMALL, .numa_node = -1};
    race->params[1] = (struct rm_memory_params){.attr = ATTR_4K, .size = HUGE, .numa_node = -1};
    race->alloc = alloc_of(race, 0);
    race->alloc_short = (struct rm_alloc_short){.root = race->client.client,
                                                .parent = race->client.device,
                                                .class_id = RM_CLASS_MEMORY_LOCAL_USER,
                                                .params = (uintptr_t)&race->params[0]};
    race->heap =
        (struct rm_vid_heap_control){.root = race->client.client, .parent = race->client.device};
    race->free = (struct rm_free){.root = race->client.client, .parent = race->client.device};
    race->dup = (struct rm_dup_object){.client = race->client.client,
                                       .parent = race->client.device,
                                       .source_client = race->client.client};
    race->map = (struct uvm_map_external){.base = BASE,
                                          .length = SMALL,
                                          .gpu_count = 1,
                                          .rm_fd = race->client.ctl,
                                          .client = race->client.client};
    memcpy(race->map.gpu[0].uuid, race->client.uuid, sizeof(race->client.uuid));
    race->unmap = (struct uvm_unmap_external){.base = BASE, .length = 2 * SMALL};
    memcpy(race->unmap.uuid, race->client.uuid, sizeof(race->unmap.uuid));
    race->range[0] = (struct uvm_range){BASE, HUGE};
    race->xfer = (struct rm_xfer){RM_ESC_ALLOC, sizeof(race->alloc), (uintptr_t)&race->alloc};
}

/* A device of GPU 1 for the same client. */
static void open_second(struct race *race)
{
    uint32_t params[14] = {1};

    race->second = race->client;
    race->second.gpu = 1;
    race->second.device = 0;
    race->second.card = rmclient_open_file(NULL, "nvidia1");
    CHECK(race->second.card >= 0);
    CHECK_EQUAL(rmclient_alloc(&race->client, race->client.client, &race->second.device,
                               RM_CLASS_DEVICE, params, sizeof(params)),
                0);
}

static void run(struct race *race, unsigned which, uint64_t tries)
{
    struct fakerm_stats before = book(&race->client, 0);
    pthread_t thread;

    begin(race);
    races[which].begin(race);
    CHECK_EQUAL(pthread_create(&thread, NULL, flip, race), 0);
    /* On a busy machine the thread may not run for a while. */
    for (uint64_t i = 0;
         i < tries || (races[which].both && !(race->granted && race->refused) && i < MOST); i++)
        races[which].try_it(race);
    atomic_store(&race->over, true);
    pthread_join(thread, NULL);
    fprintf(stderr, "%s: %llu tries, %llu one way, %llu the other\n", races[which].name,
            (unsigned long long)tries, (unsigned long long)race->granted,
            (unsigned long long)race->refused);
    CHECK(race->granted + race->refused > 0);
    CHECK(!races[which].both || (race->granted && race->refused));
    CHECK_EQUAL(book(&race->client, 0).gpu_used, before.gpu_used);
    CHECK_EQUAL(book(&race->client, 0).objects, before.objects);
    CHECK(book(&race->client, 0).gpu_peak <= attack_quota());
    CHECK(book(&race->second, 0).gpu_peak <= attack_quota());
    attack_check_room(&race->client);
}

int main(int argc, char **argv)
{
    static struct race race;
    uint64_t tries = attack_number(argc, argv, 1, 20000);
    bool mapped = argc > 2 && strcmp(argv[2], "mapped") == 0;
    uint32_t held, held_second = 0;

    attack_open(&race.client);
    open_second(&race);
    held = attack_must_alloc(&race.client, attack_quota() - LEFT);
    CHECK_EQUAL(attack_alloc(&race.second, attack_quota() - LEFT, &held_second), 0);
    /* Once, so that the guard's own objects are there when they are counted. */
    CHECK_EQUAL(rmclient_uvm_range(&race.client, BASE, HUGE), 0);
    CHECK_EQUAL(rmclient_uvm_map(&race.client, BASE, SMALL, 0, held), 0);
    CHECK_EQUAL(rmclient_uvm_free(&race.client, BASE, HUGE), 0);
    for (unsigned i = 0; i < sizeof(races) / sizeof(races[0]); i++) {
        if (mapped || races[i].try_it != by_map) /* not prevented otherwise */
            run(&race, i, tries * races[i].share / 100);
    }
    /* Nothing bigger than what was allowed has ever been made. */
    CHECK_EQUAL(book(&race.client, 0).biggest, attack_quota() - LEFT);
    CHECK_EQUAL(book(&race.client, 0).refused, 0);
    attack_must_free(&race.client, held);
    attack_must_free(&race.client, held_second);
    close(race.second.card);
    rmclient_close(&race.client);
    return 0;
}
