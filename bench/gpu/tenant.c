/*
 * tenant MODE: a program that uses a GPU and says what it got, in lines of JSON. Times are
 * CLOCK_MONOTONIC's.
 *
 *   start                              makes a context; ready_ns: when it was there
 *   info                               what it is told of the card's memory
 *   load --us N --secs N               kernels of N microseconds, each waited for. share: kernels
 *                                      done x their length alone / wall time; steady_share and
 *                                      window_sd: of the second half, over windows
 *        [--sync N]                    wait for every Nth only
 *        [--window-ms N]               200
 *        [--rest-us N]                 rest between two
 *   beat --secs N [--us N] [--gap-us N]
 *                                      a kernel that counts up (with --us: kernels of that length);
 *                                      gaps: where nothing moved for longer than --gap-us (500)
 *   pairs --count N [--mib N]          allocates and frees; asks for the free memory
 *   launches --count N                 empty kernels, waited for at the end
 *   alloc [KIND] [--mib N]             until it is refused
 *   latency                            times of all these
 *
 * TENANT_ITERATIONS: of a kernel of a microsecond, as `load` printed it; without it that is
 * measured at first, which wants the card for itself. The modes `load`, `alloc` and `latency` print
 * what gpuprobe's print.
 */
#include "tenant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GAPS_MAX    4096
#define WINDOWS_MAX 65536

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(int rc, const char *what)
{
    if (rc == 0)
        return;
    printf("{\"error\":%d,\"at\":\"%s\"}\n", rc, what);
    exit(3);
}

static double option(int argc, char **argv, const char *name, double otherwise)
{
    for (int i = 2; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return atof(argv[i + 1]);
    }
    return otherwise;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double percentile(double *values, size_t count, double p)
{
    qsort(values, count, sizeof(*values), ascending);
    return count ? values[(size_t)(p * (double)(count - 1))] : 0;
}

static double *numbers(size_t count)
{
    double *values = calloc(count ? count : 1, sizeof(*values));

    if (!values)
        exit(4);
    return values;
}

static void rest(double us)
{
    struct timespec t = {.tv_sec = (time_t)(us / 1e6), .tv_nsec = (long)(fmod(us, 1e6) * 1e3)};

    if (us > 0)
        nanosleep(&t, NULL);
}

static int start(double begin)
{
    double ready = now();

    printf("{\"mode\":\"start\",\"ready_ns\":%.0f,\"init_ms\":%.3f}\n", ready * 1e9,
           (ready - begin) * 1e3);
    return 0;
}

static int info(void)
{
    uint64_t left, total, device;

    check(gpu_info(&left, &total), "info");
    check(gpu_total(&device), "total");
    printf("{\"mode\":\"info\",\"free_mib\":%.2f,\"total_mib\":%.2f,\"device_total_mib\":%.2f}\n",
           (double)left / 1048576, (double)total / 1048576, (double)device / 1048576);
    return 0;
}

static double iterations(void)
{
    const char *given = getenv("TENANT_ITERATIONS");
    double per_us = given ? atof(given) : 0;

    if (per_us <= 0)
        check(gpu_calibrate(&per_us), "calibrate");
    gpu_set_iterations(per_us);
    return per_us;
}

static int load(double us, double secs, unsigned sync, double window_s, double rest_us)
{
    double per_us = iterations();
    double *windows = numbers(WINDOWS_MAX), begin = now(), window = begin, t = begin, mean = 0,
           variance = 0;
    unsigned long kernels = 0, in_window = 0;
    size_t count = 0, half;

    while (t < begin + secs) {
        check(gpu_launch(us), "launch");
        in_window++;
        if (++kernels % sync == 0)
            check(gpu_wait(), "wait");
        rest(rest_us);
        t = now();
        if (t - window >= window_s && count < WINDOWS_MAX) {
            windows[count++] = (double)in_window * us * 1e-6 / (t - window);
            window = t;
            in_window = 0;
        }
    }
    check(gpu_wait(), "wait");
    t = now() - begin;
    half = count / 2;
    for (size_t i = half; i < count; i++)
        mean += windows[i] / (double)(count - half);
    for (size_t i = half; i < count; i++)
        variance += (windows[i] - mean) * (windows[i] - mean) / (double)(count - half);
    printf("{\"mode\":\"load\",\"us\":%.0f,\"kernels\":%lu,\"secs\":%.2f,\"share\":%.4f,\"steady_"
           "share\":%.4f,"
           "\"window_sd\":%.4f,\"windows\":%zu,\"iters_per_us\":%.3f}\n",
           us, kernels, t, (double)kernels * us * 1e-6 / t, mean, sqrt(variance), count - half,
           per_us);
    return 0;
}

static double gaps[GAPS_MAX][2];

static int beat(double us, double secs, double gap_s)
{
    volatile uint32_t *counter = NULL;
    unsigned long beats = 0, count = 0;
    uint32_t seen = 0;
    double begin, last, t;

    iterations();
    if (us > 0) {
        check(gpu_launch(us), "launch"); /* loads the code */
        check(gpu_wait(), "wait");
    } else {
        check(gpu_beat_start(&counter), "beat");
        while (*counter == 0)
            ;
    }
    begin = last = now();
    printf("{\"mode\":\"beat\",\"ready_ns\":%.0f}\n", begin * 1e9);
    fflush(stdout);
    do {
        if (us > 0) {
            check(gpu_launch(us), "launch");
            check(gpu_wait(), "wait");
        } else if (*counter == seen) {
            t = now();
            continue;
        } else {
            seen = *counter;
        }
        t = now();
        beats++;
        if (t - last > gap_s && count < GAPS_MAX) {
            gaps[count][0] = last;
            gaps[count++][1] = t;
        }
        last = t;
    } while (t < begin + secs);
    if (us <= 0)
        check(gpu_beat_stop(), "stop");
    printf("{\"mode\":\"beat\",\"beats\":%lu,\"secs\":%.2f,\"gaps\":[", beats, t - begin);
    for (unsigned long i = 0; i < count; i++)
        printf("%s[%.0f,%.0f]", i ? "," : "", gaps[i][0] * 1e9, gaps[i][1] * 1e9);
    printf("]}\n");
    return 0;
}

static int pairs(size_t count, uint64_t bytes)
{
    double *alloc = numbers(count), *release = numbers(count), *both = numbers(count),
           *ask = numbers(count);
    uint64_t address, left, total;

    for (size_t i = 0; i < count; i++) {
        double a = now(), b, c;

        check(gpu_alloc(bytes, &address), "alloc");
        b = now();
        check(gpu_free(address), "free");
        c = now();
        alloc[i] = b - a;
        release[i] = c - b;
        both[i] = c - a;
    }
    for (size_t i = 0; i < count; i++) {
        double a = now();

        check(gpu_info(&left, &total), "info");
        ask[i] = now() - a;
    }
    printf("{\"mode\":\"pairs\",\"count\":%zu,\"malloc_us_p50\":%.3f,\"free_us_p50\":%.3f,\"pair_"
           "us_p50\":%.3f,"
           "\"pair_us_p99\":%.3f,\"meminfo_us_p50\":%.3f}\n",
           count, percentile(alloc, count, .5) * 1e6, percentile(release, count, .5) * 1e6,
           percentile(both, count, .5) * 1e6, percentile(both, count, .99) * 1e6,
           percentile(ask, count, .5) * 1e6);
    return 0;
}

static int launches(size_t count)
{
    double *each = numbers(count), begin;

    check(gpu_launch(0), "launch");
    check(gpu_wait(), "wait");
    begin = now();
    for (size_t i = 0; i < count; i++) {
        double a = now();

        check(gpu_launch(0), "launch");
        each[i] = now() - a;
        if (i % 512 == 511)
            check(gpu_wait(), "wait");
    }
    check(gpu_wait(), "wait");
    printf("{\"mode\":\"launches\",\"count\":%zu,\"launch_us_mean\":%.3f,\"launch_us_p50\":%.3f}\n",
           count, (now() - begin) / (double)(count ? count : 1) * 1e6,
           percentile(each, count, .5) * 1e6);
    return 0;
}

static int alloc(const char *kind, uint64_t bytes)
{
    uint64_t before, total, left, got = 0, address;
    int rc;

    check(gpu_info(&before, &total), "info");
    while ((rc = gpu_alloc(bytes, &address)) == 0)
        got += bytes;
    check(gpu_info(&left, &total), "info");
    printf("{\"mode\":\"alloc\",\"how\":\"%s\",\"step_mib\":%llu,\"got_mib\":%llu,\"rc\":%d,\"free_"
           "before_mib\":%llu,"
           "\"free_mib\":%llu,\"total_mib\":%llu}\n",
           kind, (unsigned long long)bytes >> 20, (unsigned long long)got >> 20, rc,
           (unsigned long long)before >> 20, (unsigned long long)left >> 20,
           (unsigned long long)total >> 20);
    return 0;
}

static int latency(double begin)
{
    enum { PAIRS = 200, LAUNCHES = 2000 };
    double *alloc_s = numbers(PAIRS), *free_s = numbers(PAIRS), *info_s = numbers(PAIRS),
           *launch_s = numbers(LAUNCHES), *sync_s = numbers(LAUNCHES), ready = now(), t, all;
    uint64_t address, left, total;

    for (int i = 0; i < PAIRS; i++) {
        t = now();
        check(gpu_alloc(4 << 20, &address), "alloc");
        alloc_s[i] = now() - t;
        t = now();
        check(gpu_free(address), "free");
        free_s[i] = now() - t;
        t = now();
        check(gpu_info(&left, &total), "info");
        info_s[i] = now() - t;
    }
    all = now();
    for (int i = 0; i < LAUNCHES; i++) {
        t = now();
        check(gpu_launch(0), "launch");
        launch_s[i] = now() - t;
    }
    check(gpu_wait(), "wait");
    all = now() - all;
    for (int i = 0; i < LAUNCHES / 10; i++) {
        t = now();
        check(gpu_launch(0), "launch");
        check(gpu_wait(), "wait");
        sync_s[i] = now() - t;
    }
    printf("{\"mode\":\"latency\",\"init_ms\":%.2f,\"launch_us_mean\":%.3f,\"launch_us_p50\":%.3f,"
           "\"launch_sync_us_p50\":%.3f,\"malloc_us_p50\":%.3f,\"free_us_p50\":%.3f,\"meminfo_us_"
           "p50\":%.3f}\n",
           (ready - begin) * 1e3, all / LAUNCHES * 1e6, percentile(launch_s, LAUNCHES, .5) * 1e6,
           percentile(sync_s, LAUNCHES / 10, .5) * 1e6, percentile(alloc_s, PAIRS, .5) * 1e6,
           percentile(free_s, PAIRS, .5) * 1e6, percentile(info_s, PAIRS, .5) * 1e6);
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    double begin = now(), us = option(argc, argv, "--us", 0),
           secs = option(argc, argv, "--secs", 5);
    uint64_t bytes = (uint64_t)option(argc, argv, "--mib", 4) << 20;
    size_t count = (size_t)option(argc, argv, "--count", 1000);
    int rc;

    check(gpu_open(), "open");
    if (strcmp(mode, "start") == 0)
        return start(begin);
    if (strcmp(mode, "info") == 0)
        return info();
    if (strcmp(mode, "load") == 0)
        return load(us > 0 ? us : 1000, secs, (unsigned)option(argc, argv, "--sync", 1),
                    option(argc, argv, "--window-ms", 200) / 1e3,
                    option(argc, argv, "--rest-us", 0));
    if (strcmp(mode, "beat") == 0)
        return beat(us, secs, option(argc, argv, "--gap-us", 500) / 1e6);
    if (strcmp(mode, "pairs") == 0)
        return pairs(count, bytes);
    if (strcmp(mode, "launches") == 0)
        return launches(count);
    if (strcmp(mode, "alloc") == 0)
        return alloc(argc > 2 && argv[2][0] != '-' ? argv[2] : "malloc", bytes);
    if (strcmp(mode, "latency") == 0)
        return latency(begin);
    rc = gpu_other(argc, argv);
    if (rc < 0)
        fprintf(stderr, "tenant: there is no mode \"%s\"\n", mode);
    return rc < 0 ? 2 : rc;
}
