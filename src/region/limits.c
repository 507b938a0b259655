#include "region/internal.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* What an unresolved percentage stands for: nothing fits until the device's size is known. */
#define QUOTA_UNRESOLVED 1

static void copy_text(char *to, const char *from, size_t bytes)
{
    size_t length = strnlen(from, bytes - 1);

    memmove(to, from, length);
    memset(to + length, 0, bytes - length);
}

void region_resolve_quota(struct region_slice *slice)
{
    uint64_t quota = slice->limit.quota_bytes;
    uint32_t percent = slice->limit.quota_percent;

    if (percent > 0 && percent <= 100) {
        /* In this order: 100 * a size may not fit, and the rest of size / 100 is worth less than 100 bytes. */
        quota = slice->physical_bytes
                    ? slice->physical_bytes / 100 * percent + slice->physical_bytes % 100 * percent / 100
                    : QUOTA_UNRESOLVED;
    }
    if (quota && slice->physical_bytes && quota > slice->physical_bytes)
        quota = slice->physical_bytes;
    store_relaxed(&slice->quota_bytes, quota);
}

void region_store_limits(struct region_layout *layout, const struct vgpu_limits *limits)
{
    copy_text(layout->name, limits->name, sizeof(layout->name));
    layout->device_count = limits->device_count > VGPU_DEVICES_MAX ? VGPU_DEVICES_MAX : limits->device_count;
    for (unsigned i = 0; i < VGPU_SLICES; i++) {
        struct region_slice *slice = &layout->slice[i];
        char uuid[VGPU_UUID_LEN];

        /* A device that a process has seen stays known where the limits do not name one. */
        copy_text(uuid, limits->slice[i].uuid[0] ? limits->slice[i].uuid : slice->limit.uuid, sizeof(uuid));
        if (strncasecmp(uuid, slice->limit.uuid, sizeof(uuid)) != 0)
            slice->physical_bytes = 0;
        slice->limit = limits->slice[i];
        memcpy(slice->limit.uuid, uuid, sizeof(uuid));
        region_resolve_quota(slice);
    }
}

void region_load_limits(const struct region_layout *layout, struct vgpu_limits *ret_limits)
{
    memset(ret_limits, 0, sizeof(*ret_limits));
    copy_text(ret_limits->name, layout->name, sizeof(ret_limits->name));
    ret_limits->device_count = layout->device_count > VGPU_DEVICES_MAX ? VGPU_DEVICES_MAX : layout->device_count;
    for (unsigned i = 0; i < VGPU_SLICES; i++) {
        const struct vgpu_limit *limit = &layout->slice[i].limit;

        ret_limits->slice[i].quota_bytes = limit->quota_bytes;
        ret_limits->slice[i].quota_percent = limit->quota_percent > 100 ? 100 : limit->quota_percent;
        copy_text(ret_limits->slice[i].uuid, limit->uuid, sizeof(limit->uuid));
    }
}

void region_limits(struct vgpu_region *region, struct vgpu_limits *ret_limits)
{
    struct region_hold hold;
    int locked = region_lock(region, 0, REGION_LOCK_BOUND_NS, &hold);

    /* Without the lock it is what it is: limits hardly ever change. */
    region_load_limits(region->layout, ret_limits);
    if (locked == 0)
        region_unlock(region, &hold);
}

static bool same_limit(const struct vgpu_limit *a, const struct vgpu_limit *b)
{
    return a->quota_bytes == b->quota_bytes && a->quota_percent == b->quota_percent &&
           (!b->uuid[0] || strncasecmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0);
}

/* Slices of devices that nobody has seen say nothing about a difference that matters, once some device was seen. */
static bool same_limits(const struct region_layout *layout, const struct vgpu_limits *limits)
{
    bool any_seen = false;

    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++)
        any_seen = any_seen || layout->slice[i].physical_bytes;
    for (unsigned i = 0; i < VGPU_SLICES; i++) {
        bool matters = !any_seen || i == VGPU_SLICE_HOST || layout->slice[i].physical_bytes;

        if (matters && !same_limit(&layout->slice[i].limit, &limits->slice[i]))
            return false;
    }
    return layout->device_count == limits->device_count;
}

/* A process that came without limits has made the region: the first one that brings some is not too late. */
static bool limits_given(const struct region_layout *layout)
{
    for (unsigned i = 0; i < VGPU_SLICES; i++) {
        if (layout->slice[i].limit.quota_bytes || layout->slice[i].limit.quota_percent)
            return true;
    }
    return false;
}

int region_adopt_limits(struct vgpu_region *region, const struct vgpu_limits *limits)
{
    struct region_layout *layout = region->layout;
    struct region_hold hold;
    bool in_use = false;
    int rc = region_lock(region, 0, REGION_LOCK_BOUND_NS, &hold);

    if (rc < 0)
        return rc;
    region_reap(region);
    for (unsigned i = 0; i < region_slots_high(layout) && !in_use; i++)
        in_use = slot_live(&layout->slot[i]);
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
