/*
 * Who gets a device next, and for how long. Pure functions of an arena's state and the time, all
 * under its lock; they know tenants, not how turns are enforced.
 *
 * Whatever the policy, a tenant that has waited for POLICY_STARVED_NS goes first, for a short turn.
 * With priorities that is rare enough to stay out of the 99th percentile of the tenant that goes
 * before. With mlfq, where waiting is the rule for some, it is POLICY_AGED_NS.
 *
 * A tenant is interactive if it yields most of its turns early, to wait for results. With fair,
 * priority and adaptive, turns beside an interactive tenant are short, and a tenant that has had a
 * burst of POLICY_BURST_NS yields without delay: bursts of several programs alternate. Tenants that
 * use their turns up get long ones, which cost less.
 */
#ifndef VGPU_SCHED_POLICY_H
#define VGPU_SCHED_POLICY_H

#include "sched/arena_layout.h"
#include "sched/sched_params.h"

#include <stdbool.h>

/*
 * Whether the tenants that contend all run on several devices, where their turns are slots of the
 * clock (sched/gang.h).
 */
bool policy_gang(const struct arena_layout *layout);

/* The slot of a time, and whose it is: the tenant, or -1. The same on every device with the same
 * tenants. */
int policy_slot_owner(const struct arena_layout *layout, uint64_t now_ns);

/* Whether a light program may run beside the others, outside of turns: not under a higher
 * priority. */
bool policy_lets_beside(const struct arena_layout *layout, unsigned tenant);

/* The waiting tenant that is due, or -1. `except`: one that is passed over where another waits; -1:
 * none. */
int policy_pick(const struct arena_layout *layout, int except, uint64_t now_ns);

/* How long the turn that `tenant` is about to get may be. */
uint64_t policy_quantum_ns(const struct arena_layout *layout, unsigned tenant, uint64_t now_ns);

/*
 * Whether the tenant that holds the device, which has no more to do for its turn, goes on all the
 * same: it is due before all that wait, once it is charged for held_ns.
 */
bool policy_due_again(struct arena_layout *layout, unsigned tenant, uint64_t held_ns,
                      uint64_t now_ns);

/* Whether a tenant that waits goes first because of how long it has waited. */
bool policy_starved(const struct arena_layout *layout, unsigned tenant, uint64_t now_ns);

/*
 * When a tenant that waits ends the turn of the one that holds the device; UINT64_MAX: it does not.
 * It may where a thread of it stands still for it, rather than going on with other things.
 */
uint64_t policy_preempts_ns(const struct arena_layout *layout, unsigned tenant, unsigned holder,
                            uint64_t now_ns);

/*
 * How long a holder without work keeps the device. `burst_ns`: what it launches between two waits
 * for its results. A switch back and forth costs more than a short gap, so the grace follows how
 * soon the tenant has come back before. A tenant that has had a turn's worth in one burst yields at
 * once, unless all that wait are of a lower priority.
 */
uint64_t policy_grace_ns(const struct arena_layout *layout, unsigned tenant, uint64_t burst_ns);

/* Whether a holder that has had such a burst, and did not launch until it had its results, is at
 * the end of its turn.
 */
bool policy_ends_with_burst(const struct arena_layout *layout, unsigned tenant, uint64_t burst_ns);

/* A tenant has yielded for want of work; and: it wants the device again. */
void policy_yields(struct arena_layout *layout, unsigned tenant, uint64_t now_ns);
void policy_comes_back(struct arena_layout *layout, unsigned tenant, uint64_t now_ns);

/* How much work the tenant may have on the device at a time, while nobody waits: whoever comes
 * waits for all of it. */
uint64_t policy_ahead_ns(const struct arena_layout *layout, unsigned tenant);

/* A tenant begins to wait: it gets little credit for the time in which it did not. */
void policy_wants(struct arena_layout *layout, unsigned tenant);

/* A tenant comes, or comes back after long: what was before is forgotten. */
void policy_returns(struct arena_layout *layout, unsigned tenant);

/*
 * How a turn ended: its time was up; the tenant had no more work; its burst was over, and it was
 * about to begin the next one.
 */
enum policy_end { POLICY_SPENT, POLICY_YIELDED, POLICY_BURST };

/* A tenant has held the device for held_ns. */
void policy_held(struct arena_layout *layout, unsigned tenant, uint64_t held_ns,
                 enum policy_end end);

#endif
