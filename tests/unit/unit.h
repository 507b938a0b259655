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

/* A folder of this test program, made at the first call and removed with what is in it at the
 * end. */
const char *scratch(void);
/* "<scratch>/<name>"; four results live at a time. */
const char *scratch_path(const char *name);

/* Runs body(arg) in a child, which ends with its result. Returns the pid. */
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

/* Leaves a test out, and says why in the summary of `make test`. */
#define SKIP(reason)                                                                               \
    do {                                                                                           \
        print_message("skip: %s needs %s\n", __func__, reason);                                    \
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
