/*
 * rmctl: calls on a tenant's channels from outside, through the tenant's own file, as the guard
 * makes them; and the times they take. For finding out; no part of the product.
 *
 *   rmctl time COMMAND...                      runs it: when it began and ended
 *   rmctl PID FD CLIENT DEVICE SUBDEVICE CHANNEL[,CHANNEL]... OPERATION [ARGS]...
 *     off | on                                 FIFO_DISABLE_CHANNELS, all of them
 *     cycle COUNT OFF_MS ON_MS                 the same in turn
 *     stats GROUP COUNT GAP_US                 GR_GET_CTXSW_STATS
 *     preempt GROUP COUNT GAP_US               CHANNEL_GROUP_PREEMPT and what GR_GET_CTXSW_STATS
 *                                              says it has done
 *     half | whole                             from here on, off keeps them from being scheduled
 *                                              only | stops them
 *     sleep MS
 *     drop                                     gives up CAP_SYS_ADMIN, as the guard does
 *
 * One line of JSON an operation; times are CLOCK_MONOTONIC's. Whatever happens, channels that are
 * off are switched on again.
 */
#include "guard/nvidia/abi.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STATUSES_MOST 32
#define SAMPLES_MOST  100000

extern char **environ;

static struct {
    int fd;
    uint32_t client, device, subdevice, count, channel[RM_DISABLE_MAX];
} tenant;

static volatile sig_atomic_t is_off, stop;

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void nap_us(double us)
{
    struct timespec t = {.tv_sec = (time_t)(us / 1e6),
                         .tv_nsec = (long)((us - 1e6 * (double)(long)(us / 1e6)) * 1e3)};

    if (us > 0)
        nanosleep(&t, NULL);
}

static int run_timed(char **command)
{
    uint64_t begin = now_ns(), end;
    int status, rc;
    pid_t pid;

    rc = posix_spawnp(&pid, command[0], NULL, NULL, command, environ);
    if (rc != 0 || waitpid(pid, &status, 0) < 0)
        return 126;
    end = now_ns();
    printf("{\"begin_ns\":%llu,\"end_ns\":%llu,\"status\":%d}\n", (unsigned long long)begin,
           (unsigned long long)end,
           WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return 0;
}

/* What came of a call: how often, and how long it took. */
struct tally {
    unsigned kinds, count;
    int rc[STATUSES_MOST];
    uint32_t status[STATUSES_MOST];
    unsigned times[STATUSES_MOST];
    uint64_t ns[SAMPLES_MOST];
};

static struct tally tally;

static void note(int rc, uint32_t status, uint64_t ns)
{
    unsigned i;

    for (i = 0; i < tally.kinds && (tally.rc[i] != rc || tally.status[i] != status); i++)
        ;
    if (i == STATUSES_MOST || tally.count == SAMPLES_MOST)
        return;
    if (i == tally.kinds) {
        tally.kinds++;
        tally.rc[i] = rc;
        tally.status[i] = status;
        tally.times[i] = 0;
    }
    tally.times[i]++;
    tally.ns[tally.count++] = ns;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* "errno N" where the system call failed. */
static void put_tally(void)
{
    qsort(tally.ns, tally.count, sizeof(tally.ns[0]), ascending);
    printf("\"answers\":{");
    for (unsigned i = 0; i < tally.kinds; i++) {
        if (tally.rc[i] < 0)
            printf("%s\"errno %d\":%u", i ? "," : "", -tally.rc[i], tally.times[i]);
        else
            printf("%s\"%#x\":%u", i ? "," : "", tally.status[i], tally.times[i]);
    }
    if (tally.count)
        printf("},\"us_p50\":%.1f,\"us_p99\":%.1f,\"us_max\":%.1f",
               (double)tally.ns[tally.count / 2] / 1e3,
               (double)tally.ns[tally.count - 1 - tally.count / 100] / 1e3,
               (double)tally.ns[tally.count - 1] / 1e3);
    else
        printf("}");
    memset(&tally, 0, sizeof(tally));
}

static int call(uint32_t nr, size_t bytes, void *arg)
{
    return ioctl(tenant.fd, RM_IOCTL(nr, bytes), arg) < 0 ? -errno : 0;
}

static int control_of(uint32_t object, uint32_t cmd, void *params, uint32_t bytes,
                      uint32_t *ret_status, uint64_t *ret_ns)
{
    struct rm_control arg = {.client = tenant.client,
                             .object = object,
                             .cmd = cmd,
                             .params = (uintptr_t)params,
                             .params_bytes = bytes};
    uint64_t begin = now_ns();
    int rc = call(RM_ESC_CONTROL, sizeof(arg), &arg);

    *ret_ns = now_ns() - begin;
    *ret_status = arg.status;
    return rc;
}

static int control(uint32_t cmd, void *params, uint32_t bytes, uint32_t *ret_status,
                   uint64_t *ret_ns)
{
    return control_of(tenant.subdevice, cmd, params, bytes, ret_status, ret_ns);
}

static int only_scheduling;

static int set(int disable, uint32_t *ret_status)
{
    struct rm_disable_channels params = {.disable = (uint8_t)disable,
                                         .count = tenant.count,
                                         .only_scheduling = (uint8_t)(disable && only_scheduling)};
    uint64_t ns;
    int rc;

    for (uint32_t i = 0; i < tenant.count; i++) {
        params.client[i] = tenant.client;
        params.channel[i] = tenant.channel[i];
    }
    if (disable)
        is_off = 1;
    rc = control(RM_CTRL_FIFO_DISABLE_CHANNELS, &params, sizeof(params), ret_status, &ns);
    if (!disable && rc == 0 && *ret_status == RM_OK)
        is_off = 0;
    return rc;
}

static void put_times(const char *what, uint64_t begin, uint64_t end, int rc, uint32_t status)
{
    printf("\"%s\":[%llu,%llu],\"%s_answer\":\"%s%#x\"", what, (unsigned long long)begin,
           (unsigned long long)end, what, rc < 0 ? "errno " : "", rc < 0 ? (unsigned)-rc : status);
}

static void switch_once(int disable)
{
    uint64_t begin = now_ns(), end;
    uint32_t status = 0;
    int rc = set(disable, &status);

    end = now_ns();
    printf("{\"op\":\"%s\",", disable ? "off" : "on");
    put_times("call", begin, end, rc, status);
    printf("}\n");
}

static void cycle(unsigned count, double off_ms, double on_ms)
{
    printf("{\"op\":\"cycle\",\"cycles\":[");
    for (unsigned i = 0; i < count && !stop; i++) {
        uint32_t status[2] = {0};
        uint64_t at[4];
        int rc[2];

        at[0] = now_ns();
        rc[0] = set(1, &status[0]);
        at[1] = now_ns();
        nap_us(off_ms * 1e3);
        at[2] = now_ns();
        rc[1] = set(0, &status[1]);
        at[3] = now_ns();
        printf("%s{", i ? "," : "");
        put_times("off", at[0], at[1], rc[0], status[0]);
        printf(",");
        put_times("on", at[2], at[3], rc[1], status[1]);
        printf("}");
        nap_us(on_ms * 1e3);
    }
    printf("]}\n");
}

static void stats(uint32_t group, unsigned count, double gap_us)
{
    uint32_t params[8], first[8] = {0}, last[8] = {0};
    unsigned changes = 0;

    for (unsigned i = 0; i < count && !stop; i++) {
        uint32_t status = 0;
        uint64_t ns;
        int rc;

        memset(params, 0, sizeof(params));
        params[0] = group;
        rc = control(RM_CTRL_GR_GET_CTXSW_STATS, params, sizeof(params), &status, &ns);
        note(rc, status, ns);
        if (i == 0)
            memcpy(first, params, sizeof(first));
        changes += i && memcmp(last, params, sizeof(last)) != 0;
        memcpy(last, params, sizeof(last));
        nap_us(gap_us);
    }
    printf(
        "{\"op\":\"stats\",\"names\":\"save restore wfi cta cilp gfxp\",\"changes\":%u,\"first\":[",
        changes);
    for (unsigned i = 2; i < 8; i++)
        printf("%s%u", i > 2 ? "," : "", first[i]);
    printf("],\"last\":[");
    for (unsigned i = 2; i < 8; i++)
        printf("%s%u", i > 2 ? "," : "", last[i]);
    printf("],");
    put_tally();
    printf("}\n");
}

#define DELTAS_MOST 64

/* How the counts of saves and so on have changed across a preemption, each kind of change with how
 * often it was and how long the two calls took on average. */
static void preempt(uint32_t group, unsigned count, double gap_us)
{
    static struct {
        uint32_t change[6];
        unsigned times;
        double preempt_us, stats_us;
    } seen[DELTAS_MOST];
    uint32_t before[8] = {0}, status = 0;
    unsigned kinds = 0;
    uint64_t begin, end;

    before[0] = group;
    begin = now_ns();
    control(RM_CTRL_GR_GET_CTXSW_STATS, before, sizeof(before), &status, &end);
    for (unsigned i = 0; i < count && !stop; i++) {
        struct rm_preempt params = {.wait = 1};
        uint32_t after[8] = {group}, change[6];
        uint64_t preempt_ns, stats_ns;
        unsigned k;
        int rc =
            control_of(group, RM_CTRL_GROUP_PREEMPT, &params, sizeof(params), &status, &preempt_ns);

        note(rc, status, preempt_ns);
        control(RM_CTRL_GR_GET_CTXSW_STATS, after, sizeof(after), &status, &stats_ns);
        for (k = 0; k < 6; k++)
            change[k] = after[k + 2] - before[k + 2];
        memcpy(before, after, sizeof(before));
        for (k = 0; k < kinds && memcmp(seen[k].change, change, sizeof(change)) != 0; k++)
            ;
        if (k < DELTAS_MOST) {
            kinds += k == kinds;
            memcpy(seen[k].change, change, sizeof(change));
            seen[k].times++;
            seen[k].preempt_us += (double)preempt_ns / 1e3;
            seen[k].stats_us += (double)stats_ns / 1e3;
        }
        nap_us(gap_us);
    }
    printf("{\"op\":\"preempt\",\"names\":\"save restore wfi cta cilp "
           "gfxp\",\"call\":[%llu,%llu],\"changes\":[",
           (unsigned long long)begin, (unsigned long long)now_ns());
    for (unsigned k = 0; k < kinds; k++)
        printf("%s[[%u,%u,%u,%u,%u,%u],%u,%.0f,%.0f]", k ? "," : "", seen[k].change[0],
               seen[k].change[1], seen[k].change[2], seen[k].change[3], seen[k].change[4],
               seen[k].change[5], seen[k].times, seen[k].preempt_us / seen[k].times,
               seen[k].stats_us / seen[k].times);
    printf("],");
    put_tally();
    printf("}\n");
    memset(seen, 0, sizeof(seen));
}

static void drop(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    int rc = (int)syscall(SYS_capget, &header, data);

    data[0].effective &= ~(1u << CAP_SYS_ADMIN);
    if (rc == 0)
        rc = (int)syscall(SYS_capset, &header, data);
    printf("{\"op\":\"drop\",\"rc\":%d}\n", rc);
}

static void on_signal(int signal)
{
    (void)signal;
    stop = 1;
}

static double number(char **word)
{
    if (*word)
        return strtod(*word, NULL);
    fprintf(stderr, "rmctl: an argument is missing\n");
    exit(2);
}

static uint32_t integer(const char *word)
{
    return (uint32_t)strtoul(word ? word : "0", NULL, 0);
}

/* How many words it took. */
static int operate(char **word)
{
    if (strcmp(*word, "off") == 0 || strcmp(*word, "on") == 0) {
        switch_once(strcmp(*word, "off") == 0);
        return 1;
    }
    if (strcmp(*word, "drop") == 0) {
        drop();
        return 1;
    }
    if (strcmp(*word, "half") == 0 || strcmp(*word, "whole") == 0) {
        only_scheduling = strcmp(*word, "half") == 0;
        return 1;
    }
    if (strcmp(*word, "sleep") == 0) {
        nap_us(number(word + 1) * 1e3);
        return 2;
    }
    if (strcmp(*word, "preempt") == 0)
        preempt(integer(word[1]), (unsigned)number(word + 2), number(word + 3));
    else if (strcmp(*word, "stats") == 0)
        stats(integer(word[1]), (unsigned)number(word + 2), number(word + 3));
    else if (strcmp(*word, "cycle") == 0)
        cycle((unsigned)number(word + 1), number(word + 2), number(word + 3));
    else
        return -1;
    return 4;
}

static int take_tenant(char **argv)
{
    int pidfd = (int)syscall(SYS_pidfd_open, atoi(argv[1]), 0);

    tenant.fd = (int)syscall(SYS_pidfd_getfd, pidfd, atoi(argv[2]), 0);
    if (tenant.fd < 0) {
        perror("rmctl: the tenant's file");
        return -1;
    }
    tenant.client = integer(argv[3]);
    tenant.device = integer(argv[4]);
    tenant.subdevice = integer(argv[5]);
    for (char *word = strtok(argv[6], ","); word && tenant.count < RM_DISABLE_MAX;
         word = strtok(NULL, ","))
        tenant.channel[tenant.count++] = integer(word);
    return 0;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal};
    int rc = 0;

    if (argc > 2 && strcmp(argv[1], "time") == 0)
        return run_timed(argv + 2);
    if (argc < 8) {
        fprintf(stderr, "usage: rmctl time COMMAND... | PID FD CLIENT DEVICE SUBDEVICE CHANNELS "
                        "OPERATION...\n");
        return 2;
    }
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (take_tenant(argv) < 0)
        return 1;
    for (int i = 7; i < argc && !stop && rc == 0;) {
        int words = operate(argv + i);

        fflush(stdout);
        if (words < 0) {
            fprintf(stderr, "rmctl: there is no operation \"%s\"\n", argv[i]);
            rc = 2;
        }
        i += words;
    }
    for (int i = 0; i < 3 && is_off; i++) {
        uint32_t status;

        set(0, &status);
    }
    return rc;
}
