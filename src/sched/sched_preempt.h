/*
 * The part in a device's turns of a tenant that is stopped from outside, by whoever can switch all
 * of its work off and on: no semaphores, no fences. Other tenants of the device may be of this kind
 * or of the other (sched/sched_client.h); the turns, the arena and the policies are the same.
 *
 * The one who switches says from time to time whether the tenant has work, and is told whether it
 * may run. At the end of a turn it switches first and hands the device on after that; whoever is
 * next is told by a store. For those who watch, the page says that there is work on the device
 * until some time after the end of the turn: should this process stop or die, they go on without
 * it.
 *
 * A change costs about a millisecond, so turns are longer here (PREEMPT_TURN_NS; the policy's own
 * by a quarter) and not cut below PREEMPT_LEAST_NS by who would go first. Whatever the arena says,
 * a tenant is kept off for no longer than PREEMPT_OFF_MOST_NS at a time, which is a little more
 * than the policies' own bound; then it runs outside of turns for longer than that, and the longer
 * the more often in a row it happens.
 */
#ifndef VGPU_SCHED_SCHED_PREEMPT_H
#define VGPU_SCHED_SCHED_PREEMPT_H

#include "sched/sched_client.h"

struct preempt {
    struct sched_client client;
    struct sched_observer observer;
    uint32_t turn;       /* the last one of its own that it has seen begin */
    uint64_t waiting_ns; /* since when it has waited for one, by its own clock; 0: it does not */
    uint64_t unscheduled_ns;    /* until then it runs outside of turns, whatever the arena says */
    unsigned unscheduled_count; /* how often in a row that was */
    bool contended;             /* as of the last look */
    bool others;                /* somebody else is active on the device */
};

/* What the tenant has to do. PREEMPT_HELD: it must not run now, for other reasons. */
enum preempt_demand { PREEMPT_IDLE, PREEMPT_BUSY, PREEMPT_HELD };

/* It may run; its turn is over, and it is to be switched off, and preempt_leave() called then; it
 * is to be off. */
enum preempt_decision { PREEMPT_RUNS, PREEMPT_ENDS, PREEMPT_WAITS };

/* -errno of sched_client_join(). */
int preempt_join(struct vgpu_arena *arena, const struct sched_identity *self,
                 struct preempt *ret_preempt);

/* Gives the turn and the page up. */
void preempt_part(struct preempt *preempt, uint64_t now_ns);

/* It has been seen to be busy: others know that it uses the device. */
void preempt_active(struct preempt *preempt, uint64_t now_ns);

/* What it may do now, and after how long that may be something else, unless its page's
 * `granted_turn` or `wake` changes. */
enum preempt_decision preempt_step(struct preempt *preempt, enum preempt_demand demand,
                                   uint64_t now_ns, uint64_t *ret_again_ns);

/* It is off now, or could not be switched: the device is somebody else's. `runnable`: it waits for
 * its next turn. */
void preempt_leave(struct preempt *preempt, bool wants, uint64_t now_ns);

#endif
