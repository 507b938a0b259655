/*
 * The model of what a tenant's processes hold in the driver: clients, objects, video memory, who
 * shares it, and UVM's mappings of it.
 *
 * Pure bookkeeping, no call to the driver. One thread at a time: the caller's lock. The calls must
 * be made in the order in which the driver did the things: who executes a call holds the lock from
 * before the driver gets it until it is noted here.
 *
 * Memory is charged once, to the owner of its oldest reference, for as long as any reference to it
 * is left: the handle it was allocated under, duplicates of that (of any client), UVM's mappings
 * (each holds a duplicate of its own). An owner is a number that the caller gives to a process.
 *
 * A call that the supervisor executes is known to have happened. One that continues in the caller
 * (UVM's mappings) is only seen: it may fail, and its arguments may be others by the time the
 * driver reads them. Things that were only seen never release memory: where the model cannot know,
 * it keeps the charge.
 *
 * Every call costs the same, near enough, however many objects there are and whatever numbers the
 * tenant chose for them; ending many objects costs by their number. The memory used is bounded by
 * what is live, and by the limit.
 */
#ifndef VGPU_GUARD_OBJECTS_H
#define VGPU_GUARD_OBJECTS_H

#include "region/region.h"

#include <stdbool.h>
#include <stdint.h>

/* What objects_new() may be given: some 600 MB when it is reached. */
#define OBJECTS_LIMIT 4000000u

#define OBJECTS_SPACE_GPUS 256u /* as many as the driver has */
/* The driver has one mapping in a place; what is more was seen and failed. */
#define OBJECTS_OVERLAPS 1024u

struct objects;

/* The classes that mean something to the model, as the driver numbers them. */
struct objects_classes {
    uint32_t root, device, subdevice, memory;
    uint32_t unnamed; /* holds memory that NVML does not count for it */
};

/* `limit`: objects, mappings, ranges and the like, all together. 0, -ENOMEM, or another where there
 * is no getrandom().
 */
int objects_new(const struct objects_classes *classes, unsigned limit,
                struct objects **ret_objects);
void objects_free(struct objects *objects); /* NULL is fine */

/*
 * What the calls below have changed. Whoever makes them takes all of it before the lock is given
 * away: until then it counts against the limit. Functions that return false leave *ret alone.
 */

/* An owner's sum on a device has changed by so much, all in all. All increases come first: memory
 * that moves from one owner to another never seems to be free. False: no change is left. */
struct objects_charge {
    uint32_t owner;
    unsigned gpu;
    int64_t bytes; /* not 0 */
};
bool objects_next_charge(struct objects *objects, struct objects_charge *ret_charge);

/* An object that is neither a client nor memory is gone; children come before their parents.
 * False: none is left. */
struct objects_gone {
    uint32_t client, handle, class_id;
};
bool objects_next_gone(struct objects *objects, struct objects_gone *ret_gone);

/* After 0 the next objects_add(), objects_add_memory() or objects_dup() cannot fail for lack of
 * room, and the next objects_client() before it: to be asked before the driver is. -ENOSPC (the
 * limit), -ENOMEM. */
int objects_reserve(struct objects *objects);

/*
 * Clients.
 */

/* `owner` has used the client: to be told at every call, as a client's end by close() is not seen.
 * The first time the client appears; after that, processes that use it too (that inherited its
 * file) keep it alive with the first one. */
int objects_client(struct objects *objects, uint32_t client, uint32_t owner);

/*
 * Objects. All of these: -ENOENT: no such client; -EINVAL: a handle that the driver does not take
 * (0, the client's). With a parent that is unknown the object belongs to the client alone.
 */

/* All of what follows is made: what had the handle before is gone, with all below it. */
int objects_add(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                uint32_t class_id);

/* -EINVAL: also a gpu that is not below VGPU_DEVICES_MAX. */
int objects_add_memory(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                       unsigned gpu, uint64_t bytes);

/* An object that holds memory of the same client's, which NVML does not count for it. */
int objects_add_holding(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                        uint32_t class_id, uint32_t memory);

/* What the source is, the duplicate is; one that is unknown (another instance's) gives an object of
 * class 0. */
int objects_dup(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                uint32_t source_client, uint32_t source_handle);

/* A duplicate of the memory that is mapped at `base` on `gpu` in a space. Where there is none, of
 * class 0. */
int objects_dup_mapped(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                       uint32_t space, uint64_t base, uint32_t gpu);

/* A duplicate of another's memory that is not charged here. It counts for objects_named(). */
int objects_add_foreign(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                        unsigned gpu, uint64_t bytes);

/* Gone with all below it; handle == client: the client with everything. -ENOENT: no such object. */
int objects_remove(struct objects *objects, uint32_t client, uint32_t handle);

/*
 * UVM. A space is an open file of the UVM device that was initialised (UVM_INITIALIZE), not a
 * process: a program may have several, each with mappings of its own at the same addresses. The
 * caller numbers them and has to tell them apart: an UNMAP_EXTERNAL in one releases nothing in
 * another.
 */

/* As objects_client(). */
int objects_space(struct objects *objects, uint32_t space, uint32_t owner);

/* An external range (CREATE_EXTERNAL_RANGE); known: what else was in its place is gone. Only for
 * objects_unmap_all(). -ENOENT: no such space; -EINVAL: length 0 or beyond the end of the address
 * space; -ENOSPC, -ENOMEM. */
int objects_range(struct objects *objects, uint32_t space, uint64_t base, uint64_t length);

/*
 * MAP_EXTERNAL_ALLOCATION on these devices; to be noted before it continues. `gpus` are any numbers
 * that tell devices apart, not indices. Only seen: what is mapped there already stays charged
 * beside it (the driver would replace it; a caller that knows that it did calls objects_unmap()
 * first). Memory that is unknown, or no video memory: 0, and nothing is noted. All devices or none.
 * -ENOENT: no such space; -EINVAL, -ENOSPC, -ENOMEM as above; -ENOSPC also beyond
 * OBJECTS_SPACE_GPUS devices in one space and where OBJECTS_OVERLAPS mappings are in the way.
 */
int objects_map(struct objects *objects, uint32_t space, uint64_t base, uint64_t length,
                const uint32_t *gpus, unsigned count, uint32_t client, uint32_t memory);

/* UNMAP_EXTERNAL; known. As the driver does it: any part of any mappings, and what is left of one
 * at either side still holds all of its memory. */
void objects_unmap(struct objects *objects, uint32_t space, uint64_t base, uint64_t length,
                   uint32_t gpu);

/* UVM_FREE; known: the range that begins here is gone with all that was mapped in it on any device.
 * Where the range is unknown, only the mappings that begin here are: those are certainly in it. */
void objects_unmap_all(struct objects *objects, uint32_t space, uint64_t base);

/* Whether that one is among those that have used it. */
bool objects_space_is_used(const struct objects *objects, uint32_t space, uint32_t owner);

/* Its file is closed by everybody; known. */
void objects_space_gone(struct objects *objects, uint32_t space);

/*
 * Owners.
 */

/* The process is gone: clients and spaces that no other owner has used are gone with it; of the
 * others the next oldest user becomes the owner. Only right if nobody inherited the files or was
 * sent them (a forked child that never made a call is not known here): where that cannot be
 * excluded, objects_inherit(). */
void objects_owner_gone(struct objects *objects, uint32_t owner);

/* The process is gone, another one may have its files: all that was its is `heir`'s now. */
int objects_inherit(struct objects *objects, uint32_t owner, uint32_t heir);

/*
 * Questions. -ENOENT: not there.
 */

/* The nearest device, from the object itself upwards. */
int objects_device(const struct objects *objects, uint32_t client, uint32_t handle,
                   uint32_t *ret_device);
/* A child that is a subdevice. */
int objects_subdevice(const struct objects *objects, uint32_t client, uint32_t device,
                      uint32_t *ret_subdevice);
int objects_parent(const struct objects *objects, uint32_t client, uint32_t handle,
                   uint32_t *ret_parent);
int objects_class(const struct objects *objects, uint32_t client, uint32_t handle,
                  uint32_t *ret_class);
/* The memory behind a handle. -ENOENT also where it is another object. */
int objects_memory(const struct objects *objects, uint32_t client, uint32_t handle,
                   unsigned *ret_gpu, uint64_t *ret_bytes);

uint64_t objects_total(const struct objects *objects, unsigned gpu); /* of all owners */
/* Of all memory, foreign included, that some client has an object for: what the driver can count to
 * a process at most, as it counts none that only UVM or a file holds. */
uint64_t objects_named(const struct objects *objects, unsigned gpu);

#endif
