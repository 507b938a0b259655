/*
 * Memory of another API (Vulkan, OpenGL, NvSci), imported: nobody else of the instance is charged
 * for it.
 */
#include "hook/admission.h"

CUresult hook_import_external_memory(enum hook_symbol sym, CUexternalMemory *memory,
                                     const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    struct vgpu_ledger *ledger = hook_ledger();
    uint64_t bytes = desc != NULL ? desc->size : 0;
    CUexternalMemory imported = NULL;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    CUdevice device;
    unsigned vdev;

    if (ledger == NULL || memory == NULL || bytes == 0 || bytes > CHARGE_LIMIT_BYTES ||
        device_current(&device, &vdev) < 0) {
        result = REAL(sym, import_external_memory)(memory, desc);
        trace_memory(sym, bytes, result == CUDA_SUCCESS ? (uintptr_t)*memory : 0, result);
        return result;
    }
    if (!charge_reserve(sym, ledger, vdev, bytes))
        goto out;
    result = REAL(sym, import_external_memory)(&imported, desc);
    if (result != CUDA_SUCCESS) {
        ledger_cancel(ledger, vdev, bytes);
    } else if (charge_commit(sym, ledger, CHARGE_EXTERNAL, (uintptr_t)imported, vdev,
                             VGPU_KIND_EXTERNAL, bytes, bytes)) {
        *memory = imported;
    } else {
        DRIVER(cuDestroyExternalMemory)(imported);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
out:
    trace_memory(sym, bytes, (uintptr_t)imported, result);
    return result;
}

CUresult hook_destroy_external_memory(enum hook_symbol sym, CUexternalMemory memory)
{
    struct vgpu_track_entry entry = {0};
    bool known = charge_take(CHARGE_EXTERNAL, (uintptr_t)memory, &entry);
    CUresult result = REAL(sym, destroy_external_memory)(memory);

    if (known && result == CUDA_SUCCESS)
        charge_give_back(hook_ledger(), CHARGE_EXTERNAL, (uintptr_t)memory, &entry);
    else if (known)
        charge_put_back(CHARGE_EXTERNAL, (uintptr_t)memory, &entry);
    trace_memory(sym, entry.bytes, (uintptr_t)memory, result);
    return result;
}
