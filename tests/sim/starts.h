/*
 * Every way of starting work for the device, behind one face, each taking a known device time.
 * Memsets and copies need a simulator that moves STARTS_BANDWIDTH (SIMGPU_BANDWIDTH).
 */
#ifndef TESTS_SIM_STARTS_H
#define TESTS_SIM_STARTS_H

#include "harness.h"

#define STARTS_BANDWIDTH                                                                           \
    (64 * GIB) /* bytes a second: 1 ms of it is too large for the simulator to keep contents */

struct start {
    const struct start_way *way;
    uint64_t duration_ns; /* of one start; may be changed, where start_change() is called */
    CUstream stream;
    CUmodule module;
    CUfunction kernel;
    void *arguments[1];
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUdeviceptr memory;
    size_t bytes;
    CUDA_LAUNCH_PARAMS launches[2]; /* with that of the next device, for launches on both */
    CUcontext other;
    CUmodule other_module;
    unsigned nodes; /* of a graph */
};

struct start_way {
    const char *name;
    void (*prepare)(struct start *start);
    CUresult (*start)(struct start *start);
    void (*change)(struct start *start); /* of its duration, where that takes more than a new one */
    bool own_stream;                     /* it is on a default stream, whatever stream there is */
};

extern const struct start_way starts[];
extern const unsigned start_count;

/* On the current device. `nodes`: kernels of a graph. Ends the test where there is no such way. */
void start_prepare(struct start *start, const char *way, uint64_t duration_ns, unsigned nodes);
CUresult start_once(struct start *start);
void start_change(struct start *start, uint64_t duration_ns);
void start_wait(struct start *start); /* for all that was started */
void start_done(struct start *start);

#endif
