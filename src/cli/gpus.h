/* The devices of this machine, by NVML. */
#ifndef VGPU_CLI_GPUS_H
#define VGPU_CLI_GPUS_H

#include "region/region.h"

#define GPUS_MAX        64
#define GPUS_REASON_LEN 256

struct gpu {
    char uuid[VGPU_UUID_LEN];
    char name[96];
    uint64_t total_bytes;
    uint64_t free_bytes;
};

struct gpus {
    unsigned count;
    char driver[80]; /* its version; "" where NVML does not say */
    struct gpu gpu[GPUS_MAX];
};

/*
 * Asks NVML: `library` is the path of libnvidia-ml.so.1, NULL for the system's. In a child process,
 * so that nothing of it stays here. On failure returns -errno and *ret_reason is the end of a
 * sentence, such as "libnvidia-ml.so.1 does not load (...)".
 */
int gpus_list(const char *library, struct gpus *ret_gpus, char ret_reason[GPUS_REASON_LEN]);

/*
 * From what --gpu was given ("auto", "all", indices, UUIDs or their prefixes) to UUIDs in order, in
 * limits->device_count and limits->vdev[].uuid. Writes a message and returns -EINVAL where the text
 * does not fit the devices.
 */
int gpus_select(const struct gpus *gpus, const char *text, struct vgpu_limits *limits);

#endif
