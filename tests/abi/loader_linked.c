/*
 * A program that is linked against the driver, with another shim between.
 *
 *   loader_linked off|on   over the toy driver
 *   loader_linked old      over one that lacks cuMemAllocAsync
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loader.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuMemAllocAsync(unsigned long long *dptr, size_t bytes, void *stream) __attribute__((weak));
int cuMemAdvise(unsigned long long dptr, size_t bytes, int advice, int device);
int cuMemFree_v2(unsigned long long dptr);
int cuMemRangeGetAttributes(long a, long b, long c, long d, long e, long f) __attribute__((weak));
int cuMemDiscardAndPrefetchBatchAsync(long a, long b, long c, long d, long e, long f, long g,
                                      long h, long i) __attribute__((weak));
int cuParamSetf(long a, int b, float c) __attribute__((weak));
void *shim_next(const char *name);

static pthread_barrier_t barrier;

static void *first_call(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&barrier);
    return (void *)(long)cuInit(0);
}

static void check_threads(void)
{
    pthread_t threads[8];
    void *result;

    pthread_barrier_init(&barrier, NULL, 8);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, first_call, NULL) == 0, " ");
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &result);
        CHECK(result == NULL, "cuInit from 8 threads: %ld", (long)result);
    }
}

/* Each in a process of its own: its first call is the one that has to find the driver. */
static void check_arguments(void)
{
    for (int which = 0; which < 3; which++) {
        pid_t child = fork();
        int status;

        if (child == 0) {
            int failed = 0;

            for (int i = 0; i < 2; i++)
                failed |= which == 0 ? cuMemRangeGetAttributes(1, 2, 3, 4, 5, 6)
                          : which == 1
                              ? cuMemDiscardAndPrefetchBatchAsync(1, 2, 3, 4, 5, 6, 7, 8, 9)
                              : cuParamSetf(1, 2, 3.0f);
            _exit(failed);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0, "arguments of function %d",
              which);
    }
}

static void check_child(void)
{
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(cuMemAdvise(1, 1, 0, 0) == 0 && cuInit(0) == 0 ? 0 : 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0, "in a child: %d", status);
}

int main(int argc, char **argv)
{
    bool on = argc > 1 && strcmp(argv[1], "off") != 0,
         old = argc > 1 && strcmp(argv[1], "old") == 0;

    if (!old)
        check_arguments();
    check_child();
    check_threads();
    check_child();
    CHECK(cuMemAdvise(1, 1, 0, 0) == 0, " ");
    CHECK(OURS(shim_next("cuMemFree_v2")) == on, "RTLD_NEXT of a shim after us");
    CHECK(lies_in(shim_next("cuMemAdvise"), on && getenv("VGPU_TRACE") ? "libvgpu" : "libcuda"),
          " ");
    if (old) {
        CHECK(dlsym(RTLD_DEFAULT, "cuMemAllocAsync") == NULL, "not in this driver");
        CHECK(dlsym(RTLD_DEFAULT, "cuMemPoolCreate") == NULL, "not in this driver");
        CHECK(!cuMemAllocAsync || cuMemAllocAsync(NULL, 1, NULL) == 801, "not in this driver");
    }
    return 0;
}
