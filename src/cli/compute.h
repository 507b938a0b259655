/* Settings and usage of GPU time: sums, and texts for display. */
#ifndef VGPU_CLI_COMPUTE_H
#define VGPU_CLI_COMPUTE_H

#include "cli/table.h"
#include "region/region.h"

/* The GPU time of an instance on a device, of all kinds of work. */
uint64_t compute_gpu_ns(const struct vgpu_compute_usage *usage);
/* Whether the instance has submitted any work to the device, copies included. */
bool compute_used(const struct vgpu_compute_usage *usage);

/*
 * A value of a COMPUTE_LIMIT row as text, by the type of its option: "300", "5.0 GiB", "elastic".
 */
const char *compute_show(enum cli_type type, uint64_t value, char *buffer, size_t size);

/* "30%", "30% elastic", "none" */
#define CAP_TEXT_BYTES 24
const char *format_cap(const struct vgpu_limits *limits, unsigned vdev, char *buffer, size_t size);

/* "31.4%"; `whole_ns` > 0. At most 100%: vgpu charges work when it begins, before its time is
 * known. */
#define SHARE_TEXT_BYTES 16
const char *format_share(uint64_t part_ns, uint64_t whole_ns, char *buffer, size_t size);

#endif
