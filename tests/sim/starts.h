/*
 * Every way to start work for the device, behind one interface. Each takes a known device time.
 * Memsets and copies need SIMGPU_BANDWIDTH to be STARTS_BANDWIDTH.
 */
#ifndef TESTS_SIM_STARTS_H
#define TESTS_SIM_STARTS_H

#include "harness.h"

#define STARTS_BANDWIDTH                                                                           \
    (64 * GIB) /* bytes a second: 1 ms of it is too large for the simulator to keep contents */

struct start {
    const struct start_way *way;
    uint64_t duration_ns; /* device time of one start; start_change() changes it */
    CUstream stream;
    CUmodule module;
    CUfunction kernel;
    void *arguments[1];
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUdeviceptr memory;
    size_t bytes;
    CUDA_LAUNCH_PARAMS launches[2]; /* the second one is on the next device */
    CUcontext other;
    CUmodule other_module;
    unsigned nodes; /* of a graph */
};

struct start_way {
    const char *name;
    void (*prepare)(struct start *start);
    CUresult (*start)(struct start *start);
    void (*change)(struct start *start); /* applies a new duration_ns; NULL: nothing to do */
    bool own_stream;                     /* runs on a default stream and ignores start->stream */
};

extern const struct start_way starts[];
extern const unsigned start_count;

/* On the current device. `nodes`: the kernels of a graph. An unknown way fails the test. */
void start_prepare(struct start *start, const char *way, uint64_t duration_ns, unsigned nodes);
CUresult start_once(struct start *start);
void start_change(struct start *start, uint64_t duration_ns);
void start_wait(struct start *start); /* until all started work is done */
void start_done(struct start *start);

#endif
