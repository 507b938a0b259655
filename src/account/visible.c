#include "account/visible.h"

#include <errno.h>
#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static bool read_index(const char *token, size_t length, unsigned *ret_index)
{
    unsigned index = 0;

    if (length == 0 || length > 4)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (token[i] < '0' || token[i] > '9')
            return false;
        index = index * 10 + (unsigned)(token[i] - '0');
    }
    *ret_index = index;
    return true;
}

/* The one device whose UUID begins with the token. -ENODEV: none or several. */
static int match_uuid(const char *token, size_t length, const struct visible_devices *devices,
                      unsigned *ret_index)
{
    const char *found = NULL;

    if (length <= 4 || length >= VGPU_UUID_LEN)
        return -ENODEV;
    for (unsigned i = 0; i < devices->count; i++) {
        const char *uuid = devices->uuid[i];

        if (strncmp(uuid, token, length) != 0)
            continue;
        if (found && strcmp(found, uuid) != 0)
            return -ENODEV;
        found = uuid;
        *ret_index = i;
    }
    return found ? 0 : -ENODEV;
}

/* The device that an entry names. -ENODEV: none or several. */
static int find_device(const char *token, size_t length, const struct visible_devices *devices,
                       unsigned *ret_index)
{
    unsigned index;

    if (read_index(token, length, &index)) {
        if (index >= devices->count || !devices->uuid[index][0])
            return -ENODEV;
        *ret_index = index;
        return 0;
    }
    if (length > 4 && (strncmp(token, "GPU-", 4) == 0 || strncmp(token, "MIG-", 4) == 0))
        return match_uuid(token, length, devices, ret_index);
    return -ENODEV;
}

static bool append(char *text, size_t *used, const char *entry, size_t length)
{
    size_t comma = *used > 0;

    if (*used + comma + length + 1 > VISIBLE_MAX)
        return false;
    if (comma)
        text[(*used)++] = ',';
    memcpy(text + *used, entry, length);
    *used += length;
    return true;
}

/* The next entry, without blanks around it. Moves *text behind it; NULL at the end. */
static const char *next_entry(const char **text, size_t *ret_length)
{
    const char *token = *text, *end = strchrnul(token, ',');
    size_t length = (size_t)(end - token);

    while (length > 0 && is_space(*token)) {
        token++;
        length--;
    }
    while (length > 0 && is_space(token[length - 1]))
        length--;
    *text = *end ? end + 1 : NULL;
    *ret_length = length;
    return token;
}

static bool is_mig(const char *token, size_t length)
{
    return length > 4 && length < VGPU_UUID_LEN && strncmp(token, "MIG-", 4) == 0;
}

unsigned visible_list(const char *text, const struct visible_devices *devices,
                      struct visible_device *ret_list, unsigned max)
{
    unsigned count = 0;

    if (!text) {
        for (; count < devices->count && count < max; count++) {
            ret_list[count].index = count;
            memcpy(ret_list[count].uuid, devices->uuid[count], VGPU_UUID_LEN);
        }
        return count;
    }
    while (text && count < max) {
        size_t length;
        const char *token = next_entry(&text, &length);
        struct visible_device *device = &ret_list[count];

        memset(device, 0, sizeof(*device));
        if (find_device(token, length, devices, &device->index) == 0) {
            memcpy(device->uuid, devices->uuid[device->index], VGPU_UUID_LEN);
        } else if (is_mig(token, length)) {
            device->index = VISIBLE_MIG;
            memcpy(device->uuid, token, length);
        } else {
            break;
        }
        for (unsigned i = 0; i < count; i++)
            if (strncmp(ret_list[i].uuid, device->uuid, VGPU_UUID_LEN) == 0)
                return 0;
        count++;
    }
    return count;
}

void visible_selected(const struct vgpu_limits *limits, struct visible_devices *ret_devices)
{
    ret_devices->count =
        limits->device_count < VGPU_DEVICES_MAX ? limits->device_count : VGPU_DEVICES_MAX;
    for (unsigned i = 0; i < ret_devices->count; i++)
        memcpy(ret_devices->uuid[i], limits->vdev[i].uuid, VGPU_UUID_LEN);
}

void visible_translate(const char *text, const struct vgpu_limits *limits,
                       char ret_text[VISIBLE_MAX])
{
    struct visible_devices devices;
    size_t used = 0;
    bool more = true;

    visible_selected(limits, &devices);
    for (unsigned i = 0; !text && more && i < devices.count; i++)
        more = append(ret_text, &used, devices.uuid[i], strnlen(devices.uuid[i], VGPU_UUID_LEN));
    while (text && more) {
        size_t length;
        const char *token = next_entry(&text, &length);
        unsigned index;

        if (find_device(token, length, &devices, &index) == 0)
            more = append(ret_text, &used, devices.uuid[index],
                          strnlen(devices.uuid[index], VGPU_UUID_LEN));
        else
            more = length > 4 && strncmp(token, "MIG-", 4) == 0 &&
                   append(ret_text, &used, token, length);
    }
    ret_text[used] = '\0';
}
