/*
 * A process's part in the turns of a device. Knows the arena and the time; not CUDA, and not how a gate or a mark is
 * made: whoever launches asks lease_launch() what to do, and a helper thread, which calls nothing but lease_watch(),
 * hands the device on when a turn is over.
 *
 * Whoever waits watches whoever holds: a holder that is stopped, killed or busy elsewhere loses the device all the
 * same. A turn that does not end (kernels that wait for somebody else, or never end) is ended after LEASE_BOUND_NS, and
 * its tenant runs outside of turns for a while, as the driver shares; the others go on taking turns.
 */
#ifndef VGPU_CORE_LEASE_H
#define VGPU_CORE_LEASE_H

#include "region/arena.h"

#define LEASE_QUIET_NS   1000000ULL   /* after its estimated end, work without a mark is taken for done */
#define LEASE_BOUND_NS   100000000ULL /* after its estimated end, a turn is over in any case */
#define LEASE_STRANGE_NS 15000000ULL  /* the same, where work of a time runs in which nobody measured */
#define LEASE_RESCUE_NS  2000000000ULL

/*
 * What a launch counts for in a turn while nothing is known of its cost: many are queued before the first has ended,
 * and what a program queues at a gate runs in one go.
 */
#define LEASE_UNKNOWN_NS 500000ULL

#define LEASE_OTHERS (VGPU_VDEVS - 1)

#define LEASE_GATED_MOST 800u /* launches at the gate that threads don't wait for; the driver makes them at 1024 */

struct lease_self {
    uint64_t id; /* of the instance; not 0 */
    uint32_t weight, priority;
    uint32_t devices; /* that the instance runs on; 0: as 1 */
    char name[VGPU_NAME_LEN];
};

struct lease {
    struct vgpu_arena *arena;
    struct arena_page *page;
    unsigned index; /* of the page */
    struct lease_self self;

    _Atomic unsigned tenant; /* ARENA_TENANTS: none yet. Written under the caller's lock */
    /* What is in the page may be anything; these are the process's own. As `tenant`, but for the second: the helper's.
     */
    _Atomic uint32_t gated;           /* the last turn that launches were made to wait for */
    _Atomic uint64_t native_until_ns; /* until then there are no turns for this process, whatever the arena says */

    /* The arenas of the other devices that the instance runs on, first to last. Written under the caller's lock. */
    _Atomic(struct vgpu_arena *) others[LEASE_OTHERS];

    /* Under the caller's lock. */
    uint32_t turn;                   /* the arena's number of the turn that the next three are of */
    uint64_t submitted_ns;           /* launched in it */
    uint64_t idle_ns, idle_since_ns; /* how long the device has had nothing to do, since when */
    bool waited;                     /* a thread has waited for the device since the last launch */
    uint64_t burst_ns;               /* launched since a thread last waited */

    /* How far launches are ahead of the device: two segments, each with a mark at its end. */
    uint64_t ahead_ns; /* how far they may be, by the policy */
    uint64_t segment_ns, far_since_ns, unpaced_until_ns;
    bool ended, far; /* a segment's last mark has been asked for; the one before it may still run */
    uint32_t older[ARENA_PLACES], newer[ARENA_PLACES];

    /* Whether the work of before it was taken off turns is over: marks have been asked for, and are known. */
    bool probes, probing;
    uint32_t probe[ARENA_PLACES];

    uint64_t paused_ns; /* when its cap last made it sleep */
    /* A spell of launches, by which a light program is told; until when it is taken for one. */
    uint64_t spell_since_ns, spell_cost_ns, light_until_ns;
    unsigned spell_launches, spell_waits;

    uint64_t told_waited_ns, told_turns; /* of the page, taken over by lease_take_counts() */
};

/*
 * What a launch must do, in this order.
 * ahead: too much is on the device already: nothing, but ask again in LEASE_NAP_NS, without the lock meanwhile.
 * marks: mark the work launched so far on every stream.
 * gated: make its stream wait until the page's `open` is at least `turn`. full, too: wait for that in the thread as
 * well.
 */
struct lease_ticket {
    bool ahead, marks, gated, full;
    uint32_t turn;
};

#define LEASE_NAP_NS 50000ULL

/* Joins the turns. The lease stays for the life of the process. -errno of arena_claim(). */
int lease_join(struct vgpu_arena *arena, const struct lease_self *self, struct lease *ret_lease);

/* Without the caller's lock; one load each. */
static inline uint32_t lease_flags(const struct lease *lease)
{
    return atomic_load_explicit(&lease->page->flags, memory_order_acquire);
}

static inline bool lease_open(const struct lease *lease, uint32_t turn)
{
    return (int32_t)(atomic_load_explicit(&lease->page->open, memory_order_acquire) - turn) >= 0;
}

/* The rest under the caller's lock, one thread of the process at a time. */

/* After ARENA_RESUME: the process is active (again). Weight and priority may have changed. */
void lease_resume(struct lease *lease, uint64_t now_ns);

/* Weight and priority have changed, or not. */
void lease_settings(struct lease *lease, uint32_t weight, uint32_t priority);

/* For a launch on a contended device, estimated to cost cost_ns. Does not wait. */
void lease_launch(struct lease *lease, uint64_t cost_ns, uint64_t now_ns, struct lease_ticket *ret_ticket);

/* Work of `turn` is put into a stream (before it is): there is no mark behind it. */
void lease_launched(struct lease *lease, uint32_t turn);

/* All launches so far are about to be marked, one place after the other. */
void lease_marks(struct lease *lease);

/* The number of the mark that is about to be put behind work of `turn`; the GPU writes it to the page's `done`. */
uint32_t lease_mark(struct lease *lease, unsigned place, uint32_t turn);

/* No mark of this place will be reached any more: it could not be made, or its context is gone. */
void lease_unmark(struct lease *lease, unsigned place);

/* How long what was launched is estimated to take from now on; of what stands at the gate, from when it opens. */
uint64_t lease_left_ns(const struct lease *lease, uint64_t now_ns);

/* A thread of the process is about to wait for the device. */
void lease_waits(struct lease *lease);

/* The process sleeps because of its cap, or no more: whoever waits need not wait for another launch of it. */
void lease_pauses(struct lease *lease, bool pausing, uint64_t now_ns);

/* Looks after the arena every now and then: who is gone, who is quiet, whether the device is still contended. */
void lease_tidy(struct lease *lease, uint64_t now_ns);

/* Turns got and time waited since the last call. */
void lease_take_counts(struct lease *lease, uint64_t *ret_turns, uint64_t *ret_waited_ns);

/* The helper's, without the caller's lock. What it has seen of the holder, and since when. */
struct lease_observer {
    uint32_t launches;
    int holder;
    uint64_t idle_ns;      /* since when the holder has had nothing to do and has launched nothing; 0: it has */
    uint64_t waiting_ns;   /* since when we have waited without a grant; 0: we don't */
    uint32_t gated;        /* for which turn */
    uint64_t slot_idle_ns; /* since when the owner of the slot has done nothing on any device; 0: it does */
};

/*
 * Hands the device on if the turn is over. Returns after how long to look again, in ns; 0: at once, the end is near.
 * UINT64_MAX: nothing waits here; sleep until the page's `wake` changes.
 */
uint64_t lease_watch(struct lease *lease, struct lease_observer *observer, uint64_t now_ns);

#endif
