/*
 * The allocations of this process: a table from a 64-bit key (device pointer, handle) to a record,
 * and granule counts, by which the real use of a driver that sub-allocates is charged. Private to
 * the process; thread-safe; empty in a forked child.
 */
#ifndef VGPU_ACCOUNT_TRACK_H
#define VGPU_ACCOUNT_TRACK_H

#include <stdbool.h>
#include <stdint.h>

struct vgpu_track_entry {
    uint64_t bytes; /* charged */
    uint64_t extra; /* for the owner of the table */
    uint32_t vdev;
    uint32_t kind; /* enum vgpu_kind */
};

struct vgpu_track; /* a hash table; inserting, finding and removing cost the same with 10 and with 1
                      000 000 entries */

struct vgpu_track *track_new(void);
int track_put(struct vgpu_track *track, uint64_t key,
              const struct vgpu_track_entry *entry); /* -ENOMEM; replaces an older entry */
bool track_get(struct vgpu_track *track, uint64_t key, struct vgpu_track_entry *ret_entry);
bool track_take(struct vgpu_track *track, uint64_t key,
                struct vgpu_track_entry *ret_entry); /* get and remove */

/*
 * Calls back for each entry with a key in [first, last], in no order. The callback may change the
 * entry, and returns true to have it removed. It runs under a lock: it must not call into the same
 * table.
 */
void track_sweep(struct vgpu_track *track, uint64_t first, uint64_t last,
                 bool (*visit)(uint64_t key, struct vgpu_track_entry *entry, void *arg), void *arg);

/*
 * Granules: the driver takes memory in blocks (2 MiB on every device since Pascal) and puts small
 * allocations into shared ones. granule_add() counts [address, address + bytes) and returns the
 * bytes of blocks that were untouched before. granule_drop() returns the bytes of blocks that are
 * empty now. Blocks of different vdevs are different. A block is charged to the kind of memory that
 * was the first in it, and is released from that kind.
 *
 * Ranges must be allocations of the driver, which do not overlap: a block that one fills is its
 * own, and is not looked up. granule_drop() must get what granule_add() got. The cost does not
 * depend on `bytes`.
 */
struct granule_share {
    uint32_t kind; /* enum vgpu_kind */
    uint64_t bytes;
    void *note;
};
#define GRANULE_SHARES 3 /* of its own kind first; its ends may be in blocks of other kinds */

struct vgpu_granules;
struct vgpu_granules *granules_new(uint64_t granule_bytes);
int granule_add(struct vgpu_granules *granules, unsigned vdev, uint32_t kind, uint64_t address,
                uint64_t bytes, uint64_t *ret_new_bytes);
void granule_drop(struct vgpu_granules *granules, unsigned vdev, uint32_t kind, uint64_t address,
                  uint64_t bytes, struct granule_share ret_left[GRANULE_SHARES]);

/*
 * A note for the first block of an allocation. The allocation that leaves this block last gets it
 * from granule_drop(), in ret_left. Several allocations in one block have one note. Returns the
 * note that is there afterwards: `note`, or an older one. NULL: no memory. With `note` NULL it only
 * looks.
 */
void *granule_note(struct vgpu_granules *granules, unsigned vdev, uint32_t kind, uint64_t address,
                   void *note);

#endif
