/*
 * Primary contexts. The driver has one for each device and counts its users. So it is charged once,
 * by the call that makes the driver create it, and given back when the driver says that it is gone.
 */
#ifndef VGPU_HOOK_MEMORY_PRIMARY_H
#define VGPU_HOOK_MEMORY_PRIMARY_H

#include "hook/memory/context_cost.h"

#define PRIMARY_DEVICES 64

/* Whether the driver has the primary context of a device. */
bool primary_active(CUdevice device);

/* The driver may have destroyed a device's primary context: if so, gives its charge back. */
void primary_settle(CUdevice device);

/* Takes over a primary context that the driver created for a green context, and that is charged
 * with `bytes` already. False: there is none, or another thread has it. */
bool primary_adopt(CUdevice device, unsigned vdev, uint64_t bytes);

void primary_forked(void); /* in the child of a fork */

#endif
