/* Settings and figures of GPU time, as people write and read them. */
#ifndef VGPU_CLI_COMPUTE_H
#define VGPU_CLI_COMPUTE_H

#include "cli/table.h"
#include "region/region.h"

/* All GPU time of an instance on a device. */
uint64_t compute_gpu_ns(const struct vgpu_compute_usage *usage);
/* Whether it has given any work to the device, copies included. */
bool compute_used(const struct vgpu_compute_usage *usage);

/* A value of COMPUTE_LIMIT, by the type of its option: "300", "5.0 GiB", "none", "elastic". */
const char *compute_show(enum cli_type type, uint64_t value, char *buffer, size_t size);

/* "30%", "30% elastic", "none" */
#define CAP_TEXT_BYTES 24
const char *format_cap(const struct vgpu_limits *limits, unsigned vdev, char *buffer, size_t size);

/* "31.4%"; `whole_ns` > 0. Not above 100%: work is charged when it begins, which may be before it
 * was timed. */
#define SHARE_TEXT_BYTES 16
const char *format_share(uint64_t part_ns, uint64_t whole_ns, char *buffer, size_t size);

#endif
