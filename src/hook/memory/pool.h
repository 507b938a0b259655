/* Memory pools and stream-ordered allocation. A pool is charged for the bytes that it has reserved
 * from the device, not for the allocations in it: nobody else can have those bytes. */
#ifndef VGPU_HOOK_MEMORY_POOL_H
#define VGPU_HOOK_MEMORY_POOL_H

#include "hook/loader/hook.h"

/*
 * After a synchronisation of any kind. The driver then frees what pools do not need, and the quota
 * gets it back. Costs a few loads where pools hold nothing, and one attribute read for each that
 * does. Never synchronises.
 */
void pool_refresh_all(void);

/* The same after waiting for one stream: memory freed in the order of another one stays charged. */
void pool_refresh_after(CUstream stream, bool per_thread);

/* The same at any other time: memory that only a synchronisation frees stays charged. */
void pool_refresh(void);

#endif
