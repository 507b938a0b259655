/*
 * Who gets a device next, and for how long. Pure functions of an arena's state and the time, all under its lock; they
 * know tenants, not how turns are enforced.
 *
 * Whatever the policy, a tenant that has waited for too long goes first, for a short turn: after POLICY_STARVED_NS for
 * POLICY_MIN_NS; with priorities and mlfq, where waiting is the rule for some, after POLICY_AGED_NS for some more. With
 * priorities that is rare enough to stay out of the 99th percentile of who goes before, and long enough to be worth two
 * switches.
 */
#ifndef VGPU_CORE_POLICY_H
#define VGPU_CORE_POLICY_H

#include "region/arena_layout.h"

#include <stdbool.h>

#define POLICY_MIN_NS     1000000ULL
#define POLICY_MAX_NS     20000000ULL
#define POLICY_STARVED_NS 1000000000ULL
#define POLICY_AGED_NS    400000000ULL

#define POLICY_AGED_TURN_NS 3000000ULL

/* That a tenant may be said to stay away from turns. */
#define POLICY_AWAY_MOST_NS 100000000000ULL

/* The waiting tenant that is due, or -1. `except`: one that is passed over where another waits; -1: none. */
int policy_pick(const struct arena_layout *layout, int except, uint64_t now_ns);

/* How long the turn that `tenant` is about to get may be. */
uint64_t policy_quantum_ns(const struct arena_layout *layout, unsigned tenant, uint64_t now_ns);

/*
 * Whether the tenant that holds the device, which has no more to do for its turn, goes on all the same: it is due
 * before all that wait, once it is charged for held_ns.
 */
bool policy_due_again(struct arena_layout *layout, unsigned tenant, uint64_t held_ns, uint64_t now_ns);

/* Whether a tenant that waits goes first because of how long it has waited. */
bool policy_starved(const struct arena_layout *layout, unsigned tenant, uint64_t now_ns);

/*
 * When a tenant that waits ends the turn of the one that holds the device; UINT64_MAX: it does not. It may where a
 * thread of it stands still for it, rather than going on with other things.
 */
uint64_t policy_preempts_ns(const struct arena_layout *layout, unsigned tenant, unsigned holder, uint64_t now_ns);

/* How much work the tenant may have on the device at a time, while nobody waits: whoever comes waits for all of it. */
uint64_t policy_ahead_ns(const struct arena_layout *layout, unsigned tenant);

/* A tenant begins to wait: it gets little credit for the time in which it did not. */
void policy_wants(struct arena_layout *layout, unsigned tenant);

/* A tenant comes, or comes back after long: what was before is forgotten. */
void policy_returns(struct arena_layout *layout, unsigned tenant);

/* A tenant has held the device for held_ns; `spent`: until its time was up, rather than until it had no more work. */
void policy_held(struct arena_layout *layout, unsigned tenant, uint64_t held_ns, bool spent);

#endif
