/*
 * What an instance does on a device, in its region: caps, their buckets, and counters for display.
 * Every word is atomic; no lock; any thread of any process of the instance. `vdev` is a device's.
 * `group` is 0 for the instance, or ledger_group()'s: both limits apply to work of a group.
 */
#ifndef VGPU_SCHED_USAGE_H
#define VGPU_SCHED_USAGE_H

#include "region/region.h"

#include <stdatomic.h>

/* The cap that a launch reads, in percent; 0: none. Valid as long as the region. */
const _Atomic uint32_t *usage_cap(struct vgpu_region *region, unsigned group, unsigned vdev);

/* The words of the buckets (sched/bucket.h): GPU time; copies from the host (VGPU_WORK_HTOD) and to
 * it (VGPU_WORK_DTOH). */
_Atomic uint64_t *usage_bucket(struct vgpu_region *region, unsigned group, unsigned vdev);
_Atomic uint64_t *usage_copy_bucket(struct vgpu_region *region, unsigned group, unsigned vdev,
                                    enum vgpu_work direction);

/* The instance's bucket of GPU time, for a charge at a cap of `percent`. Debt from another cap is
 * converted to this one. */
_Atomic uint64_t *usage_bucket_at(struct vgpu_region *region, unsigned vdev, uint32_t percent,
                                  uint64_t now_ns);

/*
 * The present settings; the words may change one by one. Weight and priority are the highest of all
 * attached processes: lower than the instance's own if all processes are in groups with lower ones.
 */
struct vgpu_compute usage_settings(const struct vgpu_region *region);

/* Whether a process of the instance holds memory on the device, for example a context. */
bool usage_in_use(const struct vgpu_region *region, unsigned vdev);

/* The rate of copies between host and device (vgpu_compute.copy_bytes_s); as usage_cap(). */
const uint64_t *usage_copy_rate(const struct vgpu_region *region, unsigned group);

/* When the cap of a group holds (enum vgpu_cap_policy). */
uint32_t usage_group_cap_policy(const struct vgpu_region *region, unsigned group);

/* Counts work. The amount is nanoseconds or bytes; a negative one corrects an earlier call. */
void usage_add(struct vgpu_region *region, unsigned vdev, enum vgpu_work work, uint64_t calls,
               int64_t amount, uint64_t now_ns);
void usage_throttled(struct vgpu_region *region, unsigned vdev, uint64_t ns);
void usage_turns(struct vgpu_region *region, unsigned vdev, uint64_t turns, uint64_t waited_ns);
void usage_copy_waited(struct vgpu_region *region, unsigned vdev, uint64_t ns);

/* A number that identifies the instance, the same in all its processes; not 0. */
uint64_t usage_instance_id(const struct vgpu_region *region);
void usage_instance_name(const struct vgpu_region *region, char ret_name[VGPU_NAME_LEN]);

#endif
