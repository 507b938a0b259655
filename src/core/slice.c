#include "core/slice.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static unsigned slice_count(const struct vgpu_limits *limits)
{
    if (limits->device_count == 0 || limits->device_count > VGPU_DEVICES_MAX)
        return VGPU_DEVICES_MAX;
    return limits->device_count;
}

int limits_slice(const struct vgpu_limits *limits, const char *uuid, unsigned *ret_slice)
{
    for (unsigned i = 0; i < slice_count(limits); i++) {
        if (limits->slice[i].uuid[0] == '\0' || strncasecmp(limits->slice[i].uuid, uuid, VGPU_UUID_LEN) != 0)
            continue;
        *ret_slice = i;
        return 0;
    }
    return -ENODEV;
}

bool slice_selecting(struct vgpu_ledger *ledger)
{
    struct vgpu_limits limits;

    region_limits(ledger_region(ledger), &limits);
    return limits.device_count > 0;
}

int slice_find(struct vgpu_ledger *ledger, const char *uuid, unsigned *ret_slice)
{
    struct vgpu_limits limits;

    region_limits(ledger_region(ledger), &limits);
    return limits_slice(&limits, uuid, ret_slice);
}

void slice_size(struct vgpu_ledger *ledger, unsigned slice, const char *uuid, uint64_t physical_bytes)
{
    /* A share of a device whose size is not known is a quota of one byte. */
    if (ledger_quota(ledger, slice) <= 1 && physical_bytes > 0)
        ledger_device(ledger, slice, uuid, physical_bytes);
}

/* The slice that a new device gets: its own number if that is free, else the first free one. */
static int choose(const struct vgpu_limits *limits, unsigned wanted, unsigned *ret_slice)
{
    if (limits->device_count > 0)
        return -ENODEV;
    if (wanted < VGPU_DEVICES_MAX && limits->slice[wanted].uuid[0] == '\0') {
        *ret_slice = wanted;
        return 0;
    }
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        if (limits->slice[i].uuid[0] != '\0')
            continue;
        *ret_slice = i;
        return 0;
    }
    return -ENODEV;
}

void slice_bind(struct vgpu_ledger *ledger, const struct slice_device *devices, unsigned count)
{
    slice_bind_limited(ledger, devices, count, NULL);
}

void slice_bind_limited(struct vgpu_ledger *ledger, const struct slice_device *devices, unsigned count,
                        const struct vgpu_limits *by_number)
{
    struct vgpu_limits limits;
    unsigned slice;

    for (unsigned i = 0; i < count; i++) {
        /* Another process may take the slice at the same moment: what counts is what the region says afterwards. */
        for (unsigned attempt = 0; attempt < VGPU_DEVICES_MAX; attempt++) {
            region_limits(ledger_region(ledger), &limits);
            if (limits_slice(&limits, devices[i].uuid, &slice) == 0) {
                slice_size(ledger, slice, devices[i].uuid, devices[i].physical_bytes);
                break;
            }
            if (choose(&limits, i, &slice) < 0)
                break;
            ledger_device_limited(ledger, slice, devices[i].uuid, devices[i].physical_bytes,
                                  by_number && i < VGPU_DEVICES_MAX ? &by_number->slice[i] : NULL);
        }
    }
}

void slice_uuid_text(const char *prefix, const unsigned char bytes[16], char ret_uuid[VGPU_UUID_LEN])
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
