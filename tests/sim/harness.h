/*
 * The base of the test programs: registration, checks, the simulator's ledger (the truth) and the
 * instance's region.
 *
 * run.sh gives each test its own simulator state, runtime folder and instance. A failed check
 * prints file, line and both values, and ends the process with status 1.
 */
#ifndef TESTS_SIM_HARNESS_H
#define TESTS_SIM_HARNESS_H

#include "driver.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define KIB (1024ULL)
#define MIB (1024ULL * KIB)
#define GIB (1024ULL * MIB)

/* How long a test waits for what must come: much longer than any machine needs. */
#define PATIENCE_NS 60000000000ULL

#define BLOCK_BYTES      (2 * MIB)  /* the driver allocates in blocks of this size */
#define POOL_BLOCK_BYTES (32 * MIB) /* pools grow in steps of this size */
#define CANARY           0xC0FFEE5AC0FFEE5AULL

static inline uint64_t round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

struct test {
    const char *name;
    int (*run)(int argc, char **argv); /* returns the exit status */
    const struct test *next;
};
void test_register(struct test *test);

/* TEST(name) { ... return 0; }: run as `simtest name args...`. */
#define TEST(id)                                                                                   \
    static int test_##id(int argc, char **argv);                                                   \
    __attribute__((constructor)) static void register_##id(void)                                   \
    {                                                                                              \
        static struct test test = {#id, test_##id, NULL};                                          \
        test_register(&test);                                                                      \
    }                                                                                              \
    static int test_##id(int argc __attribute__((unused)), char **argv __attribute__((unused)))

void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4), cold));

#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            FAIL("%s does not hold", #condition);                                                  \
    } while (0)

/* CHECK_U(used, <=, quota): compares as uint64_t and shows both values. */
#define CHECK_U(left, op, right)                                                                   \
    do {                                                                                           \
        uint64_t left_ = (uint64_t)(left), right_ = (uint64_t)(right);                             \
        if (!(left_ op right_))                                                                    \
            FAIL("%s %s %s does not hold: %" PRIu64 " (%.3f MiB) and %" PRIu64 " (%.3f MiB)",      \
                 #left, #op, #right, left_, (double)left_ / (double)MIB, right_,                   \
                 (double)right_ / (double)MIB);                                                    \
    } while (0)

#define CU_IS(expected, call)                                                                      \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != (CUresult)(expected))                                                       \
            FAIL("%s returned %d, not %d", #call, (int)result_, (int)(expected));                  \
    } while (0)
#define CU_OK(call) CU_IS(CUDA_SUCCESS, call)

/* --- set-up --- */
CUcontext open_device(int ordinal); /* cuInit, the device's primary context, made current */
void close_device(int ordinal);
CUstream new_stream(void);
CUfunction new_kernel(const char *name, CUmodule *ret_module);

/* --- the truth: what the simulated driver holds for the processes of this test's group --- */
struct truth {
    uint64_t used_bytes; /* now, with managed memory */
    uint64_t peak_bytes; /* the group's highest used_bytes so far */
    unsigned procs;      /* processes that hold memory */
};
void truth_read(int device, struct truth *ret_truth); /* by physical number */
uint64_t truth_used(int device);
uint64_t truth_orphan(int device); /* in no group: only importers hold it */
uint64_t truth_peak(int device);
uint64_t truth_host(void);                     /* pinned host memory of the group, all processes */
uint64_t truth_process(int device, pid_t pid); /* of one process */
/* How often the driver's own function ran in this process. */
uint64_t truth_calls(const char *symbol);

/* --- the instance --- */
uint64_t quota_bytes(void); /* of vdev 0, as given to run.sh; 0: none */
uint64_t region_used(unsigned vdev);
uint64_t region_held(unsigned vdev, pid_t pid);
unsigned region_procs(void);
uint64_t region_refusals(unsigned vdev);

/* Checks that the truth and the region show the same use. No allocation may be under way. */
void check_agreement(void);

/* --- processes --- */
pid_t spawn_test(const char *name, const char *arg); /* runs another test of this program */
void wait_ok(pid_t pid);                             /* checks that it exits with 0 */
int wait_status(pid_t pid);                          /* exit status, or 128 + signal */
void *shared_page(size_t bytes);                     /* zeroed, shared with children */
uint64_t now_ns(void);
void sleep_ms(unsigned ms);
unsigned open_fds(void);
/* Runs a program without the preloaded library. Returns its stdout; the caller frees it. */
char *capture_output(const char *const argv[]);

/* A small generator of reproducible numbers (xorshift). */
uint64_t random_next(uint64_t *state);

#endif
