/*
 * The vdevs of the instance and their devices. A device is identified by its UUID ("GPU-..." or
 * "MIG-..."), as the region has it.
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

/* The vdev of a device by the limits. -ENODEV: they do not name it. */
int limits_vdev(const struct vgpu_limits *limits, const char *uuid, unsigned *ret_vdev);

/* The vdev of a device. -ENODEV: it is not the instance's, or not known to it yet. */
int vdev_find(struct vgpu_ledger *ledger, const char *uuid, unsigned *ret_vdev);

/*
 * Tells the region a device's size if its quota needs it (a percentage). NVML's size differs a
 * little from CUDA's, so a size that CUDA has reported stands.
 */
void vdev_size(struct vgpu_ledger *ledger, unsigned vdev, const char *uuid,
               uint64_t physical_bytes);

/*
 * Tells the region the devices, in the order in which vdevs are numbered (by PCI bus, as NVML
 * does). If the instance does not select devices, those without a vdev get one: the k-th device the
 * k-th vdev, if that is free.
 */
void vdev_bind(struct vgpu_ledger *ledger, const struct vdev_device *devices, unsigned count);

/*
 * The same for a process that numbers its devices itself and brings limits by those numbers. The
 * k-th device has the k-th of `limits`, even if its vdev is another one because a process with
 * other numbers came first.
 */
void vdev_bind_limited(struct vgpu_ledger *ledger, const struct vdev_device *devices,
                       unsigned count, const struct vgpu_limits *limits);

/* The text of a UUID's 16 bytes; prefix is "GPU" or "MIG". */
void vdev_uuid_text(const char *prefix, const unsigned char bytes[16],
                    char ret_uuid[VGPU_UUID_LEN]);

#endif
