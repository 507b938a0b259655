/* The devices that the driver shows to this process, and their vdevs. hook.h has what every handler
 * needs; this is for the handlers that deal with devices themselves. */
#ifndef VGPU_HOOK_LOADER_DEVICE_H
#define VGPU_HOOK_LOADER_DEVICE_H

#include "hook/loader/hook.h"

/* No device has this number: the driver refuses it in its own words. */
#define DEVICE_NONE (-1)

/*
 * Reads the devices from the driver, once. The driver must be initialised; no context is needed and
 * none is made. 0, also if that was done before. -ENODEV: no device of the instance is visible.
 * -EAGAIN: the driver is not initialised, nothing is known.
 */
int device_table_build(void);

/* Whether this number is no device of the instance, whatever the driver would say. False before
 * device_table_build(). */
bool device_foreign(CUdevice device);

/* Bytes of stack that one more byte for each thread costs: multiprocessors x threads of each. */
uint64_t device_resident_threads(CUdevice device);

/* The device behind a vdev: its number, and the UUID by which NVML finds what the process uses of
 * it. */
int device_of_vdev(unsigned vdev, CUdevice *ret_device);
int device_vdev_uuid(unsigned vdev, char ret_uuid[VGPU_UUID_LEN]);

#endif
