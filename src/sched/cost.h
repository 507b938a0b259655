/*
 * What work costs the device, learned from measurements.
 *
 * A table of cells, one for each thing that is launched again and again: a function with its grid,
 * an executable graph. A cell gives an estimate from the first launch on and is corrected by
 * samples; whoever charges an estimate never waits for one. No CUDA here: keys are numbers, samples
 * are nanoseconds.
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

/* The table lives as long as the process. NULL: no memory. */
struct cost_table *cost_table_new(void);

/* A key from what tells launches apart. Never 0. */
static inline uint64_t cost_key(uint64_t what, uint64_t grid, uint64_t block)
{
    uint64_t key = what * 0x9E3779B97F4A7C15ULL;

    key = (key ^ (key >> 32) ^ grid) * 0xD6E8FEB86659FD93ULL;
    key = (key ^ (key >> 32) ^ block) * 0xD6E8FEB86659FD93ULL;
    return (key ^ (key >> 32)) | 1;
}

/*
 * The cell of a key, made if need be. Never NULL: where there is no room, a cell that nobody learns
 * from any more is given another key, and if there is none, keys share a cell. So a cell that is
 * kept is that of another key one day.
 */
struct cost_cell *cost_find(struct cost_table *table, uint64_t key);

/* Forgets what was learned under a key: the handle it was made from means something else now (a
 * graph that was updated or destroyed, a module that was unloaded). */
void cost_forget(struct cost_table *table, uint64_t key);

/* What to charge for one launch now, in ns; at least COST_MIN_NS. `unknown_ns` where there is no
 * sample yet. */
uint64_t cost_estimate(const struct cost_cell *cell, uint64_t unknown_ns);
bool cost_known(const struct cost_cell *cell);

/* Known, and by a sample since the last doubt: else the next launch may cost anything. */
bool cost_trusted(const struct cost_cell *cell);

/*
 * Changes when the cell is forgotten, doubted or given another key. A sample of a launch that was
 * made under an older generation is not of the cell's present key.
 */
uint32_t cost_generation(const struct cost_cell *cell);

/*
 * Whether this launch should be measured: always while little is known, then more rarely the
 * steadier the samples are, at random (`random`: 32 fresh random bits), so that no rhythm of the
 * program's hides from it.
 */
bool cost_wants_sample(struct cost_cell *cell, uint32_t random);

/*
 * Whether every launch is measured. Then, and where a charge was a guess, the charge is corrected
 * by its sample. Where only some launches are measured, the mean is right on average, and
 * corrections of some would not be: there are more samples after a long one, when the mean is too
 * high.
 */
bool cost_measured_always(const struct cost_cell *cell);

/*
 * A launch that is not measured is charged a guess, since nothing is known: to be put right by the
 * second sample, since the first launch is often slower than all others.
 */
void cost_defer(struct cost_cell *cell);

/* What was learned under a key may be wrong from now on (a graph was updated): an estimate until
 * there is a sample. */
void cost_doubt(struct cost_table *table, uint64_t key);

/*
 * A sample, in ns. What varies is charged its mean over the last launches (some 500 short ones,
 * fewer long ones); a single sample that is far from all others counts only once there is a second.
 * `doubtful`: something else had a share in it (another process ran at the same time): used only as
 * long as the cell has no better. Samples of one cell may come from several threads at once; one of
 * two may be lost. Returns how many launches were put off until this sample (cost_defer()).
 */
uint32_t cost_learn(struct cost_cell *cell, uint64_t sample_ns, bool doubtful);

/* A small fast generator for cost_wants_sample(); `state` is the caller's (a thread's), any
 * value. */
static inline uint32_t cost_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(*state >> 33);
}

#endif
