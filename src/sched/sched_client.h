/*
 * A process's part in the turns of a device. Knows the arena and the time; not CUDA, and not how a
 * semaphore or a fence is made: whoever launches asks sched_client_launch() what to do, and a
 * helper thread, which calls nothing but sched_client_watch(), hands the device on when a turn is
 * over.
 *
 * Whoever waits watches whoever holds: a holder that is stopped, killed or busy elsewhere loses the
 * device all the same. A turn that does not end (kernels that wait for somebody else, or never end)
 * is ended after SCHED_BOUND_NS, and its tenant runs outside of turns for a while, as the driver
 * shares; the others go on taking turns.
 */
#ifndef VGPU_SCHED_SCHED_CLIENT_H
#define VGPU_SCHED_SCHED_CLIENT_H

#include "sched/arena.h"
#include "sched/sched_params.h"

#define SCHED_OTHERS (VGPU_VDEVS - 1)

struct sched_identity {
    uint64_t id; /* of the instance; not 0 */
    uint32_t weight, priority;
    uint32_t devices; /* that the instance runs on; 0: as 1 */
    char name[VGPU_NAME_LEN];
};

struct sched_client {
    struct vgpu_arena *arena;
    struct arena_page *page;
    unsigned index; /* of the page */
    struct sched_identity self;

    _Atomic unsigned tenant; /* ARENA_TENANTS: none yet. Written under the caller's lock */
    /* What is in the page may be anything; these are the process's own. As `tenant`, but for the
     * second: the helper's.
     */
    _Atomic uint32_t queued;               /* the last turn that launches were made to wait for */
    _Atomic uint64_t unscheduled_until_ns; /* until then there are no turns for this process,
                                              whatever the arena says */

    /* The arenas of the other devices that the instance runs on, first to last. Written under the
     * caller's lock. */
    _Atomic(struct vgpu_arena *) others[SCHED_OTHERS];

    /* Under the caller's lock. */
    uint32_t turn;                   /* the arena's number of the turn that the next three are of */
    uint64_t submitted_ns;           /* launched in it */
    uint64_t idle_ns, idle_since_ns; /* how long the device has had nothing to do, since when */
    bool waited;                     /* a thread has waited for the device since the last launch */
    uint64_t burst_ns;               /* launched since a thread last waited */

    /* How far launches are ahead of the device: two segments, each with a fence at its end. */
    uint64_t ahead_ns; /* how far they may be, by the policy */
    uint64_t segment_ns, far_since_ns, unpaced_until_ns;
    bool ended,
        far; /* a segment's last fence has been asked for; the one before it may still run */
    uint32_t older[ARENA_STREAMS], newer[ARENA_STREAMS];

    /* Whether the work of before it was taken off turns is over: fences have been asked for, and
     * are known. */
    bool probes, probing;
    uint32_t probe[ARENA_STREAMS];

    uint64_t paused_ns; /* when its cap last made it sleep */
    /* A spell of launches, by which a light program is told; until when it is taken for one. */
    uint64_t window_since_ns, window_cost_ns, low_use_until_ns;
    unsigned window_launches, window_waits;

    uint64_t told_waited_ns, told_turns; /* of the page, taken over by sched_client_take_counts() */
};

/*
 * What a launch must do, in this order.
 *   ahead   too much is on the device already: ask again in SCHED_NAP_NS, without the lock
 * meanwhile fences  fence the work launched so far on every stream queued  make its stream wait
 * until the page's `granted_turn` is at least `turn` full    wait for that in the thread as well
 */
struct sched_ticket {
    bool ahead, fences, queued, full;
    uint32_t turn;
};

/* Joins the turns. The client stays for the life of the process. -errno of arena_claim(). */
int sched_client_join(struct vgpu_arena *arena, const struct sched_identity *self,
                      struct sched_client *ret_client);

/* Without the caller's lock; one load each. */
static inline uint32_t sched_client_flags(const struct sched_client *client)
{
    return atomic_load_explicit(&client->page->flags, memory_order_acquire);
}

static inline bool sched_client_open(const struct sched_client *client, uint32_t turn)
{
    return (int32_t)(atomic_load_explicit(&client->page->granted_turn, memory_order_acquire) -
                     turn) >= 0;
}

/* The rest under the caller's lock, one thread of the process at a time. */

/* After ARENA_RESUME: the process is active (again). Weight and priority may have changed. */
void sched_client_resume(struct sched_client *client, uint64_t now_ns);

/* Weight and priority have changed, or not. */
void sched_client_settings(struct sched_client *client, uint32_t weight, uint32_t priority);

/* For a launch on a contended device, estimated to cost cost_ns. Does not wait. */
void sched_client_launch(struct sched_client *client, uint64_t cost_ns, uint64_t now_ns,
                         struct sched_ticket *ret_ticket);

/* Work of `turn` is put into a stream (before it is): there is no fence behind it. */
void sched_client_launched(struct sched_client *client, uint32_t turn);

/* All launches so far are about to be fenced, one stream after the other. */
void sched_client_fences(struct sched_client *client);

/* The number of the fence that is about to be put behind work of `turn`; the GPU writes it to the
 * page's `fence_completed`. */
uint32_t sched_client_fence(struct sched_client *client, unsigned stream, uint32_t turn);

/* No fence of this stream will be reached any more: it could not be made, or its context is
 * gone. */
void sched_client_drop_fence(struct sched_client *client, unsigned stream);

/* How long what was launched is estimated to take from now on; of what stands at the semaphore,
 * from when it opens. */
uint64_t sched_client_left_ns(const struct sched_client *client, uint64_t now_ns);

/* A thread of the process is about to wait for the device. */
void sched_client_waits(struct sched_client *client);

/* The process sleeps because of its cap, or no more: whoever waits need not wait for another launch
 * of it. */
void sched_client_pauses(struct sched_client *client, bool pausing, uint64_t now_ns);

/* Looks after the arena every now and then: who is gone, who is quiet, whether the device is still
 * contended. */
void sched_client_tidy(struct sched_client *client, uint64_t now_ns);

/* Turns got and time waited since the last call. */
void sched_client_take_counts(struct sched_client *client, uint64_t *ret_turns,
                              uint64_t *ret_waited_ns);

/* For the helper and sched_preempt; they take the arena's lock. */

/* Whether others know that work of the process, which is of `tenant`, waits. */
bool sched_client_waiting(const struct sched_client *client, unsigned tenant);

/* The process begins to wait. False: the arena's lock is not to be had. */
bool sched_client_wants(struct sched_client *client, unsigned tenant, uint64_t now_ns);

/* The helper's, without the caller's lock. What it has seen of the holder, and since when. */
struct sched_observer {
    uint32_t launches;
    int holder;
    uint64_t idle_ns; /* since when the holder has had nothing to do and has launched nothing; 0: it
                         has */
    uint64_t waiting_ns;   /* since when we have waited without a grant; 0: we don't */
    uint32_t queued;       /* for which turn */
    uint64_t slot_idle_ns; /* since when the owner of the slot has done nothing on any device; 0: it
                              does */
};

/*
 * Hands the device on if the turn is over. Returns after how long to look again, in ns; 0: at once,
 * the end is near. UINT64_MAX: nothing waits here; sleep until the page's `wake` changes.
 */
uint64_t sched_client_watch(struct sched_client *client, struct sched_observer *observer,
                            uint64_t now_ns);

#endif
