#include "cli/gpus.h"

#include "cli/message.h"
#include "cli/probe.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVML_LIMIT_MS 30000 /* a driver without persistence mode initialises the cards first */

/* What we need of NVML. */
typedef int (*nvml_plain_fn)(void);
typedef int (*nvml_text_fn)(char *, unsigned);
typedef int (*nvml_count_fn)(unsigned *);
typedef int (*nvml_handle_fn)(unsigned, void **);
typedef int (*nvml_device_text_fn)(void *, char *, unsigned);
struct nvml_memory {
    unsigned long long total, free, used;
};
typedef int (*nvml_memory_fn)(void *, struct nvml_memory *);
typedef const char *(*nvml_error_fn)(int);

struct answer {
    bool loaded;
    int error; /* of NVML */
    char reason[GPUS_REASON_LEN];
    struct gpus gpus;
};

static const char *asked_library; /* for the child; set before it starts */

static bool failed(struct answer *answer, void *library, const char *call, int error)
{
    nvml_error_fn text = (nvml_error_fn)dlsym(library, "nvmlErrorString");

    if (error == 0)
        return false;
    answer->error = error;
    snprintf(answer->reason, sizeof(answer->reason), "%s returns %d (%s)", call, error,
             text ? text(error) : "no text");
    return true;
}

static void ask_device(void *library, unsigned index, struct gpu *gpu)
{
    nvml_handle_fn handle = (nvml_handle_fn)dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    nvml_device_text_fn uuid = (nvml_device_text_fn)dlsym(library, "nvmlDeviceGetUUID");
    nvml_device_text_fn name = (nvml_device_text_fn)dlsym(library, "nvmlDeviceGetName");
    nvml_memory_fn memory = (nvml_memory_fn)dlsym(library, "nvmlDeviceGetMemoryInfo");
    struct nvml_memory bytes = {0};
    void *device = NULL;

    if (!handle || handle(index, &device))
        return;
    if (uuid)
        uuid(device, gpu->uuid, sizeof(gpu->uuid));
    if (name)
        name(device, gpu->name, sizeof(gpu->name));
    if (memory && !memory(device, &bytes)) {
        gpu->total_bytes = bytes.total;
        gpu->free_bytes = bytes.free;
    }
}

static void ask(void *ret_answer)
{
    struct answer *answer = ret_answer;
    void *library = dlopen(asked_library, RTLD_NOW | RTLD_LOCAL);
    nvml_plain_fn init;
    nvml_count_fn count;
    nvml_text_fn version;
    unsigned devices = 0;

    if (!library) {
        snprintf(answer->reason, sizeof(answer->reason), "libnvidia-ml.so.1 does not load (%s)",
                 dlerror());
        return;
    }
    answer->loaded = true;
    init = (nvml_plain_fn)dlsym(library, "nvmlInit_v2");
    count = (nvml_count_fn)dlsym(library, "nvmlDeviceGetCount_v2");
    version = (nvml_text_fn)dlsym(library, "nvmlSystemGetDriverVersion");
    if (!init || !count) {
        snprintf(answer->reason, sizeof(answer->reason), "libnvidia-ml.so.1 has no nvmlInit_v2");
        answer->error = -1;
        return;
    }
    if (failed(answer, library, "nvmlInit_v2", init()) ||
        failed(answer, library, "nvmlDeviceGetCount_v2", count(&devices)))
        return;
    if (version)
        version(answer->gpus.driver, sizeof(answer->gpus.driver));
    answer->gpus.count = devices < GPUS_MAX ? devices : GPUS_MAX;
    for (unsigned i = 0; i < answer->gpus.count; i++)
        ask_device(library, i, &answer->gpus.gpu[i]);
}

int gpus_list(const char *library, struct gpus *ret_gpus, char ret_reason[GPUS_REASON_LEN])
{
    struct answer answer;
    int result, signal = 0;

    asked_library = library ? library : "libnvidia-ml.so.1";
    result = probe_run(ask, &answer, sizeof(answer), NVML_LIMIT_MS, &signal);
    if (result == -ETIMEDOUT)
        snprintf(ret_reason, GPUS_REASON_LEN, "NVML does not answer within %d s",
                 NVML_LIMIT_MS / 1000);
    else if (result == -ECANCELED)
        snprintf(ret_reason, GPUS_REASON_LEN, "NVML crashes (signal %d)", signal);
    else if (result)
        snprintf(ret_reason, GPUS_REASON_LEN, "cannot start a process to ask NVML (%s)",
                 strerror(-result));
    else if (answer.reason[0]) {
        snprintf(ret_reason, GPUS_REASON_LEN, "%s", answer.reason);
        result = answer.loaded ? -EIO : -ENOENT;
    } else {
        *ret_gpus = answer.gpus;
    }
    return result;
}

/* Writes "0 GPU-... (NVIDIA H200), 1 ..." */
static void describe(const struct gpus *gpus, char *ret_text, size_t size)
{
    size_t at = 0;

    snprintf(ret_text, size, "none");
    for (unsigned i = 0; i < gpus->count && at < size; i++)
        at += (size_t)snprintf(ret_text + at, size - at, "%s%u = %s (%s)", i ? ", " : "", i,
                               gpus->gpu[i].uuid, gpus->gpu[i].name);
}

/* The index of the device that one word of the list names. -ENODEV: none; -EEXIST: a prefix of
 * several. */
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

    for (unsigned i = 0; i < gpus->count; i++) /* one that this user may not use has no UUID */
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
         i++) /* one without a UUID cannot be used */
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
