/*
 * What work costs the device, learned from measurements.
 *
 * A table has a cell for each thing that is launched again and again: a function with its grid, an
 * executable graph. A cell gives an estimate from the first launch on, and samples correct it. No
 * launch waits for a sample. There is no vendor here: keys are numbers, samples are nanoseconds.
 *
 * All functions may be called from any thread, take no lock, allocate nothing after
 * cost_table_new() and keep errno.
 */
#ifndef VGPU_SCHED_COST_H
#define VGPU_SCHED_COST_H

#include "sched/sched_params.h"

#include <stdbool.h>
#include <stdint.h>

struct cost_table;
struct cost_cell;

/* A new table, for the life of the process. NULL: no memory. */
struct cost_table *cost_table_new(void);

/* A key from the facts that tell launches apart. Never 0. */
static inline uint64_t cost_key(uint64_t what, uint64_t grid, uint64_t block)
{
    uint64_t key = what * 0x9E3779B97F4A7C15ULL;

    key = (key ^ (key >> 32) ^ grid) * 0xD6E8FEB86659FD93ULL;
    key = (key ^ (key >> 32) ^ block) * 0xD6E8FEB86659FD93ULL;
    return (key ^ (key >> 32)) | 1;
}

/*
 * The cell of a key, made if there is none. Never NULL: where there is no room, a cell that no
 * sample has reached lately gets the new key, or else two keys share a cell. So a cell may belong
 * to another key later.
 */
struct cost_cell *cost_find(struct cost_table *table, uint64_t key);

/* Forgets a key whose handle means something else now: a graph was updated or destroyed, a module
 * unloaded. */
void cost_forget(struct cost_table *table, uint64_t key);

/* The charge for one launch now, in ns, at least COST_MIN_NS; `unknown_ns` if there is no sample
 * yet. */
uint64_t cost_estimate(const struct cost_cell *cell, uint64_t unknown_ns);
bool cost_known(const struct cost_cell *cell);

/* Whether there is a sample since the last doubt. If not, the next launch may cost anything. */
bool cost_trusted(const struct cost_cell *cell);

/*
 * Changes when the cell is forgotten, doubted or given another key. A sample of a launch from an
 * older generation does not belong to the cell's present key.
 */
uint32_t cost_generation(const struct cost_cell *cell);

/*
 * Whether to measure this launch: always while little is known, then the less often the steadier
 * the samples are. `random` is 32 fresh random bits, so no rhythm of the program hides from it.
 */
bool cost_wants_sample(struct cost_cell *cell, uint32_t random);

/*
 * Whether every launch is measured. Then a sample corrects the charge, as it does for a charge that
 * was a guess. If only some launches are measured, the mean is right on average and corrections
 * would not be: more samples follow a long one, when the mean is too high.
 */
bool cost_measured_always(const struct cost_cell *cell);

/*
 * A launch that is not measured was charged a guess, for nothing is known. The second sample
 * corrects it: the first launch is often slower than all others.
 */
void cost_defer(struct cost_cell *cell);

/* What is known of a key may be wrong from now on, as after an update of a graph. It stays the
 * estimate until there is a sample. */
void cost_doubt(struct cost_table *table, uint64_t key);

/*
 * Learns from a sample, in ns. Work that varies is charged its mean over the last launches (some
 * 500 short ones, fewer long ones). A sample far from all others counts only once there is a
 * second. `doubtful`: another process ran at the same time; used only while the cell has no better
 * sample. Threads may call this for one cell at once; one of two samples may be lost. Returns how
 * many launches cost_defer() has put off until this sample.
 */
uint32_t cost_learn(struct cost_cell *cell, uint64_t sample_ns, bool doubtful);

/* A small fast generator for cost_wants_sample(). `state` is the calling thread's, any value. */
static inline uint32_t cost_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(*state >> 33);
}

#endif
