/*
 * The time that launches take on the device: now and then an event before a launch and one behind
 * it, read when they are done. No call waits for them. While a stream of the process captures, no
 * event is recorded or asked. Events belong to the context that was current when they were made;
 * each context has a few.
 */
#ifndef VGPU_SCHED_SAMPLE_H
#define VGPU_SCHED_SAMPLE_H

#include "gpu/stream.h"
#include "sched/bucket.h"
#include "sched/cost.h"

struct sample;

/* Call it before the launch. NULL: not this time (no sample is free, a capture runs, the driver
 * refuses). */
struct sample *sample_begin(gpu_stream stream, struct cost_cell *cell);

/* The charge of a launch, which the callback gets when the sample is done. */
struct sample_charge {
    uint64_t ns;
    uint64_t guess_ns; /* the guess for a surveyed launch of unknown cost; else 0 */
    struct bucket_hold hold[BUCKETS];
    unsigned flags; /* SAMPLE_DOUBTFUL: it cannot be exact; SAMPLE_VAGUE: it settles this launch's
                       charge only, not the cell. The other bits are the caller's */
};
#define SAMPLE_DOUBTFUL 1u
#define SAMPLE_VAGUE    2u

/*
 * Call it behind the launch. `launched`: the driver has taken it. waited_most_ns bounds how long
 * the device, if it was idle, can have waited while the launch was made. Returns when the launch
 * had returned; 0: there will be no sample.
 */
uint64_t sample_end(struct sample *sample, gpu_stream stream, bool launched,
                    uint64_t waited_most_ns, const struct sample_charge *charge);

/*
 * Reads a few samples that are under way. One thread at a time; another one returns at once.
 * measured_ns is 0 if a sample was of no use: then the launch cost what is known of the cell.
 */
typedef void sample_done(struct cost_cell *cell, uint64_t measured_ns,
                         const struct sample_charge *charge, void *arg);
void sample_harvest(sample_done *done, void *arg);

/*
 * The launches of a cell that are under way, and one more like them, cost at least the age of the
 * oldest. Returns what their charges lack of that. A launch is done once it is harvested.
 */
uint64_t sample_owed_ns(const struct cost_cell *cell, uint64_t now_ns);

void sample_context_ends(gpu_context context); /* its events end with it */
void sample_forked(void);

#endif
