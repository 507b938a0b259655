/*
 * Statistics of what nothing limits. One launch in COMPUTE_SURVEY is looked at and stands for the
 * others; to measure each of those would be felt, so at most one a second and stream is, of what is
 * unknown first. What stays unknown is taken to cost what launches of its kind cost that were
 * unknown when they were measured, compared with their first guess.
 *
 * Any thread; no lock.
 */
#ifndef VGPU_SCHED_SURVEY_H
#define VGPU_SCHED_SURVEY_H

#include "gpu/stream.h"
#include "region/region.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether a launch into the stream may be measured; it is counted as measured then. */
bool survey_due(gpu_stream stream, uint64_t now_ns);

/* What to charge for launches of unknown cost, guess_ns in all. What is charged before anything is
 * known is settled with the first measurement. */
uint64_t survey_estimate(unsigned vdev, enum vgpu_work kind, uint64_t guess_ns);

/* A launch that was guessed at guess_ns took measured_ns. Returns what earlier ones were charged
 * too little. */
int64_t survey_measured(unsigned vdev, enum vgpu_work kind, uint64_t guess_ns,
                        uint64_t measured_ns);

void survey_forked(void);

#endif
