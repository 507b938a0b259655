/* The devices that --gpu names. */
#ifndef VGPU_CLI_GPUS_H
#define VGPU_CLI_GPUS_H

#include "gpu/inventory.h"

/*
 * Translates the text of --gpu ("auto", "all", indices, UUIDs or their prefixes) to UUIDs in order,
 * in limits->device_count and limits->vdev[].uuid. Returns 0, or -EINVAL after a message if the
 * text does not fit the devices.
 */
int gpus_select(const struct gpus *gpus, const char *text, struct vgpu_limits *limits);

#endif
