/*
 * The shared-memory file of an instance: its limits, its processes and what each of them holds.
 * region/layout.h describes who writes what, and in which order.
 *
 * Every function may be called from any thread. None exits, aborts or changes errno.
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
/* One more than the runs with limits of their own inside an instance. */
#define VGPU_GROUPS   64
#define VGPU_UUID_LEN 48 /* "GPU-xxxxxxxx-...", NUL-terminated, zero-filled */
#define VGPU_NAME_LEN 64
#define VGPU_API_LEN  48
#define VGPU_REFUSALS 32 /* a region keeps the newest refusals */

/* The kinds of memory that a process holds: X(enum suffix, name in JSON and tables, whether NVML's
 * figure for the process counts it). */
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
 * guard its supervisor keeps a slot of kind DRIVER for each process, and that alone counts against
 * the quota. If the library is preloaded as well, the figures of the processes are for display.
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
 * Work that a process gives to a device: X(enum suffix, name in JSON and tables, unit that is
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
    uint64_t quota_bytes; /* 0: no limit, or quota_percent */
    uint32_t
        quota_percent; /* 1..100: of the device's size, resolved when that is known; 0: not used */
    uint32_t cap_percent;     /* 1..99: of the device's time; 0: no cap (100 is stored as 0) */
    char uuid[VGPU_UUID_LEN]; /* the device; "" until a process has seen it */
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
 * The quota on a device of that size; 0: none. While the size is unknown (0), a percentage is one
 * byte: nothing fits.
 */
uint64_t vgpu_limit_quota(const struct vgpu_limit *limit, uint64_t physical_bytes);

/* The lower of two limits; 0 is no limit. */
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

/* Whether two limits are equal, whatever their device. */
static inline bool vgpu_same_limit(const struct vgpu_limit *a, const struct vgpu_limit *b)
{
    return a->quota_bytes == b->quota_bytes && a->quota_percent == b->quota_percent &&
           a->cap_percent == b->cap_percent;
}

#define VGPU_WEIGHT_DEFAULT 100
#define VGPU_WEIGHT_MAX     1000
#define VGPU_PRIORITY_MAX   255

/* The compute settings of an instance, for all its devices: spec/limits.def. All zero: the
 * defaults. */
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

/* The format of a foreign file: another program's, which holds the region behind its own bytes. */
struct foreign_format {
    off_t base_offset;       /* where the region starts in the file: a multiple of 64, above 0 */
    bool (*accepts)(int fd); /* whether a file without a region may get one */
};

/*
 * Creates the region at `path` (its folder must exist) with `limits`, or opens the one that exists.
 * `format` is NULL for a file of the region's own. The file is written under another name and then
 * linked, so no process sees half of one. A foreign file that was removed or replaced while in use
 * is found by its second name (".<file>.vgpu") and restored.
 * *ret_created tells which happened; an existing region keeps its limits. -ENOENT, -EACCES,
 * -ENOSPC, -EROFS ... from the system; -EPROTO: the file is no region of this version.
 */
int region_create(const char *path, const struct foreign_format *format,
                  const struct vgpu_limits *limits, struct vgpu_region **ret_region,
                  bool *ret_created);

/* Opens an existing region, `base_offset` bytes behind the start of the file. Same errors as
 * region_create(). */
int region_open(const char *path, off_t base_offset, struct vgpu_region **ret_region);
/*
 * A private copy of an existing region. Later changes of the region are not in it, and changes of
 * the copy reach nobody. Nothing is mapped and no lock is waited for, so a user who may write the
 * file cannot end or delay the caller. Whether processes live is asked when the copy is read. Same
 * errors as region_create().
 */
int region_peek(const char *path, off_t base_offset, struct vgpu_region **ret_region);

/* Where the file is mapped: for callers that handle a file that others cut short. */
void region_mapping(const struct vgpu_region *region, void **ret_base, size_t *ret_bytes);
void region_close(struct vgpu_region *region); /* unmaps; gives a slot of this process back first */

void region_limits(struct vgpu_region *region, struct vgpu_limits *ret_limits);

/*
 * The part of the limits that vgpu cannot have written, for a message ("its devices"). Any user who
 * may write the file can have damaged it. NULL: no part, or a process holds the region's lock for
 * too long.
 */
const char *region_damage(struct vgpu_region *region);

/* The path of a region whose file has lost its name: a process that opens the path makes another
 * file. NULL: it has a name. */
const char *region_unlinked(struct vgpu_region *region);

/* Sets the limits of a region that may be in use: every process sees them at its next call. 0,
 * -ETIMEDOUT. */
int region_set_limits(struct vgpu_region *region, const struct vgpu_limits *limits);

/*
 * Makes a group of processes inside the instance, with lower limits: `limits` apply as well as the
 * instance's. 0 as a weight, and VGPU_PRIORITY_MAX, mean the instance's; names, devices and turn
 * policy are ignored. *ret_id names the group to its processes (ledger_new()). It lasts while
 * this process lives and has the region open, or a process is in it. -EUSERS: there are VGPU_GROUPS
 * - 1 already; -ETIMEDOUT.
 */
int region_group_new(struct vgpu_region *region, const struct vgpu_limits *limits,
                     uint64_t *ret_id);

/* The limits of a process of the group: the lower of the group's and the instance's. False: there
 * is no such group. */
bool region_group_limits(struct vgpu_region *region, uint64_t id, struct vgpu_limits *ret_limits);

/* Whether the work of an instance of tier GUARD is paused (vgpu pause). Its supervisor writes it,
 * for display. */
void region_stand(struct vgpu_region *region, bool stands);
bool region_stands(struct vgpu_region *region);

/*
 * For a process that brings limits: they become the region's if no live process is attached, or if
 * the region has no limits. 0: they are the region's now; -EBUSY: processes are attached, and the
 * region keeps its other limits.
 */
int region_adopt_limits(struct vgpu_region *region, const struct vgpu_limits *limits);

/* A copy of all that people want to see. Dead processes are removed first. */
struct vgpu_proc_usage {
    int32_t pid;       /* in the caller's PID namespace; 0: not visible there */
    int32_t own_pid;   /* in its own namespace; under the guard, in the supervisor's */
    bool guarded;      /* the slot is the supervisor's for the process */
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
    uint64_t throttles;          /* launches that waited because of the cap */
    uint64_t throttled_ns;       /* for how long, summed over threads */
    uint64_t turns;              /* turns on a contended device */
    uint64_t turn_wait_ns;       /* time between wanting a turn and getting it */
    uint64_t copy_wait_ns;       /* time that copies waited because of their rate */
};

struct vgpu_vdev_usage {
    char uuid[VGPU_UUID_LEN];
    struct vgpu_compute_usage compute;
    uint64_t quota_bytes;    /* effective: min(quota, physical); 0: no limit */
    uint64_t physical_bytes; /* 0 until a process has seen the device */
    uint64_t used_bytes;     /* held by live processes, without idle reservations */
    uint64_t peak_bytes;     /* the most that used_bytes has been since the region was made */
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

/* Whether a live process is attached. */
bool region_in_use(struct vgpu_region *region);

#endif
