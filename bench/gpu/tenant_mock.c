/*
 * The tenant's GPU by the fake driver of tests/guard: for rehearsals. Its kernels take time and
 * have channels, its memory is in the fake's book. More modes, some of which stand in for PyTorch:
 *
 *   oom [--mib N]                allocates until it is refused, frees, and allocates again
 *   managed [--mib N]            what `alloc managed` is for CUDA: mappings of nvidia-uvm until one
 *                                is refused
 *   train --secs N --every N     one hash a line
 */
#include "tenant.h"

#include "rmclient.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS_MAX 65536
#define NS_PER_US  1000

static struct rmclient client;
static uint32_t group, channel;
static struct rmclient_block block[BLOCKS_MAX];
static volatile uint32_t counter;
static atomic_bool beating;
static pthread_t beater;

/* rmclient is built with syscall() renamed to this, so that a preloaded ioctl() is asked as
 * libcuda's is. */
long mock_syscall(long number, ...);
long mock_syscall(long number, ...)
{
    va_list arguments;
    long a, b, c;

    va_start(arguments, number);
    a = va_arg(arguments, long);
    b = va_arg(arguments, long);
    c = va_arg(arguments, long);
    va_end(arguments);
    return number == SYS_ioctl ? ioctl((int)a, (unsigned long)b, (void *)c)
                               : syscall(number, a, b, c);
}

/* Statuses of the driver as CUDA has them. */
static int cuda_code(int rc)
{
    return rc == RM_ERR_NO_MEMORY ? 2 : rc;
}

int gpu_open(void)
{
    struct rmclient_block context;
    int rc = rmclient_open(NULL, 0, &client);

    if (rc == 0)
        rc = rmclient_malloc(&client, 512ULL << 20, &context); /* as much as CUDA's */
    return cuda_code(rc ? rc : rmclient_compute(&client, 1, &group, &channel));
}

int gpu_info(uint64_t *ret_free, uint64_t *ret_total)
{
    return rmclient_fb_info(&client, ret_total, ret_free);
}

int gpu_total(uint64_t *ret_total)
{
    uint64_t left;

    return rmclient_fb_info(&client, ret_total, &left);
}

int gpu_alloc(uint64_t bytes, uint64_t *ret_address)
{
    int rc;

    for (unsigned i = 0; i < BLOCKS_MAX; i++) {
        if (block[i].bytes)
            continue;
        rc = rmclient_malloc(&client, bytes, &block[i]);
        if (rc == 0)
            *ret_address = i;
        else
            block[i].bytes = 0;
        return cuda_code(rc);
    }
    return -1;
}

int gpu_free(uint64_t address)
{
    int rc = rmclient_mfree(&client, &block[address]);

    block[address].bytes = 0;
    return rc;
}

int gpu_calibrate(double *ret_iterations_per_us)
{
    *ret_iterations_per_us = 1;
    return 0;
}

void gpu_set_iterations(double iterations_per_us)
{
    (void)iterations_per_us;
}

int gpu_launch(double us)
{
    return rmclient_submit(&client, channel, us > 1 ? (uint64_t)(us * NS_PER_US) : NS_PER_US, 1);
}

int gpu_wait(void)
{
    return rmclient_wait(&client, channel);
}

static void *count_up(void *unused)
{
    while (atomic_load(&beating) && rmclient_run(&client, channel, 500 * NS_PER_US, 1) == 0)
        counter++;
    return unused;
}

int gpu_beat_start(volatile uint32_t **ret_counter)
{
    atomic_store(&beating, true);
    *ret_counter = &counter;
    return -pthread_create(&beater, NULL, count_up, NULL);
}

int gpu_beat_stop(void)
{
    atomic_store(&beating, false);
    return -pthread_join(beater, NULL);
}

static int oom(uint64_t bytes)
{
    uint64_t got = 0, address, total, left;
    int rc, again;

    while ((rc = gpu_alloc(bytes, &address)) == 0)
        got += bytes;
    gpu_info(&left, &total);
    printf("{\"mode\":\"oom\",\"error\":\"%s\",\"got_mib\":%llu,\"free_mib\":%llu,\"total_mib\":%"
           "llu}\n",
           rc == 2 ? "OutOfMemoryError" : "?", (unsigned long long)got >> 20,
           (unsigned long long)left >> 20, (unsigned long long)total >> 20);
    for (unsigned i = 0; i < BLOCKS_MAX; i++) {
        if (block[i].bytes)
            gpu_free(i);
    }
    again = gpu_alloc(bytes, &address);
    printf("{\"mode\":\"oom\",\"again\":%s,\"right\":true}\n", again ? "false" : "true");
    return 0;
}

static int managed(uint64_t bytes)
{
    uint64_t got = 0;
    int rc = rmclient_uvm_open(&client);

    while (rc == 0 && got < 16ULL << 30 &&
           mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, client.uvm, (off_t)got) !=
               MAP_FAILED)
        got += bytes;
    printf("{\"mode\":\"alloc\",\"how\":\"managed\",\"got_mib\":%llu,\"rc\":%d}\n",
           (unsigned long long)got >> 20, errno == ENOMEM ? 2 : errno);
    return 0;
}

static int train(double secs, unsigned every)
{
    time_t end = time(NULL) + (time_t)secs;
    uint64_t hash = 1;
    unsigned step = 0;

    while (time(NULL) < end) {
        if (gpu_launch(5000) || gpu_wait())
            return 1;
        hash = hash * 6364136223846793005u + ++step;
        if (step % every == 0)
            printf("{\"step\":%u,\"loss\":0.5,\"hash\":\"%016llx\"}\n", step,
                   (unsigned long long)hash);
    }
    printf("{\"mode\":\"train\",\"steps\":%u,\"secs\":%.0f}\n", step, secs);
    return 0;
}

static const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 2; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    }
    return otherwise;
}

int gpu_other(int argc, char **argv)
{
    if (strcmp(argv[1], "oom") == 0)
        return oom((uint64_t)atoi(option(argc, argv, "--mib", "64")) << 20);
    if (strcmp(argv[1], "managed") == 0)
        return managed((uint64_t)atoi(option(argc, argv, "--mib", "16")) << 20);
    if (strcmp(argv[1], "train") == 0)
        return train(atof(option(argc, argv, "--secs", "5")),
                     (unsigned)atoi(option(argc, argv, "--every", "20")));
    return -1;
}
