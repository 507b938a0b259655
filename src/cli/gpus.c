#include "cli/gpus.h"

#include "cli/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes "0 GPU-... (NVIDIA H200), 1 ..." */
static void describe(const struct gpus *gpus, char *ret_text, size_t size)
{
    size_t at = 0;

    snprintf(ret_text, size, "none");
    for (unsigned i = 0; i < gpus->count && at < size; i++)
        at += (size_t)snprintf(ret_text + at, size - at, "%s%u = %s (%s)", i ? ", " : "", i,
                               gpus->gpu[i].uuid, gpus->gpu[i].name);
}

/* The index of the device that one word of the list names. -ENODEV: none; -EEXIST: it is a prefix
 * of several. */
static int find_device(const struct gpus *gpus, const char *word, unsigned *ret_index)
{
    size_t length = strlen(word);
    unsigned found = GPUS_MAX;

    if (length && strspn(word, "0123456789") == length) {
        unsigned long index = length < 4 ? strtoul(word, NULL, 10) : GPUS_MAX;

        if (index >= gpus->count || !gpus->gpu[index].uuid[0])
            return -ENODEV;
        *ret_index = (unsigned)index;
        return 0;
    }
    if (strncasecmp(word, "GPU-", 4) || length < 5)
        return -EINVAL;
    for (unsigned i = 0; i < gpus->count; i++) {
        if (strncasecmp(gpus->gpu[i].uuid, word, length))
            continue;
        if (found != GPUS_MAX)
            return -EEXIST;
        found = i;
    }
    if (found == GPUS_MAX)
        return -ENODEV;
    *ret_index = found;
    return 0;
}

static int refuse(const struct gpus *gpus, const char *text, const char *word, int error)
{
    char list[2048];

    describe(gpus, list, sizeof(list));
    if (!*word)
        message_error("run: --gpu \"%s\": %s; the devices are: %s", text,
                      *text ? "nothing stands before or after a comma" : "the value is empty",
                      list);
    else if (error == -EINVAL && (!strcmp(word, "auto") || !strcmp(word, "all")))
        message_error("run: --gpu \"%s\": %s stands alone, without other devices", text, word);
    else if (error == -EINVAL && !strncasecmp(word, "MIG-", 4))
        message_error("run: --gpu %s: MIG instances cannot be chosen by name; make one visible to "
                      "the program with "
                      "CUDA_VISIBLE_DEVICES=%s and leave --gpu out",
                      text, word);
    else if (error == -EINVAL)
        message_error("run: --gpu %s: \"%s\" is neither an index nor a UUID (GPU-...) nor auto nor "
                      "all; the devices are: %s",
                      text, word, list);
    else if (error == -EEXIST)
        message_error("run: --gpu %s: \"%s\" begins the UUIDs of several devices: %s", text, word,
                      list);
    else
        message_error("run: --gpu %s: there is no device \"%s\"; the devices are: %s", text, word,
                      list);
    return -EINVAL;
}

static int select_emptiest(const struct gpus *gpus, struct vgpu_limits *limits)
{
    const struct gpu *best = NULL;

    for (unsigned i = 0; i < gpus->count; i++) /* a device that this user may not use has no UUID */
        if (gpus->gpu[i].uuid[0] && (!best || gpus->gpu[i].free_bytes > best->free_bytes))
            best = &gpus->gpu[i];
    if (!best) {
        message_error(
            "run: --gpu auto: NVML shows no device that can be used; `vgpu doctor` says more");
        return -EINVAL;
    }
    memcpy(limits->vdev[0].uuid, best->uuid, VGPU_UUID_LEN);
    limits->device_count = 1;
    return 0;
}

static int select_all(const struct gpus *gpus, struct vgpu_limits *limits)
{
    unsigned count = 0;

    for (unsigned i = 0; i < gpus->count && count < VGPU_DEVICES_MAX;
         i++) /* a device without a UUID cannot be used */
        if (gpus->gpu[i].uuid[0])
            memcpy(limits->vdev[count++].uuid, gpus->gpu[i].uuid, VGPU_UUID_LEN);
    if (!count) {
        message_error(
            "run: --gpu all: NVML shows no device that can be used; `vgpu doctor` says more");
        return -EINVAL;
    }
    limits->device_count = count;
    return 0;
}

int gpus_select(const struct gpus *gpus, const char *text, struct vgpu_limits *limits)
{
    unsigned count = 0;

    if (!strcmp(text, "auto"))
        return select_emptiest(gpus, limits);
    if (!strcmp(text, "all"))
        return select_all(gpus, limits);
    for (const char *at = text;; at++) {
        char word[VGPU_UUID_LEN];
        size_t length = strcspn(at, ",");
        unsigned index = 0;
        int error;

        snprintf(word, sizeof(word), "%.*s", (int)length, at);
        error = length < sizeof(word) ? find_device(gpus, word, &index) : -ENODEV;
        if (error)
            return refuse(gpus, text, word, error);
        for (unsigned i = 0; i < count; i++)
            if (!strcmp(limits->vdev[i].uuid, gpus->gpu[index].uuid)) {
                message_error("run: --gpu %s: device %u (%s) is named twice; name each device once",
                              text, index, gpus->gpu[index].uuid);
                return -EINVAL;
            }
        if (count == VGPU_DEVICES_MAX) {
            message_error("run: --gpu %s: more than %d devices", text, VGPU_DEVICES_MAX);
            return -EINVAL;
        }
        memcpy(limits->vdev[count++].uuid, gpus->gpu[index].uuid, VGPU_UUID_LEN);
        at += length;
        if (!*at)
            break;
    }
    limits->device_count = count;
    return 0;
}
