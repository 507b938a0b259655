/*
 * The guard's own calls on the control device, through a duplicate of the file that a client
 * belongs to. They return the driver's status, or -errno if the system call failed. Thread-safe.
 */
#ifndef VGPU_GUARD_RM_H
#define VGPU_GUARD_RM_H

#include "guard/nvidia/abi.h"

/* Where *handle is 0 the driver chooses. */
int rm_alloc(int fd, uint32_t client, uint32_t parent, uint32_t *handle, uint32_t class_id,
             void *params, uint32_t bytes);
/* A device's only subdevice. *ret_handle: the driver chooses. */
int rm_alloc_subdevice(int fd, uint32_t client, uint32_t device, uint32_t *ret_handle);
int rm_control(int fd, uint32_t client, uint32_t object, uint32_t cmd, void *params,
               uint32_t bytes);
/* Where *handle is 0 the driver chooses. */
int rm_dup(int fd, uint32_t client, uint32_t parent, uint32_t *handle, uint32_t source_client,
           uint32_t source);
/* The client allows another one to duplicate all its objects, in addition to what it allows
 * already. */
int rm_share(int fd, uint32_t client, uint32_t target);
int rm_free(int fd, uint32_t client, uint32_t parent, uint32_t object);

#endif
