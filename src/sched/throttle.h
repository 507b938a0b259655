/*
 * Keeps a cap on GPU time by switching all work of a tenant off and on. The throttle knows neither
 * how that is done nor the time. The caller tells when switches began and ended and what probes
 * found. The throttle answers when to probe next and when the tenant has to be off. No lock; one
 * thread at a time.
 *
 * The tenant is charged for the time in which it was on and busy. Probes are single moments at
 * random distances, so busyness is an estimate. Two rules make it a sound one.
 *
 * Free: the excess over the cap is added up probe by probe, from 0 up. Switching begins once it
 * exceeds THROTTLE_BURST_NS and exceeds what chance makes of a tenant at its cap. So a tenant that
 * uses less is never switched, and one that always works is found at once. Probes get denser as the
 * excess grows.
 *
 * Held: switching, about every 25 ms, keeps the excess between the burst and a little less. On-time
 * is charged at a rate that is learned slowly, so chance does not show in the tenant's share. If a
 * few probes contradict the rate, it is learned anew. What probes find beyond it is charged later.
 * The tenant is free again once its excess is down to half of the burst.
 *
 * So over any 100 ms a tenant that always works gets at most its cap's part + THROTTLE_BURST_NS +
 * THROTTLE_SLACK_NS. One that works at random moments, a little more than its cap, is found after
 * seconds.
 */
#ifndef VGPU_SCHED_THROTTLE_H
#define VGPU_SCHED_THROTTLE_H

#include "sched/sched_params.h"

#include <stdbool.h>
#include <stdint.h>

struct throttle {
    double cap; /* 0..1; 0: none */
    bool on, busy;
    bool held, resting;   /* held: see above; resting: off because of the cap */
    uint64_t at_ns;       /* the time up to which the tenant is charged */
    uint64_t on_since_ns; /* when work started, or will, after the last switch to on */
    double excess_ns;     /* use beyond the cap */
    double chance;        /* variance of the excess in square nanoseconds, since it was 0 */
    double on_ns;         /* on-time since the last probe */
    double used_ns;       /* charged in all */
    double owed_ns;       /* what probes have found beyond the charges, while held */

    double rate, quick, learned_ns; /* how busy the tenant is while on, slow and quick estimate;
                                       on-time behind `rate` */
    double probe_in_ns;             /* on-time until the next probe */

    double look_cost_ns, goes_ns, stops_ns; /* duration of a probe; from the start of a switch until
                                               work starts, and until it stops */
    uint64_t random;
};

/* Starts on and without a cap. `seed`: any number, for the moments of probes. */
void throttle_init(struct throttle *throttle, uint64_t seed, uint64_t now_ns);

/* Sets the cap. percent: 1..99; anything else: no cap. */
void throttle_cap(struct throttle *throttle, unsigned percent, uint64_t now_ns);

/* The tenant was switched by a call from begin_ns to end_ns, for whatever reason. */
void throttle_switched(struct throttle *throttle, bool on, uint64_t begin_ns, uint64_t end_ns);

/* A probe from begin_ns to end_ns found this part of the tenant, 0 to 1, at work. Ignored while it
 * is off. */
void throttle_probe(struct throttle *throttle, double busy, uint64_t begin_ns, uint64_t end_ns);

/* Whether the tenant has to be off now because of its cap. */
bool throttle_step(struct throttle *throttle, uint64_t now_ns);

/* After how long throttle_step() may change its answer (UINT64_MAX: not without a probe), and after
 * how long to probe. */
uint64_t throttle_step_in_ns(const struct throttle *throttle);
uint64_t throttle_probe_in_ns(const struct throttle *throttle);

/* GPU time that was charged in all. */
uint64_t throttle_used_ns(const struct throttle *throttle);

#endif
