#include "region/internal.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* The quota of an unresolved percentage: nothing fits until the device's size is known. */
#define QUOTA_UNRESOLVED 1

static void copy_text(char *to, const char *from, size_t bytes)
{
    size_t length = strnlen(from, bytes - 1);

    memmove(to, from, length);
    memset(to + length, 0, bytes - length);
}

uint64_t vgpu_limit_quota(const struct vgpu_limit *limit, uint64_t physical_bytes)
{
    uint64_t quota = limit->quota_bytes, part = QUOTA_UNRESOLVED;
    uint32_t percent = limit->quota_percent;

    if (percent > 0 && percent <= 100) {
        /* In this order, for 100 * size may overflow. The rest of size / 100 is worth less than 100
         * bytes. */
        if (physical_bytes)
            part = physical_bytes / 100 * percent + physical_bytes % 100 * percent / 100;
        if (!quota || part < quota)
            quota = part;
    }
    return quota && physical_bytes && quota > physical_bytes ? physical_bytes : quota;
}

void region_resolve_group_quota(struct region_layout *layout, struct region_group *group,
                                unsigned vdev)
{
    const struct region_vdev *of = &layout->vdev[vdev];
    const struct vgpu_limit *limit = &group->vdev[vdev].limit;
    bool unresolved = of->limit.quota_percent && !of->physical_bytes;
    uint64_t whole = unresolved ? 0 : load_relaxed(&of->quota_bytes), quota;

    if (!whole)
        whole = of->physical_bytes;
    quota = vgpu_limit_quota(limit, whole);
    /* A part below one byte is not "no limit". */
    if (!quota && (limit->quota_bytes || limit->quota_percent))
        quota = 1;
    store_relaxed(&group->vdev[vdev].quota_bytes, quota);
}

void region_resolve_quota(struct region_layout *layout, unsigned vdev)
{
    struct region_vdev *of = &layout->vdev[vdev];

    store_relaxed(&of->quota_bytes, vgpu_limit_quota(&of->limit, of->physical_bytes));
    for (unsigned i = 1; i < group_count(layout); i++)
        region_resolve_group_quota(layout, &layout->group[i], vdev);
}

static uint32_t at_most(uint32_t value, uint32_t max)
{
    return value < max ? value : max;
}

struct vgpu_compute vgpu_compute_within(const struct vgpu_compute *compute)
{
    return (struct vgpu_compute){
#define COMPUTE_LIMIT(field, type, most, initial, none, lower, json)                               \
    .field = (type)(compute->field ? vgpu_least(compute->field, most) : (initial)),
#include "limits.def"
    };
}

static uint32_t sane_cap(uint32_t percent)
{
    return percent < 100 ? percent : 0;
}

void region_store_limit(struct region_layout *layout, unsigned index,
                        const struct vgpu_limit *limit)
{
    struct region_vdev *vdev = &layout->vdev[index];
    char uuid[VGPU_UUID_LEN];

    memcpy(uuid, vdev->limit.uuid, sizeof(uuid));
    vdev->limit = *limit;
    memcpy(vdev->limit.uuid, uuid, sizeof(uuid));
    vdev->limit.cap_percent = sane_cap(vdev->limit.cap_percent);
    atomic_store_explicit(&vdev->cap_percent, vdev->limit.cap_percent, memory_order_relaxed);
    region_resolve_quota(layout, index);
}

void region_store_limits(struct region_layout *layout, const struct vgpu_limits *limits)
{
    layout->compute = vgpu_compute_within(&limits->compute);
    copy_text(layout->name, limits->name, sizeof(layout->name));
    layout->device_count =
        limits->device_count > VGPU_DEVICES_MAX ? VGPU_DEVICES_MAX : limits->device_count;
    atomic_store_explicit(&layout->tier, at_most(limits->tier, VGPU_TIERS - 1),
                          memory_order_release);
    for (unsigned i = 0; i < VGPU_VDEVS; i++) {
        struct region_vdev *vdev = &layout->vdev[i];
        char uuid[VGPU_UUID_LEN];

        /* The vdev keeps a device that a process has seen, unless the limits name one. */
        copy_text(uuid, limits->vdev[i].uuid[0] ? limits->vdev[i].uuid : vdev->limit.uuid,
                  sizeof(uuid));
        if (strncasecmp(uuid, vdev->limit.uuid, sizeof(uuid)) != 0)
            vdev->physical_bytes = 0;
        memcpy(vdev->limit.uuid, uuid, sizeof(uuid));
        region_store_limit(layout, i, &limits->vdev[i]);
    }
}

void region_load_limits(const struct region_layout *layout, struct vgpu_limits *ret_limits)
{
    memset(ret_limits, 0, sizeof(*ret_limits));
    copy_text(ret_limits->name, layout->name, sizeof(ret_limits->name));
    ret_limits->device_count =
        layout->device_count > VGPU_DEVICES_MAX ? VGPU_DEVICES_MAX : layout->device_count;
    ret_limits->tier =
        at_most(atomic_load_explicit(&layout->tier, memory_order_acquire), VGPU_TIERS - 1);
    ret_limits->compute = vgpu_compute_within(&layout->compute);
    for (unsigned i = 0; i < VGPU_VDEVS; i++) {
        const struct vgpu_limit *limit = &layout->vdev[i].limit;

        ret_limits->vdev[i].quota_bytes = limit->quota_bytes;
        ret_limits->vdev[i].quota_percent = limit->quota_percent > 100 ? 100 : limit->quota_percent;
        ret_limits->vdev[i].cap_percent = sane_cap(limit->cap_percent);
        copy_text(ret_limits->vdev[i].uuid, limit->uuid, sizeof(limit->uuid));
    }
}

void region_stand(struct vgpu_region *region, bool stands)
{
    atomic_store_explicit(&region->layout->stands, stands, memory_order_release);
}

bool region_stands(struct vgpu_region *region)
{
    return atomic_load_explicit(&region->layout->stands, memory_order_acquire) == 1;
}

void region_limits(struct vgpu_region *region, struct vgpu_limits *ret_limits)
{
    struct region_hold hold;
    int locked = region_lock(region, 0, REGION_LOCK_BOUND_NS, &hold);

    /* Without the lock the copy may be torn: limits hardly ever change. */
    region_load_limits(region->layout, ret_limits);
    if (locked == 0)
        region_unlock(region, &hold);
}

/* Whether the text is as copy_text() leaves it: printable, with zeros behind it. */
static bool is_text(const char *text, size_t bytes)
{
    size_t length = strnlen(text, bytes);

    if (length == bytes)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if (i < length ? text[i] <= ' ' || text[i] > '~' : text[i] != '\0')
            return false;
    }
    return true;
}

static bool is_limit(const struct vgpu_limit *limit)
{
    return limit->quota_percent <= 100 && limit->cap_percent == sane_cap(limit->cap_percent);
}

static bool same_compute(const struct vgpu_compute *a, const struct vgpu_compute *b)
{
    return true
#define COMPUTE_LIMIT(field, ...) &&a->field == b->field
#include "limits.def"
        ;
}

/* The first value that region_store_limits() never writes; NULL: none. */
static const char *damage(const struct region_layout *layout)
{
    const struct vgpu_compute compute = vgpu_compute_within(&layout->compute);

    if (!is_text(layout->name, sizeof(layout->name)))
        return "its name";
    if (layout->device_count > VGPU_DEVICES_MAX)
        return "its number of devices";
    for (unsigned i = 0; i < VGPU_VDEVS; i++) {
        const struct vgpu_limit *limit = &layout->vdev[i].limit;

        if (!is_text(limit->uuid, sizeof(limit->uuid)) ||
            (i < layout->device_count && !limit->uuid[0]))
            return "its devices";
        if (!is_limit(limit))
            return "its limits";
    }
    if (!same_compute(&compute, &layout->compute))
        return "its settings of compute";
    return atomic_load_explicit(&layout->tier, memory_order_acquire) < VGPU_TIERS ? NULL
                                                                                  : "its tier";
}

const char *region_damage(struct vgpu_region *region)
{
    struct region_hold hold;
    const char *what;

    if (region_lock(region, 0, REGION_LOCK_BOUND_NS, &hold) < 0)
        return NULL;
    what = damage(region->layout);
    region_unlock(region, &hold);
    return what;
}

static bool same_limit(const struct vgpu_limit *a, const struct vgpu_limit *b)
{
    return a->quota_bytes == b->quota_bytes && a->quota_percent == b->quota_percent &&
           a->cap_percent == sane_cap(b->cap_percent) &&
           (!b->uuid[0] || strncasecmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0);
}

static bool same_settings(const struct vgpu_compute *compute, const struct vgpu_compute *asked)
{
    const struct vgpu_compute a = vgpu_compute_within(compute), b = vgpu_compute_within(asked);

    return same_compute(&a, &b);
}

/* If a device was seen, vdevs without one do not matter for the comparison. */
static bool same_limits(const struct region_layout *layout, const struct vgpu_limits *limits)
{
    bool any_seen = false;

    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++)
        any_seen = any_seen || layout->vdev[i].physical_bytes;
    for (unsigned i = 0; i < VGPU_VDEVS; i++) {
        bool matters = !any_seen || i == VGPU_VDEV_HOST || layout->vdev[i].physical_bytes;

        if (matters && !same_limit(&layout->vdev[i].limit, &limits->vdev[i]))
            return false;
    }
    return layout->device_count == limits->device_count &&
           same_settings(&layout->compute, &limits->compute);
}

/* Whether the region has limits. If its maker brought none, the first process that does is not too
 * late. */
static bool limits_given(const struct region_layout *layout)
{
    for (unsigned i = 0; i < VGPU_VDEVS; i++) {
        const struct vgpu_limit *limit = &layout->vdev[i].limit;

        if (limit->quota_bytes || limit->quota_percent || limit->cap_percent)
            return true;
    }
    return false;
}

int region_adopt_limits(struct vgpu_region *region, const struct vgpu_limits *limits)
{
    struct region_layout *layout = region->layout;
    struct region_hold hold;
    struct slot_pass pass = {0};
    bool in_use = false;
    int rc = region_lock(region, 0, REGION_LOCK_BOUND_NS, &hold);

    if (rc < 0)
        return rc;
    region_reap(region);
    for (unsigned i = 0; i < region_slots_high(layout) && !in_use; i++)
        in_use = slot_live(&layout->slot[i]) && slot_alive(region, slot_id(i), &pass);
    if (!in_use || !limits_given(layout))
        region_store_limits(layout, limits);
    else if (!same_limits(layout, limits))
        rc = -EBUSY;
    region_unlock(region, &hold);
    return rc;
}

int region_set_limits(struct vgpu_region *region, const struct vgpu_limits *limits)
{
    struct region_hold hold;
    int rc = region_lock(region, 0, REGION_LOCK_BOUND_NS, &hold);

    if (rc < 0)
        return rc;
    region_store_limits(region->layout, limits);
    region_unlock(region, &hold);
    return 0;
}
