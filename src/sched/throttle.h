/*
 * Holds a cap on GPU time by switching a tenant's work off and on as a whole. Knows neither how
 * that is done nor what the time is: it is told when switches began and ended and whether work was
 * there when somebody looked, and says when to look and when to be off. No lock; one thread at a
 * time.
 *
 * What is charged is time for which the tenant was on and busy. Looks are single moments, at random
 * distances, so how busy it was is an estimate; two rules make it a sound one.
 *
 * Free: the excess over the cap is added up look by look, from 0 up. The tenant is switched once
 * that is more than THROTTLE_BURST_NS and more than chance would make of one that is at its cap:
 * who uses less never is, while it is told at once of who always works. Looks get denser as the
 * excess grows.
 *
 * Held: the excess is kept between the burst and a little less by switching, about every 25 ms.
 * On-time is charged at a rate that is learned slowly, so that chance does not show in what the
 * tenant gets, and anew as soon as a few looks contradict it; what looks have shown beyond that is
 * charged later on. It is free again once its excess has fallen to half of the burst.
 *
 * So over any 100 ms, the GPU time of a tenant that always works is at most its cap's part +
 * THROTTLE_BURST_NS + THROTTLE_SLACK_NS. One that works at random moments, a little more than its
 * cap, is found out after seconds.
 */
#ifndef VGPU_SCHED_THROTTLE_H
#define VGPU_SCHED_THROTTLE_H

#include "sched/sched_params.h"

#include <stdbool.h>
#include <stdint.h>

struct throttle {
    double cap; /* 0..1; 0: none */
    bool on, busy;
    bool held, resting;   /* see above; off because of the cap */
    uint64_t at_ns;       /* up to when time is charged */
    uint64_t on_since_ns; /* when work has begun, or will, after the last switch to on */
    double excess_ns;     /* that was used beyond the cap */
    double chance;        /* the variance of that, in square nanoseconds, since it was 0 */
    double on_ns;         /* on-time since the last probe */
    double used_ns;       /* charged in all */
    double owed_ns;       /* what looks have shown beyond what was charged, while held */

    double rate, quick,
        learned_ns; /* how busy the tenant is while it is on; the on-time that `rate` is made of */
    double probe_in_ns; /* the next probe, in on-time from here */

    double look_cost_ns, goes_ns,
        stops_ns; /* what a probe takes; until work goes on, and stops, from when a switch began */
    uint64_t random;
};

/* On, without a cap. `seed`: any number, for the moments at which to look. */
void throttle_init(struct throttle *throttle, uint64_t seed, uint64_t now_ns);

/* percent: 1..99; anything else: no cap. */
void throttle_cap(struct throttle *throttle, unsigned percent, uint64_t now_ns);

/* It was switched, by a call from begin_ns to end_ns; for whatever reason. */
void throttle_switched(struct throttle *throttle, bool on, uint64_t begin_ns, uint64_t end_ns);

/* Somebody has looked, which took from begin_ns to end_ns: so much of it, 0 to 1, was at work.
 * While it is off, that tells nothing of its rate. */
void throttle_probe(struct throttle *throttle, double busy, uint64_t begin_ns, uint64_t end_ns);

/* Whether it is to be off now, because of its cap. */
bool throttle_step(struct throttle *throttle, uint64_t now_ns);

/* After how long throttle_step() may say something else; UINT64_MAX: not without a probe. After how
 * long to look. */
uint64_t throttle_step_in_ns(const struct throttle *throttle);
uint64_t throttle_probe_in_ns(const struct throttle *throttle);

/* GPU time that was charged, in all. */
uint64_t throttle_used_ns(const struct throttle *throttle);

#endif
