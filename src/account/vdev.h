/*
 * Which vdev of the instance a device is. Devices are told by UUID ("GPU-..." or "MIG-..."), as the
 * region has them.
 */
#ifndef VGPU_ACCOUNT_VDEV_H
#define VGPU_ACCOUNT_VDEV_H

#include "account/ledger.h"

#include <stdbool.h>

/* A device as CUDA or NVML describes it. */
struct vdev_device {
    char uuid[VGPU_UUID_LEN];
    uint64_t physical_bytes;
};

/* Whether the instance names its devices. If not, it has the first 16 that the driver shows. */
bool vdev_selecting(struct vgpu_ledger *ledger);

/* -ENODEV: the device is not one of those that the limits name. */
int limits_vdev(const struct vgpu_limits *limits, const char *uuid, unsigned *ret_vdev);

/* -ENODEV: the device is not the instance's, or not known to it yet. */
int vdev_find(struct vgpu_ledger *ledger, const char *uuid, unsigned *ret_vdev);

/*
 * Tells the region a device's size where its quota cannot do without (a percentage). NVML's size
 * differs a little from CUDA's, so what CUDA has said stands.
 */
void vdev_size(struct vgpu_ledger *ledger, unsigned vdev, const char *uuid,
               uint64_t physical_bytes);

/*
 * Tells the region which devices there are, in the order in which vdevs are numbered (by PCI bus,
 * as NVML does). Where the instance does not select, devices that no vdev has yet get one: the k-th
 * the k-th vdev, where it is free.
 */
void vdev_bind(struct vgpu_ledger *ledger, const struct vdev_device *devices, unsigned count);

/*
 * The same for a process that numbers its devices itself and brings limits by those numbers: the
 * k-th device has the k-th of `limits`, also where its vdev is another, because a process that
 * numbers differently was first.
 */
void vdev_bind_limited(struct vgpu_ledger *ledger, const struct vdev_device *devices,
                       unsigned count, const struct vgpu_limits *limits);

/* The text of a UUID's 16 bytes; prefix is "GPU" or "MIG". */
void vdev_uuid_text(const char *prefix, const unsigned char bytes[16],
                    char ret_uuid[VGPU_UUID_LEN]);

#endif
