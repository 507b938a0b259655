/*
 * Statistics of launches that nothing limits. One launch in COMPUTE_SURVEY stands for the others.
 * To measure all of those would slow the program, so at most one a second and stream is measured,
 * unknown ones first. A launch that stays unknown is taken to cost what other unknown launches of
 * its kind have cost, relative to their first guess. Any thread; no lock.
 */
#ifndef VGPU_SCHED_SURVEY_H
#define VGPU_SCHED_SURVEY_H

#include "gpu/stream.h"
#include "region/region.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether a launch into the stream may be measured. If so, it counts as measured. */
bool survey_due(gpu_stream stream, uint64_t now_ns);

/* The charge for launches of unknown cost, guess_ns in all. The first measurement settles earlier
 * charges. */
uint64_t survey_estimate(unsigned vdev, enum vgpu_work kind, uint64_t guess_ns);

/* A launch with the guess guess_ns took measured_ns. Returns by how much earlier ones were charged
 * too little. */
int64_t survey_measured(unsigned vdev, enum vgpu_work kind, uint64_t guess_ns,
                        uint64_t measured_ns);

void survey_forked(void);

#endif
