/*
 * The model of what an instance's processes hold in the driver: clients, objects, video memory, who
 * shares it, and UVM's mappings of it.
 *
 * Pure bookkeeping: it does not call the driver. One thread at a time, under the caller's lock.
 * Calls have to come in the order in which the driver did the things: the caller holds the lock
 * from before the driver gets a call until it is noted here.
 *
 * Memory is charged once, to the owner of its oldest reference, for as long as it has references:
 * the handle under which it was allocated, duplicates of that (of any client), and UVM's mappings
 * (each holds a duplicate of its own). An owner is a number that the caller gives to a process.
 *
 * What the supervisor executes is known to have happened. What continues in the caller (UVM's
 * mappings) is only seen: it may fail, and its arguments may be others by the time the driver reads
 * them. What was only seen never releases memory: if the model cannot know, the charge stays.
 *
 * A call costs nearly the same however many objects there are, and whatever numbers the program
 * chose; ending many objects costs by their number. The model's memory is bounded by what is live,
 * and by the limit.
 */
#ifndef VGPU_GUARD_OBJECTS_H
#define VGPU_GUARD_OBJECTS_H

#include "region/region.h"

#include <stdbool.h>
#include <stdint.h>

/* A limit for objects_new(): some 600 MB when it is reached. */
#define OBJECTS_LIMIT 4000000u

#define OBJECTS_SPACE_GPUS 256u /* as many as the driver has */
/* The driver has one mapping in a place; more of them were seen and failed. */
#define OBJECTS_OVERLAPS 1024u

struct objects;

/* The classes that mean something to the model, as the driver numbers them. */
struct objects_classes {
    uint32_t root, device, subdevice, memory;
    uint32_t unnamed; /* holds memory that NVML does not count for it */
};

/* `limit`: of objects, mappings, ranges and the like together. 0; -ENOMEM; another -errno: there
 * are no random numbers. */
int objects_new(const struct objects_classes *classes, unsigned limit,
                struct objects **ret_objects);
void objects_free(struct objects *objects); /* NULL is fine */

/*
 * What the calls below have changed. The caller takes all of it before it gives the lock away;
 * until then it counts against the limit. Functions that return false leave *ret alone.
 */

/* An owner's sum on a vdev has changed by so much, all in all. All increases come first: memory
 * that moves from one owner to another never seems to be free. False: no change is left. */
struct objects_charge {
    uint32_t owner;
    unsigned vdev;
    int64_t bytes; /* not 0 */
};
bool objects_next_charge(struct objects *objects, struct objects_charge *ret_charge);

/* An object that is neither a client nor memory is gone; children come before their parents.
 * False: none is left. */
struct objects_gone {
    uint32_t client, handle, class_id;
};
bool objects_next_gone(struct objects *objects, struct objects_gone *ret_gone);

/* After 0 the next objects_add(), objects_add_memory() or objects_dup(), and the next
 * objects_client() before it, cannot fail for lack of room. Called before the driver gets the call.
 * -ENOSPC (the limit), -ENOMEM. */
int objects_reserve(struct objects *objects);

/*
 * Clients.
 */

/* `owner` has used the client. Called at every call, as a client's end by close() is not seen. The
 * first time the client appears. Processes that use it later (that inherited its file) keep it
 * alive with the first one. */
int objects_client(struct objects *objects, uint32_t client, uint32_t owner);

/*
 * Objects. All of these: -ENOENT: no such client; -EINVAL: a handle that the driver does not take
 * (0, the client's). If the parent is not known, the object belongs to the client alone.
 */

/* Known to be made, as in all that follow: what had the handle before is gone, with all below it.
 *  */
int objects_add(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                uint32_t class_id);

/* -EINVAL: also if `vdev` is not below VGPU_DEVICES_MAX. */
int objects_add_memory(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                       unsigned vdev, uint64_t bytes);

/* An object that holds memory of the same client's. NVML does not count it for the client. */
int objects_add_holding(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                        uint32_t class_id, uint32_t memory);

/* The duplicate is what the source is; if that is unknown (another instance's), an object of class
 * 0. */
int objects_dup(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                uint32_t source_client, uint32_t source_handle);

/* A duplicate of another instance's memory, which is not charged here but counts for
 * objects_named(). */
int objects_add_foreign(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                        unsigned vdev, uint64_t bytes);

/* The object is gone with all below it; handle == client: the client with everything. -ENOENT. */
int objects_remove(struct objects *objects, uint32_t client, uint32_t handle);

/*
 * UVM. A space is an open file of the UVM device that was initialised (UVM_INITIALIZE), not a
 * process: a program may have several, with different mappings at the same addresses. The caller
 * numbers them: unmapping in one releases nothing in another.
 */

/* As objects_client(). */
int objects_space(struct objects *objects, uint32_t space, uint32_t owner);

/* An external range (CREATE_EXTERNAL_RANGE), known to be made: what else was in its place is gone.
 * Only for objects_unmap_all(). -ENOENT: no such space; -EINVAL: length 0, or beyond the end of the
 * address space; -ENOSPC, -ENOMEM. */
int objects_range(struct objects *objects, uint32_t space, uint64_t base, uint64_t length);

/*
 * MAP_EXTERNAL_ALLOCATION on these devices, before it continues; all devices or none. `gpus`:
 * numbers that tell devices apart, not indices. Only seen: what is mapped there already stays
 * charged beside it (the driver would replace it; a caller that knows that calls objects_unmap()
 * first). If the memory is unknown or no video memory: 0, and nothing is noted. -ENOENT, -EINVAL,
 * -ENOSPC, -ENOMEM as above; -ENOSPC also beyond OBJECTS_SPACE_GPUS devices in a space or
 * OBJECTS_OVERLAPS mappings in a place.
 */
int objects_map(struct objects *objects, uint32_t space, uint64_t base, uint64_t length,
                const uint32_t *gpus, unsigned count, uint32_t client, uint32_t memory);

/* UNMAP_EXTERNAL, known to be made: any part of any mappings. As in the driver, what is left of a
 * mapping at either side still holds all of its memory. */
void objects_unmap(struct objects *objects, uint32_t space, uint64_t base, uint64_t length,
                   uint32_t gpu);

/* UVM_FREE, known to be made: the range that begins here is gone with all mappings in it, on all
 * devices. If the range is unknown, only mappings that begin here are surely in it, and gone. */
void objects_unmap_all(struct objects *objects, uint32_t space, uint64_t base);

/* Whether the owner has used the space. */
bool objects_space_is_used(const struct objects *objects, uint32_t space, uint32_t owner);

/* No process has its file any more; known. */
void objects_space_gone(struct objects *objects, uint32_t space);

/*
 * Files that hold memory (exports.c). A file has numbered places. What it will hold in a place is
 * prepared before the driver gets the call, and then committed or cancelled, which cannot fail.
 */

/* As objects_client(). */
int objects_file(struct objects *objects, uint32_t file, uint32_t owner);

/* The file is about to hold the memory, and keeps it alive from now on. If the handle is unknown or
 * no memory: 0, and nothing is noted. -ENOENT: no such file; -ENOSPC, -ENOMEM. */
int objects_file_prepare(struct objects *objects, uint32_t file, uint32_t place, uint32_t client,
                         uint32_t memory);
/* The file holds in the place what was prepared, or nothing; what it held there is gone. */
void objects_file_commit(struct objects *objects, uint32_t file, uint32_t place);
void objects_file_cancel(struct objects *objects, uint32_t file, uint32_t place);

/* A duplicate of what a file holds in a place; if it holds nothing, an object of class 0. */
int objects_dup_held(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                     uint32_t file, uint32_t place);

/* No process has the file any more; known. */
void objects_file_gone(struct objects *objects, uint32_t file);

/*
 * Owners.
 */

/* The process is gone: so are clients and spaces that no other owner has used; the next oldest user
 * becomes the owner of the others. Only right if no other process has the files. A forked child
 * that never made a call is not known here; if there can be one, objects_inherit(). */
void objects_owner_gone(struct objects *objects, uint32_t owner);

/* The process is gone, and another one may have its files: all its clients and spaces are `heir`'s
 * now. */
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
/* The memory behind a handle. -ENOENT also for an object that is no memory. */
int objects_memory(const struct objects *objects, uint32_t client, uint32_t handle,
                   unsigned *ret_vdev, uint64_t *ret_bytes);

uint64_t objects_total(const struct objects *objects, unsigned vdev); /* of all owners */
/* Of all memory, foreign included, that a client has an object for. The driver counts for a process
 * at most this: it does not count what only UVM or a file holds. */
uint64_t objects_named(const struct objects *objects, unsigned vdev);

#endif
