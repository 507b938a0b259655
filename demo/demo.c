/*
 * What a memory quota looks like from inside: an ordinary CUDA program that takes memory in every
 * way there is until it is told to stop. It knows nothing of vgpu, finds the driver with dlopen()
 * as most programs do, and runs on a real card and on the simulator alike. demo.sh runs it.
 *
 *   demo card                 one line: name and size of the card
 *   demo ways                 a table: each way of allocating, and where it was stopped
 *   demo tenant NAME FOLDER   fills what it can get, waits for the others in FOLDER, and reports
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The few types of the driver API that are needed, as cuda.h has them. */
typedef int CUresult;
typedef unsigned long long CUdeviceptr;

struct location {
    int type, id;
};
struct pool_props {
    int alloc_type, handle_types;
    struct location location;
    void *security;
    size_t max_size;
    unsigned char rest[56];
};
struct allocation_prop {
    int type, handle_types;
    struct location location;
    void *metadata;
    unsigned char flags[8];
};
struct array_desc {
    size_t width, height;
    int format;
    unsigned channels;
};
struct array3d_desc {
    size_t width, height, depth;
    int format;
    unsigned channels, flags;
};
struct node_params {
    struct pool_props pool;
    const void *access;
    size_t access_count, bytes;
    CUdeviceptr address;
};

#define CALLS(F)                                                                                   \
    F(cuInit, (unsigned flags))                                                                    \
    F(cuDeviceGetName, (char *name, int length, int device))                                       \
    F(cuDeviceTotalMem_v2, (size_t * bytes, int device))                                           \
    F(cuDevicePrimaryCtxRetain, (void **context, int device))                                      \
    F(cuDevicePrimaryCtxRelease_v2, (int device))                                                  \
    F(cuCtxSetCurrent, (void *context))                                                            \
    F(cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                                \
    F(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                                        \
    F(cuMemAllocPitch_v2,                                                                          \
      (CUdeviceptr * address, size_t * pitch, size_t width, size_t height, unsigned element))      \
    F(cuMemAllocManaged, (CUdeviceptr * address, size_t bytes, unsigned flags))                    \
    F(cuMemFree_v2, (CUdeviceptr address))                                                         \
    F(cuMemAllocAsync, (CUdeviceptr * address, size_t bytes, void *stream))                        \
    F(cuMemAllocFromPoolAsync, (CUdeviceptr * address, size_t bytes, void *pool, void *stream))    \
    F(cuMemFreeAsync, (CUdeviceptr address, void *stream))                                         \
    F(cuMemPoolCreate, (void **pool, const struct pool_props *props))                              \
    F(cuMemPoolDestroy, (void *pool))                                                              \
    F(cuArrayCreate_v2, (void **array, const struct array_desc *desc))                             \
    F(cuArray3DCreate_v2, (void **array, const struct array3d_desc *desc))                         \
    F(cuArrayDestroy, (void *array))                                                               \
    F(cuMipmappedArrayCreate, (void **array, const struct array3d_desc *desc, unsigned levels))    \
    F(cuMipmappedArrayDestroy, (void *array))                                                      \
    F(cuMemCreate, (CUdeviceptr * handle, size_t bytes, const struct allocation_prop *prop,        \
                    unsigned long long flags))                                                     \
    F(cuMemRelease, (CUdeviceptr handle))                                                          \
    F(cuGraphCreate, (void **graph, unsigned flags))                                               \
    F(cuGraphDestroy, (void *graph))                                                               \
    F(cuGraphAddMemAllocNode, (void **node, void *graph, const void *dependencies, size_t count,   \
                               struct node_params *params))                                        \
    F(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags))           \
    F(cuGraphLaunch, (void *exec, void *stream))                                                   \
    F(cuGraphExecDestroy, (void *exec))                                                            \
    F(cuDeviceGraphMemTrim, (int device))                                                          \
    F(cuStreamCreate, (void **stream, unsigned flags))                                             \
    F(cuStreamSynchronize, (void *stream))

static struct {
#define F(name, params) CUresult(*name) params;
    CALLS(F)
#undef F
} cu;

#define STEP      (64ULL << 20)
#define HELD_MAX  1024
#define GIB(b)    ((double)(b) / (double)(1ULL << 30))
#define PINNED    1
#define ON_DEVICE ((struct location){1, 0})
#define FLOAT32   0x20

static void *stream, *pool;

struct held {
    CUdeviceptr address;
    void *handle, *second;
};

static void need(CUresult result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "demo: %s failed with %d\n", what, result);
    exit(1);
}

static bool load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return false;
#define F(name, params)                                                                            \
    cu.name = (CUresult(*) params)dlsym(library, #name);                                           \
    if (!cu.name)                                                                                  \
        return false;
    CALLS(F)
#undef F
    return cu.cuInit(0) == 0;
}

static void start(void)
{
    void *context = NULL;
    if (!load()) {
        fprintf(stderr, "demo: no usable CUDA driver\n");
        exit(1);
    }
    need(cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    need(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    need(cu.cuStreamCreate(&stream, 1), "cuStreamCreate");
}

/* --- the ways --- */

static CUresult take_plain(struct held *h)
{
    return cu.cuMemAlloc_v2(&h->address, STEP);
}

static CUresult take_pitch(struct held *h)
{
    size_t pitch;
    return cu.cuMemAllocPitch_v2(&h->address, &pitch, 1 << 20, STEP >> 20, 4);
}

static CUresult take_managed(struct held *h)
{
    return cu.cuMemAllocManaged(&h->address, STEP, 1);
}

static void drop_plain(struct held *h)
{
    need(cu.cuMemFree_v2(h->address), "cuMemFree");
}

static CUresult take_async(struct held *h)
{
    return cu.cuMemAllocAsync(&h->address, STEP, stream);
}

static CUresult take_pool(struct held *h)
{
    struct pool_props props = {.alloc_type = PINNED, .location = ON_DEVICE};
    if (!pool)
        need(cu.cuMemPoolCreate(&pool, &props), "cuMemPoolCreate");
    return cu.cuMemAllocFromPoolAsync(&h->address, STEP, pool, stream);
}

static void drop_async(struct held *h)
{
    need(cu.cuMemFreeAsync(h->address, stream), "cuMemFreeAsync");
}

static CUresult take_array(struct held *h)
{
    struct array_desc desc = {16384, STEP / 4 / 16384, FLOAT32, 1};
    return cu.cuArrayCreate_v2(&h->handle, &desc);
}

static CUresult take_array3d(struct held *h)
{
    struct array3d_desc desc = {1024, 1024, STEP >> 22, FLOAT32, 1, 0};
    return cu.cuArray3DCreate_v2(&h->handle, &desc);
}

static void drop_array(struct held *h)
{
    need(cu.cuArrayDestroy(h->handle), "cuArrayDestroy");
}

static CUresult take_mipmap(struct held *h)
{
    struct array3d_desc desc = {1024, 1024, 0, FLOAT32, 4, 0};
    return cu.cuMipmappedArrayCreate(&h->handle, &desc, 6);
}

static void drop_mipmap(struct held *h)
{
    need(cu.cuMipmappedArrayDestroy(h->handle), "cuMipmappedArrayDestroy");
}

static CUresult take_vmm(struct held *h)
{
    struct allocation_prop prop = {.type = PINNED, .location = ON_DEVICE};
    return cu.cuMemCreate(&h->address, STEP, &prop, 0);
}

static void drop_vmm(struct held *h)
{
    need(cu.cuMemRelease(h->address), "cuMemRelease");
}

static CUresult take_graph(struct held *h)
{
    struct node_params params = {.pool = {.alloc_type = PINNED, .location = ON_DEVICE},
                                 .bytes = STEP};
    void *node;
    need(cu.cuGraphCreate(&h->handle, 0), "cuGraphCreate");
    need(cu.cuGraphAddMemAllocNode(&node, h->handle, NULL, 0, &params), "cuGraphAddMemAllocNode");
    need(cu.cuGraphInstantiateWithFlags(&h->second, h->handle, 0), "cuGraphInstantiate");
    CUresult result = cu.cuGraphLaunch(h->second, stream);
    h->address = params.address;
    if (result) {
        cu.cuGraphExecDestroy(h->second);
        cu.cuGraphDestroy(h->handle);
    }
    return result;
}

static void drop_graph(struct held *h)
{
    need(cu.cuMemFreeAsync(h->address, stream), "cuMemFreeAsync");
    need(cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
    cu.cuGraphExecDestroy(h->second);
    cu.cuGraphDestroy(h->handle);
}

static const struct way {
    const char *name;
    CUresult (*take)(struct held *ret_held);
    void (*drop)(struct held *held);
    uint64_t step_bytes;
} ways[] = {
    {"cuMemAlloc", take_plain, drop_plain, STEP},
    {"cuMemAllocPitch", take_pitch, drop_plain, STEP},
    {"cuMemAllocManaged", take_managed, drop_plain, STEP},
    {"cuMemAllocAsync (default pool)", take_async, drop_async, STEP},
    {"cuMemAllocFromPoolAsync (own pool)", take_pool, drop_async, STEP},
    {"cuArrayCreate (2D)", take_array, drop_array, STEP},
    {"cuArray3DCreate", take_array3d, drop_array, STEP},
    {"cuMipmappedArrayCreate", take_mipmap, drop_mipmap, 22413312},
    {"cuMemCreate (virtual memory API)", take_vmm, drop_vmm, STEP},
    {"memory node of a CUDA graph", take_graph, drop_graph, STEP},
};

static unsigned fill(const struct way *way, struct held *held, CUresult *ret_result)
{
    unsigned count = 0;
    for (*ret_result = 0; count < HELD_MAX; count++)
        if ((*ret_result = way->take(&held[count])) != 0)
            break;
    return count;
}

static const char *because(CUresult result)
{
    static char other[32];
    snprintf(other, sizeof other, "error %d", result);
    return result == 2 ? "out of memory" : result == 0 ? "never" : other;
}

static int show_ways(void)
{
    static struct held held[HELD_MAX];
    size_t free_bytes, total_bytes, device_bytes;
    int status = 0;
    start();
    need(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes), "cuMemGetInfo");
    need(cu.cuDeviceTotalMem_v2(&device_bytes, 0), "cuDeviceTotalMem");
    printf("The program sees:  total %.2f GiB, free %.2f GiB (%.2f GiB is its context)\n\n",
           GIB(total_bytes), GIB(free_bytes), GIB(total_bytes - free_bytes));
    printf("  %-36s %12s   %-14s %s\n", "way of allocating", "got", "stopped by", "then free");
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        CUresult result;
        size_t left, total;
        unsigned count = fill(&ways[i], held, &result);
        need(cu.cuMemGetInfo_v2(&left, &total), "cuMemGetInfo");
        printf("  %-36s %8.2f GiB   %-14s %.2f GiB\n", ways[i].name,
               GIB(count * ways[i].step_bytes), because(result), GIB(left));
        status |= result != 2;
        for (unsigned k = 0; k < count; k++)
            ways[i].drop(&held[k]);
        need(cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
        cu.cuDeviceGraphMemTrim(0);
    }
    if (pool)
        need(cu.cuMemPoolDestroy(pool), "cuMemPoolDestroy");
    size_t after, total;
    need(cu.cuMemGetInfo_v2(&after, &total), "cuMemGetInfo");
    printf("  %-36s %12s   %-14s %.2f GiB\n", "everything given back", "", "", GIB(after));
    need(cu.cuDevicePrimaryCtxRelease_v2(0), "cuDevicePrimaryCtxRelease");
    return status || device_bytes != total_bytes;
}

static bool exists(const char *folder, const char *name, const char *ending)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    return access(path, F_OK) == 0;
}

static void say(const char *folder, const char *name, const char *ending)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    FILE *file = fopen(path, "w");
    if (file)
        fclose(file);
}

/* Waits for a file that another process makes; not for ever. */
static void await(const char *folder, const char *name, const char *ending)
{
    for (unsigned waited_ms = 0; !exists(folder, name, ending) && waited_ms < 5000; waited_ms += 10)
        nanosleep(&(struct timespec){0, 10 * 1000000}, NULL);
}

static int tenant(const char *name, const char *folder)
{
    static struct held held[HELD_MAX];
    size_t free_bytes, total_bytes;
    CUresult result;
    start();
    say(folder, name, ".started");
    await(folder, "alice", ".started");
    await(folder, "bob", ".started");
    unsigned count = fill(&ways[0], held, &result);
    need(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes), "cuMemGetInfo");
    printf("  %-6s sees a card of %.2f GiB and got %.2f GiB of it, context included; then: %s\n",
           name, GIB(total_bytes), GIB(total_bytes - free_bytes), because(result));
    say(folder, name, ".full");
    await(folder, "go", ""); /* demo.sh shows `vgpu ps` meanwhile */
    for (unsigned k = 0; k < count; k++)
        ways[0].drop(&held[k]);
    need(cu.cuDevicePrimaryCtxRelease_v2(0), "cuDevicePrimaryCtxRelease");
    return result != 2;
}

static int card(void)
{
    char name[128] = "";
    size_t bytes = 0;
    if (!load() || cu.cuDeviceGetName(name, sizeof name, 0) || cu.cuDeviceTotalMem_v2(&bytes, 0))
        return 1;
    printf("%s, %.1f GiB\n", name, GIB(bytes));
    return 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2 && !strcmp(argv[1], "card"))
        return card();
    if (argc == 2 && !strcmp(argv[1], "ways"))
        return show_ways();
    if (argc == 4 && !strcmp(argv[1], "tenant"))
        return tenant(argv[2], argv[3]);
    fprintf(stderr, "usage: demo card | ways | tenant NAME FOLDER\n");
    return 2;
}
