/*
 * Turns of an instance that runs on several devices. The kernels of a collective operation wait on
 * each device for the others, so the instance's turns on its devices must be at the same time.
 * Devices have arenas of their own and no lock in common; what they have in common is the clock:
 * while all the tenants that contend run on several devices, each turn is a slot of the monotonic
 * clock, and its owner follows from the slot's number and the tenants' ids and weights.
 *
 * A slot ends for an instance on all its devices at once. Nobody takes a device while work of the
 * instance still runs on another one, and where it has launched more in the slot on another device,
 * launches pass until it is as many here: one of these may be what the others wait for. Both within
 * GANG_DRAIN_NS; then the device goes on beside what runs.
 */
#ifndef VGPU_SCHED_GANG_H
#define VGPU_SCHED_GANG_H

#include "sched/sched_client.h"

/*
 * The instance runs on the devices of these arenas as well, which stay open; none: on this client's
 * device alone. Under the caller's lock; takes the arena's where the number of devices changes.
 */
void gang_set(struct sched_client *client, struct vgpu_arena *const *others, unsigned count);

/* Whether the instance has launched more in this slot on another device, where it still runs. Under
 * the caller's lock.
 */
bool gang_behind(const struct sched_client *client, uint64_t now_ns);

/* Whether work of the tenant with this id runs on one of the client's other devices. Any thread,
 * without a lock. */
bool gang_busy(const struct sched_client *client, uint64_t id,
               uint64_t now_ns); /* or on the client's own */
bool gang_busy_elsewhere(const struct sched_client *client, uint64_t id, uint64_t now_ns);

#endif
