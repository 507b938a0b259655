/*
 * A long life of allocations, clients, threads, processes, duplicates and mappings. The supervisor
 * must not grow, and must not need more processor time for the same calls.
 *
 *   attack_churn [ROUNDS [ROUNDS_IF_LONG]]      the latter with LONG=1 in the environment
 */
#include "attack.h"

#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define LIVE       1000 /* are held meanwhile */
#define MORE_TIMES 5    /* may the last tenth take of a processor what the first has taken */
#define GROWTH_KIB 4096
#define MORE_FILES 300 /* threads that have ended are remembered until others take their places */

static struct rmclient client;
static uint32_t live[LIVE];

static uint64_t resident_kib(pid_t pid)
{
    char path[64], line[256];
    uint64_t kib = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtoull(line + 6, NULL, 10);
    fclose(file);
    CHECK(kib > 0);
    return kib;
}

static unsigned descriptors(pid_t pid)
{
    char path[64];
    unsigned count = 0;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    folder = opendir(path);
    CHECK(folder != NULL);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* How long its threads have run. */
static uint64_t cpu_ns(pid_t pid)
{
    char path[300];
    uint64_t sum = 0;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    folder = opendir(path);
    CHECK(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder));) {
        unsigned long long ns = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/task/%.20s/schedstat", (int)pid, entry->d_name);
        file = fopen(path, "re");
        if (!file)
            continue; /* no thread, or it has ended */
        if (fscanf(file, "%llu", &ns) == 1)
            sum += ns;
        fclose(file);
    }
    closedir(folder);
    return sum;
}

static void *in_thread(void *arg)
{
    (void)arg;
    attack_must_free(&client, attack_must_alloc(&client, PAGE));
    return NULL;
}

/* What is rarer than memory. */
static void aside(uint64_t round)
{
    if (round % 16 == 0) {
        struct rmclient_block block;

        CHECK_EQUAL(rmclient_malloc(&client, PAGE, &block), 0);
        CHECK_EQUAL(rmclient_mfree(&client, &block), 0);
    }
    if (round % 64 == 0) {
        struct rmclient other;

        attack_open(&other);
        attack_must_alloc(&other, PAGE);
        if (round % 128 == 0)
            CHECK_EQUAL(rmclient_free_root(&other), 0);
        rmclient_close(&other);
    }
    if (round % 128 == 0) {
        pthread_t thread;

        CHECK_EQUAL(pthread_create(&thread, NULL, in_thread, NULL), 0);
        pthread_join(thread, NULL);
    }
    if (round % 512 == 0) {
        pid_t child = attack_fork();

        if (child == 0) {
            in_thread(NULL);
            _exit(0);
        }
        CHECK_EQUAL(finish(child), 0);
    }
}

/* One of those that live goes, and a new one comes, which is now and then duplicated. */
static void turn(uint64_t round, uint64_t *random)
{
    unsigned which = attack_random(random) % LIVE;

    attack_must_free(&client, live[which]);
    live[which] = attack_must_alloc(&client, PAGE);
    if (round % 8 == 0) {
        uint32_t copy = 0;

        CHECK_EQUAL(rmclient_dup(&client, client.client, live[which], &copy), 0);
        attack_must_free(&client, live[which]);
        live[which] = copy;
    }
}

/* Returns how much of a processor the supervisor has taken for it. */
static uint64_t tenth(pid_t vgpu, uint64_t rounds, uint64_t *random)
{
    uint64_t before_ns = cpu_ns(vgpu);

    for (uint64_t i = 0; i < rounds; i++) {
        turn(i, random);
        aside(i);
    }
    return cpu_ns(vgpu) - before_ns;
}

int main(int argc, char **argv)
{
    uint64_t rounds = attack_number(argc, argv, getenv("LONG") ? 2 : 1, 10000), random = 1;
    uint64_t first_ns = 0, last_ns = 0, kib = 0;
    unsigned files = 0;
    pid_t vgpu = getppid();

    attack_open(&client);
    for (unsigned i = 0; i < LIVE; i++)
        live[i] = attack_must_alloc(&client, PAGE);
    for (unsigned i = 0; i < 10; i++) {
        last_ns = tenth(vgpu, rounds / 10, &random);
        if (i > 0)
            continue;
        first_ns = last_ns;
        kib = resident_kib(vgpu);
        files = descriptors(vgpu);
    }
    fprintf(stderr,
            "%llu rounds: processor %llu us, then %llu us; memory %llu KiB, then %llu KiB; "
            "files %u, then %u\n",
            (unsigned long long)rounds, (unsigned long long)first_ns / 1000,
            (unsigned long long)last_ns / 1000, (unsigned long long)kib,
            (unsigned long long)resident_kib(vgpu), files, descriptors(vgpu));
    CHECK(first_ns > 0 && last_ns < first_ns * MORE_TIMES);
    nap_ms(2500); /* files that were closed are found by looking */
    CHECK(resident_kib(vgpu) < kib + GROWTH_KIB);
    CHECK(descriptors(vgpu) <= files + MORE_FILES);
    CHECK_EQUAL(book(&client, 0).gpu_used, LIVE * PAGE);
    attack_check_room(&client);
    rmclient_close(&client);
    return 0;
}
