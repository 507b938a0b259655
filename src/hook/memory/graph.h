/*
 * Executable graphs, and the memory behind them. Allocation nodes take nothing when a program adds
 * or instantiates them. The driver backs them at a launch or an upload, and keeps that memory for
 * the next launch until somebody trims it.
 */
#ifndef VGPU_HOOK_MEMORY_GRAPH_H
#define VGPU_HOOK_MEMORY_GRAPH_H

#include "sched/cost.h"
#include "hook/loader/hook.h"

/* The key of an executable graph's cost: no kernel has an empty grid. */
static inline uint64_t graph_cost_key(CUgraphExec exec)
{
    return cost_key((uintptr_t)exec, 0, VGPU_WORK_GRAPH);
}

/* From now on, graphs are searched for allocation nodes when they are instantiated. */
void graph_memory_possible(void);

#endif
