/*
 * The scheduler: transitions of an arena (STATES.md). All functions need the arena's lock unless
 * they say otherwise.
 *
 * The arena's words change at any time, lock or not. A word that is an index, a shift or a divisor
 * is loaded once and bounded, and the copy is used. A `tenant` that is passed here is such a copy,
 * or the client's own.
 */
#ifndef VGPU_SCHED_SCHED_H
#define VGPU_SCHED_SCHED_H

#include "base/mutex.h"
#include "sched/sched_client.h"
#include "sched/policy.h"
#include "sched/tenant.h"

#include <stdatomic.h>

#define LOAD(word)         atomic_load_explicit(&(word), memory_order_acquire)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_release)

/* The tenant that holds the device, or -1. Also without the lock. */
static inline int sched_holder(const struct arena_layout *layout)
{
    uint32_t holder = LOAD(layout->holder);

    return holder >= 1 && holder <= ARENA_TENANTS ? (int)holder - 1 : -1;
}

/* Whether a page is used by a process of `tenant`. Also without the lock. */
static inline bool sched_page_of(const struct arena_page *page, unsigned tenant)
{
    return LOAD(page->used) && LOAD(page->tenant) == tenant;
}

/* arena_page.unfenced */
#define UNFENCED         1u /* launches have no fence yet */
#define UNFENCED_LEAVING 2u /* it has left the turn, and the fences behind it are being made */

/* Whether the page's part of the turn is over: the GPU has reached every fence, and every launch
 * has one. Also without the lock. */
bool sched_drained(const struct arena_page *page);

/* The same, or the launches without a fence are SCHED_QUIET_NS past their estimated end. */
bool sched_idle(const struct arena_page *page, uint64_t now_ns);

/* Opens the page's semaphores up to `turn`. Also without the lock, by the page's own process. */
void sched_open(struct arena_page *page, uint32_t turn);

/* When the turn's time is up. Also without the lock. */
uint64_t sched_end_ns(const struct arena_layout *layout, uint64_t now_ns);

/* How a turn ends if its tenant has no more work. Also without the lock. */
static inline enum policy_end sched_end(const struct arena_layout *layout, uint64_t now_ns)
{
    return now_ns >= sched_end_ns(layout, now_ns) ? POLICY_SPENT : POLICY_YIELDED;
}

/*
 * Ends the turn: charges the tenant and grants the device to the tenant that is due. `keep`: that
 * may be the same one, although another waits.
 */
void sched_next(struct vgpu_arena *arena, enum policy_end end, bool keep, uint64_t now_ns);

/* A thread of the holder has used its turn up. True: the tenant has the next one as well.
 * `until_ns` is when its launches are estimated to be over. */
bool sched_renew(struct vgpu_arena *arena, unsigned tenant, uint64_t until_ns, uint64_t now_ns);

/* A thread of the tenant is blocked until its turn. `capped`: its cap would hold it back as
 * well. */
void sched_boost(struct vgpu_arena *arena, unsigned tenant, bool capped, uint64_t now_ns);

/* `page`, of `tenant`, begins to wait. If its tenant holds the device and the page has not left
 * this turn, its semaphore opens at once. If nobody holds the device, a turn is granted. */
void sched_want(struct vgpu_arena *arena, struct arena_page *page, unsigned tenant,
                uint64_t now_ns);

/* The tenant runs unscheduled for a while. */
void sched_set_unscheduled(struct vgpu_arena *arena, unsigned tenant, uint64_t now_ns);

/* `page` takes no part for now: it does not wait. If its tenant holds the device and has no other
 * active page, the turn ends. */
void sched_defer(struct vgpu_arena *arena, struct arena_page *page, unsigned tenant,
                 uint64_t now_ns);

/* No work of the tenant runs, so none from before the device was contended does. */
void sched_known(struct vgpu_arena *arena, unsigned tenant);

/* The tenant gets no turns until until_ns, for its earlier work still runs. 0: it gets turns
 * again. */
void sched_drain(struct vgpu_arena *arena, unsigned tenant, uint64_t until_ns, uint64_t now_ns);

/* Frees the pages of dead processes, marks those that have not launched lately as inactive, ends
 * the turn of a holder without an active page, and finds whether the device is contended. */
void sched_tidy(struct vgpu_arena *arena, unsigned own_page, uint64_t now_ns);

/* The tenant with that id, made if there is none. ARENA_TENANTS: all entries are used. */
unsigned sched_tenant(struct arena_layout *layout, const struct sched_identity *from);

/* Marks `page`, of `tenant`, as active. */
void sched_activate(struct vgpu_arena *arena, struct arena_page *page, unsigned tenant,
                    uint64_t now_ns);

#endif
