/*
 * Every way in which a program gets memory, behind one interface. Each take() also checks that the
 * driver leaves the outputs alone when it fails.
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
    void (*settle)(void);    /* makes freed memory go back at once, as a trim does; NULL: it does */
    bool (*available)(void); /* NULL: always */
    uint64_t step_bytes;     /* the most that one take can cost */
    enum way_counts counts;
    bool once;  /* sets a limit: a second take gets nothing more */
    bool alone; /* too slow for tests of several ways */
};

extern const struct way ways[];
extern const unsigned way_count;
const struct way *way_find(const char *name);
void ways_init(void); /* makes the process's stream and pools; call open_device() before */
void ways_done(void);

#endif
