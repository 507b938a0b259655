/*
 * Processes are killed or stopped at any moment of their calls. The driver and the guard keep
 * nothing of them, and the others go on.
 *
 *   attack_kill [ROUNDS]
 */
#include "attack.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct rmclient judge;

static void *churn(void *arg)
{
    struct rmclient *client = arg;

    for (;;) {
        struct rmclient_block block;
        uint32_t memory = 0, copy = 0;

        if (attack_alloc(client, attack_quota() / 4, &memory) != 0)
            continue;
        rmclient_dup(client, client->client, memory, &copy);
        rmclient_free(client, memory);
        rmclient_free(client, copy);
        if (rmclient_malloc(client, attack_quota() / 8, &block) == 0)
            rmclient_mfree(client, &block);
    }
    return NULL;
}

/* Two threads that allocate and free until they are killed; some have more memory than they will
 * ever free. */
static void busy(unsigned round, volatile uint32_t *started)
{
    struct rmclient client, second;
    struct rmclient_block block;
    pthread_t thread;

    alarm(100);
    *started = 1;
    attack_open(&client);
    attack_open(&second);
    if (round % 3 == 0)
        rmclient_malloc(&client, attack_quota() / 4, &block);
    CHECK_EQUAL(pthread_create(&thread, NULL, churn, &second), 0);
    churn(&client);
}

static void check_all_back(void)
{
    uint32_t handle = attack_await_alloc(&judge, attack_quota());

    CHECK_EQUAL(book(&judge, 0).gpu_used, attack_quota());
    attack_must_free(&judge, handle);
    CHECK_EQUAL(book(&judge, 0).gpu_used, 0);
}

static void nap_us(unsigned us)
{
    nanosleep(&(struct timespec){0, (long)us * 1000}, NULL);
}

static void kill_one(unsigned round, uint64_t *random, volatile uint32_t *started)
{
    pid_t child;

    *started = 0;
    child = attack_fork();
    if (child == 0)
        busy(round, started);
    while (!*started)
        nap_us(50);
    nap_us(attack_random(random) % 15000);
    if (round % 4 == 0) {
        CHECK_EQUAL(kill(child, SIGSTOP), 0);
        nap_us(attack_random(random) % 2000);
        if (round % 8 == 0) {
            CHECK_EQUAL(kill(child, SIGCONT), 0);
            nap_us(attack_random(random) % 2000);
        }
    }
    CHECK_EQUAL(kill(child, SIGKILL), 0);
    CHECK_EQUAL(finish(child), 1000 + SIGKILL);
    check_all_back();
}

/* Who is stopped keeps what it has, is in nobody's way, and goes on where it was. */
static void check_stopped(volatile uint32_t *started)
{
    pid_t child;
    uint32_t handle = 0;

    *started = 0;
    child = attack_fork();
    if (child == 0) {
        struct rmclient client;
        uint32_t memory;

        attack_open(&client);
        memory = attack_must_alloc(&client, attack_quota() / 2);
        *started = 1;
        for (unsigned i = 0; i < 20000 && *started == 1; i++) {
            uint32_t more = 0;

            CHECK_EQUAL(attack_alloc(&client, PAGE, &more), 0);
            attack_must_free(&client, more);
        }
        attack_must_free(&client, memory);
        _exit(3);
    }
    while (!*started)
        nap_us(100);
    for (unsigned i = 0; i < 20; i++) {
        CHECK_EQUAL(kill(child, SIGSTOP), 0);
        nap_us(500);
        CHECK_EQUAL(attack_alloc(&judge, attack_quota() / 2 + PAGE, &handle), RM_ERR_NO_MEMORY);
        CHECK_EQUAL(attack_alloc(&judge, attack_quota() / 2 - PAGE, &handle), 0);
        attack_must_free(&judge, handle);
        handle = 0;
        CHECK_EQUAL(kill(child, SIGCONT), 0);
        nap_us(500);
    }
    *started = 2;
    CHECK_EQUAL(finish(child), 3);
    check_all_back();
}

int main(int argc, char **argv)
{
    uint64_t rounds = attack_number(argc, argv, 1, 200), random = 1;
    volatile uint32_t *started =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    attack_open(&judge);
    check_stopped(started);
    for (unsigned i = 0; i < rounds; i++)
        kill_one(i, &random, started);
    rmclient_close(&judge);
    return 0;
}
