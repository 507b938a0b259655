/*
 * Turns of a tenant that is stopped from outside: the caller, in practice the guard, switches all
 * of its work off and on. There are no semaphores and no fences. Tenants of both kinds share a
 * device, its arena, its turns and its policies (sched/sched_client.h).
 *
 * The caller reports from time to time whether the tenant has work, and learns whether it may run.
 * At the end of a turn the caller switches the tenant off first and hands the device on after that;
 * the next tenant learns of its turn by a store. For other processes the page claims work on the
 * device until some time after the turn's end: if this process stops or dies, they go on without
 * it.
 *
 * Whatever the arena says, a tenant is kept off for at most PREEMPT_OFF_MOST_NS at a time. Then it
 * runs unscheduled for longer than that, and for longer each time in a row.
 */
#ifndef VGPU_SCHED_SCHED_PREEMPT_H
#define VGPU_SCHED_SCHED_PREEMPT_H

#include "sched/sched_client.h"

struct preempt {
    struct sched_client client;
    struct sched_observer observer;
    uint32_t turn; /* the last of its own turns that it has seen begin */
    uint64_t
        waiting_ns; /* since when it has waited for a turn, by its own clock; 0: it does not wait */
    uint64_t unscheduled_ns;    /* until then it runs unscheduled, whatever the arena says */
    unsigned unscheduled_count; /* how often in a row it became unscheduled */
    bool contended;             /* as of the last look */
    bool others;                /* another tenant is active on the device */
};

/* Whether the tenant has work. PREEMPT_HELD: it must not run now, because of its cap or a pause. */
enum preempt_demand { PREEMPT_IDLE, PREEMPT_BUSY, PREEMPT_HELD };

/* RUNS: the tenant may run. ENDS: its turn is over; the caller switches it off and calls
 * preempt_leave(). WAITS: it has to be off. */
enum preempt_decision { PREEMPT_RUNS, PREEMPT_ENDS, PREEMPT_WAITS };

/* -errno of sched_client_join(). */
int preempt_join(struct vgpu_arena *arena, const struct sched_identity *self,
                 struct preempt *ret_preempt);

/* Gives up the turn and the page. */
void preempt_part(struct preempt *preempt, uint64_t now_ns);

/* The tenant was seen busy: tells the other processes that it uses the device. */
void preempt_active(struct preempt *preempt, uint64_t now_ns);

/* What the tenant may do now. *ret_again_ns: after how long to ask again, unless the page's
 * `granted_turn` or `wake` changes before. */
enum preempt_decision preempt_step(struct preempt *preempt, enum preempt_demand demand,
                                   uint64_t now_ns, uint64_t *ret_again_ns);

/* The tenant is off now, or could not be switched: another tenant gets the device. `wants`: it
 * waits for its next turn. */
void preempt_leave(struct preempt *preempt, bool wants, uint64_t now_ns);

#endif
