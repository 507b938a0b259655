/*
 * A process's part in the turns of a device. It knows the arena and the time, but neither CUDA nor
 * how semaphores and fences are made. A thread that launches asks sched_client_launch() what to do.
 * A helper thread calls sched_client_watch() and nothing else; it hands the device on when a turn
 * is over.
 *
 * The processes that wait watch the holder: one that is stopped, killed or busy elsewhere loses the
 * device all the same. A turn that does not end, because its kernels wait for something or never
 * end, is ended after SCHED_BOUND_NS. Its tenant then runs unscheduled for a while; the others go
 * on taking turns.
 */
#ifndef VGPU_SCHED_SCHED_CLIENT_H
#define VGPU_SCHED_SCHED_CLIENT_H

#include "sched/arena.h"
#include "sched/sched_params.h"

#define SCHED_OTHERS (VGPU_VDEVS - 1)

struct sched_identity {
    uint64_t id; /* of the instance; not 0 */
    uint32_t weight, priority;
    uint32_t devices; /* on which the instance runs; 0: as 1 */
    char name[VGPU_NAME_LEN];
};

struct sched_client {
    struct vgpu_arena *arena;
    struct arena_page *page;
    unsigned index; /* of the page */
    struct sched_identity self;

    _Atomic unsigned tenant; /* ARENA_TENANTS: none yet. Written under the caller's lock */
    /* The page may contain anything; these words are the process's own. `queued` is written as
     * `tenant` is, the other one by the helper. */
    _Atomic uint32_t queued; /* the last turn for which launches wait at the semaphore */
    _Atomic uint64_t
        unscheduled_until_ns; /* until then the process runs unscheduled, whatever the arena says */

    /* The arenas of the other devices of the instance, without gaps. Written under the caller's
     * lock. */
    _Atomic(struct vgpu_arena *) others[SCHED_OTHERS];

    /* Under the caller's lock. */
    uint32_t turn;         /* the arena's number of the turn to which the next three belong */
    uint64_t submitted_ns; /* launched in it */
    uint64_t idle_ns,
        idle_since_ns; /* how long the device has been idle in the turn, counted up to the second */
    bool waited;       /* a thread has waited for the device since the last launch */
    uint64_t burst_ns; /* launched since a thread last waited */

    /* Launches run ahead of the device by two segments, each with a fence at its end. */
    uint64_t ahead_ns; /* how far they may run ahead, by the policy */
    uint64_t segment_ns, far_since_ns, unpaced_until_ns;
    bool ended, far; /* `ended`: the caller fences the segment; `far`: the segment before it may
                        still run */
    uint32_t older[ARENA_STREAMS], newer[ARENA_STREAMS];

    /* Whether the work from before the tenant ran unscheduled is over: `probes` while fences are
     * being made, `probing` once their numbers are known. */
    bool probes, probing;
    uint32_t probe[ARENA_STREAMS];

    uint64_t paused_ns; /* when its cap last made it sleep */
    /* The window by which a light program is recognised, and until when it counts as one. */
    uint64_t window_since_ns, window_cost_ns, low_use_until_ns;
    unsigned window_launches, window_waits;

    uint64_t told_waited_ns, told_turns; /* of the page, taken over by sched_client_take_counts() */
};

/*
 * What a launch must do, in this order:
 *
 *   - ahead: too much is on the device already. Ask again after SCHED_NAP_NS, without the caller's
 *     lock meanwhile.
 *   - fences: fence the work launched so far, on every stream.
 *   - queued: make its stream wait until the page's `granted_turn` is at least `turn`.
 *   - full: wait for that in the thread as well.
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

/* The functions from here to sched_client_take_counts() need the caller's lock: one thread of the
 * process at a time. */

/* Called after ARENA_RESUME: the process is active (again). Weight and priority may have
 * changed. */
void sched_client_resume(struct sched_client *client, uint64_t now_ns);

/* Passes weight and priority on to the arena if they have changed. */
void sched_client_settings(struct sched_client *client, uint32_t weight, uint32_t priority);

/* Decides about a launch on a contended device that is estimated to take cost_ns. Does not wait. */
void sched_client_launch(struct sched_client *client, uint64_t cost_ns, uint64_t now_ns,
                         struct sched_ticket *ret_ticket);

/* Called before work of `turn` is put into a stream: there is no fence behind it. */
void sched_client_launched(struct sched_client *client, uint32_t turn);

/* Called before all launches so far are fenced, one stream after the other. */
void sched_client_fences(struct sched_client *client);

/* Called before a fence is put behind work of `turn`. Returns its number, which the GPU writes to
 * the page's `fence_completed`. */
uint32_t sched_client_fence(struct sched_client *client, unsigned stream, uint32_t turn);

/* The GPU will reach no fence of this stream any more: it could not be made, or its context is
 * gone. */
void sched_client_drop_fence(struct sched_client *client, unsigned stream);

/* How long the launched work is estimated to take from now on; for work at a closed semaphore, from
 * the moment when it opens. */
uint64_t sched_client_left_ns(const struct sched_client *client, uint64_t now_ns);

/* Called before a thread of the process waits for the device. */
void sched_client_waits(struct sched_client *client);

/* The process begins or ends a sleep because of its cap. Meanwhile other tenants expect no launch
 * of it. */
void sched_client_pauses(struct sched_client *client, bool pausing, uint64_t now_ns);

/* Calls sched_tidy() every SCHED_TIDY_NS. */
void sched_client_tidy(struct sched_client *client, uint64_t now_ns);

/* The turns that the process got, and the time that it waited, since the last call. */
void sched_client_take_counts(struct sched_client *client, uint64_t *ret_turns,
                              uint64_t *ret_waited_ns);

/* For the helper, sched_preempt and launches. None needs the caller's lock; sched_client_wants()
 * and sched_client_watch() take the arena's. */

/* Whether others know that work of the process, which is of `tenant`, waits. */
bool sched_client_waiting(const struct sched_client *client, unsigned tenant);

/* The process begins to wait. False: the arena's lock is not to be had. */
bool sched_client_wants(struct sched_client *client, unsigned tenant, uint64_t now_ns);

/* What a helper has seen of the holder. The helper's own; it does not take the caller's lock. */
struct sched_observer {
    uint32_t launches;
    int holder;
    uint64_t idle_ns; /* since when the holder has been idle and has launched nothing; 0: it is not
                         idle */
    uint64_t waiting_ns;   /* since when this process has waited for a grant; 0: it does not wait */
    uint32_t queued;       /* for which turn */
    uint64_t slot_idle_ns; /* since when the slot's owner has been idle on every device; 0: it is
                              not idle */
};

/*
 * Hands the device on if the turn is over. Returns the time in ns after which to call again. 0: at
 * once, for the end is near. UINT64_MAX: nothing waits here; sleep until the page's `wake` changes.
 */
uint64_t sched_client_watch(struct sched_client *client, struct sched_observer *observer,
                            uint64_t now_ns);

#endif
