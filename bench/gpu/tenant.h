/*
 * What the measuring tenant needs of a GPU: CUDA's driver API (tenant_cuda.c), or the fake driver
 * of tests/guard for rehearsals without one (tenant_mock.c). Functions return 0 or the interface's
 * own error code.
 */
#ifndef BENCH_GPU_TENANT_H
#define BENCH_GPU_TENANT_H

#include <stdint.h>

int gpu_open(void); /* a context on the first device */
int gpu_info(uint64_t *ret_free, uint64_t *ret_total);
int gpu_total(uint64_t *ret_total); /* what the device is said to have, not what the context sees */

int gpu_alloc(uint64_t bytes, uint64_t *ret_address);
int gpu_free(uint64_t address);

/* How much work a kernel of a microsecond has. The argument of gpu_launch() counts such. */
int gpu_calibrate(double *ret_iterations_per_us);
void gpu_set_iterations(double iterations_per_us);
int gpu_launch(double us);
int gpu_wait(void);

/* A kernel that counts up until it is told to end. */
int gpu_beat_start(volatile uint32_t **ret_counter);
int gpu_beat_stop(void);

/* What only one of them can do. -1: no such thing. */
int gpu_other(int argc, char **argv);

#endif
