/*
 * More clients, open files, devices and processes than the supervisor has room for. Some calls may
 * fail. Meanwhile the quota holds and earlier clients work, and afterwards all is as before.
 *
 *   attack_limits [CHECK]
 */
#include "attack.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define FILES     2200
#define CLIENTS   4200
#define PROCESSES 540

static struct rmclient judge;

/* Whoever was there before is served as ever. */
static void check_goes_on(uint64_t held)
{
    uint32_t handle = 0, more = 0;

    CHECK(book(&judge, 0).gpu_used <= attack_quota());
    CHECK_EQUAL(attack_alloc(&judge, attack_quota() - held + PAGE, &more), RM_ERR_NO_MEMORY);
    CHECK_EQUAL(attack_alloc(&judge, attack_quota() - held, &handle), 0);
    CHECK_EQUAL(attack_alloc(&judge, PAGE, &more), RM_ERR_NO_MEMORY);
    CHECK_EQUAL(book(&judge, 0).gpu_used, attack_quota());
    attack_must_free(&judge, handle);
}

static void check_all_back(void)
{
    uint32_t handle = attack_await_alloc(&judge, attack_quota());

    attack_must_free(&judge, handle);
    attack_await_used(&judge, 0);
    attack_check_room(&judge);
}

/* The device is made, and the judge's serves for those to come; the descriptors are for what is
 * tried here. */
static void close_card(struct rmclient *client)
{
    close(client->card);
    client->card = -1;
}

/* Each with a client that has a page; as many as can be had. */
static void check_files(void)
{
    static struct rmclient clients[FILES];
    uint64_t held = 0;
    unsigned count = 0;

    while (count < FILES && rmclient_open(NULL, 0, &clients[count]) == 0) {
        uint32_t handle = 0;

        close_card(&clients[count]);
        if (attack_alloc(&clients[count], PAGE, &handle) == 0)
            held += PAGE;
        count++;
    }
    fprintf(stderr, "%u files\n", count);
    CHECK(count >= 20);
    CHECK_EQUAL(book(&judge, 0).gpu_used, held);
    check_goes_on(held);
    for (unsigned i = 0; i < count; i++)
        close(clients[i].ctl);
    check_all_back();
}

/* What is duplicated for a client that there is no room for stays charged, or is not duplicated. */
static void check_last(struct rmclient *known, struct rmclient *last, uint64_t held)
{
    uint32_t memory = attack_must_alloc(known, attack_quota() - held), copy = 0, more = 0;
    int rc;

    last->device = last->client; /* whatever it has got */
    rmclient_alloc(last, last->client, &last->device, RM_CLASS_DEVICE, (uint32_t[14]){0}, 56);
    rc = rmclient_dup(last, known->client, memory, &copy);
    attack_must_free(known, memory);
    CHECK_EQUAL(attack_alloc(known, PAGE, &more), rc == 0 ? RM_ERR_NO_MEMORY : 0);
    if (rc == 0)
        attack_must_free(last, copy);
    else
        attack_must_free(known, more);
}

/* Of one file; a device and memory of each, as long as it goes. */
static void check_clients(void)
{
    static struct rmclient clients[CLIENTS];
    struct rmclient first, last;
    uint64_t held = 0;
    unsigned count = 1;

    attack_open(&first);
    clients[0] = first;
    while (count < CLIENTS && rmclient_attach(NULL, first.ctl, 0, &clients[count]) == 0) {
        uint32_t handle = 0;

        close_card(&clients[count]);
        if (attack_alloc(&clients[count], PAGE, &handle) == 0)
            held += PAGE;
        count++;
    }
    fprintf(stderr, "%u clients\n", count);
    CHECK(count >= 20);
    CHECK_EQUAL(book(&judge, 0).gpu_used, held);
    check_goes_on(held);
    last = first;
    last.client = 0;
    CHECK_EQUAL(rmclient_root(first.ctl, &last.client), 0);
    check_last(&first, &last, held);
    for (unsigned i = 1; i < count; i += 2)
        CHECK_EQUAL(rmclient_free_root(&clients[i]), 0);
    rmclient_close(&first);
    check_all_back();
}

/* Processes that use the driver, all alive at once; each gets a page, or an error. */
static void check_processes(void)
{
    static pid_t children[PROCESSES];
    volatile uint32_t *got =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned failed = 0, count = 0;

    for (; count < PROCESSES; count++) {
        children[count] = attack_fork();
        if (children[count] == 0) {
            struct rmclient client;
            uint32_t handle = 0;

            if (rmclient_open(NULL, 0, &client) == 0 && attack_alloc(&client, PAGE, &handle) == 0)
                __atomic_add_fetch(got, 1, __ATOMIC_RELAXED);
            else
                __atomic_add_fetch(got + 1, 1, __ATOMIC_RELAXED);
            pause();
            _exit(0);
        }
    }
    while (got[0] + got[1] < count)
        nap_ms(10);
    failed = got[1];
    fprintf(stderr, "%u processes, of which %u were refused\n", count, failed);
    CHECK(got[0] >= 20);
    CHECK_EQUAL(book(&judge, 0).gpu_used, got[0] * PAGE);
    check_goes_on(got[0] * PAGE);
    for (unsigned i = 0; i < count; i++) {
        CHECK_EQUAL(kill(children[i], SIGKILL), 0);
        CHECK_EQUAL(finish(children[i]), 1000 + SIGKILL);
    }
    check_all_back();
}

static const struct {
    const char *name;
    void (*check)(void);
} checks[] = {{"files", check_files}, {"clients", check_clients}, {"processes", check_processes}};

int main(int argc, char **argv)
{
    struct rlimit limit;

    CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0); /* as many as the supervisor can have */
    attack_open(&judge);
    attack_check_room(&judge);
    for (unsigned i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (argc > 1 && strcmp(argv[1], checks[i].name) != 0)
            continue;
        fprintf(stderr, "%s\n", checks[i].name);
        checks[i].check();
    }
    rmclient_close(&judge);
    return 0;
}
