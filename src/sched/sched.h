/*
 * What the files of the client share. Everything under the arena's lock unless it says otherwise.
 *
 * The arena's words change under whoever reads them, lock or not: one that is an index, a shift or
 * a divisor is loaded once and bounded, and the copy is used. A `tenant` that is passed here is
 * such a copy, or the client's own.
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

/* Whether a page takes part for `tenant`. Also without the lock. */
static inline bool sched_page_of(const struct arena_page *page, unsigned tenant)
{
    return LOAD(page->used) && LOAD(page->tenant) == tenant;
}

/* page.unmarked: launches without a fence; a fence behind them is being made. */
#define UNMARKED 1u
#define FENCING  2u

/* What the page needs of the turn is over: every fence has been reached, and there is no launch
 * without one. Also without the lock. */
bool sched_drained(const struct arena_page *page);

/* The same, or what has no fence is long past its time. */
bool sched_idle(const struct arena_page *page, uint64_t now_ns);

/* Opens the page's semaphores up to `turn`. Also without the lock, by the page's own process. */
void sched_open(struct arena_page *page, uint32_t turn);

/* When the turn's time is up. Also without the lock. */
uint64_t sched_end_ns(const struct arena_layout *layout, uint64_t now_ns);

/* How a turn ends whose tenant has no more work. Also without the lock. */
static inline enum policy_end sched_end(const struct arena_layout *layout, uint64_t now_ns)
{
    return now_ns >= sched_end_ns(layout, now_ns) ? POLICY_SPENT : POLICY_YIELDED;
}

/*
 * The turn is over: the tenant is charged, and the device goes to who is due. `keep`: it may
 * be the same one again, though another waits.
 */
void sched_next(struct vgpu_arena *arena, enum policy_end end, bool keep, uint64_t now_ns);

/* The holder's thread has nothing left of its turn. True: it has the next one as well. `until_ns`:
 * what it has launched is estimated to be over then. */
bool sched_renew(struct vgpu_arena *arena, unsigned tenant, uint64_t until_ns, uint64_t now_ns);

/* A thread of the tenant, which waits, can do nothing else meanwhile. `patient`: its cap holds it
 * back as well. */
void sched_boost(struct vgpu_arena *arena, unsigned tenant, bool patient, uint64_t now_ns);

/* `page`, of `tenant`, begins to wait; or gets on, where its tenant has the device. */
void sched_want(struct vgpu_arena *arena, struct arena_page *page, unsigned tenant,
                uint64_t now_ns);

/* The tenant runs outside of turns for a while. */
void sched_set_unscheduled(struct vgpu_arena *arena, unsigned tenant, uint64_t now_ns);

/* `page` takes no part for now: it does not wait, and if nobody else is there for its tenant, the
 * device goes on. */
void sched_defer(struct vgpu_arena *arena, struct arena_page *page, unsigned tenant,
                 uint64_t now_ns);

/* Nothing of the tenant runs: nor does anything of before it was contended. */
void sched_known(struct vgpu_arena *arena, unsigned tenant);

/* The tenant gets no turns until then (0: it does again), for its work of before still runs. */
void sched_drain(struct vgpu_arena *arena, unsigned tenant, uint64_t until_ns, uint64_t now_ns);

/* Who is gone, who is quiet, whether the device is contended. */
void sched_tidy(struct vgpu_arena *arena, unsigned own_page, uint64_t now_ns);

/* The tenant of that id, made if need be; ARENA_TENANTS: all are taken. */
unsigned sched_tenant(struct arena_layout *layout, const struct sched_identity *from);

/* `page`, of `tenant`, is active from now on. */
void sched_activate(struct vgpu_arena *arena, struct arena_page *page, unsigned tenant,
                    uint64_t now_ns);

#endif
