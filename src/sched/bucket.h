/*
 * A rate that several processes share: a token bucket in one word, as GCRA keeps it. The word is
 * the time at which all charges are paid.
 *
 * Paying takes time: at a cap of p percent, work of c nanoseconds is paid in 100 c / p. A process
 * that starts work waits until the earlier charges are paid, and then charges its own, whatever its
 * size. So debt is kept, the average is exact, and idle time is credit up to BUCKET_BURST_NS.
 *
 * The debt of one launch may be long: a kernel of 2 s at 10 percent owes 20 s. BUCKET_DEBT_MAX_NS
 * bounds it. A charge is made at the cap of that moment; whoever changes the cap calls
 * bucket_rescale(), or the debt is paid at the old one.
 *
 * The word may contain anything: others write to the region, and processes in other time namespaces
 * have other clocks. A word further ahead than any debt becomes now.
 *
 * Any thread and process; no lock. `now_ns` is CLOCK_MONOTONIC, or any clock that all users of the
 * word share.
 */
#ifndef VGPU_SCHED_BUCKET_H
#define VGPU_SCHED_BUCKET_H

#include "sched/sched_params.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How long until work may start; 0: now. Charges nothing. */
uint64_t bucket_wait(const _Atomic uint64_t *paid_until_ns, uint64_t now_ns);

/*
 * Work of unknown cost may hold the bucket: a charge in addition to the one that stays. Until the
 * hold is given back, no process starts work. It is paid like any other, so nobody waits longer
 * than that for a holder that is dead or stuck.
 */
struct bucket_hold {
    uint64_t ns;       /* of device time; 0: none */
    uint64_t until_ns; /* when it is paid, if the percentage stays */
    unsigned percent;
};

/* The buckets on which a launch may draw, all at the same time. */
enum bucket_level { BUCKET_INSTANCE, BUCKET_GROUP, BUCKETS };

/*
 * Starts work of cost_ns, and holds hold_ns (0: no hold). 0: the work may start and is charged, and
 * *ret_hold is written. Else the time to wait, and nothing is charged: try again then, for only one
 * of several waiters gets its turn. Wait at most 50 ms at a time, so that changed limits are seen.
 * A percentage of 0 is no cap; above 100 is 100.
 */
uint64_t bucket_take_and_hold(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, uint64_t cost_ns,
                              uint64_t hold_ns, unsigned percent, struct bucket_hold *ret_hold);

/* The same for bytes at a rate; 0: no limit. */
uint64_t bucket_take_bytes(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, uint64_t bytes,
                           uint64_t bytes_per_s);

/*
 * The work is done and cost delta_ns more than was charged (negative: less), without the hold,
 * which is given back. If the hold is paid by now, other work may have started on it: then it is
 * kept, and pays for the work. Returns whether it was given back.
 */
bool bucket_settle(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, int64_t delta_ns,
                   const struct bucket_hold *hold, unsigned percent);

/*
 * Work that was charged cost_ns when it was admitted started only at started_ns. The time between
 * is credit up to BUCKET_BURST_NS; else this work and the work behind it would run in one piece.
 */
void bucket_started(_Atomic uint64_t *paid_until_ns, uint64_t started_ns, uint64_t cost_ns,
                    unsigned percent);

/* Corrects a charge that was too small by delta_ns (negative: too large). */
void bucket_correct(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, int64_t delta_ns,
                    unsigned percent);

/* Converts debt at one percentage to debt at another. Call it once for each change of the cap. */
void bucket_rescale(_Atomic uint64_t *paid_until_ns, uint64_t now_ns, unsigned old_percent,
                    unsigned new_percent);

#endif
