/*
 * Counting and logging of driver calls, for `vgpu run --trace`. (trace_memory() for handlers is in
 * hook.h.)
 *
 * Counts go to the instance's trace.counts where there is one; else they are this process's own and
 * are appended to the trace file when it exits. Calls that take or give back memory are logged to
 * the trace file as they happen.
 */
#ifndef VGPU_HOOK_LOADER_TRACE_H
#define VGPU_HOOK_LOADER_TRACE_H

#include "account/trace_counts.h"

/* Where counts go now: one row for each entry of symbols.h. The trampolines read it. */
extern struct vgpu_trace_row *trace_rows;

/* Opens VGPU_TRACE and, in `instance_dir` (NULL: none), trace.counts. Once, before the first
 * handler runs. If a file cannot be opened, warns, and counts calls all the same. */
void trace_start(const char *instance_dir);

static inline void trace_count(int entry)
{
    atomic_fetch_add_explicit(&trace_rows[entry].calls, 1, memory_order_relaxed);
}

#endif
