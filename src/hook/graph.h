/*
 * Executable graphs, and the memory behind them. Allocation nodes take nothing when they are added
 * or instantiated; the driver backs them when the graph is launched (or uploaded) and keeps that
 * memory for the next launch until it is trimmed.
 */
#ifndef VGPU_HOOK_GRAPH_H
#define VGPU_HOOK_GRAPH_H

#include "sched/cost.h"
#include "hook/hook.h"

/* What an executable graph's cost is kept under: no kernel has an empty grid. */
static inline uint64_t graph_cost_key(CUgraphExec exec)
{
    return cost_key((uintptr_t)exec, 0, VGPU_WORK_GRAPH);
}

/* From now on instantiated graphs are searched for allocation nodes. Until then nobody pays for
 * that. */
void graph_memory_possible(void);

#endif
