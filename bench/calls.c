/*
 * What the library adds to a call, over noopcuda's libcuda.so.1: the driver's call and the hooked one in turn, block
 * by block in the same process; of each pair of blocks the difference, and of the differences the median.
 *
 *   calls            one line a measurement: name, ns a call more than the driver's own
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                         void **);
typedef int (*alloc_fn)(uint64_t *, size_t);
typedef int (*free_fn)(uint64_t);
typedef int (*alloc_async_fn)(uint64_t *, size_t, void *);
typedef int (*free_async_fn)(uint64_t, void *);
typedef int (*graph_launch_fn)(void *, void *);

struct calls {
    launch_fn launch;
    alloc_fn alloc;
    free_fn free;
    alloc_async_fn alloc_async;
    free_async_fn free_async;
    graph_launch_fn graph_launch;
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
    calls->pass = find(library, "cuMemcpyHtoDAsync_v2");
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

#define BLOCKS 301

static double added(block_fn block, unsigned count)
{
    static double difference[BLOCKS];
    block(&real, count);
    block(&hooked, count);
    for (unsigned i = 0; i < BLOCKS; i++) {
        double a, b;
        if (i % 2) {
            a = block(&real, count);
            b = block(&hooked, count);
        } else {
            b = block(&hooked, count);
            a = block(&real, count);
        }
        difference[i] = b - a;
    }
    qsort(difference, BLOCKS, sizeof *difference, compare);
    return difference[BLOCKS / 2];
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

int main(void)
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

    printf("hooked %d\n", hooked.launch != real.launch || hooked.alloc != real.alloc);
    printf("launch %.1f\n", added(launch_block, 2000));
    printf("graph_launch %.1f\n", added(graph_block, 2000));
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
