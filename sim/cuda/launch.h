/* Launches of kernels. */
#ifndef SIM_LAUNCH_H
#define SIM_LAUNCH_H

#include "graph.h"

int launch_function(struct sim_function *function, const unsigned *grid, const unsigned *block,
                    unsigned shared_bytes, struct sim_stream *handle, void **params, void **extra);
/* With SIMGPU_LAZY: loads a function at its first launch, which waits for held streams. */
void launch_load(struct sim_function *function, struct sim_context *context);

#endif
