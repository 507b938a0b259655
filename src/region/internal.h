/*
 * An open region from inside. For src/region, src/account and src/sched only.
 */
#ifndef VGPU_REGION_INTERNAL_H
#define VGPU_REGION_INTERNAL_H

#include "region/layout.h"
#include "region/liveness.h"
#include "region/lock.h"
#include "region/region.h"

struct vgpu_region {
    struct region_layout *layout;
    void *map; /* the file from its beginning: the bytes before the layout are another program's */
    size_t map_bytes;
    struct liveness *liveness;
    bool copied; /* made by region_peek(): a private copy, which needs no lock */
    _Atomic uint64_t claimed[VGPU_PROCS_MAX /
                             64]; /* slots claimed through this handle; a forked child has none */
};

/* Whether the region is in a foreign file. */
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

/* The bytes that count against the quota of a group, or of the instance (0). */
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

/* Under the lock. Adds to, or subtracts from, the total of a group (0: none) and of the
 * instance. */
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

/* The number of slots that were ever used, within bounds. */
static inline unsigned region_slots_high(const struct region_layout *layout)
{
    uint32_t high = atomic_load_explicit(&layout->slots_high, memory_order_acquire);

    return high > VGPU_PROCS_MAX ? VGPU_PROCS_MAX : high;
}

static inline bool slot_live(const struct region_slot *slot)
{
    return atomic_load_explicit(&slot->state, memory_order_acquire) == SLOT_LIVE;
}

/* The group that a word names; 0 if it is out of bounds. */
static inline unsigned region_group(const _Atomic uint16_t *word)
{
    unsigned group = atomic_load_explicit(word, memory_order_relaxed);

    return group < VGPU_GROUPS ? group : 0;
}

/* The number of group entries that were ever used, with the instance's 0. */
static inline unsigned group_count(const struct region_layout *layout)
{
    uint32_t high = atomic_load_explicit(&layout->groups_high, memory_order_acquire);

    return high > VGPU_GROUPS ? VGPU_GROUPS : high > 0 ? high : 1;
}

static inline unsigned slot_group(const struct region_layout *layout, unsigned index)
{
    return region_group(&layout->slot[index].group);
}

/* The part of a slot's reservation that is used. */
static inline uint64_t slot_used(const struct slot_vdev *vdev)
{
    return subtract_clamped(load_relaxed(&vdev->reserved_bytes),
                            load_relaxed(&vdev->idle) & IDLE_BYTES_MASK);
}

/* Bytes held of a kind. The owner adds and subtracts blindly: a value below zero is damage, and
 * counts as 0. */
static inline uint64_t slot_held(const struct slot_vdev *vdev, unsigned kind)
{
    uint64_t bytes = load_relaxed(&vdev->held_bytes[kind]);

    return bytes > INT64_MAX ? 0 : bytes;
}

static inline unsigned slot_id(unsigned index)
{
    return index + 1;
}

/* In region.c: whether the layout is a region of this version. */
bool region_layout_valid(const struct region_layout *layout);

/* slot_claim.c. */

/*
 * Takes a free slot and fills it, for this process or for `supervised`, a guard's process. Takes
 * the lock itself. -EUSERS: all are used; -ETIMEDOUT; errors of liveness_claim(). `reserved_bytes`,
 * one a vdev or NULL, is what the process holds already. The slot joins the group `group_id`; 0, or
 * one that is gone: none.
 */
struct slot_supervised {
    pid_t pid;
    char command[32];
};
int slot_claim(struct vgpu_region *region, const struct slot_supervised *supervised,
               uint64_t group_id, const uint64_t *reserved_bytes, unsigned *ret_index,
               uint32_t *ret_generation);
/* Gives the slot back, unless another process has it by now. Takes the lock itself. If it cannot,
 * the slot stays until it is found dead. */
void slot_release(struct vgpu_region *region, unsigned index, uint32_t generation);
void slots_release_all(struct vgpu_region *region); /* claimed through this handle */

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

/* Whether the slot's process is exiting (proc_is_exiting()). False for a process of another PID
 * namespace. */
bool slot_exiting(const struct region_slot *slot, struct slot_pass *pass);

/* Whether a process that has memory of the vdev is exiting, other than that of slot `except`. */
bool slots_exiting(const struct region_layout *layout, unsigned vdev, unsigned except);
/* The pid of a live slot's process in our PID namespace; 0: it is not visible there. */
pid_t slot_pid(struct vgpu_region *region, unsigned index, struct slot_pass *pass);

/* slots.c. Under the lock unless said otherwise. */

void slot_empty(struct region_layout *layout, unsigned index);

/*
 * Takes up to `want_bytes` of idle reservation off slots other than `except`, of a group or of all
 * (0), and off the totals. Returns how much.
 */
uint64_t slots_steal(struct region_layout *layout, unsigned group, unsigned vdev,
                     uint64_t want_bytes, unsigned except);
uint64_t slot_steal(struct region_layout *layout, unsigned index, unsigned vdev,
                    uint64_t want_bytes); /* of one */

/* The bytes of a vdev that live slots use. Exact under the lock, close to it without. */
uint64_t slots_used(const struct region_layout *layout, unsigned vdev);
/* The same for a group; 0: for all. */
uint64_t slots_used_by(const struct region_layout *layout, unsigned group, unsigned vdev);

/*
 * In away.c, under the lock: a checkpoint takes the memory of a slot's process off the device, and
 * brings it back. If the caller dies half-way, the memory stays charged.
 */
void slot_put_away(struct region_layout *layout, unsigned index);
void slot_bring_back(struct region_layout *layout, unsigned index);
/* The live slot of a process, by its pid in our namespace; -ESRCH. */
int slot_of_pid(struct vgpu_region *region, pid_t pid, unsigned *ret_index);

/* In shares.c: exported memory. Under the lock unless said otherwise. */

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
/* The next used entry from *at on; false: there is none. Without the lock: it may be gone by
 * now. */
bool shares_next(const struct region_layout *layout, unsigned *at, struct shares_view *ret_view);

/* Makes an entry for `bytes`, which the slot `maker` is charged for. -ENOSPC: all are used. */
int shares_new(struct region_layout *layout, unsigned maker, unsigned vdev, enum vgpu_kind kind,
               uint64_t bytes, struct shares_ref *ret_ref);
void shares_add_key(struct region_layout *layout, struct shares_ref ref,
                    uint64_t key); /* a key that it has already changes nothing */
bool shares_join(struct region_layout *layout, struct shares_ref ref,
                 unsigned slot); /* false: the entry is gone */

/* A slot gives the memory back. True: the slot was its maker, and the charge is the entry's now,
 * and still in the total. */
bool shares_leave(struct region_layout *layout, struct shares_ref ref, unsigned slot);
void shares_forget(struct region_layout *layout,
                   unsigned slot); /* a slot ends and gives back all */

/* The bytes of a vdev in SHARE_LEFT, of a group or of all (0). Exact under the lock, close to it
 * without. */
uint64_t shares_left(const struct region_layout *layout, unsigned group, unsigned vdev);
bool shares_of_group(const struct region_layout *layout,
                     unsigned group); /* whether a share of the group is left */

/* Adds shares that are left to the processes of a snapshot: each to the first slot that has it.
 * `proc`: by slot, entries may be NULL. */
void shares_show(const struct region_layout *layout,
                 struct vgpu_proc_usage *const proc[VGPU_PROCS_MAX]);

/*
 * Called after a process's use of a vdev has grown. Without the lock: of two that grow at once, at
 * least one sees the sum. For display only: bytes that move between processes meanwhile may count
 * twice, but never beyond what is reserved. One load while the reserved sum is below the peak.
 */
void slots_note_peak(struct region_layout *layout, unsigned vdev);

void region_recover(
    struct vgpu_region *region); /* in recover.c; under the lock, after its holder died */

/*
 * Under the lock. Empties the slots of dead processes. A process that is still exiting keeps its
 * slot, for its memory may still be on the device.
 */
void region_reap(struct vgpu_region *region);

/* In snapshot.c: GPU time of the second before now_ns (CLOCK_MONOTONIC). Without the lock. */
uint64_t region_last_second_ns(const struct region_compute *compute, uint64_t now_ns);

/* In limits.c, under the lock. */
void region_store_limits(struct region_layout *layout, const struct vgpu_limits *limits);
void region_load_limits(const struct region_layout *layout, struct vgpu_limits *ret_limits);
void region_resolve_quota(struct region_layout *layout, unsigned vdev); /* and those of groups */
/* The quota of a group in effect. A percentage is of the instance's quota, or of the device's size
 * where there is none. */
void region_resolve_group_quota(struct region_layout *layout, struct region_group *group,
                                unsigned vdev);
/* Stores quota and cap of `limit`; the vdev keeps its device. */
void region_store_limit(struct region_layout *layout, unsigned vdev,
                        const struct vgpu_limit *limit);

/* In groups.c, under the lock: the number of the group with this id; 0: there is none. */
unsigned group_find(const struct region_layout *layout, uint64_t id);

#endif
