/* Devices: their number and attributes. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int number;
    int value;
} attributes[] = {
#define ATTRIBUTE(name, number, value) {number, value},
#include "attributes.def"
#undef ATTRIBUTE
};

enum {
    ATTRIBUTE_SMS = 16,
    ATTRIBUTE_PCI_BUS = 33,
    ATTRIBUTE_PCI_DEVICE = 34,
    ATTRIBUTE_PCI_DOMAIN = 50,
    ATTRIBUTE_OLD_MEMOPS = 92,
    ATTRIBUTE_OLD_MEMOPS_64 = 93,
    ATTRIBUTE_OLD_MEMOPS_NOR = 94,
};

static struct sim_device *card(int ordinal)
{
    return &sim.state->device[sim.map[ordinal]];
}

API(cuDriverGetVersion, int *ret_version)
{
    ENTER_EARLY(cuDriverGetVersion);
    if (!ret_version)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_version = SIM_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

API(cuDeviceGetCount, int *ret_count)
{
    ENTER(cuDeviceGetCount);
    if (!ret_count)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_count = sim.device_count;
    return CUDA_SUCCESS;
}

API(cuDeviceGet, int *ret_device, int ordinal)
{
    ENTER(cuDeviceGet);
    if (!ret_device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *ret_device = ordinal;
    return CUDA_SUCCESS;
}

API(cuDeviceGetName, char *name, int size, int ordinal)
{
    ENTER(cuDeviceGetName);
    if (!name || size < 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)size, "%s", SIM_DEVICE_NAME);
    return CUDA_SUCCESS;
}

static int get_uuid(CUuuid *ret_uuid, int ordinal)
{
    if (!ret_uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(ret_uuid->bytes, card(ordinal)->uuid, sizeof(ret_uuid->bytes));
    return CUDA_SUCCESS;
}

API_TWINS(cuDeviceGetUuid, cuDeviceGetUuid_v2, get_uuid(ret_uuid, ordinal), CUuuid *ret_uuid,
          int ordinal)

API(cuDeviceTotalMem_v2, size_t *ret_bytes, int ordinal)
{
    ENTER(cuDeviceTotalMem_v2);
    if (!ret_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *ret_bytes = card(ordinal)->bytes;
    return CUDA_SUCCESS;
}

API(cuDeviceTotalMem, unsigned *ret_bytes, int ordinal)
{
    ENTER(cuDeviceTotalMem);
    if (!ret_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    uint64_t bytes = card(ordinal)->bytes;
    *ret_bytes = bytes > UINT32_MAX ? UINT32_MAX : (unsigned)bytes;
    return CUDA_SUCCESS;
}

static int attribute(int number, int ordinal)
{
    switch (number) {
    case ATTRIBUTE_SMS:
        return SIM_SMS;
    case ATTRIBUTE_PCI_BUS:
        return sim.map[ordinal] + 1;
    case ATTRIBUTE_PCI_DEVICE:
    case ATTRIBUTE_PCI_DOMAIN:
        return 0;
    case ATTRIBUTE_OLD_MEMOPS:
    case ATTRIBUTE_OLD_MEMOPS_64:
    case ATTRIBUTE_OLD_MEMOPS_NOR:
        return sim.old_memops;
    default:
        break;
    }
    for (size_t at = 0; at < sizeof(attributes) / sizeof(attributes[0]); at++) {
        if (attributes[at].number == number)
            return attributes[at].value;
    }
    return 0;
}

API(cuDeviceGetAttribute, int *ret_value, CUdevice_attribute number, int ordinal)
{
    ENTER(cuDeviceGetAttribute);
    if (!ret_value || number < 1 ||
        (int)number > attributes[sizeof(attributes) / sizeof(attributes[0]) - 1].number)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *ret_value = attribute(number, ordinal);
    return CUDA_SUCCESS;
}

API(cuDeviceComputeCapability, int *ret_major, int *ret_minor, int ordinal)
{
    ENTER(cuDeviceComputeCapability);
    if (!ret_major || !ret_minor)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *ret_major = 9;
    *ret_minor = 0;
    return CUDA_SUCCESS;
}

API(cuDeviceGetPCIBusId, char *text, int size, int ordinal)
{
    ENTER(cuDeviceGetPCIBusId);
    if (!text || size < 13)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(text, (size_t)size, "0000:%02X:00.0", sim.map[ordinal] + 1);
    return CUDA_SUCCESS;
}

API(cuDeviceGetByPCIBusId, int *ret_device, const char *text)
{
    unsigned domain = 0, bus = 0, device = 0, function = 0;

    ENTER(cuDeviceGetByPCIBusId);
    if (!ret_device || !text)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) {
        domain = 0;
        if (sscanf(text, "%x:%x.%x", &bus, &device, &function) < 2)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (int ordinal = 0; ordinal < sim.device_count; ordinal++) {
        if (!domain && !device && bus == (unsigned)sim.map[ordinal] + 1) {
            *ret_device = ordinal;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

API(cuDeviceGetProperties, int *properties, int ordinal)
{
    /* CUdevprop: threads per block, dimensions, shared and constant memory, warp, pitch, registers
     * ... */
    static const int numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};

    ENTER(cuDeviceGetProperties);
    if (!properties)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    for (size_t at = 0; at < sizeof(numbers) / sizeof(numbers[0]); at++)
        properties[at] = attribute(numbers[at], ordinal);
    return CUDA_SUCCESS;
}

API(cuDeviceCanAccessPeer, int *ret_can, int ordinal, int peer)
{
    ENTER(cuDeviceCanAccessPeer);
    if (!ret_can)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal) || !sim_ordinal_valid(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *ret_can = ordinal != peer;
    return CUDA_SUCCESS;
}

API(cuDeviceGetP2PAttribute, int *ret_value, int number, int ordinal, int peer)
{
    ENTER(cuDeviceGetP2PAttribute);
    if (!ret_value || number < 1 || number > 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_ordinal_valid(ordinal) || !sim_ordinal_valid(peer) || ordinal == peer)
        return CUDA_ERROR_INVALID_DEVICE;
    *ret_value = number != 1;
    return CUDA_SUCCESS;
}
