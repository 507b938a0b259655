/*
 * The table of devices, and the handlers that hand out devices. The driver numbers devices itself,
 * and shows the instance's only (init.c). So nothing is translated here; other devices are refused.
 */
#include "hook/loader/device.h"

#include "base/log.h"
#include "base/setting.h"
#include "hook/loader/nvml_driver.h"
#include "account/instance.h"
#include "account/vdev.h"
#include "account/visible.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_MAX    64
#define NO_VDEV      UINT32_MAX
#define THREADS_EACH 2048 /* of a multiprocessor, if the driver does not say */

struct device {
    struct vdev_device known;     /* by the UUID of the GPU */
    char own_uuid[VGPU_UUID_LEN]; /* of the MIG device, if it is one; else the same */
    uint64_t position;            /* on the PCI buses: the order in which NVML numbers */
    uint64_t resident_threads;
    uint32_t vdev;
};

struct table {
    unsigned count;
    struct device devices[TABLE_MAX];
};

/* Made without a lock by the thread that needs it first, published whole, read-only from
 * then on. */
static _Atomic(struct table *) the_table;

static int attribute(CUdevice device, CUdevice_attribute which)
{
    int value = 0;

    if (DRIVER(cuDeviceGetAttribute)(&value, which, device) != CUDA_SUCCESS)
        return 0;
    return value;
}

static bool read_uuids(CUdevice number, struct device *device)
{
    CUuuid own, gpu;

    if (HAVE(cuDeviceGetUuid_v2)) {
        if (DRIVER(cuDeviceGetUuid_v2)(&own, number) != CUDA_SUCCESS)
            return false;
    } else if (!HAVE(cuDeviceGetUuid) || DRIVER(cuDeviceGetUuid)(&own, number) != CUDA_SUCCESS) {
        return false;
    }
    /* The first version names the GPU, even if the device is a MIG instance. */
    if (!HAVE(cuDeviceGetUuid) || DRIVER(cuDeviceGetUuid)(&gpu, number) != CUDA_SUCCESS)
        gpu = own;
    vdev_uuid_text("GPU", (unsigned char *)gpu.bytes, device->known.uuid);
    vdev_uuid_text(memcmp(&own, &gpu, sizeof(own)) == 0 ? "GPU" : "MIG", (unsigned char *)own.bytes,
                   device->own_uuid);
    return true;
}

static bool read_device(int ordinal, struct device *device)
{
    CUdevice number;
    size_t bytes = 0;
    uint64_t threads;

    memset(device, 0, sizeof(*device));
    device->vdev = NO_VDEV;
    if (DRIVER(cuDeviceGet)(&number, ordinal) != CUDA_SUCCESS || number != ordinal)
        return false;
    if (!read_uuids(number, device))
        return false;
    if (!HAVE(cuDeviceTotalMem_v2) || DRIVER(cuDeviceTotalMem_v2)(&bytes, number) != CUDA_SUCCESS)
        return false;
    device->known.physical_bytes = bytes;
    device->position =
        (uint64_t)(uint32_t)attribute(number, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) << 32 |
        (uint64_t)(attribute(number, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) & 0xffff) << 16 |
        (uint64_t)(attribute(number, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) & 0xffff);
    threads = (uint64_t)attribute(number, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    device->resident_threads =
        (uint64_t)attribute(number, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *
        (threads > 0 ? threads : THREADS_EACH);
    return true;
}

static void find_vdevs(struct vgpu_ledger *ledger, struct table *table)
{
    for (unsigned i = 0; i < table->count; i++) {
        struct device *device = &table->devices[i];
        unsigned vdev;

        if (vdev_find(ledger, device->own_uuid, &vdev) == 0 ||
            vdev_find(ledger, device->known.uuid, &vdev) == 0)
            device->vdev = vdev;
    }
}

/* A stable sort by PCI position: devices of simulated or odd drivers may all have the same. */
static void in_pci_order(const struct table *table, struct vdev_device ret_devices[TABLE_MAX])
{
    unsigned order[TABLE_MAX];

    for (unsigned i = 0; i < table->count; i++) {
        unsigned at = i;

        for (; at > 0 && table->devices[order[at - 1]].position > table->devices[i].position; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (unsigned i = 0; i < table->count; i++)
        ret_devices[i] = table->devices[order[i]].known;
}

static bool all_bound(const struct table *table)
{
    for (unsigned i = 0; i < table->count; i++)
        if (table->devices[i].vdev == NO_VDEV)
            return false;
    return true;
}

/*
 * Gives vdevs to devices without one, if the instance takes what it sees. In an instance of `vgpu
 * run`, a process that hides some devices from itself must not shift the numbers: so NVML is asked
 * for all of them. Limits that a process brings itself are by its own numbers.
 */
static void bind_unselected(struct vgpu_ledger *ledger, struct table *table)
{
    struct vdev_device devices[TABLE_MAX];
    struct vgpu_limits limits;
    int all = -ENODEV;

    if (all_bound(table))
        return;
    if (instance_limits_by_number(&limits)) {
        for (unsigned i = 0; i < table->count; i++)
            devices[i] = table->devices[i].known;
        vdev_bind_limited(ledger, devices, table->count, &limits);
        return;
    }
    if (setting_raw(SETTING_VISIBLE_DEVICES) != NULL && nvml_driver_open() == 0)
        all = nvml_driver_devices(devices, TABLE_MAX);
    if (all > 0)
        vdev_bind(ledger, devices, (unsigned)all);
    in_pci_order(table, devices);
    vdev_bind(ledger, devices, table->count);
}

static void bind_vdevs(struct vgpu_ledger *ledger, struct table *table)
{
    find_vdevs(ledger, table);
    if (!vdev_selecting(ledger)) {
        bind_unselected(ledger, table);
        find_vdevs(ledger, table);
    }
    for (unsigned i = 0; i < table->count; i++) {
        const struct device *device = &table->devices[i];
        bool is_mig = strcmp(device->own_uuid, device->known.uuid) != 0;
        unsigned vdev;

        if (device->vdev != NO_VDEV)
            ledger_number(ledger, device->vdev, i);
        /* A GPU's vdev has the GPU's size, a MIG device's its own. */
        if (vdev_find(ledger, device->own_uuid, &vdev) == 0)
            ledger_device(ledger, vdev, device->own_uuid, device->known.physical_bytes);
        else if (is_mig && device->vdev != NO_VDEV)
            log_debug("device %u is the MIG device %s of a GPU of the instance", i,
                      device->own_uuid);
    }
}

static bool is_limited(const struct vgpu_limit *limit)
{
    return limit->quota_bytes || limit->quota_percent || limit->cap_percent;
}

static bool is_shown(const struct table *table, unsigned vdev)
{
    for (unsigned i = 0; i < table->count; i++)
        if (table->devices[i].vdev == vdev)
            return true;
    return false;
}

/*
 * An instance gives limits by number to devices when it is made. A program may choose among them by
 * CUDA_VISIBLE_DEVICES. Then it may have a device without a limit, and take the limit of device 0
 * for its.
 */
static void warn_of_hidden_limits(struct vgpu_ledger *ledger, const struct table *table)
{
    const char *variable = setting_raw(SETTING_VISIBLE_DEVICES);
    struct vgpu_limits limits;
    unsigned limited = 0, free_one = 0;

    if (!variable)
        return;
    region_limits(ledger_region(ledger), &limits);
    while (limited < VGPU_DEVICES_MAX &&
           (!is_limited(&limits.vdev[limited]) || !limits.vdev[limited].uuid[0] ||
            is_shown(table, limited)))
        limited++;
    while (free_one < table->count && (table->devices[free_one].vdev >= VGPU_DEVICES_MAX ||
                                       is_limited(&limits.vdev[table->devices[free_one].vdev])))
        free_one++;
    if (limited < VGPU_DEVICES_MAX && free_one < table->count)
        log_warning("device %u (%s) has no limit: the instance limits %s, which %s=%.64s hides",
                    free_one, table->devices[free_one].known.uuid, limits.vdev[limited].uuid,
                    setting_name(SETTING_VISIBLE_DEVICES), variable);
}

static struct table *read_table(struct vgpu_ledger *ledger)
{
    struct table *table;
    int count = 0;

    if (DRIVER(cuDeviceGetCount)(&count) != CUDA_SUCCESS)
        return NULL;
    table = calloc(1, sizeof(*table));
    if (!table)
        return NULL;
    while ((int)table->count < count && table->count < TABLE_MAX &&
           read_device((int)table->count, &table->devices[table->count]))
        table->count++;
    bind_vdevs(ledger, table);
    warn_of_hidden_limits(ledger, table);
    return table;
}

static const struct table *get_table(void)
{
    struct table *table = atomic_load_explicit(&the_table, memory_order_acquire), *other = NULL;
    struct vgpu_ledger *ledger;

    if (__builtin_expect(table != NULL, 1))
        return table;
    ledger = hook_ledger();
    if (!ledger)
        return NULL;
    table = read_table(ledger);
    if (!table || atomic_compare_exchange_strong(&the_table, &other, table))
        return table;
    free(table); /* another thread was first */
    return other;
}

int device_table_build(void)
{
    const struct table *table = get_table();

    if (!table)
        return -EAGAIN;
    for (unsigned i = 0; i < table->count; i++)
        if (table->devices[i].vdev != NO_VDEV)
            return 0;
    return -ENODEV;
}

static const struct device *lookup(CUdevice number)
{
    const struct table *table = get_table();

    return table && number >= 0 && (unsigned)number < table->count ? &table->devices[number] : NULL;
}

int device_vdev(CUdevice device, unsigned *ret_vdev)
{
    const struct device *entry = lookup(device);

    if (!entry || entry->vdev == NO_VDEV)
        return -ENODEV;
    *ret_vdev = entry->vdev;
    return 0;
}

int device_current(CUdevice *ret_device, unsigned *ret_vdev)
{
    CUdevice device;
    int rc;

    /* Asked each time: it costs 18 ns, and a context can become current in ways that no
     * hook sees. */
    if (!HAVE(cuCtxGetDevice) || DRIVER(cuCtxGetDevice)(&device) != CUDA_SUCCESS)
        return -ENODEV;
    rc = device_vdev(device, ret_vdev);
    if (rc == 0)
        *ret_device = device;
    return rc;
}

uint64_t device_physical_bytes(CUdevice device)
{
    const struct device *entry = lookup(device);

    return entry ? entry->known.physical_bytes : 0;
}

uint64_t device_resident_threads(CUdevice device)
{
    const struct device *entry = lookup(device);

    return entry ? entry->resident_threads : 0;
}

bool device_foreign(CUdevice device)
{
    const struct table *table = get_table();

    if (!table)
        return false;
    return device < 0 || (unsigned)device >= table->count || table->devices[device].vdev == NO_VDEV;
}

int device_of_vdev(unsigned vdev, CUdevice *ret_device)
{
    const struct table *table = get_table();

    for (unsigned i = 0; table && i < table->count; i++) {
        if (table->devices[i].vdev != vdev)
            continue;
        *ret_device = (CUdevice)i;
        return 0;
    }
    return -ENODEV;
}

int device_vdev_uuid(unsigned vdev, char ret_uuid[VGPU_UUID_LEN])
{
    const struct device *entry;
    CUdevice device;

    if (device_of_vdev(vdev, &device) < 0)
        return -ENODEV;
    entry = lookup(device);
    memcpy(ret_uuid, entry->own_uuid, VGPU_UUID_LEN);
    return 0;
}

CUresult hook_device_get(enum hook_symbol sym, CUdevice *device, int ordinal)
{
    return REAL(sym, device_get)(device, device_foreign(ordinal) ? DEVICE_NONE : ordinal);
}

CUresult hook_device_get_count(enum hook_symbol sym, int *count)
{
    CUresult result = REAL(sym, device_get_count)(count);
    int ours = 0;

    if (result != CUDA_SUCCESS || !count)
        return result;
    for (int i = 0; i < *count; i++)
        ours += !device_foreign(i);
    *count = ours;
    return result;
}

CUresult hook_device_get_by_pci(enum hook_symbol sym, CUdevice *device, const char *bus_id)
{
    CUdevice found;
    CUresult result;

    if (!device)
        return REAL(sym, device_get_by_pci)(device, bus_id);
    result = REAL(sym, device_get_by_pci)(&found, bus_id);
    if (result != CUDA_SUCCESS)
        return result;
    if (device_foreign(found))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = found;
    return result;
}

CUresult hook_device_get_attribute(enum hook_symbol sym, int *value, CUdevice_attribute which,
                                   CUdevice device)
{
    return REAL(sym, device_get_attribute)(value, which,
                                           device_foreign(device) ? DEVICE_NONE : device);
}
