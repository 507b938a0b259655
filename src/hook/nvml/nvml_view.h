/*
 * The instance's devices as NVML numbers and hands them out. A process that only asks NVML
 * (nvidia-smi) is no user of the GPU: it reads the region and takes no slot in it.
 *
 * These functions need an NVML that the program has initialised. If it has not, the driver's own
 * answer says so.
 */
#ifndef VGPU_HOOK_NVML_NVML_VIEW_H
#define VGPU_HOOK_NVML_NVML_VIEW_H

#include "hook/loader/hook.h"
#include "hook/loader/nvml_handlers.h"

/*
 * NVML is one for the whole process and counts its users, and vgpu may be one of them
 * (nvml_driver.h). The program must not see that: its own count decides its answers, and it cannot
 * take vgpu's reference away.
 */
void nvml_view_initialised(void);
void nvml_view_shut_down(void);
bool nvml_view_uninitialised(void); /* the program has no reference, although NVML answers */

/* The ledger if NVML's answers are to be changed at all; NULL: forward. */
struct vgpu_ledger *nvml_view_ledger(void);

/* The GPUs of an instance that selects, in its order: the one at `index`, and the index of one.
 * -ENODEV: there is none. */
bool nvml_view_selecting(void);
unsigned nvml_view_count(void);
int nvml_view_at(unsigned index, nvmlDevice_t *ret_device);
int nvml_view_index(nvmlDevice_t device, unsigned *ret_index);

/* Whether the program may have this handle: of a GPU or MIG device of the instance, or of the GPU
 * of one. */
bool nvml_view_ours(nvmlDevice_t device);

/* The vdev that counts a handle's memory. A MIG device without a vdev is counted in its GPU's. */
int nvml_view_vdev(nvmlDevice_t device, unsigned *ret_vdev);

#endif
