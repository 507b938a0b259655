/*
 * CUDA_VISIBLE_DEVICES: the devices that a program sees, and their order. Read as the driver reads
 * it: an index or an unambiguous beginning of a UUID names a device; anything else ends the list.
 */
#ifndef VGPU_ACCOUNT_VISIBLE_H
#define VGPU_ACCOUNT_VISIBLE_H

#include "region/region.h"

#include <stdbool.h>

#define VISIBLE_MAX         (64 * VGPU_UUID_LEN) /* bytes that a translation may need */
#define VISIBLE_DEVICES_MAX 64
#define VISIBLE_MIG         UINT32_MAX

/* Devices as they are numbered where the variable is read. One with an empty UUID is not
 * available. */
struct visible_devices {
    unsigned count;
    char uuid[VISIBLE_DEVICES_MAX][VGPU_UUID_LEN];
};

struct visible_device {
    unsigned index; /* into the devices above; VISIBLE_MIG: a MIG device, which is not among them */
    char uuid[VGPU_UUID_LEN];
};

/*
 * The devices that a program with the value `text` (NULL: not set) sees, in its order, at most
 * `max`. Returns how many. A device that is named twice leaves none, as in the driver.
 */
unsigned visible_list(const char *text, const struct visible_devices *devices,
                      struct visible_device *ret_list, unsigned max);

/* The devices that an instance selects. */
void visible_selected(const struct vgpu_limits *limits, struct visible_devices *ret_devices);

/*
 * The value that the driver reads in an instance that selects devices. The program's value `text`
 * (NULL: not set) counts among those. A MIG entry that names none of them is kept.
 */
void visible_translate(const char *text, const struct vgpu_limits *limits,
                       char ret_text[VISIBLE_MAX]);

#endif
