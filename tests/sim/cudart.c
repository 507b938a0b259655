/*
 * A program of CUDA's runtime API, in an instance: cudart LIBRARY QUOTA CAP_PERCENT SIMCTL. LIBRARY
 * is the libcudart.so to use. With CUDART_LINKED the runtime is in the program, which then ignores
 * LIBRARY. The build needs no toolkit, because this file has the code that nvcc makes of
 * `kernel<<<1, 1, 0, stream>>>(ns)`.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ULL << 20)

struct dim3 {
    unsigned x, y, z;
};

/* RUNTIME(result, name, arguments): as driver_types.h and crt/host_runtime.h have them since
 * CUDA 11.4. */
#define RUNTIME_API(RUNTIME)                                                                       \
    RUNTIME(void **, __cudaRegisterFatBinary, (void *))                                            \
    RUNTIME(void, __cudaRegisterFatBinaryEnd, (void **))                                           \
    RUNTIME(void, __cudaUnregisterFatBinary, (void **))                                            \
    RUNTIME(                                                                                       \
        void, __cudaRegisterFunction,                                                              \
        (void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *)) \
    RUNTIME(int, cudaRuntimeGetVersion, (int *))                                                   \
    RUNTIME(int, cudaGetDeviceCount, (int *))                                                      \
    RUNTIME(int, cudaMemGetInfo, (size_t *, size_t *))                                             \
    RUNTIME(int, cudaMalloc, (void **, size_t))                                                    \
    RUNTIME(int, cudaFree, (void *))                                                               \
    RUNTIME(int, cudaMallocAsync, (void **, size_t, void *))                                       \
    RUNTIME(int, cudaFreeAsync, (void *, void *))                                                  \
    RUNTIME(int, cudaMallocManaged, (void **, size_t, unsigned))                                   \
    RUNTIME(int, cudaMallocHost, (void **, size_t))                                                \
    RUNTIME(int, cudaFreeHost, (void *))                                                           \
    RUNTIME(int, cudaMemcpyAsync, (void *, const void *, size_t, int, void *))                     \
    RUNTIME(int, cudaMemset, (void *, int, size_t))                                                \
    RUNTIME(int, cudaStreamCreateWithFlags, (void **, unsigned))                                   \
    RUNTIME(int, cudaStreamSynchronize, (void *))                                                  \
    RUNTIME(int, cudaStreamDestroy, (void *))                                                      \
    RUNTIME(int, cudaEventCreate, (void **))                                                       \
    RUNTIME(int, cudaEventRecord, (void *, void *))                                                \
    RUNTIME(int, cudaEventSynchronize, (void *))                                                   \
    RUNTIME(int, cudaEventElapsedTime, (float *, void *, void *))                                  \
    RUNTIME(int, cudaLaunchKernel,                                                                 \
            (const void *, struct dim3, struct dim3, void **, size_t, void *))                     \
    RUNTIME(int, cudaStreamBeginCapture, (void *, int))                                            \
    RUNTIME(int, cudaStreamEndCapture, (void *, void **))                                          \
    RUNTIME(int, cudaGraphInstantiateWithFlags, (void **, void *, unsigned long long))             \
    RUNTIME(int, cudaGraphLaunch, (void *, void *))                                                \
    RUNTIME(int, cudaGetLastError, (void))                                                         \
    RUNTIME(int, cudaDeviceSynchronize, (void))                                                    \
    RUNTIME(int, cudaDeviceReset, (void))

#ifdef CUDART_LINKED
#define DECLARE(result, name, arguments) result name arguments;
RUNTIME_API(DECLARE)
#define FIND(result, name, arguments) rt.name = name;
#else
#define FIND(result, name, arguments) *(void **)&rt.name = find(library, #name);
#endif

static struct {
#define MEMBER(result, name, arguments) result(*name) arguments;
    RUNTIME_API(MEMBER)
} rt;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define RT_OK(call)                                                                                \
    do {                                                                                           \
        int code_ = rt.call;                                                                       \
        if (code_) {                                                                               \
            printf("%s:%d: %s: %d\n", __FILE__, __LINE__, #call, code_);                           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum {
    ERROR_MEMORY_ALLOCATION = 2,
    TO_DEVICE = 1,
    TO_HOST = 2,
    NON_BLOCKING = 1,
    ATTACH_GLOBAL = 1
};
enum {
    KERNELS = 200,
    GRAPH_KERNELS = 10,
    GRAPH_LAUNCHES = 3,
    KERNEL_NS = 2000000,
    SLACK_NS = 100000000
};

static const char *simctl;

#ifndef CUDART_LINKED
static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);

    if (!found)
        printf("%s\n", dlerror());
    CHECK(found);
    return found;
}
#endif

static void open_runtime(const char *path)
{
#ifndef CUDART_LINKED
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);

    if (!library)
        printf("%s\n", dlerror());
    CHECK(library);
#else
    (void)path;
#endif
    RUNTIME_API(FIND)
}

/* What stands for the kernel in the program: the compiler's stub, whose address is its name. */
static void kernel_stub(void)
{
}

/* A fat binary without any code: the simulator has a function of every name. */
static struct {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
} fatbin = {0xba55ed50, 1, 16, 0};

static struct {
    uint32_t magic, version;
    const void *fatbin;
    const void *unused;
} wrapper = {0x466243b1, 1, &fatbin, NULL};

static void **register_kernel(void)
{
    void **handle = rt.__cudaRegisterFatBinary(&wrapper);
    static char name[] = "simgpu_busy";

    CHECK(handle);
    rt.__cudaRegisterFunction(handle, (const char *)kernel_stub, name, name, -1, NULL, NULL, NULL,
                              NULL, NULL);
    rt.__cudaRegisterFatBinaryEnd(handle);
    return handle;
}

static void launch(void *stream)
{
    uint64_t duration_ns = KERNEL_NS;
    void *parameters[] = {&duration_ns};

    RT_OK(cudaLaunchKernel((const void *)kernel_stub, (struct dim3){1, 1, 1},
                           (struct dim3){1, 1, 1}, parameters, 0, stream));
}

/* What the simulator's ledger says of this process on device 0; 0 where it has nothing. */
static uint64_t ledger(const char *key)
{
    char command[4200], line[4096], begin[64], wanted[64];
    uint64_t value = 0;

    snprintf(command, sizeof(command), "%s ledger", simctl);
    snprintf(begin, sizeof(begin), "process %d device=0 ", (int)getpid());
    snprintf(wanted, sizeof(wanted), " %s=", key);
    FILE *out = popen(command, "r");
    CHECK(out);
    while (fgets(line, sizeof(line), out)) {
        const char *found = strstr(line, wanted);
        if (found && !strncmp(line, begin, strlen(begin)))
            value = strtoull(found + strlen(wanted), NULL, 10);
    }
    CHECK(pclose(out) == 0);
    return value;
}

static void memory(uint64_t quota)
{
    enum { MOST = 64 };
    size_t free_bytes, total, after;
    void *held[MOST], *stream, *more;
    unsigned count = 0;

    RT_OK(cudaStreamCreateWithFlags(&stream, NON_BLOCKING));
    RT_OK(cudaMemGetInfo(&free_bytes, &total));
    CHECK(total == quota && free_bytes < quota);
    int code = 0;
    while (count < MOST && !(code = rt.cudaMalloc(&held[count], 64 * MIB)))
        count++;
    CHECK(code == ERROR_MEMORY_ALLOCATION && rt.cudaGetLastError() == ERROR_MEMORY_ALLOCATION);
    CHECK(count > 0 && ledger("total") <= quota && ledger("total") > quota - 128 * MIB);
    CHECK(rt.cudaMallocAsync(&more, 128 * MIB, stream) == ERROR_MEMORY_ALLOCATION);
    CHECK(rt.cudaGetLastError() == ERROR_MEMORY_ALLOCATION);
    while (count)
        RT_OK(cudaFree(held[--count]));
    RT_OK(cudaMemGetInfo(&after, &total));
    CHECK(after == free_bytes);
    RT_OK(cudaMallocAsync(&more, 64 * MIB, stream));
    RT_OK(cudaMemGetInfo(&after, &total));
    CHECK(after + 64 * MIB <= free_bytes);
    RT_OK(cudaFreeAsync(more, stream));
    RT_OK(cudaStreamSynchronize(stream));
    RT_OK(cudaStreamDestroy(stream));
}

static void contents(void)
{
    void *device, *host, *managed, *stream;

    RT_OK(cudaStreamCreateWithFlags(&stream, NON_BLOCKING));
    RT_OK(cudaMalloc(&device, MIB));
    RT_OK(cudaMallocHost(&host, MIB));
    RT_OK(cudaMallocManaged(&managed, MIB, ATTACH_GLOBAL));
    memset(host, 'h', MIB);
    RT_OK(cudaMemset(device, 'd', MIB));
    RT_OK(cudaMemcpyAsync(device, host, MIB / 2, TO_DEVICE, stream));
    memset(host, 0, MIB);
    RT_OK(cudaMemcpyAsync(host, device, MIB, TO_HOST, stream));
    RT_OK(cudaStreamSynchronize(stream));
    const char *text = host;
    CHECK(text[0] == 'h' && text[MIB / 2 - 1] == 'h' && text[MIB / 2] == 'd' &&
          text[MIB - 1] == 'd');
    *(char *)managed = 'm';
    RT_OK(cudaFree(managed));
    RT_OK(cudaFreeHost(host));
    RT_OK(cudaFree(device));
    RT_OK(cudaStreamDestroy(stream));
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

/* The ledger's time is exact; the clock only gives the cap's bound. */
static void kernels(unsigned cap_percent)
{
    void *stream, *first, *last;
    float ms;

    RT_OK(cudaStreamCreateWithFlags(&stream, NON_BLOCKING));
    RT_OK(cudaEventCreate(&first));
    RT_OK(cudaEventCreate(&last));
    uint64_t busy_ns = ledger("busy_ns"), start_ns = now_ns();
    RT_OK(cudaEventRecord(first, stream));
    for (int at = 0; at < KERNELS; at++)
        launch(stream);
    RT_OK(cudaEventRecord(last, stream));
    RT_OK(cudaEventSynchronize(last));
    RT_OK(cudaEventElapsedTime(&ms, first, last));
    uint64_t took_ns = now_ns() - start_ns;
    busy_ns = ledger("busy_ns") - busy_ns;
    printf("%d kernels: %.3f s of the device in %.3f s\n", KERNELS, (double)busy_ns / 1e9,
           (double)took_ns / 1e9);
    CHECK(busy_ns == (uint64_t)KERNELS * KERNEL_NS);
    CHECK(busy_ns <= took_ns * cap_percent / 100 + SLACK_NS);
    CHECK(ms * 1e6f >= (float)busy_ns * 0.99f && (double)ms * 1e6 <= (double)took_ns * 1.01);
    RT_OK(cudaDeviceSynchronize());
    RT_OK(cudaStreamDestroy(stream));
}

static void graphs(void)
{
    void *stream, *graph, *exec;

    RT_OK(cudaStreamCreateWithFlags(&stream, NON_BLOCKING));
    uint64_t busy_ns = ledger("busy_ns");
    RT_OK(cudaStreamBeginCapture(stream, 0));
    for (int at = 0; at < GRAPH_KERNELS; at++)
        launch(stream);
    RT_OK(cudaStreamEndCapture(stream, &graph));
    CHECK(ledger("busy_ns") == busy_ns);
    RT_OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    for (int at = 0; at < GRAPH_LAUNCHES; at++)
        RT_OK(cudaGraphLaunch(exec, stream));
    RT_OK(cudaStreamSynchronize(stream));
    CHECK(ledger("busy_ns") - busy_ns == (uint64_t)GRAPH_LAUNCHES * GRAPH_KERNELS * KERNEL_NS);
    RT_OK(cudaStreamDestroy(stream));
}

int main(int argc, char **argv)
{
    int count = 0, version = 0;

    CHECK(argc == 5);
    open_runtime(argv[1]);
    simctl = argv[4];
    void **handle = register_kernel();
    RT_OK(cudaRuntimeGetVersion(&version));
    printf("runtime %d.%d\n", version / 1000, version % 1000 / 10);
    RT_OK(cudaGetDeviceCount(&count));
    CHECK(count == 1);
    /* the second time in the context that the reset makes the runtime begin anew */
    for (int round = 0; round < 2; round++) {
        memory(strtoull(argv[2], NULL, 10));
        contents();
        if (!round)
            kernels((unsigned)atoi(argv[3]));
        graphs();
        RT_OK(cudaDeviceReset());
        CHECK(ledger("total") == 0);
    }
    rt.__cudaUnregisterFatBinary(handle);
    return 0;
}
