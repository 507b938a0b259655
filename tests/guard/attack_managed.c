/*
 * Managed memory is a mapping of the UVM device. The guard charges what is mapped, and sees
 * munmap() only later, because that is no trapped call. The device is a file here, so it can be
 * mapped anywhere.
 *
 *   attack_managed [swapped|grown]      what the guard only finds later, and reports
 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RW         (PROT_READ | PROT_WRITE)
#define OFFSET     ((off_t)(64 * MIB))
#define SWAPS      2000000
#define NOTICED_MS 20000

static struct rmclient client;
static uint64_t quota;

static char *map(uint64_t bytes)
{
    return mmap(NULL, bytes, RW, MAP_SHARED, client.uvm, OFFSET);
}

static char *must_map(uint64_t bytes)
{
    char *mapped = map(bytes);

    CHECK(mapped != MAP_FAILED);
    return mapped;
}

static void must_not_map(uint64_t bytes)
{
    CHECK(map(bytes) == MAP_FAILED);
    CHECK_EQUAL(errno, ENOMEM);
}

/* What was unmapped is found when it is needed, or a little later. */
static void check_all_back(void)
{
    uint32_t all = attack_await_alloc(&client, quota);

    must_not_map(PAGE);
    attack_must_free(&client, all);
}

static void check_limit(void)
{
    char *first, *second;
    uint32_t handle = 0;

    must_not_map(quota + PAGE);
    must_not_map(1ULL << 45);
    first = must_map(quota);
    must_not_map(PAGE);
    CHECK_EQUAL(attack_alloc(&client, PAGE, &handle), RM_ERR_NO_MEMORY);
    CHECK_EQUAL(munmap(first, quota), 0);
    check_all_back();

    first = must_map(quota / 2);
    handle = attack_must_alloc(&client, quota / 4);
    must_not_map(quota / 4 + PAGE);
    second = must_map(quota / 4);
    must_not_map(PAGE);
    attack_must_free(&client, handle);
    CHECK_EQUAL(munmap(first + quota / 4, quota / 8), 0); /* a piece */
    handle = attack_await_alloc(&client, quota / 4 + quota / 8);
    must_not_map(PAGE);
    attack_must_free(&client, handle);
    CHECK_EQUAL(munmap(first, quota / 2), 0);
    CHECK_EQUAL(munmap(second, quota / 4), 0);
    check_all_back();
}

static void check_again_and_again(void)
{
    for (unsigned i = 0; i < 500; i++) {
        char *mapped = must_map(quota / 3);

        mapped[i] = 1;
        CHECK_EQUAL(munmap(mapped, quota / 3), 0);
    }
    check_all_back();
}

/* None of these is managed memory. */
static void check_others(void)
{
    int memory = memfd_create("not the driver's", MFD_CLOEXEC),
        null = open("/dev/zero", O_RDWR | O_CLOEXEC);
    uint64_t much = 4 * quota;
    char *mapped;

    CHECK_EQUAL(ftruncate(memory, (off_t)much), 0);
    mapped = mmap(NULL, much, RW, MAP_SHARED, memory, 0);
    CHECK(mapped != MAP_FAILED);
    munmap(mapped, much);
    mapped = mmap(NULL, much, RW, MAP_SHARED, null, 0);
    CHECK(mapped != MAP_FAILED);
    munmap(mapped, much);
    mapped = mmap(NULL, much, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, client.uvm, 0);
    CHECK(mapped != MAP_FAILED);
    munmap(mapped, much);
    CHECK(mmap(NULL, PAGE, RW, MAP_SHARED, -1, 0) == MAP_FAILED);
    CHECK_EQUAL(errno, EBADF);
    close(memory);
    close(null);
    check_all_back();
}

/* Waits until there is no room because of what was mapped behind the guard's back, and then until
 * it is gone again. */
static void check_noticed(char *mapped, uint64_t bytes)
{
    uint32_t handle = 0;

    for (unsigned i = 0; attack_alloc(&client, PAGE, &handle) == 0; i++) {
        CHECK(i < NOTICED_MS);
        attack_must_free(&client, handle);
        handle = 0;
        nap_ms(1);
    }
    CHECK_EQUAL(munmap(mapped, bytes), 0);
    check_all_back();
}

/* Made bigger after it was looked at. (The driver's mappings cannot be.) */
static void check_grown(void)
{
    char *mapped = must_map(PAGE);

    mapped = mremap(mapped, PAGE, 2 * quota, MREMAP_MAYMOVE);
    CHECK(mapped != MAP_FAILED);
    check_noticed(mapped, 2 * quota);
}

/* What cannot be read just now is there all the same. (The driver makes no mapping that cannot be
 * written to.) */
static void check_protected(void)
{
    char *mapped = must_map(quota);

    CHECK_EQUAL(mprotect(mapped, quota / 2, PROT_NONE), 0);
    CHECK_EQUAL(mprotect(mapped + quota / 2, quota / 2, PROT_READ), 0);
    must_not_map(PAGE);
    nap_ms(1500); /* the watch thread has looked */
    must_not_map(PAGE);
    CHECK_EQUAL(munmap(mapped, quota), 0);
    check_all_back();
}

struct swap {
    int number, files[2];
    atomic_bool over;
};

static void *swap_files(void *arg)
{
    struct swap *swapped = arg;

    for (unsigned i = 0; !atomic_load_explicit(&swapped->over, memory_order_relaxed); i++)
        dup2(swapped->files[i % 2], swapped->number);
    return NULL;
}

static bool is_device(const char *address)
{
    char line[512], wanted[32];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");

    CHECK(maps != NULL);
    snprintf(wanted, sizeof(wanted), "%lx-", (unsigned long)(uintptr_t)address);
    while (fgets(line, sizeof(line), maps))
        found |= strncmp(line, wanted, strlen(wanted)) == 0 && strstr(line, "nvidia-uvm");
    fclose(maps);
    return found;
}

/* A file when it is looked at, the device when it is mapped. */
static void check_swapped(void)
{
    struct swap swapped = {.number = 700,
                           .files = {memfd_create("harmless", MFD_CLOEXEC), client.uvm}};
    pthread_t thread;
    char *mapped = NULL;

    CHECK_EQUAL(ftruncate(swapped.files[0], (off_t)(2 * quota) + OFFSET), 0);
    CHECK_EQUAL(dup2(swapped.files[0], 700), 700);
    CHECK_EQUAL(pthread_create(&thread, NULL, swap_files, &swapped), 0);
    for (unsigned i = 0; !mapped; i++) {
        CHECK(i < SWAPS);
        mapped = mmap(NULL, 2 * quota, RW, MAP_SHARED, 700, OFFSET);
        if (mapped != MAP_FAILED && is_device(mapped))
            break;
        if (mapped != MAP_FAILED)
            munmap(mapped, 2 * quota);
        mapped = NULL;
    }
    atomic_store(&swapped.over, true);
    pthread_join(thread, NULL);
    fprintf(stderr, "got around the guard\n");
    close(700);
    close(swapped.files[0]);
    check_noticed(mapped, 2 * quota);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    attack_open(&client);
    quota = attack_quota();
    CHECK_EQUAL(rmclient_uvm_open(&client), 0);
    attack_must_free(&client, attack_must_alloc(&client, PAGE));
    if (strcmp(what, "swapped") == 0) {
        check_swapped();
    } else if (strcmp(what, "grown") == 0) {
        check_grown();
    } else {
        check_limit();
        check_again_and_again();
        check_others();
        check_protected();
    }
    rmclient_close(&client);
    return 0;
}
