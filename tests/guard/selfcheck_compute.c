/*
 * The fake's devices: whose work runs, and when. Only the fake's own clock is compared with the real one, so a busy
 * machine does no harm.
 */
#include "selfcheck.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLICE_NS  2000000ULL
#define KERNEL_NS 1000000ULL
#define LONG      60000u /* kernels: a minute */

static struct fakerm_work work_of(struct rmclient *client, uint32_t channel)
{
    struct fakerm_work work;

    CHECK_EQUAL(rmclient_work(client, channel, &work), 0);
    return work;
}

void check_wait(void)
{
    struct rmclient client;
    uint32_t group, channels[2];
    uint64_t begin_ns, busy_ns;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    busy_ns = book(&client, 0).pid_busy_ns;
    CHECK_EQUAL(rmclient_compute(&client, 2, &group, channels), 0);
    CHECK_EQUAL(rmclient_idle(&client, channels, 2), 0);
    begin_ns = clock_ns();
    CHECK_EQUAL(rmclient_submit(&client, channels[0], KERNEL_NS, 20), 0);
    CHECK_EQUAL(rmclient_submit(&client, channels[1], KERNEL_NS, 5), 0);
    CHECK_EQUAL(rmclient_wait(&client, 0), 0);
    CHECK(clock_ns() - begin_ns >= 25 * KERNEL_NS);
    CHECK_EQUAL(rmclient_idle(&client, channels, 2), 0);
    CHECK_EQUAL(work_of(&client, channels[0]).completed, 20);
    CHECK_EQUAL(work_of(&client, 0).completed, 25);
    CHECK_EQUAL(work_of(&client, 0).pending, 0);
    CHECK_EQUAL(book(&client, 0).pid_busy_ns - busy_ns, 25 * KERNEL_NS);
    CHECK_EQUAL(rmclient_wait(&client, channels[1]), 0);
    CHECK_EQUAL(rmclient_run(&client, channels[1], KERNEL_NS, 2), 0);
    CHECK_EQUAL(work_of(&client, channels[1]).completed, 7);
    CHECK_EQUAL(rmclient_submit(&client, channels[0] + 1000, KERNEL_NS, 1), RM_ERR_OBJECT_NOT_FOUND);
    rmclient_close(&client);
}

/* Another process with a minute of work that has been switched off; its handles come through the pipe. */
struct tenant {
    pid_t pid;
    uint32_t client, channel;
};

static struct tenant start_tenant(void)
{
    struct tenant tenant;
    int ends[2];

    CHECK_EQUAL(pipe(ends), 0);
    tenant.pid = fork();
    CHECK(tenant.pid >= 0);
    if (tenant.pid == 0) {
        struct rmclient client;
        uint32_t group, channel;

        CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
        CHECK_EQUAL(rmclient_compute(&client, 1, &group, &channel), 0);
        CHECK_EQUAL(rmclient_disable(&client, NULL, &channel, 1, true), 0);
        CHECK_EQUAL(rmclient_submit(&client, channel, KERNEL_NS, LONG), 0);
        tenant = (struct tenant){getpid(), client.client, channel};
        CHECK(write(ends[1], &tenant, sizeof(tenant)) == sizeof(tenant));
        rmclient_wait(&client, 0);
        exit(1);
    }
    close(ends[1]);
    CHECK(read(ends[0], &tenant, sizeof(tenant)) == sizeof(tenant));
    close(ends[0]);
    return tenant;
}

static void end_tenant(const struct tenant *tenant)
{
    kill(tenant->pid, SIGKILL);
    CHECK_EQUAL(finish(tenant->pid), 1000 + SIGKILL);
}

/* Both are let go by one call, so that they begin together. */
void check_slices(void)
{
    struct tenant a = start_tenant(), b = start_tenant();
    uint32_t clients[2] = {a.client, b.client}, channels[2] = {a.channel, b.channel};
    uint64_t before_ns, after_ns, begun_ns, ended_ns, busy_a, busy_b;
    struct rmclient client;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    CHECK_EQUAL(book(&client, 0).channels_disabled, 2);
    CHECK_EQUAL(rmclient_disable(&client, clients, channels, 1, false) |
                    rmclient_disable(&client, clients, channels, 1, true),
                0);
    busy_a = book(&client, (uint32_t)a.pid).pid_busy_ns;
    CHECK(busy_a > 0);
    CHECK_EQUAL(book(&client, (uint32_t)b.pid).pid_busy_ns, 0);
    before_ns = clock_ns();
    CHECK_EQUAL(rmclient_disable(&client, clients, channels, 2, false), 0);
    begun_ns = clock_ns();
    nap_ms(200);
    CHECK_EQUAL(rmclient_disable(&client, clients, channels, 2, true), 0);
    after_ns = clock_ns();
    ended_ns = after_ns - begun_ns;
    busy_a = book(&client, (uint32_t)a.pid).pid_busy_ns - busy_a;
    busy_b = book(&client, (uint32_t)b.pid).pid_busy_ns;
    printf("  %llu and %llu us of %llu\n", (unsigned long long)busy_a / 1000, (unsigned long long)busy_b / 1000,
           (unsigned long long)(after_ns - before_ns) / 1000);
    CHECK(busy_a + busy_b <= after_ns - before_ns);
    CHECK(busy_a + busy_b >= ended_ns / 100 * 95);
    CHECK(busy_a <= busy_b + SLICE_NS && busy_b <= busy_a + SLICE_NS);
    CHECK(book(&client, 0).switches >= 50);
    end_tenant(&a);
    end_tenant(&b);
    rmclient_close(&client);
}

void check_disable(void)
{
    struct tenant tenant = start_tenant();
    struct rmclient client;
    uint64_t busy_ns, begin_ns;
    uint32_t group, channel, no_channel = 5;
    struct fakerm_work work;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    nap_ms(20);
    CHECK_EQUAL(book(&client, (uint32_t)tenant.pid).pid_busy_ns, 0);
    CHECK_EQUAL(rmclient_disable(&client, &tenant.client, &tenant.channel, 1, false), 0);
    do
        busy_ns = book(&client, (uint32_t)tenant.pid).pid_busy_ns;
    while (busy_ns < 3 * KERNEL_NS);
    CHECK_EQUAL(rmclient_disable(&client, &tenant.client, &tenant.channel, 1, true), 0);
    busy_ns = book(&client, (uint32_t)tenant.pid).pid_busy_ns;
    nap_ms(20);
    CHECK_EQUAL(book(&client, (uint32_t)tenant.pid).pid_busy_ns, busy_ns);
    end_tenant(&tenant);
    for (int i = 0; i < 3000 && book(&client, 0).channels_disabled; i++)
        nap_ms(10);
    CHECK_EQUAL(book(&client, 0).channels_disabled, 0); /* the dead leave nothing switched off */

    /* A kernel that was stopped keeps what was left of it; waiting work is no idleness. */
    CHECK_EQUAL(rmclient_compute(&client, 1, &group, &channel), 0);
    CHECK_EQUAL(rmclient_submit(&client, channel, 200 * KERNEL_NS, 1), 0);
    begin_ns = clock_ns();
    CHECK_EQUAL(rmclient_disable(&client, NULL, &channel, 1, true), 0);
    CHECK(clock_ns() - begin_ns >= 600000);
    CHECK_EQUAL(rmclient_idle(&client, &channel, 1), RM_ERR_TIMEOUT);
    work = work_of(&client, channel);
    if (work.pending) {
        CHECK(work.busy_ns >= 600000 && work.busy_ns < 200 * KERNEL_NS);
        CHECK_EQUAL(work.disabled, 1);
    }
    CHECK_EQUAL(rmclient_disable(&client, NULL, &channel, 1, false), 0);
    CHECK_EQUAL(rmclient_wait(&client, channel), 0);
    CHECK_EQUAL(work_of(&client, channel).busy_ns, 200 * KERNEL_NS);
    CHECK_EQUAL(rmclient_disable(&client, NULL, &no_channel, 1, true), RM_ERR_OBJECT_NOT_FOUND);
    rmclient_close(&client);
}

void check_schedule(void)
{
    struct rmclient client;
    uint32_t group, channel;
    uint64_t slice_us = 0;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    CHECK_EQUAL(rmclient_compute(&client, 1, &group, &channel), 0);
    CHECK_EQUAL(rmclient_get_slice(&client, group, &slice_us), 0);
    CHECK_EQUAL(slice_us, SLICE_NS / 1000);
    CHECK_EQUAL(rmclient_set_slice(&client, group, 300), 0);
    CHECK_EQUAL(rmclient_get_slice(&client, group, &slice_us), 0);
    CHECK_EQUAL(slice_us, 300);
    CHECK_EQUAL(rmclient_schedule(&client, group, false), 0);
    CHECK_EQUAL(rmclient_submit(&client, channel, KERNEL_NS, 1), 0);
    nap_ms(10);
    CHECK_EQUAL(work_of(&client, channel).busy_ns, 0);
    CHECK_EQUAL(rmclient_schedule(&client, group, true), 0);
    CHECK_EQUAL(rmclient_wait(&client, channel), 0);
    CHECK_EQUAL(work_of(&client, channel).busy_ns, KERNEL_NS);
    rmclient_close(&client);
}

struct waiting {
    struct rmclient client;
    int rc;
};

static void *wait_for_all(void *arg)
{
    struct waiting *waiting = arg;

    waiting->rc = rmclient_wait(&waiting->client, 0);
    return NULL;
}

/* Who waits for what never ends gets away when it is freed, and when it is killed. */
void check_wait_ends(void)
{
    struct waiting waiting = {.rc = -1};
    uint32_t group, channel;
    pthread_t thread;
    pid_t child;

    CHECK_EQUAL(rmclient_open(NULL, 0, &waiting.client), 0);
    CHECK_EQUAL(rmclient_compute(&waiting.client, 1, &group, &channel), 0);
    CHECK_EQUAL(rmclient_disable(&waiting.client, NULL, &channel, 1, true), 0);
    CHECK_EQUAL(rmclient_submit(&waiting.client, channel, KERNEL_NS, 1), 0);
    child = fork();
    if (child == 0) {
        rmclient_wait(&waiting.client, channel);
        exit(3);
    }
    CHECK_EQUAL(pthread_create(&thread, NULL, wait_for_all, &waiting), 0);
    nap_ms(20);
    kill(child, SIGKILL);
    CHECK_EQUAL(finish(child), 1000 + SIGKILL);
    CHECK_EQUAL(rmclient_free_root(&waiting.client), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK(waiting.rc == 0 || waiting.rc == RM_ERR_OBJECT_NOT_FOUND || waiting.rc == RM_ERR_INVALID_CLIENT);
    rmclient_close(&waiting.client);
}
