/*
 * Primary contexts: the driver has one a device and counts who retains it, so it is charged once,
 * by whoever makes the driver create it, and given back when the driver says that it is gone.
 */
#ifndef VGPU_HOOK_PRIMARY_H
#define VGPU_HOOK_PRIMARY_H

#include "hook/context_cost.h"

#define PRIMARY_DEVICES 64

/* Whether the driver has the primary context of a device. */
bool primary_active(CUdevice device);

/* The driver has perhaps given up a device's primary context: if so, gives back what it was charged
 * with. */
void primary_settle(CUdevice device);

/*
 * Takes over a primary context that the driver created for another call's sake (a green context)
 * and that is charged with `bytes` already. False: there is none, or it is somebody else's.
 */
bool primary_adopt(CUdevice device, unsigned vdev, uint64_t bytes);

void primary_forked(void); /* in the child of a fork */

#endif
