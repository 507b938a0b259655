/*
 * A rate that several processes share, in one word: the time at which all that was charged is paid
 * for.
 *
 * Paying takes time: at a cap of p percent, work of c nanoseconds is paid for in 100 c / p. Whoever
 * wants to start work waits until what was charged before is paid and then charges its own,
 * whatever its size: so debt is kept and the average is exact, and idle time is credit up to
 * BUCKET_BURST_NS and no more.
 *
 * The debt of one launch may be long, and rightly so: a kernel of 2 s at 10 percent owes 20 s. It
 * is bounded by BUCKET_DEBT_MAX_NS, so nothing blocks for ever. What is charged is charged at the
 * cap of that moment; where the cap is changed, somebody calls bucket_rescale(), or the debt that
 * there is is paid at the old one.
 *
 * The word may be anything (others write to the region; processes in other time namespaces have
 * other clocks): one that is further ahead than any debt is taken for nonsense and becomes now.
 *
 * Any thread and process; no lock. `now_ns` is CLOCK_MONOTONIC, or whatever all users of the word
 * agree on.
 */
#ifndef VGPU_SCHED_BUCKET_H
#define VGPU_SCHED_BUCKET_H

#include "sched/sched_params.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Work of cost_ns is to start. 0: it may, and is charged. Else how long until then, and nothing is
 * charged; to be tried again after waiting: of several that wait for the same moment one gets it. A
 * wait should not be longer than 50 ms at a time, so that changed limits are seen. A percentage of
 * 0 is no cap; above 100 is 100.
 */
uint64_t bucket_take(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, uint64_t cost_ns,
                     unsigned percent);

/* The same for a number of bytes at a rate; 0: no limit. */
uint64_t bucket_take_bytes(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, uint64_t bytes,
                           uint64_t bytes_per_s);

/* How long until work may start; 0: now. Charges nothing. */
uint64_t bucket_wait(const _Atomic uint64_t *paid_until_ns, uint64_t now_ns);

/*
 * A charge for work of unknown cost, beside that which is kept: until it is given back nobody
 * starts anything, in any process. It is paid like any other, so nobody waits for one whose holder
 * is gone or stuck for longer than that.
 */
struct bucket_hold {
    uint64_t ns;       /* of device time; 0: none */
    uint64_t until_ns; /* it is paid then, if the percentage stays */
    unsigned percent;
};

/* Whose buckets a launch may draw on, all at the same time. */
enum bucket_level { BUCKET_INSTANCE, BUCKET_GROUP, BUCKETS };

/* bucket_take(), and holds hold_ns of device time in addition. *ret_hold is written where it
 * returns 0. */
uint64_t bucket_take_and_hold(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, uint64_t cost_ns,
                              uint64_t hold_ns, unsigned percent, struct bucket_hold *ret_hold);

/*
 * The work is done and cost delta_ns more than was charged (negative: less), without the hold,
 * which is given back. Once the hold is paid others may have started on it: it is kept then, and
 * pays for what the work has cost. Returns whether it was given back.
 */
bool bucket_settle(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, int64_t delta_ns,
                   const struct bucket_hold *hold, unsigned percent);

/*
 * Work that was charged cost_ns when it was admitted started only at started_ns. The time between
 * is no credit beyond BUCKET_BURST_NS; else it and what is admitted behind it would run in one
 * piece.
 */
void bucket_started(_Atomic uint64_t *paid_until_ns, uint64_t started_ns, uint64_t cost_ns,
                    unsigned percent);

/* What was charged turns out to have been too little by delta_ns (negative: too much). */
void bucket_correct(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, int64_t delta_ns,
                    unsigned percent);

/* What is owed at one percentage is owed at another from now on. To be called once for each
 * change. */
void bucket_rescale(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, unsigned old_percent,
                    unsigned new_percent);

#endif
