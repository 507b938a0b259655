/* The driver's own NVML, for vgpu's questions: never through the hooks, and loaded only for an
 * answer. */
#ifndef VGPU_HOOK_LOADER_NVML_DRIVER_H
#define VGPU_HOOK_LOADER_NVML_DRIVER_H

#include "abi/nvml.h"
#include "account/vdev.h"

/* An entry of a process list, in any version of the function. */
struct nvml_process {
    unsigned pid;
    unsigned long long bytes; /* NVML_VALUE_NOT_AVAILABLE: the driver does not say */
};

/* Loads the library into the process; cheap once it is there. -ENOENT: there is none. -ENOSYS: it
 * lacks a function. */
int nvml_driver_load(void);

/* nvml_driver_load() and one nvmlInit for the process: about 10 ms the first time. -ENODEV: the
 * driver refuses. */
int nvml_driver_open(void);
bool nvml_driver_is_open(void); /* whether nvml_driver_open() has succeeded in this process */

/* -ENODEV: no such device here. About 7 ms for a GPU that NVML has not touched yet. */
int nvml_driver_handle(const char *uuid, nvmlDevice_t *ret_device);
int nvml_driver_uuid(nvmlDevice_t device, char ret_uuid[VGPU_UUID_LEN]);

/* The GPU that a MIG device is part of. -ENODEV: `device` is no MIG device. */
int nvml_driver_parent(nvmlDevice_t device, nvmlDevice_t *ret_parent);

/* The ids of a MIG device's GPU and compute instance; NVML_INSTANCE_ID_NONE twice for other
 * devices. */
void nvml_driver_mig_ids(nvmlDevice_t device, unsigned *ret_gpu_instance,
                         unsigned *ret_compute_instance);

/* The processes that compute on a device (MPS clients included). Returns how many there are and
 * fills up to `max`. -EIO: the driver does not say. */
int nvml_driver_processes(nvmlDevice_t device, struct nvml_process *ret_processes, unsigned max);

/* All GPUs that NVML shows, in its order. Returns how many, and fills up to `max`; or -errno. */
int nvml_driver_devices(struct vdev_device *ret_devices, unsigned max);

/* What CUDA can use of a device: NVML's total less what the system keeps. 0: unknown. */
uint64_t nvml_driver_physical_bytes(nvmlDevice_t device);

#endif
