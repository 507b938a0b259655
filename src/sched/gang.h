/*
 * Turns of an instance that runs on several devices, a gang. The kernels of a collective operation
 * wait on each device for the others, so the instance's turns on its devices must be at the same
 * time. Devices have arenas of their own and share no lock, but they share the clock. While all
 * tenants that contend are gangs, each turn is a slot of the monotonic clock. Its owner follows
 * from the slot's number and the tenants' ids and weights.
 *
 * A slot ends for an instance on all its devices at once. No tenant takes a device while work of
 * the instance still runs on another one. If the instance has launched more in the slot on another
 * device, launches pass until it is as many here: one of them may be what the others wait for. Both
 * last at most GANG_DRAIN_NS; then the device goes on beside the work that runs.
 */
#ifndef VGPU_SCHED_GANG_H
#define VGPU_SCHED_GANG_H

#include "sched/sched_client.h"

/*
 * Tells the client the arenas of the instance's other devices, which stay open; none: it runs on
 * this device alone. Under the caller's lock; takes the arena's if the number of devices changes.
 */
void gang_set(struct sched_client *client, struct vgpu_arena *const *others, unsigned count);

/* Whether the instance has launched more in this slot on another device, where it still runs. Under
 * the caller's lock. */
bool gang_behind(const struct sched_client *client, uint64_t now_ns);

/* Whether work of the tenant with this id runs on one of the client's other devices (gang_busy():
 * or on the client's own). Any thread, without a lock. */
bool gang_busy(const struct sched_client *client, uint64_t id, uint64_t now_ns);
bool gang_busy_elsewhere(const struct sched_client *client, uint64_t id, uint64_t now_ns);

#endif
