/*
 * Policies: which tenant gets a device next, and for how long. Functions of an arena's state and
 * the time: no clock, no I/O, no state of their own. Those with a const layout only read, and may
 * be called without the arena's lock. The others change words of tenants, and need it. They know
 * tenants, not how turns are enforced.
 *
 * A new policy is a row of spec/policies.def and a `struct policy` in policy.c. No other file tests
 * which policy it is.
 *
 * Under every policy a tenant that has waited for POLICY_STARVED_NS (mlfq: POLICY_AGED_NS) goes
 * first, for a short turn.
 *
 * A tenant is interactive if it yields most of its turns early, to wait for results. With fair,
 * priority and adaptive, turns beside an interactive tenant are short, and a tenant yields without
 * delay after a burst of POLICY_BURST_NS: bursts of several programs alternate. Tenants that use
 * their turns up get long ones, which cost less.
 */
#ifndef VGPU_SCHED_POLICY_H
#define VGPU_SCHED_POLICY_H

#include "sched/arena_layout.h"
#include "sched/sched_params.h"

#include <stdbool.h>

/* A tenant's weight, within 1..VGPU_WEIGHT_MAX whatever the arena says. */
static inline uint32_t policy_weight(const struct arena_tenant *tenant)
{
    uint32_t weight = atomic_load_explicit(&tenant->weight, memory_order_relaxed);

    return weight == 0 ? VGPU_WEIGHT_DEFAULT : weight > VGPU_WEIGHT_MAX ? VGPU_WEIGHT_MAX : weight;
}

/* Whether all tenants that contend run on several devices: then turns are slots of the clock
 * (sched/gang.h). */
bool policy_gang(const struct arena_layout *layout);

/* The tenant that owns the slot of a time; -1: none. Equal on all devices with the same tenants. */
int policy_slot_owner(const struct arena_layout *layout, uint64_t now_ns);

/* Whether a light program may run unscheduled beside the others: not under a higher priority. */
bool policy_lets_beside(const struct arena_layout *layout, unsigned tenant);

/* The waiting tenant that is due; -1: none. `except` is a tenant that is due only if no other one
 * waits; -1: no exception. */
int policy_pick(const struct arena_layout *layout, int except, uint64_t now_ns);

/* The length of the turn that `tenant` is about to get. */
uint64_t policy_quantum_ns(const struct arena_layout *layout, unsigned tenant, uint64_t now_ns);

/* Whether the tenant that holds the device gets the next turn as well: charged for held_ns, it is
 * still due before all that wait. */
bool policy_due_again(struct arena_layout *layout, unsigned tenant, uint64_t held_ns,
                      uint64_t now_ns);

/* Whether a tenant has waited so long that it goes first. */
bool policy_starved(const struct arena_layout *layout, unsigned tenant, uint64_t now_ns);

/*
 * When `tenant`, which waits, ends the turn of the holder; UINT64_MAX: it does not. A higher
 * priority ends it at once. Any other tenant needs a thread that is blocked until its turn.
 */
uint64_t policy_preempts_ns(const struct arena_layout *layout, unsigned tenant, unsigned holder,
                            uint64_t now_ns);

/*
 * How long a holder without work keeps the device. `burst_ns` is what it launches between two waits
 * for its results. A switch back and forth costs more than a short gap, so the grace follows how
 * soon the tenant has come back before. A tenant that has had a turn's worth in one burst yields at
 * once, unless all that wait are of a lower priority.
 */
uint64_t policy_grace_ns(const struct arena_layout *layout, unsigned tenant, uint64_t burst_ns);

/* Whether the turn of a holder ends with such a burst, after which it waited for its results. */
bool policy_ends_with_burst(const struct arena_layout *layout, unsigned tenant, uint64_t burst_ns);

/* A tenant has yielded for want of work. */
void policy_yields(struct arena_layout *layout, unsigned tenant, uint64_t now_ns);

/* It wants the device again. */
void policy_comes_back(struct arena_layout *layout, unsigned tenant, uint64_t now_ns);

/* How much work the tenant may have on the device at a time: a newcomer waits for all of it. */
uint64_t policy_ahead_ns(const struct arena_layout *layout, unsigned tenant);

/* A tenant begins to wait. It gets little credit for the time in which it did not. */
void policy_wants(struct arena_layout *layout, unsigned tenant);

/* A tenant comes, or comes back after a long time. What was before is forgotten. */
void policy_returns(struct arena_layout *layout, unsigned tenant);

/* How a turn ended. */
enum policy_end {
    POLICY_SPENT,   /* its time was up */
    POLICY_YIELDED, /* the tenant had no more work */
    POLICY_BURST,   /* the tenant's burst was over, and its next one was about to begin */
};

/* A tenant has held the device for held_ns. */
void policy_held(struct arena_layout *layout, unsigned tenant, uint64_t held_ns,
                 enum policy_end end);

#endif
