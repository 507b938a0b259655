/* Copies as boxes of bytes between two addresses. */
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include "graph.h"

struct sim_box {
    uintptr_t src, dst;
    size_t src_pitch, src_slice, dst_pitch, dst_slice;
    size_t width, height, depth; /* bytes, rows, slices */
};

bool copy_box_of(const CUDA_MEMCPY3D *copy, struct sim_box *ret_box);
/* Copies in the stream's order. wait: as synchronous calls do. */
int copy_submit(const struct sim_box *box, struct sim_stream *stream, bool wait);
int copy_submit_memset(const CUDA_MEMSET_NODE_PARAMS_v2 *set, struct sim_stream *stream, bool wait);

#endif
