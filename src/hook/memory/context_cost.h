/*
 * What contexts cost, and room for them in the quota.
 *
 * A context takes some hundred MiB, which nobody can tell beforehand. The first one of an instance
 * is admitted with what is left of the quota, up to a bound, and measured. From then on the region
 * has the cost and admission is exact. Processes that start while the first context is being
 * measured wait for it, for a bounded time.
 */
#ifndef VGPU_HOOK_MEMORY_CONTEXT_COST_H
#define VGPU_HOOK_MEMORY_CONTEXT_COST_H

#include "hook/memory/admission.h"

/* Where the driver does not tell what this process holds. */
#define CONTEXT_COST_GUESS (520ULL << 20)

struct context_admission {
    struct admission mem;
    bool alone; /* nothing else of this process can be in the measurement */
};

/* mem_admit() for a context on a vdev. */
CUresult context_admit(enum hook_symbol sym, unsigned vdev,
                       struct context_admission *ret_admission);

/* mem_settle() for an admission that was granted: measures the context and charges it. Where it
 * does not fit, undo(handle) destroys it. The caller records the charge. */
CUresult context_settle(const struct context_admission *admission, CUresult result, void *handle,
                        CUresult (*undo)(void *handle), uint64_t *ret_bytes);

/* In the child of a fork: admissions of the parent's threads are not under way there. */
void context_cost_forked(void);

#endif
