/*
 * The fake's devices: whose work runs, and when. Only the fake's own clock is compared with the
 * real one, so a busy machine does no harm.
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
#define OFF_NS    640000ULL
#define END_NS    405000ULL
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
    begin_ns = clock_ns();
    CHECK_EQUAL(rmclient_submit(&client, channels[0], KERNEL_NS, 20), 0);
    CHECK_EQUAL(rmclient_submit(&client, channels[1], KERNEL_NS, 5), 0);
    CHECK_EQUAL(rmclient_wait(&client, 0), 0);
    CHECK(clock_ns() - begin_ns >= 25 * KERNEL_NS);
    CHECK_EQUAL(work_of(&client, channels[0]).completed, 20);
    CHECK_EQUAL(work_of(&client, 0).completed, 25);
    CHECK_EQUAL(work_of(&client, 0).pending, 0);
    CHECK_EQUAL(book(&client, 0).pid_busy_ns - busy_ns, 25 * KERNEL_NS);
    CHECK_EQUAL(rmclient_wait(&client, channels[1]), 0);
    CHECK_EQUAL(rmclient_run(&client, channels[1], KERNEL_NS, 2), 0);
    CHECK_EQUAL(work_of(&client, channels[1]).completed, 7);
    CHECK_EQUAL(rmclient_submit(&client, channels[0] + 1000, KERNEL_NS, 1),
                RM_ERR_OBJECT_NOT_FOUND);
    rmclient_close(&client);
}

/* Another process with a minute of work that has been switched off; its handles come through the
 * pipe. */
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
    ended_ns = clock_ns() - begun_ns; /* the call may take a while, and they may be off by then */
    CHECK_EQUAL(rmclient_disable(&client, clients, channels, 2, true), 0);
    after_ns = clock_ns();
    busy_a = book(&client, (uint32_t)a.pid).pid_busy_ns - busy_a;
    busy_b = book(&client, (uint32_t)b.pid).pid_busy_ns;
    printf("  %llu and %llu us of %llu\n", (unsigned long long)busy_a / 1000,
           (unsigned long long)busy_b / 1000, (unsigned long long)(after_ns - before_ns) / 1000);
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

    /* A kernel that was stopped keeps what was left of it. */
    CHECK_EQUAL(rmclient_compute(&client, 1, &group, &channel), 0);
    CHECK_EQUAL(rmclient_submit(&client, channel, 200 * KERNEL_NS, 1), 0);
    begin_ns = clock_ns();
    CHECK_EQUAL(rmclient_disable(&client, NULL, &channel, 1, true), 0);
    CHECK(clock_ns() - begin_ns >= OFF_NS);
    work = work_of(&client, channel);
    if (work.pending) {
        CHECK(work.busy_ns >= OFF_NS * 73 / 100 && work.busy_ns < 200 * KERNEL_NS);
        CHECK_EQUAL(work.disabled, 1);
    }
    CHECK_EQUAL(rmclient_disable(&client, NULL, &channel, 1, false), 0);
    CHECK_EQUAL(rmclient_wait(&client, channel), 0);
    CHECK_EQUAL(work_of(&client, channel).busy_ns, 200 * KERNEL_NS);
    CHECK_EQUAL(rmclient_disable(&client, NULL, &no_channel, 1, true), RM_ERR_OBJECT_NOT_FOUND);
    rmclient_close(&client);
}

static struct rm_ctxsw_stats counts_of(struct rmclient *client, uint32_t object)
{
    struct rm_ctxsw_stats stats;

    CHECK_EQUAL(rmclient_ctxsw(client, object, false, &stats), 0);
    CHECK_EQUAL(stats.save, stats.wfi + stats.cilp);
    CHECK_EQUAL(stats.cta + stats.gfxp, 0);
    return stats;
}

static void check_counts(struct rmclient *client, uint32_t object, uint32_t restore, uint32_t wfi,
                         uint32_t cilp)
{
    struct rm_ctxsw_stats stats = counts_of(client, object);

    CHECK_EQUAL(stats.restore, restore);
    CHECK_EQUAL(stats.wfi, wfi);
    CHECK_EQUAL(stats.cilp, cilp);
}

static struct fakerm_work settled(struct rmclient *client, uint32_t channel)
{
    struct fakerm_work work = work_of(client, channel);

    nap_ms(20);
    CHECK_EQUAL(work_of(client, channel).busy_ns, work.busy_ns);
    CHECK_EQUAL(work_of(client, channel).completed, work.completed);
    return work;
}

/* Alone, the kernel that runs goes on to its end, and nothing else of its group; unless it is
 * disabled for good. */
static void check_end_alone(struct rmclient *client)
{
    uint32_t group, channels[2];
    uint64_t begin_ns, busy_ns;
    struct fakerm_work work[2];

    CHECK_EQUAL(rmclient_compute(client, 2, &group, channels), 0);
    CHECK_EQUAL(rmclient_submit(client, channels[0], 20 * KERNEL_NS, LONG), 0);
    CHECK_EQUAL(rmclient_submit(client, channels[1], 20 * KERNEL_NS, LONG), 0);
    begin_ns = clock_ns();
    CHECK_EQUAL(rmclient_end(client, NULL, channels, 2), 0);
    CHECK(clock_ns() - begin_ns >= END_NS);
    CHECK_EQUAL(work_of(client, 0).disabled, 2);
    nap_ms(40);
    for (unsigned i = 0; i < 2; i++) {
        work[i] = settled(client, channels[i]);
        CHECK_EQUAL(work[i].busy_ns, work[i].completed * 20 * KERNEL_NS);
    }
    CHECK(work[0].completed + work[1].completed > 0);
    CHECK_EQUAL(rmclient_disable(client, NULL, channels, 2, false), 0);
    nap_ms(1);
    CHECK(work_of(client, 0).busy_ns > work[0].busy_ns + work[1].busy_ns);
    CHECK_EQUAL(rmclient_free(client, group), 0);

    CHECK_EQUAL(rmclient_compute(client, 1, &group, channels), 0);
    CHECK_EQUAL(rmclient_submit(client, channels[0], LONG * KERNEL_NS, 1), 0);
    nap_ms(1);
    CHECK_EQUAL(rmclient_end(client, NULL, channels, 1), 0);
    busy_ns = work_of(client, channels[0]).busy_ns;
    nap_ms(10);
    CHECK(work_of(client, channels[0]).busy_ns >= busy_ns + 10 * KERNEL_NS);
    CHECK_EQUAL(rmclient_preempt(client, group), 0);
    check_counts(client, group, 1, 0, 1);
    busy_ns = settled(client, channels[0]).busy_ns;
    CHECK_EQUAL(rmclient_disable(client, NULL, channels, 1, false), 0);
    nap_ms(1);
    CHECK(work_of(client, channels[0]).busy_ns > busy_ns);
    CHECK_EQUAL(rmclient_free(client, group), 0);
}

/* Beside another group with work, until the time slice is over. */
static void check_end_beside(struct rmclient *client)
{
    uint32_t groups[2], channels[2];
    uint64_t busy_ns, other_ns;

    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQUAL(rmclient_compute(client, 1, &groups[i], &channels[i]), 0);
        CHECK_EQUAL(rmclient_submit(client, channels[i], LONG * KERNEL_NS, 1), 0);
    }
    nap_ms(10);
    CHECK_EQUAL(rmclient_end(client, NULL, channels, 1), 0);
    busy_ns = work_of(client, channels[0]).busy_ns;
    nap_ms(4);
    CHECK(settled(client, channels[0]).busy_ns <= busy_ns + SLICE_NS);
    other_ns = work_of(client, channels[1]).busy_ns;
    nap_ms(10);
    CHECK(work_of(client, channels[1]).busy_ns >= other_ns + 10 * KERNEL_NS);
    CHECK_EQUAL(rmclient_set_slice(client, groups[0], LONG * 1000ULL), 0);
    CHECK_EQUAL(rmclient_disable(client, NULL, channels, 2, false), 0);
    busy_ns = work_of(client, channels[0]).busy_ns;
    while (work_of(client, channels[0]).busy_ns == busy_ns)
        nap_ms(1);
    CHECK_EQUAL(rmclient_end(client, NULL, channels, 1), 0); /* a minute is a long slice */
    busy_ns = work_of(client, channels[0]).busy_ns;
    nap_ms(20);
    CHECK(work_of(client, channels[0]).busy_ns >= busy_ns + 20 * KERNEL_NS);
    CHECK_EQUAL(rmclient_preempt(client, groups[0]), 0);
    settled(client, channels[0]);
}

void check_end(void)
{
    struct rmclient client;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    check_end_alone(&client);
    check_end_beside(&client);
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

static void make_unscheduled(struct rmclient *client, uint32_t *ret_group, uint32_t *ret_channel)
{
    *ret_group = *ret_channel = 0;
    CHECK_EQUAL(rmclient_group(client, ret_group), 0);
    CHECK_EQUAL(rmclient_channel(client, *ret_group, ret_channel), 0);
    CHECK_EQUAL(work_of(client, *ret_channel).scheduled, 0);
}

/* A group has as many handles as were made of it, in the clients of one process, and is there for
 * as long as one is. */
void check_group_dup(void)
{
    uint32_t group, channel, copy = 0, copy_of_other = 0, more = 0;
    struct rmclient client, other;
    unsigned channels;
    pid_t child;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    CHECK_EQUAL(rmclient_open(NULL, 0, &other), 0);
    channels = book(&client, 0).channels;
    make_unscheduled(&client, &group, &channel);
    CHECK_EQUAL(rmclient_dup(&client, client.client, group, &copy), 0);
    CHECK_EQUAL(rmclient_dup(&other, client.client, group, &copy_of_other), 0);
    CHECK_EQUAL(rmclient_dup(&client, client.client, channel, &more), RM_ERR_NOT_SUPPORTED);
    CHECK_EQUAL(rmclient_share(&client, other.client), 0);
    child = fork();
    if (child == 0) {
        struct rmclient own;

        CHECK_EQUAL(rmclient_open(NULL, 0, &own), 0);
        CHECK_EQUAL(rmclient_dup(&own, client.client, group, &more),
                    RM_ERR_INSUFFICIENT_PERMISSIONS);
        exit(0);
    }
    CHECK_EQUAL(finish(child), 0);
    CHECK_EQUAL(rmclient_schedule(&other, copy_of_other, true), 0);
    CHECK_EQUAL(rmclient_run(&client, channel, KERNEL_NS, 1), 0);
    CHECK_EQUAL(rmclient_schedule(&client, copy, false), 0);
    CHECK_EQUAL(work_of(&client, channel).scheduled, 0);

    /* What is below a handle goes with it; the group is the last one's. */
    CHECK_EQUAL(rmclient_free(&client, group), 0);
    CHECK_EQUAL(book(&client, 0).channels, channels);
    channel = 0;
    CHECK_EQUAL(rmclient_channel(&client, copy, &channel), 0);
    CHECK_EQUAL(rmclient_schedule(&other, copy_of_other, true), 0);
    rmclient_close(&other);
    CHECK_EQUAL(rmclient_run(&client, channel, KERNEL_NS, 1), 0);
    CHECK_EQUAL(rmclient_free(&client, copy), 0);
    CHECK_EQUAL(book(&client, 0).channels, channels);
    rmclient_close(&client);
}

/* What is off must not be switched off again. */
static void check_twice(struct rmclient *client, bool ending)
{
    uint32_t group, channel, wedged = book(client, 0).wedged;

    CHECK_EQUAL(rmclient_compute(client, 1, &group, &channel), 0);
    CHECK_EQUAL(ending ? rmclient_end(client, NULL, &channel, 1)
                       : rmclient_disable(client, NULL, &channel, 1, true),
                0);
    CHECK_EQUAL(book(client, 0).wedged, wedged);
    CHECK_EQUAL(rmclient_disable(client, NULL, &channel, 1, true), 0);
    CHECK_EQUAL(rmclient_disable(client, NULL, &channel, 1, false), 0);
    CHECK_EQUAL(work_of(client, channel).wedged, 1);
    CHECK_EQUAL(book(client, 0).wedged, wedged + 1);
    CHECK_EQUAL(rmclient_free(client, group), 0);
}

/* Work waits for the first time that its channel is scheduled. */
void check_wedged(void)
{
    struct rm_schedule params = {.enable = 1};
    uint32_t group, channel;
    struct rmclient client;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    make_unscheduled(&client, &group, &channel);
    CHECK_EQUAL(rmclient_submit(&client, channel, KERNEL_NS, 1), 0);
    CHECK_EQUAL(rmclient_disable(&client, NULL, &channel, 1, false), 0); /* does no harm */
    nap_ms(10);
    CHECK_EQUAL(work_of(&client, channel).busy_ns, 0);
    CHECK((rmclient_control(&client, channel, RM_CTRL_CHANNEL_SCHEDULE, &params, 2) == 0) !=
          (rmclient_control(&client, channel, RM_CTRL_CHANNEL_SCHEDULE, &params, 3) == 0));
    CHECK_EQUAL(rmclient_wait(&client, channel), 0);
    CHECK_EQUAL(rmclient_disable(&client, NULL, &channel, 1, true), 0);
    CHECK_EQUAL(book(&client, 0).wedged, 0);

    /* To schedule it is to switch it on. */
    for (unsigned way = 0; way < 2; way++) {
        make_unscheduled(&client, &group, &channel);
        if (way == 1)
            CHECK_EQUAL(rmclient_schedule(&client, group, true), 0);
        CHECK_EQUAL(rmclient_disable(&client, NULL, &channel, 1, true), 0);
        CHECK_EQUAL(rmclient_submit(&client, channel, KERNEL_NS, 1), 0);
        CHECK_EQUAL(way ? rmclient_schedule_channel(&client, channel, true)
                        : rmclient_schedule(&client, group, true),
                    0);
        CHECK_EQUAL(rmclient_wait(&client, channel), 0);
        CHECK_EQUAL(work_of(&client, channel).disabled, 0);
        CHECK_EQUAL(rmclient_disable(&client, NULL, &channel, 1, true), 0);
        CHECK_EQUAL(work_of(&client, channel).wedged, 0);
    }
    CHECK_EQUAL(rmclient_reset(&client), 0);
    CHECK_EQUAL(book(&client, 0).wedged, 0);
    check_twice(&client, false);
    check_twice(&client, true);
    rmclient_close(&client);
}

/* Of one group that has the device to itself: its context stays on the engine until somebody takes
 * it off. */
void check_contexts(void)
{
    uint32_t group, channels[2], copies, copier, no_object = 5;
    struct rm_ctxsw_stats stats;
    struct rmclient client;
    uint64_t begin_ns;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    CHECK_EQUAL(rmclient_compute(&client, 2, &group, channels), 0);
    CHECK_EQUAL(rmclient_copies(&client, 1, &copies, &copier), 0);
    CHECK_EQUAL(rmclient_ctxsw(&client, no_object, false, &stats), RM_ERR_OBJECT_NOT_FOUND);
    CHECK_EQUAL(rmclient_ctxsw(&client, client.device, false, &stats), RM_ERR_OBJECT_NOT_FOUND);
    CHECK_EQUAL(rmclient_preempt(&client, no_object), RM_ERR_OBJECT_NOT_FOUND);
    CHECK_EQUAL(rmclient_preempt(&client, group), 0);
    check_counts(&client, group, 0, 0, 0);
    CHECK_EQUAL(rmclient_run(&client, channels[0], KERNEL_NS, 3), 0);
    check_counts(&client, group, 1, 0, 0);
    check_counts(&client, channels[1], 1, 0, 0);
    CHECK_EQUAL(rmclient_run(&client, copier, KERNEL_NS, 1), 0); /* elsewhere */
    CHECK_EQUAL(rmclient_ctxsw(&client, copies, false, &stats), 0x1a);
    CHECK_EQUAL(rmclient_ctxsw(&client, copier, false, &stats), RM_ERR_INSUFFICIENT_RESOURCES);
    CHECK_EQUAL(rmclient_preempt(&client, copies), 0);
    CHECK_EQUAL(rmclient_run(&client, channels[1], KERNEL_NS, 1), 0);
    check_counts(&client, group, 1, 0, 0);
    CHECK_EQUAL(rmclient_preempt(&client, group), 0);
    check_counts(&client, group, 1, 1, 0);
    CHECK_EQUAL(rmclient_preempt(&client, group), 0);
    check_counts(&client, group, 1, 1, 0);
    CHECK_EQUAL(rmclient_run(&client, channels[0], KERNEL_NS, 1), 0);
    check_counts(&client, group, 2, 1, 0);
    CHECK_EQUAL(rmclient_disable(&client, NULL, channels, 2, true), 0);
    check_counts(&client, group, 2, 2, 0);
    CHECK_EQUAL(rmclient_disable(&client, NULL, channels, 2, false), 0);
    check_counts(&client, group, 2, 2, 0);
    CHECK_EQUAL(rmclient_ctxsw(&client, group, true, &stats), 0);
    CHECK_EQUAL(stats.save, 2);
    check_counts(&client, group, 0, 0, 0);
    begin_ns = clock_ns();
    check_counts(&client, group, 0, 0, 0);
    CHECK_EQUAL(rmclient_preempt(&client, group), 0);
    CHECK(clock_ns() - begin_ns >= 500000);
    rmclient_close(&client);
}

/* Of one that works: it goes on, which costs it some time; unless it is switched off. */
void check_preempt(void)
{
    struct rmclient client;
    uint32_t group, channels[2];
    uint64_t begin_ns, busy_ns;
    struct rm_ctxsw_stats stats;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    CHECK_EQUAL(rmclient_compute(&client, 2, &group, channels), 0);
    CHECK_EQUAL(rmclient_submit(&client, channels[0], LONG * KERNEL_NS, 1), 0);
    nap_ms(1);
    CHECK_EQUAL(rmclient_preempt(&client, group), 0);
    check_counts(&client, group, 2, 0, 1);
    begin_ns = clock_ns();
    busy_ns = work_of(&client, channels[0]).busy_ns;
    for (unsigned i = 0; i < 20; i++)
        CHECK_EQUAL(rmclient_preempt(&client, group), 0);
    CHECK(work_of(&client, channels[0]).busy_ns > busy_ns);
    busy_ns = work_of(&client, channels[0]).busy_ns - busy_ns;
    CHECK(busy_ns + 19 * 60000 <= clock_ns() - begin_ns);
    check_counts(&client, group, 22, 0, 21);
    CHECK_EQUAL(rmclient_disable(&client, NULL, &channels[1], 1, true),
                0); /* the other one goes on */
    check_counts(&client, group, 23, 0, 22);
    CHECK_EQUAL(rmclient_disable(&client, NULL, channels, 2, true), 0);
    check_counts(&client, group, 23, 0, 23);
    CHECK_EQUAL(rmclient_preempt(&client, group), 0);
    check_counts(&client, group, 23, 0, 23);
    CHECK_EQUAL(rmclient_disable(&client, NULL, channels, 2, false), 0);
    check_counts(&client, group, 24, 0, 23);
    CHECK_EQUAL(rmclient_schedule(&client, group, false), 0);
    check_counts(&client, group, 24, 0, 24);
    CHECK_EQUAL(work_of(&client, channels[0]).pending, 1);
    CHECK_EQUAL(rmclient_free(&client, group), 0);

    CHECK_EQUAL(rmclient_compute(&client, 1, &group, channels), 0);
    CHECK_EQUAL(rmclient_submit(&client, channels[0], 8000, 10000000), 0);
    nap_ms(1);
    CHECK_EQUAL(rmclient_preempt(&client, group), 0);
    check_counts(&client, group, 2, 1, 0);
    CHECK_EQUAL(rmclient_ctxsw(&client, group, true, &stats),
                0); /* it stays on the engine nevertheless */
    check_counts(&client, group, 0, 0, 0);
    rmclient_close(&client);
}

/* The context of the one goes off for that of the other. */
void check_two_contexts(void)
{
    uint32_t groups[2], channels[2];
    struct rm_ctxsw_stats stats;
    struct rmclient client;

    CHECK_EQUAL(rmclient_open(NULL, 0, &client), 0);
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQUAL(rmclient_compute(&client, 1, &groups[i], &channels[i]), 0);
    CHECK_EQUAL(rmclient_run(&client, channels[0], KERNEL_NS, 1), 0);
    check_counts(&client, groups[0], 1, 0, 0);
    CHECK_EQUAL(rmclient_run(&client, channels[1], KERNEL_NS, 1), 0);
    check_counts(&client, groups[0], 1, 1, 0);
    check_counts(&client, groups[1], 1, 0, 0);
    CHECK_EQUAL(rmclient_preempt(&client, groups[0]), 0);
    check_counts(&client, groups[1], 1, 0, 0);
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQUAL(rmclient_submit(&client, channels[i], LONG * KERNEL_NS, 1), 0);
    do
        stats = counts_of(&client, groups[0]);
    while (stats.cilp < 5);
    CHECK(stats.restore == stats.save || stats.restore == stats.save + 1);
    CHECK_EQUAL(stats.wfi, 1);
    stats = counts_of(&client, groups[1]);
    CHECK(stats.cilp >= 4);
    CHECK(stats.restore == stats.save || stats.restore == stats.save + 1);
    CHECK_EQUAL(rmclient_disable(&client, NULL, channels, 2, true), 0);
    for (unsigned i = 0; i < 2; i++) {
        stats = counts_of(&client, groups[i]);
        CHECK_EQUAL(stats.restore, stats.save);
    }
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
    CHECK(waiting.rc == 0 || waiting.rc == RM_ERR_OBJECT_NOT_FOUND ||
          waiting.rc == RM_ERR_INVALID_CLIENT);
    rmclient_close(&waiting.client);
}
