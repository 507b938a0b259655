/*
 * What contexts cost, and room for them in the quota.
 *
 * A context takes some hundred MiB that nobody can tell beforehand. The first one of an instance is
 * admitted with what is left, up to a bound, and measured; from then on the region knows the cost
 * and admission is exact. Processes that start together while the first is being measured wait for
 * it, for a bounded time.
 */
#ifndef VGPU_HOOK_CONTEXT_COST_H
#define VGPU_HOOK_CONTEXT_COST_H

#include "hook/hook.h"

/* Where the driver does not tell this process what it holds. */
#define CONTEXT_COST_GUESS (520ULL << 20)

struct context_admission {
    struct vgpu_ledger *ledger; /* NULL: nothing is counted */
    unsigned vdev;
    uint64_t reserved_bytes;
    uint64_t refused_bytes; /* what the context took, where that was too much */
    bool alone;             /* nothing else of this process can be in the measurement */
};

/*
 * Room for a context, before the driver is asked for it. False: there is none, the refusal is
 * recorded. Every admission ends with context_admission_cancel() or context_admission_settle().
 */
bool context_admit(enum hook_symbol sym, struct vgpu_ledger *ledger, unsigned vdev,
                   struct context_admission *ret_admission);

/* The context was not made, or is undone: records the refusal if that was ours. */
void context_admission_cancel(enum hook_symbol sym, struct context_admission *admission);

/* The context is there: measures and charges it. False: it does not fit; the caller destroys it and
 * cancels. */
bool context_admission_settle(struct context_admission *admission, uint64_t *ret_bytes);

/* In the child of a fork: what other threads of the parent had under way is not. */
void context_cost_forked(void);

#endif
