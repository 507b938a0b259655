/*
 * The file `trace.counts` of an instance: how often each driver function was called, and how many
 * bytes it moved or took. `vgpu run --trace` makes it, all zero except the head; every process of
 * the instance adds to it.
 *
 * Its rows are those of spec/driver.def and then those of spec/nvml.def, in their order. Both sides
 * are built from the same files; row_count tells if they were not.
 */
#ifndef VGPU_ACCOUNT_TRACE_COUNTS_H
#define VGPU_ACCOUNT_TRACE_COUNTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_COUNTS_NAME  "trace.counts" /* beside `region` */
#define TRACE_COUNTS_MAGIC UINT64_C(0x32746e7563757067)

struct vgpu_trace_row {
    _Atomic uint64_t calls;
    _Atomic uint64_t bytes;
};

struct vgpu_trace_counts {
    uint64_t magic;
    uint64_t row_count;
    _Atomic uint64_t lost_lines; /* lines that are missing in the trace file; every process adds */
    _Atomic uint64_t lost_errno; /* the reason, the last time */
    struct vgpu_trace_row row[];
};

static inline size_t trace_counts_size(uint64_t row_count)
{
    return sizeof(struct vgpu_trace_counts) + (size_t)row_count * sizeof(struct vgpu_trace_row);
}

#endif
