/*
 * What a program is told of a device's memory. The driver is always asked first, with the caller's
 * own pointers, so that errors and NULL outputs are the driver's. Then the instance's values
 * replace its answer.
 */
#include "hook/loader/device.h"
#include "hook/memory/reconcile.h"
#include "hook/memory/shared.h"

/* The oldest entry points have sizes of 32 bits: they say as much as fits. */
static unsigned int narrow(uint64_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes;
}

/* False: nothing has to be changed. */
static bool view_of(CUdevice device, unsigned vdev, uint64_t physical_free, uint64_t *ret_free,
                    uint64_t *ret_total)
{
    struct vgpu_ledger *ledger = hook_ledger();

    if (!ledger || ledger_quota(ledger, vdev) == 0)
        return false;
    ledger_view(ledger, vdev, device_physical_bytes(device), physical_free, ret_total, ret_free);
    return true;
}

/* What has changed without a call that vgpu sees. */
static void look_again(unsigned vdev)
{
    shared_sweep(hook_ledger());
    reconcile_maybe(vdev);
}

CUresult hook_mem_get_info(enum hook_symbol sym, size_t *free, size_t *total)
{
    CUresult result = REAL(sym, mem_get_info)(free, total);
    uint64_t view_free, view_total;
    CUdevice device;
    unsigned vdev;

    if (result != CUDA_SUCCESS || (!free && !total) || !hook_ledger() ||
        device_current(&device, &vdev) < 0)
        return result;
    look_again(vdev);
    if (!view_of(device, vdev, free ? *free : 0, &view_free, &view_total))
        return result;
    if (free)
        *free = (size_t)view_free;
    if (total)
        *total = (size_t)view_total;
    return result;
}

CUresult hook_mem_get_info_v1(enum hook_symbol sym, unsigned int *free, unsigned int *total)
{
    CUresult result = REAL(sym, mem_get_info_v1)(free, total);
    uint64_t view_free, view_total;
    size_t physical_free = 0;
    CUdevice device;
    unsigned vdev;

    if (result != CUDA_SUCCESS || (!free && !total) || !hook_ledger() ||
        device_current(&device, &vdev) < 0)
        return result;
    look_again(vdev);
    if (!HAVE(cuMemGetInfo_v2) || DRIVER(cuMemGetInfo_v2)(&physical_free, NULL) != CUDA_SUCCESS)
        return result;
    if (!view_of(device, vdev, physical_free, &view_free, &view_total))
        return result;
    if (free)
        *free = narrow(view_free);
    if (total)
        *total = narrow(view_total);
    return result;
}

#define TOTAL_MEM(handler, shown)                                                                  \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        CUresult result =                                                                          \
            REAL(sym, handler)(bytes, device_foreign(device) ? DEVICE_NONE : device);              \
        uint64_t view_free, view_total;                                                            \
        unsigned vdev;                                                                             \
                                                                                                   \
        if (result != CUDA_SUCCESS || !hook_ledger() || device_vdev(device, &vdev) < 0)            \
            return result;                                                                         \
        if (view_of(device, vdev, 0, &view_free, &view_total))                                     \
            *bytes = shown(view_total);                                                            \
        return result;                                                                             \
    }

TOTAL_MEM(device_total_mem, (size_t))
TOTAL_MEM(device_total_mem_v1, narrow)
