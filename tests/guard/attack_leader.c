/*
 * A process whose first thread has ended. Its /proc/PID/maps, mem and fd show that thread, so they
 * are empty. The other threads still have files and mappings.
 *
 *   attack_leader maps [TIMES]    maps TIMES times the quota as managed memory, and must not get it
 *   attack_leader works           goes on working, under a cap
 *   attack_leader opens           opens the driver after the first thread has ended
 *   attack_leader unshares        works by files that only the second thread has
 */
#include "attack.h"

#include "base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORK_NS    1000000
#define UNSEEN_MS  3000 /* the supervisor makes rounds meanwhile */
#define KERNELS    50
#define PATIENCE_S 60

static struct rmclient client;
static pthread_t leader;
static uint64_t times;
static const char *what;

static void maps_more(void)
{
    uint64_t granted = 0;

    for (unsigned i = 0; i < 30 && granted < times; i++) {
        if (mmap(NULL, attack_quota(), PROT_READ | PROT_WRITE, MAP_SHARED, client.uvm,
                 (off_t)(64 * MIB)) != MAP_FAILED)
            granted++;
        nap_ms(200);
    }
    fprintf(stderr, "%llu times the quota is mapped\n", (unsigned long long)granted);
    nap_ms(3000);
    _exit(granted > 1 ? 3 : 0);
}

/* Its kernels still run when the supervisor has made rounds, and no longer found the first thread's
 * files. A program whose channels stay off is ended by the alarm. */
static void works(void)
{
    uint64_t seen_ns = clock_ns() + UNSEEN_MS * NS_PER_MS;
    uint32_t group, channel;

    CHECK_EQUAL(rmclient_compute(&client, 1, &group, &channel), 0);
    alarm(PATIENCE_S);
    for (unsigned late = 0; late < KERNELS;) {
        late += clock_ns() > seen_ns;
        CHECK_EQUAL(rmclient_run(&client, channel, WORK_NS, 1), 0);
    }
    _exit(0);
}

static void *go_on(void *arg)
{
    if (strcmp(what, "unshares") == 0)
        CHECK_EQUAL(unshare(CLONE_FILES), 0);
    if (strcmp(what, "opens") != 0 && strcmp(what, "works") != 0)
        attack_open(&client);
    CHECK_EQUAL(strcmp(what, "maps") == 0 ? rmclient_uvm_open(&client) : 0, 0);
    CHECK_EQUAL(pthread_join(leader, NULL), 0);
    if (strcmp(what, "opens") == 0)
        attack_open(&client);
    if (strcmp(what, "maps") == 0)
        maps_more();
    works();
    return arg;
}

int main(int argc, char **argv)
{
    static pthread_t thread;

    what = argc > 1 ? argv[1] : "maps";
    times = attack_number(argc, argv, 2, 3);
    leader = pthread_self();
    if (strcmp(what, "works") == 0)
        attack_open(&client); /* in the table of both */
    CHECK_EQUAL(pthread_create(&thread, NULL, go_on, NULL), 0);
    pthread_exit(NULL);
}
