/* The devices of this machine, by NVML. */
#include "gpu/inventory.h"

#include "gpu/subprocess.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NVML_LIMIT_MS 30000 /* a driver without persistence mode initialises the cards first */

/* The functions of NVML that are called, and their types. */
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
    result = subprocess_run(ask, &answer, sizeof(answer), NVML_LIMIT_MS, &signal);
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
