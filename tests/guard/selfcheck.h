/*
 * The fake driver's own test: what selfcheck*.c share.
 */
#ifndef VGPU_TESTS_SELFCHECK_H
#define VGPU_TESTS_SELFCHECK_H

#include "rmclient.h"

#include <stdio.h>
#include <stdlib.h>

#define MIB (1ULL << 20)

/* Ends the program, or the child. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define CHECK_EQUAL(got, expected)                                                                 \
    do {                                                                                           \
        unsigned long long got_ = (unsigned long long)(got),                                       \
                           expected_ = (unsigned long long)(expected);                             \
        if (got_ != expected_) {                                                                   \
            fprintf(stderr, "%s:%d: failed: %s is %#llx, not %#llx\n", __FILE__, __LINE__, #got,   \
                    got_, expected_);                                                              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct fakerm_stats book(struct rmclient *client, uint32_t pid);
void nap_ms(unsigned ms);
int finish(int pid); /* exit status; 1000 + signal */

/* selfcheck_compute.c */
void check_wait(void);
void check_slices(void);
void check_disable(void);
void check_end(void);
void check_schedule(void);
void check_group_dup(void);
void check_wedged(void);
void check_contexts(void);
void check_preempt(void);
void check_two_contexts(void);
void check_wait_ends(void);

#endif
