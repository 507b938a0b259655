/*
 * What the command asks a vendor's libraries: which devices there are, and whether the driver
 * works. src/nvidia answers for NVIDIA. Single-threaded; each call runs the vendor's code in a
 * child process, so that nothing of it stays in the caller, and a crash or a hang is an answer.
 */
#ifndef VGPU_GPU_INVENTORY_H
#define VGPU_GPU_INVENTORY_H

#include "region/region.h"

#include <stdbool.h>

#define GPUS_MAX        64
#define GPUS_REASON_LEN 256

struct gpu {
    char uuid[VGPU_UUID_LEN]; /* "": this user may not use the device */
    char name[96];
    uint64_t total_bytes;
    uint64_t free_bytes;
};

struct gpus {
    unsigned count;
    char driver[80]; /* the driver's version; "": not known */
    struct gpu gpu[GPUS_MAX];
};

/*
 * Lists the devices in the driver's order. `library` is the path of the vendor's management
 * library, NULL for the system's. On failure returns -errno and *ret_reason is the end of a
 * sentence, such as "libnvidia-ml.so.1 does not load (...)".
 */
int gpus_list(const char *library, struct gpus *ret_gpus, char ret_reason[GPUS_REASON_LEN]);

/* The state of the driver, as one finding of `vgpu doctor`. */
struct driver_finding {
    bool works;
    char detail[512];
    const char *advice; /* a constant text; NULL where it works */
};

/* Loads and initialises the driver's library. Takes up to a minute where the driver hangs. */
void driver_check(struct driver_finding *ret_finding);

#endif
