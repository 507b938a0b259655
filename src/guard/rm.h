/*
 * Calls of the guard's own on the control device, through a duplicate of the file that a client belongs to.
 * Both return the driver's status, or -errno where the call itself failed. Thread-safe.
 */
#ifndef VGPU_GUARD_RM_H
#define VGPU_GUARD_RM_H

#include "guard/abi.h"

int rm_control(int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params, uint32_t bytes);
int rm_free(int fd, uint32_t client, uint32_t parent, uint32_t object);

#endif
