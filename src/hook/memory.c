/*
 * Plain device memory: cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged, cuMemFree.
 *
 * The driver takes memory in 2 MiB blocks, puts allocations of up to 1 MiB into shared ones and
 * gives empty ones back at once. So one block is set aside for a small allocation, and what is
 * charged are the blocks that it opened.
 */
#include "hook/admission.h"
#include "hook/pool.h"

#define PITCH_BYTES 512 /* a row of a pitched allocation begins on such a boundary */

struct request {
    enum hook_symbol sym;
    enum vgpu_kind kind;
    unsigned vdev;
    uint64_t reserved_bytes;
    struct vgpu_ledger *ledger; /* NULL: nothing is charged, the driver alone answers */
};

/* Sets aside what a request can take. False: over the quota. */
static bool admit(struct request *request, enum hook_symbol sym, enum vgpu_kind kind,
                  const void *ret_address, uint64_t bytes)
{
    struct vgpu_ledger *ledger = hook_ledger();
    CUdevice device;

    request->sym = sym;
    request->kind = kind;
    request->ledger = NULL;
    if (ledger == NULL || ret_address == NULL || bytes == 0 || bytes > CHARGE_LIMIT_BYTES)
        return true;
    if (device_current(&device, &request->vdev) < 0)
        return true;
    request->ledger = ledger;
    request->reserved_bytes = charge_round(bytes, CHARGE_BLOCK_BYTES);
    return charge_reserve(sym, ledger, request->vdev, request->reserved_bytes);
}

/* After the driver's answer: charges what it took, or undoes. Returns what the program gets. */
static CUresult conclude(const struct request *request, CUdeviceptr address, uint64_t bytes,
                         CUresult result)
{
    if (request->ledger == NULL)
        return result;
    if (result != CUDA_SUCCESS) {
        ledger_cancel(request->ledger, request->vdev, request->reserved_bytes);
        return result;
    }
    if (charge_commit(request->sym, request->ledger, CHARGE_POINTERS, address, request->vdev,
                      request->kind, request->reserved_bytes, bytes))
        return CUDA_SUCCESS;
    DRIVER(cuMemFree_v2)(address);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult hook_mem_alloc(enum hook_symbol sym, CUdeviceptr *dptr, size_t bytes)
{
    struct request request;
    CUdeviceptr address = 0;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (dptr == NULL)
        return REAL(sym, mem_alloc)(NULL, bytes);
    if (admit(&request, sym, VGPU_KIND_DATA, dptr, bytes)) {
        result = REAL(sym, mem_alloc)(&address, bytes);
        result = conclude(&request, address, bytes, result);
        if (result == CUDA_SUCCESS)
            *dptr = address;
    }
    trace_memory(sym, bytes, address, result);
    return result;
}

CUresult hook_mem_alloc_v1(enum hook_symbol sym, CUdeviceptr_v1 *dptr, unsigned int bytes)
{
    struct request request;
    CUdeviceptr_v1 address = 0;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (dptr == NULL)
        return REAL(sym, mem_alloc_v1)(NULL, bytes);
    if (admit(&request, sym, VGPU_KIND_DATA, dptr, bytes)) {
        result = REAL(sym, mem_alloc_v1)(&address, bytes);
        result = conclude(&request, address, bytes, result);
        if (result == CUDA_SUCCESS)
            *dptr = address;
    }
    trace_memory(sym, bytes, address, result);
    return result;
}

CUresult hook_mem_alloc_managed(enum hook_symbol sym, CUdeviceptr *dptr, size_t bytes,
                                unsigned int flags)
{
    struct request request;
    CUdeviceptr address = 0;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (dptr == NULL)
        return REAL(sym, mem_alloc_managed)(NULL, bytes, flags);
    if (admit(&request, sym, VGPU_KIND_MANAGED, dptr, bytes)) {
        result = REAL(sym, mem_alloc_managed)(&address, bytes, flags);
        result = conclude(&request, address, bytes, result);
        if (result == CUDA_SUCCESS)
            *dptr = address;
    }
    trace_memory(sym, bytes, address, result);
    return result;
}

/* The bytes that a pitched allocation is expected to take; more than CHARGE_LIMIT_BYTES where no
 * memory holds it. */
static uint64_t pitched_bytes(uint64_t width, uint64_t height)
{
    uint64_t bytes;

    if (width > CHARGE_LIMIT_BYTES ||
        __builtin_mul_overflow(charge_round(width, PITCH_BYTES), height, &bytes))
        return UINT64_MAX;
    return bytes;
}

CUresult hook_mem_alloc_pitch(enum hook_symbol sym, CUdeviceptr *dptr, size_t *pitch, size_t width,
                              size_t height, unsigned int element_bytes)
{
    uint64_t bytes = pitched_bytes(width, height);
    struct request request;
    CUdeviceptr address = 0;
    size_t real_pitch = 0;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (dptr == NULL || pitch == NULL)
        return REAL(sym, mem_alloc_pitch)(dptr, pitch, width, height, element_bytes);
    if (admit(&request, sym, VGPU_KIND_DATA, dptr, bytes)) {
        result = REAL(sym, mem_alloc_pitch)(&address, &real_pitch, width, height, element_bytes);
        if (result == CUDA_SUCCESS)
            bytes = (uint64_t)real_pitch * height;
        result = conclude(&request, address, bytes, result);
        if (result == CUDA_SUCCESS) {
            *dptr = address;
            *pitch = real_pitch;
        }
    }
    trace_memory(sym, bytes, address, result);
    return result;
}

CUresult hook_mem_alloc_pitch_v1(enum hook_symbol sym, CUdeviceptr_v1 *dptr, unsigned int *pitch,
                                 unsigned int width, unsigned int height,
                                 unsigned int element_bytes)
{
    uint64_t bytes = pitched_bytes(width, height);
    struct request request;
    CUdeviceptr_v1 address = 0;
    unsigned int real_pitch = 0;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (dptr == NULL || pitch == NULL)
        return REAL(sym, mem_alloc_pitch_v1)(dptr, pitch, width, height, element_bytes);
    if (admit(&request, sym, VGPU_KIND_DATA, dptr, bytes)) {
        result = REAL(sym, mem_alloc_pitch_v1)(&address, &real_pitch, width, height, element_bytes);
        if (result == CUDA_SUCCESS)
            bytes = (uint64_t)real_pitch * height;
        result = conclude(&request, address, bytes, result);
        if (result == CUDA_SUCCESS) {
            *dptr = address;
            *pitch = real_pitch;
        }
    }
    trace_memory(sym, bytes, address, result);
    return result;
}

/* After the driver's answer to a free of something that was in the table. */
static void freed(uint64_t address, const struct vgpu_track_entry *entry, CUresult result)
{
    if (result == CUDA_SUCCESS)
        charge_give_back(hook_ledger(), CHARGE_POINTERS, address, entry);
    else
        charge_put_back(CHARGE_POINTERS, address, entry);
}

CUresult hook_mem_free(enum hook_symbol sym, CUdeviceptr dptr)
{
    struct vgpu_track_entry entry = {0};
    bool known = charge_take(CHARGE_POINTERS, dptr, &entry);
    CUresult result = REAL(sym, mem_free)(dptr);

    if (known)
        freed(dptr, &entry, result);
    else if (dptr != 0 && result == CUDA_SUCCESS)
        pool_look_again(); /* memory of a pool: a free that waits, after which the pool may have
                              shrunk */
    trace_memory(sym, entry.bytes, dptr, result);
    return result;
}

CUresult hook_mem_free_v1(enum hook_symbol sym, CUdeviceptr_v1 dptr)
{
    struct vgpu_track_entry entry = {0};
    bool known = charge_take(CHARGE_POINTERS, dptr, &entry);
    CUresult result = REAL(sym, mem_free_v1)(dptr);

    if (known)
        freed(dptr, &entry, result);
    trace_memory(sym, entry.bytes, dptr, result);
    return result;
}
