/*
 * Guarded instances in the virtual machine of sched_world.h. Their programs launch without limits.
 * Each instance has a real share, which switches its channels off and on. Switches and probes take
 * the time and have the effects that were measured (guard/nvidia/probe.c, docs/measurements.md).
 * Each share runs on its own stack, so that the others act meanwhile.
 */
#ifndef VGPU_TESTS_SHARE_WORLD_H
#define VGPU_TESTS_SHARE_WORLD_H

#include "guard/sched/share.h"
#include "sched_world.h"

#include <ucontext.h>

struct guarded {
    struct proc *proc;
    struct share *share;
    struct vgpu_region *region;
    char file[32];

    uint64_t next_ns; /* when the share goes on */
    bool waiting;     /* in share_wait() */
    bool switching;   /* in set() */
    bool stopped, dead;
    int pause;                     /* 1: to pause, -1: to resume, 0: neither */
    int pause_rc, set_rc, look_rc; /* what the operations return */
    uint32_t seen_open, seen_wake, seen_pokes;

    enum share_switch state;                /* the last one that was set */
    uint64_t set_ns;                        /* and when */
    uint64_t went[3][3];                    /* changes, from state to state */
    uint64_t ended_least_ns, ended_most_ns; /* from ENDING to when OFF began */

    uint64_t seen_loads; /* loads of its context, by its probes */
    uint64_t offs, probes, stops, looking_ns, off_since_ns, longest_off_ns;
    uint64_t marked_ran, marked_offs, marked_looking, marked_stops;
    ucontext_t own, world;
    char *stack;
};

/* How the instance is limited. */
struct limits {
    unsigned cap_percent;
    enum vgpu_cap_policy cap_policy;
    uint32_t weight, priority; /* weight 0: the default */
};

struct guarded *guarded_add(struct world *world, const struct limits *limits,
                            const struct program *program, uint64_t start_ns);

/* These act on the supervisor, not on the program. A millisecond after a kill, the keeper switches
 * on what the supervisor has switched off. */
void guarded_stop(struct guarded *guarded, bool stop);
void guarded_kill(struct guarded *guarded);
void guarded_pause(struct guarded *guarded, bool pause);

/* Since the last guarded_measure(): its share of the device's time, how often it was switched off,
 * the share of time spent on probes, and how many probes stopped it. */
void guarded_measure(struct world *world);
double guarded_ran(const struct guarded *guarded);
uint64_t guarded_offs(const struct guarded *guarded);
double guarded_looking(const struct guarded *guarded);
uint64_t guarded_stops(const struct guarded *guarded);

/* Its usage, as the region has it. */
struct vgpu_compute_usage guarded_usage(const struct guarded *guarded);

void guarded_free(struct world *world); /* frees all instances and the world */

#endif
