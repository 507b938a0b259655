/*
 * How long launches take on the device: now and then an event before and one behind, read when they
 * are done.
 *
 * Nothing waits for them. No event is recorded or asked about while a stream of the process
 * captures. Events are of the context that was current when they were made; each context has a few.
 */
#ifndef VGPU_SCHED_SAMPLE_H
#define VGPU_SCHED_SAMPLE_H

#include "gpu/stream.h"
#include "sched/bucket.h"
#include "sched/cost.h"

struct sample;

/* Before the launch. NULL: not this time (none is free, a capture runs, the driver refuses). */
struct sample *sample_begin(gpu_stream stream, struct cost_cell *cell);

/* What a launch was charged: comes back when its sample is done. */
struct sample_charge {
    uint64_t ns;
    uint64_t guess_ns; /* of a launch for statistics whose cost was unknown; else 0 */
    struct bucket_hold hold[BUCKETS];
    unsigned
        flags; /* SAMPLE_DOUBTFUL: it cannot be exact; SAMPLE_VAGUE: it tells about this launch's
                  charge only, and nothing about the cell. The other bits are the caller's */
};
#define SAMPLE_DOUBTFUL 1u
#define SAMPLE_VAGUE    2u

/*
 * Behind it; `launched`: the driver has taken the launch. waited_most_ns: the device, if it was
 * idle, cannot have waited for longer while the launch was made, however long that took. Returns
 * when the launch had returned; 0: there will be no sample.
 */
uint64_t sample_end(struct sample *sample, gpu_stream stream, bool launched,
                    uint64_t waited_most_ns, const struct sample_charge *charge);

/*
 * Looks at a few that are under way. One thread at a time; another that comes meanwhile goes on.
 * measured_ns is 0 where a sample turned out to be of no use: its launch cost what is known of the
 * cell otherwise.
 */
typedef void sample_done(struct cost_cell *cell, uint64_t measured_ns,
                         const struct sample_charge *charge, void *arg);
void sample_harvest(sample_done *done, void *arg);

/*
 * Launches that are under way, and one more like them, cost at least as much as the oldest has been
 * under way for: what is missing of that from what was charged for them. Done is one only once it
 * is harvested.
 */
uint64_t sample_owed_ns(const struct cost_cell *cell, uint64_t now_ns);

void sample_context_ends(gpu_context context); /* its events go with it */
void sample_forked(void);

#endif
