/* Memory that programs ask for. Guarded by sim.mutex. */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "sim.h"

/* memory.c */
int memory_alloc(struct sim_context *context, enum sim_kind kind, uint64_t bytes,
                 devptr *ret_address);

/* host.c */
bool host_find(devptr address, devptr *ret_base, uint64_t *ret_bytes);

/* array.c: where an array's bytes are and how they lie; 0 when it has none. */
devptr array_memory(const void *array, size_t *ret_pitch, size_t *ret_height);

/* pool.c */
void pool_reset_device(int device);
/* A stream was waited for: memory freed in its order may go back to the device. 0: all streams. */
void pool_waited(int device, uint64_t stream);
/* Gives unused memory of the device's pools back, as synchronising calls do. */
void pool_trim_device(int device);

/* Parts of a context: see context_set_parts(). */
void memory_context_end(struct sim_context *context);
void host_context_end(struct sim_context *context);
void array_context_end(struct sim_context *context);
void pool_context_end(struct sim_context *context);

#endif
