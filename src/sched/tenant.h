/*
 * The states of a tenant, read from the words of an arena. STATES.md has the transitions.
 *
 * No word holds the state: several processes change the words that it follows from, one by one and
 * partly without the arena's lock. The state is right at the moment of the loads. Any thread, with
 * or without the lock; times beyond POLICY_AWAY_MOST_NS are damage and mean nothing.
 */
#ifndef VGPU_SCHED_TENANT_H
#define VGPU_SCHED_TENANT_H

#include "sched/arena_layout.h"
#include "sched/sched_params.h"

#include <stdbool.h>

enum tenant_state {
    TENANT_FREE,        /* the entry has no tenant */
    TENANT_INACTIVE,    /* no process of it has launched lately */
    TENANT_IDLE,        /* active, but no work of it waits for the device */
    TENANT_WAITING,     /* work of it waits for a turn */
    TENANT_RUNNING,     /* it holds the device */
    TENANT_DRAINING,    /* it gets no turn until work of an earlier time is over */
    TENANT_UNSCHEDULED, /* it runs as the driver lets it, outside of turns */
};

static inline bool tenant_away(const _Atomic uint64_t *until_ns, uint64_t now_ns)
{
    uint64_t until = atomic_load_explicit(until_ns, memory_order_acquire);

    return until > now_ns && until <= now_ns + POLICY_AWAY_MOST_NS;
}

static inline bool tenant_unscheduled(const struct arena_tenant *tenant, uint64_t now_ns)
{
    return tenant_away(&tenant->unscheduled_until_ns, now_ns);
}

static inline bool tenant_draining(const struct arena_tenant *tenant, uint64_t now_ns)
{
    return tenant_away(&tenant->draining_until_ns, now_ns);
}

static inline bool tenant_waits(const struct arena_tenant *tenant)
{
    return atomic_load_explicit(&tenant->id, memory_order_acquire) &&
           atomic_load_explicit(&tenant->wanted_ns, memory_order_acquire);
}

/*
 * `active`: a page of the tenant is active. `holds`: arena_layout.holder names the tenant. Where
 * several states apply: the first of FREE, INACTIVE, UNSCHEDULED, RUNNING, DRAINING, WAITING, IDLE.
 */
enum tenant_state tenant_state(const struct arena_tenant *tenant, bool active, bool holds,
                               uint64_t now_ns);

#endif
