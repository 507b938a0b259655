/* The functions and helpers that the self-test uses. */
#ifndef SIM_SELFTEST_H
#define SIM_SELFTEST_H

/* Handles are plain pointers to the self-test. */
#define CUDA_HANDLE(name, tag) typedef void *name
#include "abi.h"
#include "nvml/nvml.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ULL << 20)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
            fflush(stdout);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static inline uint64_t time_of(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static inline uint64_t now_ns(void)
{
    return time_of(CLOCK_MONOTONIC);
}

static inline uint64_t cpu_ns(void)
{
    return time_of(CLOCK_PROCESS_CPUTIME_ID);
}

/* A wait or a write of a batch. */
#define MEMOP(kind, at, number)                                                                    \
    {                                                                                              \
        .waitValue = { CU_STREAM_MEM_OP_##kind, at, {.value64 = number}, 0, 0 }                    \
    }

struct selftest {
    const char *name;
    void (*function)(void);
};

/* Runs each case in a process and on a state file of its own; SELFTEST_ONLY names one case. Returns
 * main()'s exit status. */
int selftest_run(const struct selftest *cases, size_t count);
/* cuInit and a context. */
void *begin(void);
pid_t start(void (*function)(void));
/* Waits for it; its exit status, 128 + signal where it was killed. */
int finish(pid_t pid);

#define NOT_READY CUDA_ERROR_NOT_READY

enum { BLOCKING = 0, NON_BLOCKING = 1 };

void *new_stream(unsigned flags);
/* A function of a module of its own. */
void *kernel(const char *name);
/* Launches simgpu_busy. */
void launch_busy(void *function, void *stream, uint64_t duration_ns);
/* A number of the ledger, by simctl: the one after key= in the last line that begins with
 * line_start. UINT64_MAX: there is none. */
uint64_t ledger(const char *line_start, const char *key);

/* What NVML says is used of device 0. */
uint64_t used(void);

static inline void *symbol_address(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

int nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned type, unsigned *ret_mhz);
int nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned type, unsigned *ret_mhz);
int nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *ret_generation);
int nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *ret_generation);
int nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *ret_width);
int nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *ret_width);
int nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned counter, unsigned *ret_rate);
int nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned *ret_percent,
                                    unsigned *ret_period_us);
int nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned *ret_percent,
                                    unsigned *ret_period_us);
int nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *ret_degrees);
int nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned type, unsigned *ret_degrees);
int nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned *ret_percent);
int nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *ret_milliwatt);
int nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *ret_milliwatt);

#define HOOK(symbol, handler) symbol##_fn symbol;
#define CALL(symbol, ...)     symbol##_fn symbol;
#define PASS(symbol)
#include "driver.def"
#undef HOOK
#undef CALL
#undef PASS

#endif
