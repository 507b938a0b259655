#include "account/vdev.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static unsigned vdev_count(const struct vgpu_limits *limits)
{
    if (limits->device_count == 0 || limits->device_count > VGPU_DEVICES_MAX)
        return VGPU_DEVICES_MAX;
    return limits->device_count;
}

int limits_vdev(const struct vgpu_limits *limits, const char *uuid, unsigned *ret_vdev)
{
    for (unsigned i = 0; i < vdev_count(limits); i++) {
        if (limits->vdev[i].uuid[0] == '\0' ||
            strncasecmp(limits->vdev[i].uuid, uuid, VGPU_UUID_LEN) != 0)
            continue;
        *ret_vdev = i;
        return 0;
    }
    return -ENODEV;
}

bool vdev_selecting(struct vgpu_ledger *ledger)
{
    struct vgpu_limits limits;

    region_limits(ledger_region(ledger), &limits);
    return limits.device_count > 0;
}

int vdev_find(struct vgpu_ledger *ledger, const char *uuid, unsigned *ret_vdev)
{
    struct vgpu_limits limits;

    region_limits(ledger_region(ledger), &limits);
    return limits_vdev(&limits, uuid, ret_vdev);
}

void vdev_size(struct vgpu_ledger *ledger, unsigned vdev, const char *uuid, uint64_t physical_bytes)
{
    /* A percentage of a device of unknown size is a quota of one byte. */
    if (ledger_quota(ledger, vdev) <= 1 && physical_bytes > 0)
        ledger_device(ledger, vdev, uuid, physical_bytes);
}

/* The vdev for a new device: its own number if that is free, else the first free one. */
static int choose(const struct vgpu_limits *limits, unsigned wanted, unsigned *ret_vdev)
{
    if (limits->device_count > 0)
        return -ENODEV;
    if (wanted < VGPU_DEVICES_MAX && limits->vdev[wanted].uuid[0] == '\0') {
        *ret_vdev = wanted;
        return 0;
    }
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        if (limits->vdev[i].uuid[0] != '\0')
            continue;
        *ret_vdev = i;
        return 0;
    }
    return -ENODEV;
}

void vdev_bind(struct vgpu_ledger *ledger, const struct vdev_device *devices, unsigned count)
{
    vdev_bind_limited(ledger, devices, count, NULL);
}

void vdev_bind_limited(struct vgpu_ledger *ledger, const struct vdev_device *devices,
                       unsigned count, const struct vgpu_limits *by_number)
{
    struct vgpu_limits limits;
    unsigned vdev;

    for (unsigned i = 0; i < count; i++) {
        /* Another process may take the vdev at the same moment: the region decides. */
        for (unsigned attempt = 0; attempt < VGPU_DEVICES_MAX; attempt++) {
            region_limits(ledger_region(ledger), &limits);
            if (limits_vdev(&limits, devices[i].uuid, &vdev) == 0) {
                vdev_size(ledger, vdev, devices[i].uuid, devices[i].physical_bytes);
                break;
            }
            if (choose(&limits, i, &vdev) < 0)
                break;
            ledger_device_limited(ledger, vdev, devices[i].uuid, devices[i].physical_bytes,
                                  by_number && i < VGPU_DEVICES_MAX ? &by_number->vdev[i] : NULL);
        }
    }
}

void vdev_uuid_text(const char *prefix, const unsigned char bytes[16], char ret_uuid[VGPU_UUID_LEN])
{
    static const char digits[] = "0123456789abcdef";
    char *text = ret_uuid;

    memset(ret_uuid, 0, VGPU_UUID_LEN);
    memcpy(text, prefix, 3);
    text += 3;
    for (unsigned i = 0; i < 16; i++) {
        if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10)
            *text++ = '-';
        *text++ = digits[bytes[i] >> 4];
        *text++ = digits[bytes[i] & 15];
    }
}
