/*
 * The shared-memory file of an instance: its limits, its processes and what each of them holds.
 *
 * Layout and locking (who writes what, under which order) are described in region/layout.h.
 * Every function here may be called from any thread. None exits, aborts or changes errno.
 */
#ifndef VGPU_REGION_REGION_H
#define VGPU_REGION_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define VGPU_DEVICES_MAX 16               /* vdevs of an instance that are devices */
#define VGPU_VDEV_HOST   VGPU_DEVICES_MAX /* the vdev that counts pinned host memory */
#define VGPU_VDEVS       (VGPU_DEVICES_MAX + 1)
#define VGPU_PROCS_MAX   1024
/* One more than there can be runs with limits of their own inside an instance. */
#define VGPU_GROUPS   64
#define VGPU_UUID_LEN 48 /* "GPU-xxxxxxxx-...", NUL-terminated, zero-filled */
#define VGPU_NAME_LEN 64
#define VGPU_API_LEN  48
#define VGPU_REFUSALS 32 /* the newest refusals that a region remembers */

/* What a process holds, by kind: X(enum suffix, name in JSON and tables, counted in NVML's figure
 * for the process). */
#define VGPU_KIND_LIST(X)                                                                          \
    X(CONTEXT, "context", true)                                                                    \
    X(MODULE, "module", true)                                                                      \
    X(DATA, "data", true)                                                                          \
    X(MANAGED, "managed", false)                                                                   \
    X(POOL, "pool", true)                                                                          \
    X(GRAPH, "graph", true)                                                                        \
    X(EXTERNAL, "external", false)                                                                 \
    X(UNTRACKED, "untracked", true)                                                                \
    X(HOST, "host", false)                                                                         \
    X(DRIVER, "driver", true) /* all of it, as the guard sees it below libcuda */

enum vgpu_kind {
#define X(id, name, in_nvml) VGPU_KIND_##id,
    VGPU_KIND_LIST(X)
#undef X
        VGPU_KINDS
};

const char *vgpu_kind_name(enum vgpu_kind kind);
bool vgpu_kind_in_nvml(enum vgpu_kind kind);

/*
 * How the limits of an instance are enforced: X(enum suffix, name in JSON and tables). Under the
 * guard its supervisor keeps a slot for each process, of kind DRIVER, which alone counts against
 * the quota; what the processes say of themselves, where the library is preloaded too, is for
 * people.
 */
#define VGPU_TIER_LIST(X)                                                                          \
    X(PRELOAD, "preload")                                                                          \
    X(GUARD, "guard")

enum vgpu_tier {
#define X(id, name) VGPU_TIER_##id,
    VGPU_TIER_LIST(X)
#undef X
        VGPU_TIERS
};

const char *vgpu_tier_name(enum vgpu_tier tier);

/*
 * Work that a process gives to a device: X(enum suffix, name in JSON and tables, unit: what is
 * counted beside the number of calls). Work in nanoseconds draws on the cap and takes turns; copies
 * from and to the host have a rate.
 */
#define VGPU_WORK_LIST(X)                                                                          \
    X(KERNEL, "kernel", NANOSECONDS)                                                               \
    X(GRAPH, "graph", NANOSECONDS)                                                                 \
    X(MEMSET, "memset", NANOSECONDS)                                                               \
    X(COPY, "copy", NANOSECONDS)                                                                   \
    X(HTOD, "htod", BYTES)                                                                         \
    X(DTOH, "dtoh", BYTES)

enum vgpu_work {
#define X(id, name, unit) VGPU_WORK_##id,
    VGPU_WORK_LIST(X)
#undef X
        VGPU_WORKS
};

const char *vgpu_work_name(enum vgpu_work work);
bool vgpu_work_is_time(enum vgpu_work work);

/* Limits of one vdev, as the user gave them. */
struct vgpu_limit {
    uint64_t quota_bytes;     /* 0: no limit (unless quota_percent says otherwise) */
    uint32_t quota_percent;   /* 1..100: of the physical device, resolved when its size is known; 0:
                                 not used */
    uint32_t cap_percent;     /* 1..99: of the device's time; 0: no cap (100 is stored as 0) */
    char uuid[VGPU_UUID_LEN]; /* the device; "" until somebody has seen it */
};

/* When a cap holds: spec/policies.def. */
enum vgpu_cap_policy {
#define CAP_POLICY(id, name, meaning) VGPU_CAP_##id,
#include "policies.def"
    VGPU_CAP_POLICIES
};

/* How instances take turns on a device, a setting of the device's arena: spec/policies.def. */
enum vgpu_turn_policy {
#define TURN_POLICY(id, name, meaning) VGPU_TURN_##id,
#include "policies.def"
    VGPU_TURN_POLICIES
};

/*
 * The quota of a device of that size; 0: none. Where the size is not known (0) a percentage is one
 * byte: nothing fits until it is.
 */
uint64_t vgpu_limit_quota(const struct vgpu_limit *limit, uint64_t physical_bytes);

/* The lower of two limits, of which 0 is none. */
static inline uint64_t vgpu_lower_limit(uint64_t a, uint64_t b)
{
    return a && (!b || a < b) ? a : b;
}

/* For COMPUTE_LIMIT rows: the lower of two limits; the second of them. */
static inline uint64_t vgpu_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t vgpu_keep(uint64_t a, uint64_t b)
{
    (void)a;
    return b;
}

/* Whether both are the same, whatever the device. */
static inline bool vgpu_same_limit(const struct vgpu_limit *a, const struct vgpu_limit *b)
{
    return a->quota_bytes == b->quota_bytes && a->quota_percent == b->quota_percent &&
           a->cap_percent == b->cap_percent;
}

#define VGPU_WEIGHT_DEFAULT 100
#define VGPU_WEIGHT_MAX     1000
#define VGPU_PRIORITY_MAX   255

/* What an instance is among others, on every device: spec/limits.def. All zero: the defaults. */
struct vgpu_compute {
#define COMPUTE_LIMIT(field, type, ...) type field;
#include "limits.def"
};

/* The same, with every value brought into its range: others can write to a region. */
struct vgpu_compute vgpu_compute_within(const struct vgpu_compute *compute);

struct vgpu_limits {
    char name[VGPU_NAME_LEN];
    uint32_t
        device_count; /* devices selected by the user, in order; 0: all that the driver shows */
    uint32_t tier;    /* enum vgpu_tier; for as long as the instance is in use */
    struct vgpu_compute compute;
    struct vgpu_limit vdev[VGPU_VDEVS];
};

struct vgpu_region;

/*
 * Creates the region at `path` (its folder must exist) with `limits`, or opens the one that is
 * there. `base_offset` is where the region starts in the file: 0, except in a HAMi cache file. The
 * file is published whole (written under another name and linked), so nobody sees half of one. A
 * cache file that was removed or replaced while in use is found by its second name (".<file>.vgpu")
 * and restored. *ret_created tells which happened; an existing region keeps its limits. Returns 0;
 * -ENOENT, -EACCES, -ENOSPC, -EROFS ... from the system; -EPROTO if the file is no region of this
 * version.
 */
int region_create(const char *path, off_t base_offset, const struct vgpu_limits *limits,
                  struct vgpu_region **ret_region, bool *ret_created);

/* Opens an existing region. Same errors as region_create(). */
int region_open(const char *path, off_t base_offset, struct vgpu_region **ret_region);
/*
 * A copy of an existing region, to be looked at: what its users do afterwards is not in it, and
 * what is done to it reaches nobody. Nothing is mapped and no lock is waited for, so whoever may
 * write to the file cannot end or delay the caller. Which processes live is asked when the copy is
 * looked at. Same errors as region_create().
 */
int region_peek(const char *path, off_t base_offset, struct vgpu_region **ret_region);

/* Where the file is mapped, for who handles that others cut it short. */
void region_mapping(const struct vgpu_region *region, void **ret_base, size_t *ret_bytes);
void region_close(
    struct vgpu_region *region); /* unmaps; a slot of this process is given back first */

void region_limits(struct vgpu_region *region, struct vgpu_limits *ret_limits);

/*
 * What of the region's limits was not written by vgpu, for a message ("its devices"); NULL:
 * nothing, or somebody holds the region's lock for too long. Whoever may write to the file can have
 * damaged it.
 */
const char *region_damage(struct vgpu_region *region);

/* The path of a region whose file has no name any more: whoever comes by it makes another file.
 * NULL: it has. */
const char *region_unlinked(struct vgpu_region *region);

/* Sets the limits of a region that may be in use: every process sees them at its next call. 0,
 * -ETIMEDOUT. */
int region_set_limits(struct vgpu_region *region, const struct vgpu_limits *limits);

/*
 * A group of processes inside the instance, with lower limits: those of `limits` hold as well as
 * the instance's. 0 as a weight, and VGPU_PRIORITY_MAX, are the instance's; names, devices and turn
 * policy are not looked at. *ret_id names the group to its processes (ledger_new_in()). It stays
 * while this process lives and has the region open, or a process is in it. -EUSERS: there are
 * VGPU_GROUPS - 1 already; -ETIMEDOUT.
 */
int region_group_new(struct vgpu_region *region, const struct vgpu_limits *limits,
                     uint64_t *ret_id);

/* The limits that a process of the group has, the lower of its own and the instance's. False: there
 * is none such. */
bool region_group_limits(struct vgpu_region *region, uint64_t id, struct vgpu_limits *ret_limits);

/* Whether the work of an instance of tier GUARD stands still (vgpu pause); told by its supervisor,
 * for people. */
void region_stand(struct vgpu_region *region, bool stands);
bool region_stands(struct vgpu_region *region);

/*
 * For a process that brings limits along: they become the region's if no live process is attached,
 * or if the region has none at all. 0: they are the region's limits now; -EBUSY: processes are
 * attached and the region's limits are others, which stand.
 */
int region_adopt_limits(struct vgpu_region *region, const struct vgpu_limits *limits);

/* A copy of everything a person wants to see. Dead processes are removed first. */
struct vgpu_proc_usage {
    int32_t pid; /* as the caller's PID namespace numbers it; 0 where it is not visible there */
    int32_t
        own_pid;  /* as its own namespace numbers it; under the guard, as the supervisor's does */
    bool guarded; /* the slot is the one that the guard's supervisor keeps for the process */
    uint64_t start_ns; /* CLOCK_REALTIME when it attached */
    char command[32];
    uint64_t held_bytes[VGPU_VDEVS][VGPU_KINDS];
};

struct vgpu_refusal {
    uint64_t time_ns; /* CLOCK_REALTIME */
    uint64_t size_bytes;
    uint64_t used_bytes;
    uint64_t quota_bytes;
    int32_t pid;
    uint32_t vdev;
    char api[VGPU_API_LEN];
};

/* What an instance has done on a device since it was made. */
struct vgpu_compute_usage {
    uint64_t calls[VGPU_WORKS];
    uint64_t amount[VGPU_WORKS]; /* nanoseconds of GPU time, or bytes: see VGPU_WORK_LIST */
    uint64_t last_second_ns;     /* GPU time of the second before the snapshot */
    uint64_t throttles;          /* launches that the cap has made wait */
    uint64_t throttled_ns;       /* how long, summed over threads */
    uint64_t turns;              /* that the instance got on a contended device */
    uint64_t turn_wait_ns;       /* time between wanting a turn and getting it */
    uint64_t copy_wait_ns;       /* that the limit of copies has made wait */
};

struct vgpu_vdev_usage {
    char uuid[VGPU_UUID_LEN];
    struct vgpu_compute_usage compute;
    uint64_t quota_bytes;    /* effective: min(quota, physical); 0: no limit */
    uint64_t physical_bytes; /* 0 until a process has seen the device */
    uint64_t used_bytes; /* held by live processes (reservations that nobody uses are not in it) */
    uint64_t peak_bytes; /* the most that used_bytes has been since the region was made */
    uint64_t refusals;
};

struct vgpu_snapshot {
    struct vgpu_limits limits;
    uint64_t created_ns;
    struct vgpu_vdev_usage vdev[VGPU_VDEVS];
    uint32_t proc_count;
    struct vgpu_proc_usage *procs; /* proc_count of them */
    uint32_t refusal_count;
    struct vgpu_refusal refusals[VGPU_REFUSALS]; /* oldest first */
};

int region_snapshot(struct vgpu_region *region, struct vgpu_snapshot *ret_snapshot);
void snapshot_done(struct vgpu_snapshot *snapshot);

/* Whether any process is attached (dead ones do not count). */
bool region_in_use(struct vgpu_region *region);

#endif
