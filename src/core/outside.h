/*
 * The part in a device's turns of a tenant that is stopped from outside, by whoever can switch all of its work off and
 * on: no gates, no marks. Other tenants of the device may be of this kind or of the other (core/lease.h); the turns,
 * the arena and the policies are the same.
 *
 * The one who switches says from time to time whether the tenant has work, and is told whether it may run. At the end
 * of a turn it switches first and hands the device on after that; whoever is next is told by a store. For those who
 * watch, the page says that there is work on the device until some time after the end of the turn: should this process
 * stop or die, they go on without it.
 *
 * A change costs about a millisecond, so turns are longer here (OUTSIDE_TURN_NS; the policy's own by a quarter) and not
 * cut below OUTSIDE_LEAST_NS by who would go first. Whatever the arena says, a tenant is kept off for no longer than
 * OUTSIDE_OFF_MOST_NS at a time, which is a little more than the policies' own bound; then it runs outside of turns for
 * longer than that, and the longer the more often in a row it happens.
 */
#ifndef VGPU_CORE_OUTSIDE_H
#define VGPU_CORE_OUTSIDE_H

#include "core/lease.h"

#define OUTSIDE_TURN_NS     25000000ULL
#define OUTSIDE_LEAST_NS    5000000ULL
#define OUTSIDE_OFF_MOST_NS 1200000000ULL

struct outside {
    struct lease lease;
    struct lease_observer observer;
    uint32_t turn;       /* the last one of its own that it has seen begin */
    uint64_t waiting_ns; /* since when it has waited for one, by its own clock; 0: it does not */
    uint64_t native_ns;  /* until then it runs outside of turns, whatever the arena says */
    unsigned natives;    /* how often in a row that was */
    bool contended;      /* as of the last look */
    bool others;         /* somebody else is active on the device */
};

/* What the tenant has to do. OUTSIDE_HELD: it must not run now, for other reasons. */
enum outside_demand { OUTSIDE_IDLE, OUTSIDE_BUSY, OUTSIDE_HELD };

/* It may run; its turn is over, and it is to be switched off, and outside_leave() called then; it is to be off. */
enum outside_word { OUTSIDE_RUNS, OUTSIDE_ENDS, OUTSIDE_WAITS };

/* -errno of lease_join(). */
int outside_join(struct vgpu_arena *arena, const struct lease_self *self, struct outside *ret_outside);

/* Gives the turn and the page up. */
void outside_part(struct outside *outside, uint64_t now_ns);

/* Whether somebody else uses the device as well, or may want to; no system call. */
void outside_look_around(struct outside *outside, uint64_t now_ns);

/* It has been seen to be busy: others know that it uses the device. */
void outside_active(struct outside *outside, uint64_t now_ns);

/* What it may do now, and after how long that may be something else, unless its page's `open` or `wake` changes. */
enum outside_word outside_step(struct outside *outside, enum outside_demand demand, uint64_t now_ns,
                               uint64_t *ret_again_ns);

/* It is off now, or could not be switched: the device is somebody else's. `wants`: it waits for its next turn. */
void outside_leave(struct outside *outside, bool wants, uint64_t now_ns);

#endif
