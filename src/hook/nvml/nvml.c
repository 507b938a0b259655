/*
 * NVML's devices and memory, as the instance has them. Lists of processes are in nvml_process.c.
 *
 * The driver is always asked first: if it refuses, the program gets its error. A number or a name
 * of a device outside of the instance is answered as one that does not exist.
 */
#include "hook/nvml/nvml_view.h"

#include "hook/memory/reconcile.h"

#include <errno.h>

#define WRONG_INDEX UINT32_MAX /* no machine has so many */
#define GPUS_MAX    64

nvmlReturn_t hook_nvml_init(enum nvml_symbol sym)
{
    nvmlReturn_t result = NVML_REAL(sym, nvml_init)();

    if (result == NVML_SUCCESS)
        nvml_view_initialised();
    return result;
}

nvmlReturn_t hook_nvml_init_with_flags(enum nvml_symbol sym, unsigned flags)
{
    nvmlReturn_t result = NVML_REAL(sym, nvml_init_with_flags)(flags);

    if (result == NVML_SUCCESS)
        nvml_view_initialised();
    return result;
}

nvmlReturn_t hook_nvml_shutdown(enum nvml_symbol sym)
{
    nvmlReturn_t result;

    if (nvml_view_uninitialised())
        return NVML_ERROR_UNINITIALIZED;
    result = NVML_REAL(sym, nvml_shutdown)();
    if (result == NVML_SUCCESS)
        nvml_view_shut_down();
    return result;
}

nvmlReturn_t hook_nvml_count(enum nvml_symbol sym, unsigned *count)
{
    nvmlReturn_t result;

    if (nvml_view_uninitialised())
        return NVML_ERROR_UNINITIALIZED;
    result = NVML_REAL(sym, nvml_count)(count);
    if (result != NVML_SUCCESS || !count || !nvml_view_ledger())
        return result;
    if (nvml_view_selecting())
        *count = nvml_view_count();
    else if (*count > VGPU_DEVICES_MAX)
        *count = VGPU_DEVICES_MAX;
    return result;
}

nvmlReturn_t hook_nvml_handle_by_index(enum nvml_symbol sym, unsigned index, nvmlDevice_t *device)
{
    nvmlDevice_t chosen;

    if (nvml_view_uninitialised())
        return NVML_ERROR_UNINITIALIZED;
    if (!nvml_view_selecting()) {
        if (nvml_view_ledger() && index >= VGPU_DEVICES_MAX)
            index = WRONG_INDEX;
        return NVML_REAL(sym, nvml_handle_by_index)(index, device);
    }
    if (nvml_view_at(index, &chosen) < 0 || !device)
        return NVML_REAL(sym, nvml_handle_by_index)(WRONG_INDEX, device);
    *device = chosen;
    return NVML_SUCCESS;
}

/* A look-up that stores a device in *`device`, which the instance may lack. The rest: the other
 * parameters. */
#define LOOK_UP(handler, device, ...)                                                              \
    nvmlReturn_t hook_##handler SIGNATURE_WITH(enum nvml_symbol sym, PARAMS(handler))              \
    {                                                                                              \
        nvmlReturn_t result;                                                                       \
        nvmlDevice_t found;                                                                        \
                                                                                                   \
        if (nvml_view_uninitialised())                                                             \
            return NVML_ERROR_UNINITIALIZED;                                                       \
        if (!device || !nvml_view_ledger())                                                        \
            return NVML_REAL(sym, handler)(__VA_ARGS__, device);                                   \
        result = NVML_REAL(sym, handler)(__VA_ARGS__, &found);                                     \
        if (result != NVML_SUCCESS)                                                                \
            return result;                                                                         \
        if (!nvml_view_ours(found))                                                                \
            return NVML_ERROR_NOT_FOUND;                                                           \
        *device = found;                                                                           \
        return NVML_SUCCESS;                                                                       \
    }

LOOK_UP(nvml_handle_by_text, device, text)
LOOK_UP(nvml_handle_by_uuid, device, uuid)
LOOK_UP(nvml_mig_handle, mig_device, device, index)

nvmlReturn_t hook_nvml_index(enum nvml_symbol sym, nvmlDevice_t device, unsigned *index)
{
    unsigned driver_index;
    nvmlReturn_t result;

    if (nvml_view_uninitialised())
        return NVML_ERROR_UNINITIALIZED;
    if (!index || !nvml_view_selecting())
        return NVML_REAL(sym, nvml_index)(device, index);
    result = NVML_REAL(sym, nvml_index)(device, &driver_index);
    if (result != NVML_SUCCESS)
        return result;
    /* A MIG device is numbered within its GPU: that stays. */
    if (nvml_view_index(device, &driver_index) < 0 && !nvml_view_ours(device))
        return NVML_ERROR_INVALID_ARGUMENT;
    *index = driver_index;
    return result;
}

/* Keeps the instance's devices of those that the driver listed. Size protocol: 0 or no array asks
 * for the number. */
static void give_devices(const nvmlDevice_t *found, unsigned found_count, unsigned *count,
                         nvmlDevice_t *devices)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < found_count; i++) {
        if (!nvml_view_ours(found[i]))
            continue;
        if (devices && kept < *count)
            devices[kept] = found[i];
        kept++;
    }
    if (!devices || *count == 0 || kept < *count)
        *count = kept;
}

/* A list of devices. The rest: the parameters before the list. */
#define LIST(handler, ...)                                                                         \
    nvmlReturn_t hook_##handler SIGNATURE_WITH(enum nvml_symbol sym, PARAMS(handler))              \
    {                                                                                              \
        nvmlDevice_t found[GPUS_MAX];                                                              \
        unsigned found_count = GPUS_MAX;                                                           \
        nvmlReturn_t result;                                                                       \
                                                                                                   \
        if (nvml_view_uninitialised())                                                             \
            return NVML_ERROR_UNINITIALIZED;                                                       \
        if (!count || !nvml_view_selecting())                                                      \
            return NVML_REAL(sym, handler)(__VA_ARGS__, count, devices);                           \
        result = NVML_REAL(sym, handler)(__VA_ARGS__, &found_count, found);                        \
        if (result == NVML_SUCCESS)                                                                \
            give_devices(found, found_count, count, devices);                                      \
        return result;                                                                             \
    }

LIST(nvml_nearest_gpus, device, level)
LIST(nvml_gpu_set, cpu)

/* False: no quota, or no device of the instance; the driver's answer stands. */
static bool view_memory(nvmlDevice_t device, unsigned long long physical_total,
                        unsigned long long physical_free, uint64_t *ret_total, uint64_t *ret_free)
{
    unsigned vdev;

    if (nvml_view_vdev(device, &vdev) < 0)
        return false;
    reconcile_maybe(vdev);
    if (ledger_quota(hook_ledger(), vdev) == 0)
        return false;
    ledger_view(hook_ledger(), vdev, physical_total, physical_free, ret_total, ret_free);
    return true;
}

nvmlReturn_t hook_nvml_memory_info(enum nvml_symbol sym, nvmlDevice_t device, nvmlMemory_t *memory)
{
    uint64_t total, free_bytes;
    nvmlReturn_t result;

    if (nvml_view_uninitialised())
        return NVML_ERROR_UNINITIALIZED;
    result = NVML_REAL(sym, nvml_memory_info)(device, memory);
    if (result != NVML_SUCCESS ||
        !view_memory(device, memory->total, memory->free, &total, &free_bytes))
        return result;
    memory->total = total;
    memory->free = free_bytes;
    memory->used = total - free_bytes;
    return result;
}

nvmlReturn_t hook_nvml_memory_info_v2(enum nvml_symbol sym, nvmlDevice_t device,
                                      nvmlMemory_v2_t *memory)
{
    uint64_t total, free_bytes;
    nvmlReturn_t result;

    if (nvml_view_uninitialised())
        return NVML_ERROR_UNINITIALIZED;
    result = NVML_REAL(sym, nvml_memory_info_v2)(device, memory);
    /* The quota has no part of what the system keeps of the device. */
    if (result != NVML_SUCCESS ||
        !view_memory(device, memory->total - memory->reserved, memory->free, &total, &free_bytes))
        return result;
    memory->total = total;
    memory->reserved = 0;
    memory->free = free_bytes;
    memory->used = total - free_bytes;
    return result;
}
