/*
 * A libnvidia-ml.so.1 that says what the fake driver's book says: of the one in $FAKERM_DIR, read
 * anew for each question.
 */
#include "fakerm_abi.h"
#include "abi/nvml.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EXPORT    __attribute__((visibility("default")))
#define TEXT_MOST 96u
#define LINE_MOST 1024u

#define NVML(symbol, ...)                                                                          \
    EXPORT nvmlReturn_t symbol(__VA_ARGS__);                                                       \
    EXPORT nvmlReturn_t symbol(__VA_ARGS__)

struct device {
    char uuid[TEXT_MOST];
    uint64_t size, used;
};

static unsigned started;
static unsigned char handles[FAKERM_GPUS_MAX]; /* a device's handle is the address of its byte */

static FILE *open_book(void)
{
    const char *dir = getenv("FAKERM_DIR");
    char path[512];

    if (!dir)
        return NULL;
    snprintf(path, sizeof(path), "%s/book", dir);
    return fopen(path, "re");
}

/* How many devices there are; what they are in `ret_devices`, if wanted. -1: no book. */
static int read_devices(struct device ret_devices[FAKERM_GPUS_MAX])
{
    FILE *file = open_book();
    char line[LINE_MOST];
    int count = 0;

    if (!file)
        return -1;
    while (fgets(line, sizeof(line), file)) {
        struct device device;
        unsigned index;

        if (sscanf(line, "gpu %u uuid %95s size %" SCNu64 " used %" SCNu64, &index, device.uuid,
                   &device.size, &device.used) != 4 ||
            index >= FAKERM_GPUS_MAX)
            continue;
        if (ret_devices)
            ret_devices[index] = device;
        count++;
    }
    fclose(file);
    return count;
}

static nvmlReturn_t look(nvmlDevice_t handle, unsigned *ret_index, struct device *ret_device)
{
    struct device devices[FAKERM_GPUS_MAX];
    uintptr_t index = (uintptr_t)handle - (uintptr_t)handles;
    int count;

    if (!started)
        return NVML_ERROR_UNINITIALIZED;
    count = read_devices(devices);
    if (count < 0)
        return NVML_ERROR_UNKNOWN;
    if (index >= (uintptr_t)count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_index = (unsigned)index;
    *ret_device = devices[index];
    return NVML_SUCCESS;
}

static nvmlReturn_t copy_text(const char *text, char *ret_text, unsigned bytes)
{
    if (!ret_text)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (bytes < strlen(text) + 1)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(ret_text, text);
    return NVML_SUCCESS;
}

/* Starting takes until the file $FAKENVML_WAIT is there, and fails if that is not empty; then
 * $FAKENVML_MARK is made.
 */
static bool start_slowly(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    const char *wait = getenv("FAKENVML_WAIT"), *mark = getenv("FAKENVML_MARK");
    struct stat st = {0};
    int fd;

    while (wait && stat(wait, &st) < 0)
        nanosleep(&pause, NULL);
    fd = mark ? open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (fd >= 0)
        close(fd);
    return st.st_size == 0;
}

NVML(nvmlInit_v2, void)
{
    if (!start_slowly() || read_devices(NULL) < 0)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    started++;
    return NVML_SUCCESS;
}

NVML(nvmlInit, void)
{
    return nvmlInit_v2();
}

NVML(nvmlInitWithFlags, unsigned flags)
{
    (void)flags;
    return nvmlInit_v2();
}

NVML(nvmlShutdown, void)
{
    if (!started)
        return NVML_ERROR_UNINITIALIZED;
    started--;
    return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result);
EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    return result == NVML_SUCCESS ? "Success" : "Failure";
}

NVML(nvmlSystemGetDriverVersion, char *ret_text, unsigned bytes)
{
    char line[LINE_MOST], version[TEXT_MOST] = "";
    FILE *file;

    if (!started)
        return NVML_ERROR_UNINITIALIZED;
    file = open_book();
    if (!file)
        return NVML_ERROR_UNKNOWN;
    while (!*version && fgets(line, sizeof(line), file))
        sscanf(line, "driver %95s", version);
    fclose(file);
    return copy_text(version, ret_text, bytes);
}

NVML(nvmlDeviceGetCount_v2, unsigned *ret_count)
{
    int count = read_devices(NULL);

    if (!started)
        return NVML_ERROR_UNINITIALIZED;
    if (count < 0)
        return NVML_ERROR_UNKNOWN;
    *ret_count = (unsigned)count;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetCount, unsigned *ret_count)
{
    return nvmlDeviceGetCount_v2(ret_count);
}

NVML(nvmlDeviceGetHandleByIndex_v2, unsigned index, nvmlDevice_t *ret_handle)
{
    int count = read_devices(NULL);

    if (!started)
        return NVML_ERROR_UNINITIALIZED;
    if (count < 0 || index >= (unsigned)count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_handle = (nvmlDevice_t)(void *)&handles[index];
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetHandleByIndex, unsigned index, nvmlDevice_t *ret_handle)
{
    return nvmlDeviceGetHandleByIndex_v2(index, ret_handle);
}

NVML(nvmlDeviceGetHandleByUUID, const char *uuid, nvmlDevice_t *ret_handle)
{
    struct device devices[FAKERM_GPUS_MAX];
    int count = read_devices(devices);

    if (!started)
        return NVML_ERROR_UNINITIALIZED;
    for (int i = 0; i < count; i++) {
        if (strcmp(devices[i].uuid, uuid) == 0) {
            *ret_handle = (nvmlDevice_t)(void *)&handles[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML(nvmlDeviceGetUUID, nvmlDevice_t handle, char *ret_text, unsigned bytes)
{
    struct device device;
    unsigned index;
    nvmlReturn_t rc = look(handle, &index, &device);

    return rc == NVML_SUCCESS ? copy_text(device.uuid, ret_text, bytes) : rc;
}

NVML(nvmlDeviceGetName, nvmlDevice_t handle, char *ret_text, unsigned bytes)
{
    struct device device;
    unsigned index;
    nvmlReturn_t rc = look(handle, &index, &device);

    return rc == NVML_SUCCESS ? copy_text("Fake GPU", ret_text, bytes) : rc;
}

NVML(nvmlDeviceGetIndex, nvmlDevice_t handle, unsigned *ret_index)
{
    struct device device;

    return look(handle, ret_index, &device);
}

NVML(nvmlDeviceGetMinorNumber, nvmlDevice_t handle, unsigned *ret_minor)
{
    struct device device;

    return look(handle, ret_minor, &device);
}

NVML(nvmlDeviceGetMemoryInfo, nvmlDevice_t handle, nvmlMemory_t *ret_memory)
{
    struct device device;
    unsigned index;
    nvmlReturn_t rc = look(handle, &index, &device);

    if (rc == NVML_SUCCESS)
        *ret_memory = (nvmlMemory_t){
            .total = device.size, .free = device.size - device.used, .used = device.used};
    return rc;
}

NVML(nvmlDeviceGetMemoryInfo_v2, nvmlDevice_t handle, nvmlMemory_v2_t *memory)
{
    struct device device;
    unsigned index, version = memory->version;
    nvmlReturn_t rc = look(handle, &index, &device);

    if (rc == NVML_SUCCESS && version != NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS)
        *memory = (nvmlMemory_v2_t){.version = version,
                                    .total = device.size,
                                    .free = device.size - device.used,
                                    .used = device.used};
    return rc;
}

/* Those that have memory there. Room for `*count`; what there is comes back in it. */
static nvmlReturn_t running(nvmlDevice_t handle, unsigned *count, nvmlProcessInfo_v2_t *ret_infos)
{
    unsigned room = *count, found = 0, index;
    struct device device;
    char line[LINE_MOST];
    FILE *file;
    nvmlReturn_t rc = look(handle, &index, &device);

    if (rc != NVML_SUCCESS)
        return rc;
    file = open_book();
    if (!file)
        return NVML_ERROR_UNKNOWN;
    while (fgets(line, sizeof(line), file)) {
        unsigned pid, gpu;
        uint64_t bytes;

        if (sscanf(line, "process %u gpu %u bytes %" SCNu64, &pid, &gpu, &bytes) != 3 ||
            gpu != index || bytes == 0)
            continue;
        if (found < room && ret_infos)
            ret_infos[found] = (nvmlProcessInfo_v2_t){.pid = pid,
                                                      .usedGpuMemory = bytes,
                                                      .gpuInstanceId = NVML_INSTANCE_ID_NONE,
                                                      .computeInstanceId = NVML_INSTANCE_ID_NONE};
        found++;
    }
    fclose(file);
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

NVML(nvmlDeviceGetComputeRunningProcesses_v3, nvmlDevice_t handle, unsigned *count,
     nvmlProcessInfo_v2_t *ret_infos)
{
    return running(handle, count, ret_infos);
}

NVML(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDevice_t handle, unsigned *count,
     nvmlProcessInfo_v2_t *ret_infos)
{
    return running(handle, count, ret_infos);
}

NVML(nvmlDeviceGetComputeRunningProcesses, nvmlDevice_t handle, unsigned *count,
     nvmlProcessInfo_v1_t *ret_infos)
{
    nvmlProcessInfo_v2_t *infos = calloc(*count + 1, sizeof(*infos));
    nvmlReturn_t rc;

    if (!infos)
        return NVML_ERROR_UNKNOWN;
    rc = running(handle, count, infos);
    for (unsigned i = 0; rc == NVML_SUCCESS && i < *count; i++)
        ret_infos[i] =
            (nvmlProcessInfo_v1_t){.pid = infos[i].pid, .usedGpuMemory = infos[i].usedGpuMemory};
    free(infos);
    return rc;
}
