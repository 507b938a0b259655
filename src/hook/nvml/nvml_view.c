#include "hook/nvml/nvml_view.h"

#include "base/setting.h"
#include "hook/loader/nvml_driver.h"
#include "account/instance.h"
#include "account/vdev.h"
#include "account/visible.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GPUS_MAX 64 /* of a machine */

struct view {
    unsigned count;
    nvmlDevice_t device[VGPU_DEVICES_MAX];
};

static _Atomic(struct view *) the_view; /* published whole, constant from then on */
static atomic_int program_inits;

void nvml_view_initialised(void)
{
    atomic_fetch_add(&program_inits, 1);
}

void nvml_view_shut_down(void)
{
    int inits = atomic_load(&program_inits);

    while (inits > 0 && !atomic_compare_exchange_weak(&program_inits, &inits, inits - 1))
        ;
}

bool nvml_view_uninitialised(void)
{
    return atomic_load_explicit(&program_inits, memory_order_relaxed) == 0 && nvml_driver_is_open();
}

struct vgpu_ledger *nvml_view_ledger(void)
{
    struct vgpu_ledger *ledger = hook_ledger();

    return ledger && nvml_driver_load() == 0 ? ledger : NULL;
}

bool nvml_view_selecting(void)
{
    struct vgpu_ledger *ledger = nvml_view_ledger();

    return ledger && vdev_selecting(ledger);
}

/* A selected device that NVML does not know is not shown. */
static struct view *make_view(struct vgpu_ledger *ledger)
{
    struct vgpu_limits limits;
    struct view *view = calloc(1, sizeof(*view));

    if (!view)
        return NULL;
    region_limits(ledger_region(ledger), &limits);
    for (unsigned i = 0; i < limits.device_count && i < VGPU_DEVICES_MAX; i++) {
        nvmlDevice_t device;
        unsigned known = 0;

        if (nvml_driver_handle(limits.vdev[i].uuid, &device) < 0)
            continue;
        nvml_driver_parent(device, &device);
        while (known < view->count && view->device[known] != device)
            known++;
        if (known == view->count) /* two MIG devices may be of one GPU */
            view->device[view->count++] = device;
    }
    return view;
}

static const struct view *get_view(void)
{
    struct view *view = atomic_load_explicit(&the_view, memory_order_acquire), *other = NULL;
    static const struct view empty;
    struct vgpu_ledger *ledger;

    if (view)
        return view;
    ledger = nvml_view_ledger();
    view = ledger ? make_view(ledger) : NULL;
    if (!view)
        return &empty;
    if (view->count == 0) { /* NVML is not initialised, or not in order: ask again next time */
        free(view);
        return &empty;
    }
    if (atomic_compare_exchange_strong(&the_view, &other, view))
        return view;
    free(view);
    return other;
}

unsigned nvml_view_count(void)
{
    return get_view()->count;
}

int nvml_view_at(unsigned index, nvmlDevice_t *ret_device)
{
    const struct view *view = get_view();

    if (index >= view->count)
        return -ENODEV;
    *ret_device = view->device[index];
    return 0;
}

int nvml_view_index(nvmlDevice_t device, unsigned *ret_index)
{
    const struct view *view = get_view();

    for (unsigned i = 0; i < view->count; i++) {
        if (view->device[i] != device)
            continue;
        *ret_index = i;
        return 0;
    }
    return -ENODEV;
}

static int find_vdev(struct vgpu_ledger *ledger, nvmlDevice_t device, unsigned *ret_vdev)
{
    char uuid[VGPU_UUID_LEN];
    nvmlDevice_t parent;

    if (nvml_driver_uuid(device, uuid) < 0)
        return -ENODEV;
    if (vdev_find(ledger, uuid, ret_vdev) == 0)
        return 0;
    if (nvml_driver_parent(device, &parent) < 0 || nvml_driver_uuid(parent, uuid) < 0)
        return -ENODEV;
    return vdev_find(ledger, uuid, ret_vdev);
}

/* The devices that CUDA_VISIBLE_DEVICES shows, in its order. Returns how many. */
static unsigned visible_first(const struct vdev_device *devices, unsigned count,
                              struct vdev_device *ret_devices)
{
    struct visible_devices *all = calloc(1, sizeof(*all));
    struct visible_device list[VGPU_DEVICES_MAX];
    unsigned seen = 0, kept = 0;

    if (all) {
        for (; all->count < count && all->count < VISIBLE_DEVICES_MAX; all->count++)
            memcpy(all->uuid[all->count], devices[all->count].uuid, VGPU_UUID_LEN);
        seen = visible_list(setting_raw(SETTING_VISIBLE_DEVICES), all, list, VGPU_DEVICES_MAX);
    }
    for (unsigned i = 0; i < seen && list[i].index != VISIBLE_MIG; i++)
        ret_devices[kept++] = devices[list[i].index];
    free(all);
    return kept;
}

/* Gives vdevs to all devices, in NVML's order, if the instance takes what it sees. As in
 * device.c. */
static void bind_all(struct vgpu_ledger *ledger)
{
    struct vdev_device *devices = calloc(GPUS_MAX + VGPU_DEVICES_MAX, sizeof(*devices));
    int count = devices ? nvml_driver_devices(devices, GPUS_MAX) : 0;
    struct vgpu_limits limits;

    if (count > 0 && instance_limits_by_number(&limits))
        vdev_bind_limited(ledger, devices + count,
                          visible_first(devices, (unsigned)count, devices + count), &limits);
    if (count > 0)
        vdev_bind(ledger, devices, (unsigned)count);
    free(devices);
}

/* A quota in percent has no size until a process tells the region the device's. */
static void resolve_share(struct vgpu_ledger *ledger, unsigned vdev, nvmlDevice_t device)
{
    struct vgpu_limits limits;

    if (ledger_quota(ledger, vdev) > 1)
        return;
    region_limits(ledger_region(ledger), &limits);
    if (limits.vdev[vdev].quota_percent > 0)
        vdev_size(ledger, vdev, limits.vdev[vdev].uuid, nvml_driver_physical_bytes(device));
}

int nvml_view_vdev(nvmlDevice_t device, unsigned *ret_vdev)
{
    struct vgpu_ledger *ledger = nvml_view_ledger();
    unsigned vdev;

    if (!ledger)
        return -ENODEV;
    if (find_vdev(ledger, device, &vdev) < 0) {
        if (vdev_selecting(ledger))
            return -ENODEV;
        bind_all(ledger);
        if (find_vdev(ledger, device, &vdev) < 0)
            return -ENODEV;
    }
    resolve_share(ledger, vdev, device);
    *ret_vdev = vdev;
    return 0;
}

bool nvml_view_ours(nvmlDevice_t device)
{
    struct vgpu_ledger *ledger = nvml_view_ledger();
    unsigned ignored;

    if (!ledger)
        return true;
    if (nvml_view_vdev(device, &ignored) == 0)
        return true;
    return vdev_selecting(ledger) && nvml_view_index(device, &ignored) == 0;
}
