/*
 * Memory pools and stream-ordered allocation. A pool is charged by what it has reserved from the
 * device, not by the allocations in it: that is what the device lacks.
 */
#ifndef VGPU_HOOK_POOL_H
#define VGPU_HOOK_POOL_H

#include "hook/hook.h"

/*
 * After a synchronisation of any kind, at which the driver takes back what pools have no use for:
 * so does the quota. Costs a few loads where pools hold nothing, one attribute read for each that
 * does; never synchronises.
 */
void pool_refresh_all(void);

/* The same after waiting for one stream: what was freed in the order of another one stays
 * charged. */
void pool_refresh_after(CUstream stream, bool per_thread);

/* The same at any other time: what is freed only by a synchronisation stays charged. */
void pool_refresh(void);

#endif
