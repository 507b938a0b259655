/* The simulated libnvidia-ml: shows the state file. It needs no context and sees every process. As
 * in the real one, a process's memory is without managed, external and host memory. */
#include "fault.h"
#include "nvml/nvml.h"
#include "state.h"

#include <stdio.h>
#include <string.h>

#define DRIVER_VERSION "580.0.0-simgpu"

static struct sim_state *state;
static int initialised;
static char handles[SIM_MAX_DEVICES]; /* a device's handle is the address of its byte */

static void read_environment(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, fault_read_environment);
}

static int injected(const char *symbol)
{
    read_environment();
    int code = fault_any() ? fault_next(symbol) : -1;
    return code > 0 ? code : NVML_SUCCESS;
}

static int nvml_enter(const char *symbol)
{
    int code = injected(symbol);

    if (code)
        return code;
    return __atomic_load_n(&initialised, __ATOMIC_ACQUIRE) > 0 ? NVML_SUCCESS
                                                               : NVML_ERROR_UNINITIALIZED;
}

/* Defines a function that returns an expression. The parameters follow the expression. */
#define NVML_AS(symbol, expression, ...)                                                           \
    NVML(symbol, __VA_ARGS__)                                                                      \
    {                                                                                              \
        NVML_ENTER(symbol);                                                                        \
        return expression;                                                                         \
    }

/* First statement of every function: fails unless the library is initialised. Faults come first, so
 * that a test can make nvmlInit_v2 fail. */
#define NVML_ENTER(symbol)                                                                         \
    do {                                                                                           \
        int enter_ = nvml_enter(#symbol);                                                          \
        if (enter_)                                                                                \
            return enter_;                                                                         \
    } while (0)

static int device_index(const char *handle)
{
    return handle >= handles && handle < handles + state->device_count ? (int)(handle - handles)
                                                                       : -1;
}

static int start(const char *symbol)
{
    int code = injected(symbol);

    if (code)
        return code;
    if (state_open(&state))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    __atomic_fetch_add(&initialised, 1, __ATOMIC_RELEASE);
    return NVML_SUCCESS;
}

NVML(nvmlInit, void)
{
    return start("nvmlInit");
}

NVML(nvmlInit_v2, void)
{
    return start("nvmlInit_v2");
}

NVML(nvmlInitWithFlags, unsigned flags)
{
    (void)flags;
    return start("nvmlInitWithFlags");
}

NVML(nvmlShutdown, void)
{
    NVML_ENTER(nvmlShutdown);
    __atomic_fetch_sub(&initialised, 1, __ATOMIC_RELEASE);
    return NVML_SUCCESS;
}

SIM_EXPORT const char *nvmlErrorString(int code);
SIM_EXPORT const char *nvmlErrorString(int code)
{
    switch (code) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    default:
        return "Unknown Error";
    }
}

static int copy_text(char *text, unsigned size, const char *value)
{
    if (!text)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (size <= strlen(value))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(text, value, strlen(value) + 1);
    return NVML_SUCCESS;
}

NVML_AS(nvmlSystemGetDriverVersion, copy_text(text, size, DRIVER_VERSION), char *text,
        unsigned size)
NVML_AS(nvmlSystemGetNVMLVersion, copy_text(text, size, "13." DRIVER_VERSION), char *text,
        unsigned size)

NVML(nvmlSystemGetCudaDriverVersion, int *ret_version)
{
    read_environment();
    if (!ret_version)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_version = SIM_DRIVER_VERSION;
    return NVML_SUCCESS;
}

NVML(nvmlSystemGetCudaDriverVersion_v2, int *ret_version)
{
    return nvmlSystemGetCudaDriverVersion(ret_version);
}

static int get_count(unsigned *ret_count)
{
    if (!ret_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_count = state->device_count;
    return NVML_SUCCESS;
}

NVML_AS(nvmlDeviceGetCount, get_count(ret_count), unsigned *ret_count)
NVML_AS(nvmlDeviceGetCount_v2, get_count(ret_count), unsigned *ret_count)

static int by_index(unsigned index, const char **ret_handle)
{
    if (!ret_handle || index >= state->device_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_handle = &handles[index];
    return NVML_SUCCESS;
}

NVML_AS(nvmlDeviceGetHandleByIndex, by_index(index, ret_handle), unsigned index,
        const char **ret_handle)
NVML_AS(nvmlDeviceGetHandleByIndex_v2, by_index(index, ret_handle), unsigned index,
        const char **ret_handle)

static void uuid_text(int index, char *text, size_t size)
{
    const unsigned char *u = state->device[index].uuid;

    snprintf(text, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
             u[14], u[15]);
}

NVML(nvmlDeviceGetHandleByUUID, const char *uuid, const char **ret_handle)
{
    char text[64];

    NVML_ENTER(nvmlDeviceGetHandleByUUID);
    if (!uuid || !ret_handle)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t index = 0; index < state->device_count; index++) {
        uuid_text((int)index, text, sizeof(text));
        if (!strcmp(text, uuid))
            return by_index(index, ret_handle);
    }
    return NVML_ERROR_NOT_FOUND;
}

static int by_bus(const char *text, const char **ret_handle)
{
    unsigned domain, bus, device, function;

    if (!text || !ret_handle)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (domain || device || bus < 1 || bus > state->device_count)
        return NVML_ERROR_NOT_FOUND;
    return by_index(bus - 1, ret_handle);
}

NVML_AS(nvmlDeviceGetHandleByPciBusId, by_bus(text, ret_handle), const char *text,
        const char **ret_handle)
NVML_AS(nvmlDeviceGetHandleByPciBusId_v2, by_bus(text, ret_handle), const char *text,
        const char **ret_handle)

static int number_of(const char *handle, unsigned *ret_number)
{
    int index = device_index(handle);

    if (index < 0 || !ret_number)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_number = (unsigned)index;
    return NVML_SUCCESS;
}

NVML_AS(nvmlDeviceGetIndex, number_of(handle, ret_index), const char *handle, unsigned *ret_index)
NVML_AS(nvmlDeviceGetMinorNumber, number_of(handle, ret_minor), const char *handle,
        unsigned *ret_minor)

NVML(nvmlDeviceGetUUID, const char *handle, char *text, unsigned size)
{
    char uuid[64];

    NVML_ENTER(nvmlDeviceGetUUID);
    int index = device_index(handle);
    if (index < 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    uuid_text(index, uuid, sizeof(uuid));
    return copy_text(text, size, uuid);
}

NVML_AS(nvmlDeviceGetName,
        device_index(handle) < 0 ? NVML_ERROR_INVALID_ARGUMENT
                                 : copy_text(text, size, SIM_DEVICE_NAME),
        const char *handle, char *text, unsigned size)

static int pci_info(const char *handle, nvmlPciInfo_t *ret_info, bool old)
{
    int index = device_index(handle);

    if (index < 0 || !ret_info)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!old) {
        memset(ret_info->busId, 0, sizeof(ret_info->busId));
        snprintf(ret_info->busId, sizeof(ret_info->busId), "00000000:%02X:00.0",
                 (unsigned char)(index + 1));
    }
    memset(ret_info->busIdLegacy, 0, sizeof(ret_info->busIdLegacy));
    snprintf(ret_info->busIdLegacy, sizeof(ret_info->busIdLegacy), "0000:%02X:00.0",
             (unsigned char)(index + 1));
    ret_info->domain = 0;
    ret_info->bus = (unsigned)index + 1;
    ret_info->device = 0;
    ret_info->pciDeviceId = 0;
    ret_info->pciSubSystemId = 0;
    return NVML_SUCCESS;
}

NVML_AS(nvmlDeviceGetPciInfo, pci_info(handle, ret_info, true), const char *handle,
        nvmlPciInfo_t *ret_info)
NVML_AS(nvmlDeviceGetPciInfo_v2, pci_info(handle, ret_info, true), const char *handle,
        nvmlPciInfo_t *ret_info)
NVML_AS(nvmlDeviceGetPciInfo_v3, pci_info(handle, ret_info, false), const char *handle,
        nvmlPciInfo_t *ret_info)

static void read_memory(int index, uint64_t *ret_total, uint64_t *ret_used)
{
    state_lock(state);
    state_reap_locked(state);
    *ret_total = state->device[index].bytes;
    *ret_used = state->device[index].used;
    state_unlock(state);
}

NVML(nvmlDeviceGetMemoryInfo, const char *handle, nvmlMemory_t *ret_memory)
{
    uint64_t total, used;

    NVML_ENTER(nvmlDeviceGetMemoryInfo);
    int index = device_index(handle);
    if (index < 0 || !ret_memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    read_memory(index, &total, &used);
    ret_memory->total = total;
    ret_memory->used = used;
    ret_memory->free = total - used;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetMemoryInfo_v2, const char *handle, nvmlMemory_v2_t *ret_memory)
{
    uint64_t total, used;

    NVML_ENTER(nvmlDeviceGetMemoryInfo_v2);
    int index = device_index(handle);
    if (index < 0 || !ret_memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (ret_memory->version != NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    read_memory(index, &total, &used);
    ret_memory->total = total;
    ret_memory->reserved = 0;
    ret_memory->used = used;
    ret_memory->free = total - used;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetBAR1MemoryInfo, const char *handle, nvmlMemory_t *ret_memory)
{
    NVML_ENTER(nvmlDeviceGetBAR1MemoryInfo);
    if (device_index(handle) < 0 || !ret_memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_memory = (nvmlMemory_t){256ULL << 20, 255ULL << 20, 1ULL << 20};
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetCudaComputeCapability, const char *handle, int *ret_major, int *ret_minor)
{
    NVML_ENTER(nvmlDeviceGetCudaComputeCapability);
    if (device_index(handle) < 0 || !ret_major || !ret_minor)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_major = 9;
    *ret_minor = 0;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetComputeMode, const char *handle, int *ret_mode)
{
    NVML_ENTER(nvmlDeviceGetComputeMode);
    if (device_index(handle) < 0 || !ret_mode)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_mode = 0;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetMigMode, const char *handle, unsigned *ret_current, unsigned *ret_pending)
{
    NVML_ENTER(nvmlDeviceGetMigMode);
    if (device_index(handle) < 0 || !ret_current || !ret_pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    return NVML_ERROR_NOT_SUPPORTED;
}

int nvml_device(const char *symbol, const char *handle, struct sim_state **ret_state)
{
    int code = nvml_enter(symbol);

    if (code)
        return -code;
    *ret_state = state;
    int index = device_index(handle);
    return index < 0 ? -NVML_ERROR_INVALID_ARGUMENT : index;
}
