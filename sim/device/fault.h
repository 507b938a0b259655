/* What a test asks for: results, delays and durations. */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

#include <stdbool.h>
#include <stdint.h>

void fault_read_environment(void);
/* True if the environment names any symbol: calls then ask fault_next() and fault_latency(). */
bool fault_any(void);
/* The result to inject into this call of the symbol, -1: none. Counts the call. */
int fault_next(const char *symbol);
/* Delay of one symbol, from SIMGPU_LATENCY's "symbol=20ms" items. */
uint64_t fault_latency(const char *symbol);
uint64_t fault_latency_of_all(void);
/* How long a kernel takes, from SIMGPU_KERNEL's "20us" and "part-of-a-name=2ms" items. */
uint64_t fault_kernel_ns(const char *name);

#endif
