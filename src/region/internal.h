/*
 * What src/region, src/account and src/sched share about an open region; nobody else includes this.
 */
#ifndef VGPU_REGION_INTERNAL_H
#define VGPU_REGION_INTERNAL_H

#include "region/layout.h"
#include "region/liveness.h"
#include "region/lock.h"
#include "region/region.h"

struct vgpu_region {
    struct region_layout *layout;
    void *map; /* the file from its beginning; what is in front of the layout is not ours (see
                  account/hami.h) */
    size_t map_bytes;
    struct liveness *liveness;
    bool copied; /* by region_peek(): the layout is this process's alone, and needs no lock */
    _Atomic uint64_t claimed[VGPU_PROCS_MAX / 64]; /* slots taken through this handle; a forked
                                                      child has none of them */
};

/* Whether the region is in a cache file of HAMi's. */
static inline bool region_is_cache(const struct vgpu_region *region)
{
    return (void *)region->layout != region->map;
}

static inline uint64_t load_relaxed(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline void store_relaxed(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static inline uint64_t add_saturated(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t subtract_clamped(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* What counts against a quota: of a group, or of the instance (0). */
static inline _Atomic uint64_t *region_total(struct region_layout *layout, unsigned group,
                                             unsigned vdev)
{
    return group ? &layout->group[group].vdev[vdev].total_bytes : &layout->vdev[vdev].total_bytes;
}

/* The quota of a group, or of the instance (0), in effect; 0: none. */
static inline uint64_t region_quota(const struct region_layout *layout, unsigned group,
                                    unsigned vdev)
{
    return load_relaxed(group ? &layout->group[group].vdev[vdev].quota_bytes
                              : &layout->vdev[vdev].quota_bytes);
}

/* Under the lock: what a group, or nobody in one (0), has more or less of. It is the instance's in
 * any case. */
static inline void region_total_add(struct region_layout *layout, unsigned group, unsigned vdev,
                                    uint64_t bytes)
{
    _Atomic uint64_t *total = region_total(layout, 0, vdev),
                     *of_group = region_total(layout, group, vdev);

    store_relaxed(total, add_saturated(load_relaxed(total), bytes));
    if (group)
        store_relaxed(of_group, add_saturated(load_relaxed(of_group), bytes));
}

static inline void region_total_sub(struct region_layout *layout, unsigned group, unsigned vdev,
                                    uint64_t bytes)
{
    _Atomic uint64_t *total = region_total(layout, 0, vdev),
                     *of_group = region_total(layout, group, vdev);

    store_relaxed(total, subtract_clamped(load_relaxed(total), bytes));
    if (group)
        store_relaxed(of_group, subtract_clamped(load_relaxed(of_group), bytes));
}

/* Slots that were ever used; what the region says, within bounds. */
static inline unsigned region_slots_high(const struct region_layout *layout)
{
    uint32_t high = atomic_load_explicit(&layout->slots_high, memory_order_acquire);

    return high > VGPU_PROCS_MAX ? VGPU_PROCS_MAX : high;
}

static inline bool slot_live(const struct region_slot *slot)
{
    return atomic_load_explicit(&slot->state, memory_order_acquire) == SLOT_LIVE;
}

/* A bad region may name any group: 0 then. */
static inline unsigned region_group(const _Atomic uint16_t *word)
{
    unsigned group = atomic_load_explicit(word, memory_order_relaxed);

    return group < VGPU_GROUPS ? group : 0;
}

/* Entries of groups to look at, the instance's 0 among them. */
static inline unsigned group_count(const struct region_layout *layout)
{
    uint32_t high = atomic_load_explicit(&layout->groups_high, memory_order_acquire);

    return high > VGPU_GROUPS ? VGPU_GROUPS : high > 0 ? high : 1;
}

static inline unsigned slot_group(const struct region_layout *layout, unsigned index)
{
    return region_group(&layout->slot[index].group);
}

/* What a slot really uses of its reservation. */
static inline uint64_t slot_used(const struct slot_vdev *vdev)
{
    return subtract_clamped(load_relaxed(&vdev->reserved_bytes),
                            load_relaxed(&vdev->idle) & IDLE_BYTES_MASK);
}

/* The owner adds and subtracts without looking: below zero is damage, and nothing. */
static inline uint64_t slot_held(const struct slot_vdev *vdev, unsigned kind)
{
    uint64_t bytes = load_relaxed(&vdev->held_bytes[kind]);

    return bytes > INT64_MAX ? 0 : bytes;
}

static inline unsigned slot_id(unsigned index)
{
    return index + 1;
}

/* region.c: whether the layout is a region of this version. */
bool region_layout_valid(const struct region_layout *layout);

/* slot_claim.c. */

/*
 * Takes a free slot and fills it: for this process, or for `supervised`, one that a guard looks
 * after. Takes the lock itself. -EUSERS: all are in use; -ETIMEDOUT; errors of liveness_claim().
 * `reserved_bytes`, one a vdev or NULL, is what the process holds already. The slot is in the group
 * `group_id`; 0, or one that is gone: in none.
 */
struct slot_supervised {
    pid_t pid;
    char command[32];
};
int slot_claim(struct vgpu_region *region, const struct slot_supervised *supervised,
               uint64_t group_id, const uint64_t *reserved_bytes, unsigned *ret_index,
               uint32_t *ret_generation);
/* Gives it back, unless it is somebody else's by now. Takes the lock itself; without it the slot is
 * left to be found dead. */
void slot_release(struct vgpu_region *region, unsigned index, uint32_t generation);
void slots_release_all(struct vgpu_region *region); /* of this handle */

/* slot_owner.c, without the lock. */

/* One pass over slots, {0} at its begin: it asks for this process's PID namespace once at most. */
struct slot_pass {
    uint64_t pid_namespace;
    bool asked;
};
uint64_t slot_pid_namespace(void); /* inode number of this process's own; 0: unknown */

/*
 * Whether a process has the identity: false only if it is certainly dead. The pid in a slot is
 * written by its own process: a false one keeps or loses that slot, and no other.
 */
bool slot_alive(struct vgpu_region *region, unsigned id, struct slot_pass *pass);

/* Whether the kernel takes the slot's process apart (proc_is_exiting()). False for one of another
 * PID namespace. */
bool slot_exiting(const struct region_slot *slot, struct slot_pass *pass);

/* Without the lock: whether a process exits that has something of the vdev, but for that of slot
 * `except`. */
bool slots_exiting(const struct region_layout *layout, unsigned vdev, unsigned except);
/* The pid of a live slot's process as our namespace numbers it; 0: it is not visible here. */
pid_t slot_pid(struct vgpu_region *region, unsigned index, struct slot_pass *pass);

/* slots.c. Under the lock unless said otherwise. */

void slot_empty(struct region_layout *layout, unsigned index);

/*
 * Takes up to `want_bytes` of idle reservation from slots other than `except`, of a group or of all
 * (0), and out of the totals. Returns how much.
 */
uint64_t slots_steal(struct region_layout *layout, unsigned group, unsigned vdev,
                     uint64_t want_bytes, unsigned except);
uint64_t slot_steal(struct region_layout *layout, unsigned index, unsigned vdev,
                    uint64_t want_bytes); /* of one */

/* Sum of what live slots use of a vdev. Right under the lock, close without. */
uint64_t slots_used(const struct region_layout *layout, unsigned vdev);
/* The same of a group; 0: of all. */
uint64_t slots_used_by(const struct region_layout *layout, unsigned group, unsigned vdev);

/*
 * away.c, under the lock: memory of a slot's process that a checkpoint has taken off the device.
 * Whoever dies half-way leaves it charged.
 */
void slot_put_away(struct region_layout *layout, unsigned index);
void slot_bring_back(struct region_layout *layout, unsigned index);
/* The live slot of a process, by the pid that our namespace has for it; -ESRCH. */
int slot_of_pid(struct vgpu_region *region, pid_t pid, unsigned *ret_index);

/* shares.c: memory that was exported. Under the lock unless said otherwise. */

struct shares_ref {
    uint32_t index;
    uint32_t generation;
};

struct shares_view {
    struct shares_ref ref;
    unsigned vdev;
    enum vgpu_kind kind;
    uint64_t bytes;
    uint64_t key[REGION_SHARE_KEYS];
};
/* The next entry in use from *at on; false: there is none. Without the lock: it may be gone by
 * now. */
bool shares_next(const struct region_layout *layout, unsigned *at, struct shares_view *ret_view);

/* An entry for `bytes` that the slot `maker` is charged for. -ENOSPC: all are in use. */
int shares_new(struct region_layout *layout, unsigned maker, unsigned vdev, enum vgpu_kind kind,
               uint64_t bytes, struct shares_ref *ret_ref);
void shares_add_key(struct region_layout *layout, struct shares_ref ref,
                    uint64_t key); /* one that it has: nothing */
bool shares_join(struct region_layout *layout, struct shares_ref ref,
                 unsigned slot); /* false: the entry is gone */

/* A slot lets go. True: its charge, which it had as the maker, is the entry's now, and is in the
 * total. */
bool shares_leave(struct region_layout *layout, struct shares_ref ref, unsigned slot);
void shares_forget(struct region_layout *layout, unsigned slot); /* a slot ends: lets go of all */

/* Sum of what was left of a vdev, of a group or of all (0). Right under the lock, close without. */
uint64_t shares_left(const struct region_layout *layout, unsigned group, unsigned vdev);
bool shares_of_group(const struct region_layout *layout,
                     unsigned group); /* whether any is left of it */

/* Adds what was left to what processes show: each entry to the first slot that has it. `proc`: by
 * slot, may be NULL. */
void shares_show(const struct region_layout *layout,
                 struct vgpu_proc_usage *const proc[VGPU_PROCS_MAX]);

/*
 * After what a process uses of a vdev has grown. Without the lock; two that grow at once see each
 * other's growth, so one of them at least sees the sum. A figure for people: bytes that move from
 * one process to another meanwhile may count twice, but never beyond what is reserved. One look
 * where the reserved sum was reached before.
 */
void slots_note_peak(struct region_layout *layout, unsigned vdev);

/* recover.c */
void region_recover(struct vgpu_region *region); /* under the lock, after its holder died */

/*
 * Under the lock: empties the slots of dead processes. A process that the kernel still takes apart
 * keeps its slot, for its memory may still be on the device.
 */
void region_reap(struct vgpu_region *region);

/* snapshot.c: GPU time of the second before now_ns (CLOCK_MONOTONIC). Without a lock. */
uint64_t region_last_second_ns(const struct region_compute *compute, uint64_t now_ns);

/* limits.c, under the lock */
void region_store_limits(struct region_layout *layout, const struct vgpu_limits *limits);
void region_load_limits(const struct region_layout *layout, struct vgpu_limits *ret_limits);
void region_resolve_quota(struct region_layout *layout, unsigned vdev); /* and those of groups */
/* The quota of a group in effect. A percentage is of the instance's quota, or of the device's size
 * where there is none. */
void region_resolve_group_quota(struct region_layout *layout, struct region_group *group,
                                unsigned vdev);
/* The quota and the cap of `limit`; the vdev's device stays. */
void region_store_limit(struct region_layout *layout, unsigned vdev,
                        const struct vgpu_limit *limit);

/* groups.c. Under the lock: the group of that id; 0: none. */
unsigned group_find(const struct region_layout *layout, uint64_t id);

#endif
