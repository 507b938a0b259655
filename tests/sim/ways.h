/*
 * Every way in which a program gets memory, behind one face. A take that fails must leave its
 * outputs alone; each take here checks that itself.
 */
#ifndef TESTS_SIM_WAYS_H
#define TESTS_SIM_WAYS_H

#include "harness.h"

struct held {
    uint64_t address;
    void *handle;
    void *handle2;
    void *host;
    uint64_t bytes;
};

enum way_counts { WAY_DEVICE, WAY_HOST };

struct way {
    const char *name;
    CUresult (*take)(struct held *ret_held);
    void (*drop)(struct held *held);
    void (*settle)(void);    /* what makes freed memory go back at once (synchronise, trim); NULL:
                                nothing needed */
    bool (*available)(void); /* NULL: always */
    uint64_t step_bytes;     /* the most that one take can cost */
    enum way_counts counts;
    bool once;  /* one take is all there is (a limit): no loop */
    bool alone; /* only for the test of its own: heavy */
};

extern const struct way ways[];
extern const unsigned way_count;
const struct way *way_find(const char *name);
void ways_init(void); /* stream and pools of the calling process; after open_device() */
void ways_done(void);

#endif
