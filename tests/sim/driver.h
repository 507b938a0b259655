/*
 * The CUDA driver as the test programs call it: cu.cuMemAlloc_v2(...), for every HOOK and CALL row
 * of spec/driver.def. driver_load() fills `cu` in one of three ways, as TEST_REACH says:
 *   link      the addresses that the loader bound (programs linked with libcuda.so.1 only)
 *   dlsym     dlopen("libcuda.so.1") and dlsym()
 *   getproc   cuGetProcAddress_v2(), itself found by dlsym(), with base name and version as the
 *             CUDA runtime does it
 * A function that the driver lacks is NULL.
 */
#ifndef TESTS_SIM_DRIVER_H
#define TESTS_SIM_DRIVER_H

#include "abi/entry_points.h"

struct driver {
#define HOOK(symbol, handler) symbol##_fn *symbol;
#define CALL(symbol, ...)     symbol##_fn *symbol;
#define PASS(symbol)
#include "driver.def"
#undef CALL
#undef HOOK
#undef PASS
};

extern struct driver cu;

/* The library handle, and cuGetProcAddress_v2 (NULL where the driver is older than 12.0). */
extern void *driver_handle;
extern cuGetProcAddress_v2_fn *driver_get_proc_address;

void driver_load(void); /* ends the test where the driver can't be found */
const char *driver_reach(void);

#endif
