/*
 * What the unit tests share: cmocka, a scratch folder, child processes, a region to play with.
 */
#ifndef VGPU_TESTS_UNIT_H
#define VGPU_TESTS_UNIT_H

#include "base/cleanup.h"
#include "base/clock.h"
#include "account/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

/* Sanitizers make everything slower: bounds on time are this many times longer there. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOWER 10
#endif
#endif
#if !defined(SLOWER) && (defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__))
#define SLOWER 10
#endif
#ifndef SLOWER
#define SLOWER 1
#endif

/* How long a test waits for what must come: much longer than any machine needs. */
#define PATIENCE_NS (60 * NS_PER_S)

/* TEST(name[, setup[, teardown]]) { ... } defines a test, which unit.c's main() runs and ctest
 * calls unit.SUBJECT.name. `make test` leaves SLOW_TEST()s out. ROOT_TEST()s are skipped without
 * root. */
struct unit_test {
    const char *name;
    CMUnitTestFunction body;
    CMFixtureFunction fixtures[2]; /* before it and after it */
    const char *labels;
};

#define DEFINE_TEST(name, labels, ...)                                                             \
    static void test_##name(void **state);                                                         \
    static const struct unit_test entry_##name = {#name, test_##name, {__VA_ARGS__}, labels};      \
    static const struct unit_test *const listed_##name                                             \
        __attribute__((section("unit_tests"), used)) = &entry_##name;                              \
    static void test_##name(__attribute__((unused)) void **state)
#define TEST(name, ...)      DEFINE_TEST(name, "fast", __VA_ARGS__)
#define SLOW_TEST(name, ...) DEFINE_TEST(name, "slow", __VA_ARGS__)
#define ROOT_TEST(name, ...) DEFINE_TEST(name, "fast root", __VA_ARGS__)

/* A folder of this test program, made at the first call and removed with what is in it at the
 * end. */
const char *scratch(void);
/* "<scratch>/<name>"; four results live at a time. */
const char *scratch_path(const char *name);

/* Runs body(arg) in a child, which ends with its result, and is killed where the test program ends
 * before. Returns the pid. Not for threads. */
pid_t spawn(int (*body)(void *arg), void *arg);
/* The child's exit status; 1000 + signal where one killed it. */
int finish(pid_t pid);

/* Memory that children share. */
void *shared_memory(size_t bytes);

/* A new region file with `quota_bytes` on vdev 0; "" is the file's name in the scratch folder. */
struct vgpu_region *new_region(const char *name, uint64_t quota_bytes);

/* What the region's first vdev shows as used. */
uint64_t snapshot_used(struct vgpu_region *region);

void nap_ms(unsigned ms);

void count_skipped(void);

/* Leaves a test out, and says why in the summary of `make test`. */
#define SKIP(reason)                                                                               \
    do {                                                                                           \
        print_message("skip: needs %s\n", reason);                                                 \
        count_skipped();                                                                           \
        skip();                                                                                    \
    } while (0)

/* In children, where cmocka's assertions do not work: says what failed and returns 1 from the
 * function. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed in a child: %s\n", __FILE__, __LINE__, #condition);     \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

#endif
