/*
 * What the library adds to a call, over noopcuda's libcuda.so.1: the driver's call and the hooked
 * one in turn, block by block in the same process; of each pair of blocks the difference, and of
 * the differences the median.
 *
 *   calls                  one line a measurement: name, ns a call more than the driver's own
 *   calls work [PAUSE_US]  work for the device only, with a pause before each block that is not
 *                          measured
 *   calls neighbour FILE   uses the device a little for as long as there is that file
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, void *, void **, void **);
typedef int (*alloc_fn)(uint64_t *, size_t);
typedef int (*free_fn)(uint64_t);
typedef int (*alloc_async_fn)(uint64_t *, size_t, void *);
typedef int (*free_async_fn)(uint64_t, void *);
typedef int (*graph_launch_fn)(void *, void *);
typedef int (*copy_fn)(uint64_t, const void *, size_t, void *);
typedef int (*copy_within_fn)(uint64_t, uint64_t, size_t, void *);
typedef int (*memset_fn)(uint64_t, unsigned char, size_t, void *);

struct calls {
    launch_fn launch;
    alloc_fn alloc;
    free_fn free;
    alloc_async_fn alloc_async;
    free_async_fn free_async;
    graph_launch_fn graph_launch;
    copy_fn copy;
    copy_within_fn copy_within;
    memset_fn memset;
    void *pass;
};

static struct calls real, hooked;
static void *(*bench_real)(const char *name);

static void die(const char *what)
{
    fprintf(stderr, "calls: %s\n", what);
    exit(2);
}

static void *find(void *library, const char *name)
{
    void *address = library ? dlsym(library, name) : bench_real(name);
    if (!address)
        die(name);
    return address;
}

static void find_all(struct calls *calls, void *library)
{
    calls->launch = (launch_fn)find(library, "cuLaunchKernel");
    calls->alloc = (alloc_fn)find(library, "cuMemAlloc_v2");
    calls->free = (free_fn)find(library, "cuMemFree_v2");
    calls->alloc_async = (alloc_async_fn)find(library, "cuMemAllocAsync");
    calls->free_async = (free_async_fn)find(library, "cuMemFreeAsync");
    calls->graph_launch = (graph_launch_fn)find(library, "cuGraphLaunch");
    calls->pass = find(library, "cuFuncGetAttribute");
    calls->copy = (copy_fn)find(library, "cuMemcpyHtoDAsync_v2");
    calls->copy_within = (copy_within_fn)find(library, "cuMemcpyDtoDAsync_v2");
    calls->memset = (memset_fn)find(library, "cuMemsetD8Async");
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* One block of calls; returns ns a call. */
typedef double (*block_fn)(const struct calls *calls, unsigned count);

static double launch_block(const struct calls *calls, unsigned count)
{
    double start = now_ns();
    for (unsigned i = 0; i < count; i++)
        calls->launch((void *)64, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
    return (now_ns() - start) / count;
}

static double graph_block(const struct calls *calls, unsigned count)
{
    double start = now_ns();
    for (unsigned i = 0; i < count; i++)
        calls->graph_launch((void *)64, NULL);
    return (now_ns() - start) / count;
}

static double copy_block(const struct calls *calls, unsigned count)
{
    double start = now_ns();
    for (unsigned i = 0; i < count; i++)
        calls->copy(1 << 20, calls, 4096, NULL);
    return (now_ns() - start) / count;
}

static double copy_within_block(const struct calls *calls, unsigned count)
{
    double start = now_ns();
    for (unsigned i = 0; i < count; i++)
        calls->copy_within(1 << 20, 2 << 20, 4096, NULL);
    return (now_ns() - start) / count;
}

static double memset_block(const struct calls *calls, unsigned count)
{
    double start = now_ns();
    for (unsigned i = 0; i < count; i++)
        calls->memset(1 << 20, 0, 4096, NULL);
    return (now_ns() - start) / count;
}

static double alloc_block(const struct calls *calls, unsigned count)
{
    uint64_t address = 0;
    double start = now_ns();
    for (unsigned i = 0; i < count; i++) {
        calls->alloc(&address, 4 << 20);
        calls->free(address);
    }
    return (now_ns() - start) / count;
}

static double small_alloc_block(const struct calls *calls, unsigned count)
{
    uint64_t address = 0;
    double start = now_ns();
    for (unsigned i = 0; i < count; i++) {
        calls->alloc(&address, 4096);
        calls->free(address);
    }
    return (now_ns() - start) / count;
}

static double async_block(const struct calls *calls, unsigned count)
{
    uint64_t address = 0;
    double start = now_ns();
    for (unsigned i = 0; i < count; i++) {
        calls->alloc_async(&address, 1 << 20, NULL);
        calls->free_async(address, NULL);
    }
    return (now_ns() - start) / count;
}

#define PAIRS 301

static unsigned pause_us;

/* Not asleep: the processor stays as it is. */
static void pause_for(unsigned us)
{
    double until = now_ns() + us * 1e3;
    while (us && now_ns() < until)
        ;
}

static double median_added(block_fn block, unsigned pairs, unsigned count)
{
    double *difference = calloc(pairs, sizeof *difference), median;
    if (!difference)
        die("out of memory");
    block(&real, count);
    block(&hooked, count);
    for (unsigned i = 0; i < pairs; i++) {
        double a, b;
        pause_for(pause_us);
        if (i % 2) {
            a = block(&real, count);
            b = block(&hooked, count);
        } else {
            b = block(&hooked, count);
            a = block(&real, count);
        }
        difference[i] = b - a;
    }
    qsort(difference, pairs, sizeof *difference, compare);
    median = difference[pairs / 2];
    free(difference);
    return median;
}

/* A block has a few of all that happens now and then, so this is a mean over calls. */
static double added(block_fn block, unsigned count)
{
    return median_added(block, PAIRS, count);
}

/* What most calls are like: few of the blocks have a call in them that does more than usual. */
static double added_usually(block_fn block)
{
    return median_added(block, 64 * PAIRS, 4);
}

/* A free among many: `live` allocations stay, 64 more come and go. In what order, see below. */
static uint64_t *keep;

static void keep_live(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        if (hooked.alloc(&keep[i], 4096))
            die("an allocation was refused");
}

enum order {
    NEWEST, /* what was just allocated is freed: only the number of the others differs */
    ANY,    /* whatever comes first by chance: with 100 000 live, memory that no cache holds */
};

static double free_among(unsigned live, enum order order)
{
    enum { ROUNDS = 301, BATCH = 64 };
    static double sample[ROUNDS];
    uint64_t batch[BATCH];
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < BATCH; i++)
            if (hooked.alloc(&batch[i], 4096))
                die("an allocation was refused");
        for (unsigned i = 0; i < BATCH && order == ANY; i++) {
            unsigned other = (unsigned)(((uint64_t)round * BATCH + i) * 2654435761U % live);
            uint64_t swap = keep[other];
            keep[other] = batch[i];
            batch[i] = swap;
        }
        double start = now_ns();
        for (unsigned i = 0; i < BATCH; i++)
            hooked.free(batch[i]);
        sample[round] = (now_ns() - start) / BATCH;
    }
    qsort(sample, ROUNDS, sizeof *sample, compare);
    return sample[ROUNDS / 2];
}

static void work(void)
{
    printf("launch_mean %.1f\n", added(launch_block, 2000));
    printf("graph_mean %.1f\n", added(graph_block, 2000));
    printf("memset_mean %.1f\n", added(memset_block, 2000));
    printf("copy_within_mean %.1f\n", added(copy_within_block, 2000));
    printf("copy_mean %.1f\n", added(copy_block, 2000));
    pause_us /= 100; /* the blocks are so much shorter */
    printf("launch_p50 %.1f\n", added_usually(launch_block));
    printf("graph_p50 %.1f\n", added_usually(graph_block));
}

static void neighbour(const char *file)
{
    while (access(file, F_OK) == 0) {
        hooked.launch((void *)64, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

static void start(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        die(dlerror());
    bench_real = (void *(*)(const char *))dlsym(library, "bench_real");
    if (!bench_real)
        die("this is not the no-op libcuda");
    find_all(&hooked, library);
    find_all(&real, NULL);
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(library, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))dlsym(library, "cuCtxSetCurrent");
    void *context = NULL;
    if (!init || !retain || !set || init(0) || retain(&context, 0) || set(context))
        die("the no-op driver does not start");
}

int main(int argc, char **argv)
{
    start();
    if (argc > 2 && !strcmp(argv[1], "neighbour")) {
        neighbour(argv[2]);
        return 0;
    }
    printf("hooked %d\n", hooked.launch != real.launch || hooked.alloc != real.alloc);
    if (argc > 1) {
        pause_us = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
        work();
        return 0;
    }
    printf("launch %.1f\n", added(launch_block, 2000));
    printf("graph_launch %.1f\n", added(graph_block, 2000));
    printf("copy %.1f\n", added(copy_block, 2000));
    if (hooked.pass == real.pass)
        printf("pass same\n");
    else
        printf("pass different\n");
    printf("alloc_free %.1f\n", added(alloc_block, 400));
    printf("small_alloc_free %.1f\n", added(small_alloc_block, 400));
    printf("async_pair %.1f\n", added(async_block, 800));
    keep = calloc(100000, sizeof *keep);
    if (!keep)
        die("out of memory");
    keep_live(0, 10);
    printf("free_10 %.1f\n", free_among(10, NEWEST));
    printf("free_any_10 %.1f\n", free_among(10, ANY));
    keep_live(10, 100000);
    printf("free_100000 %.1f\n", free_among(100000, NEWEST));
    printf("free_any_100000 %.1f\n", free_among(100000, ANY));
    return 0;
}
