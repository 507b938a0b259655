/* What calls mean for the objects, the clients, the channels and the devices of an instance. All
 * under notify->lock. */
#ifndef VGPU_GUARD_ACCOUNT_H
#define VGPU_GUARD_ACCOUNT_H

#include "guard/nvidia/nvidia.h"

/* Applies what the object model says has changed: charges go to the processes' ledgers, channels
 * and devices that are gone are forgotten. */
void account_settle(struct nvidia *nvidia);

void account_client_gone(struct nvidia *nvidia, uint32_t client);

#endif
