/*
 * Plain device memory: cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged, cuMemFree.
 *
 * The driver takes memory in 2 MiB blocks, puts allocations of up to 1 MiB into shared ones and
 * frees empty ones at once. So a small allocation reserves one block, and is charged for the blocks
 * that it opens.
 */
#include "hook/memory/admission.h"
#include "hook/memory/pool.h"

#define PITCH_BYTES 512 /* a row of a pitched allocation begins on such a boundary */

ALLOCATE(mem_alloc, MEM_DATA, dptr, bytes, bytes)
ALLOCATE(mem_alloc_v1, MEM_DATA, dptr, bytes, bytes)
ALLOCATE(mem_alloc_managed, MEM_MANAGED, dptr, bytes, bytes, flags)

/* The bytes that a pitched allocation is expected to take; more than MEM_LIMIT_BYTES if no memory
 * holds it. */
static uint64_t pitched_bytes(uint64_t width, uint64_t height)
{
    uint64_t bytes;

    if (width > MEM_LIMIT_BYTES ||
        __builtin_mul_overflow(mem_round(width, PITCH_BYTES), height, &bytes))
        return UINT64_MAX;
    return bytes;
}

#define ALLOCATE_PITCHED(handler)                                                                  \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        uint64_t bytes = pitched_bytes(width, height);                                             \
        struct admission admission;                                                                \
        __typeof__(*dptr) address = 0;                                                             \
        __typeof__(*pitch) real_pitch = 0;                                                         \
        CUresult result;                                                                           \
                                                                                                   \
        if (dptr == NULL || pitch == NULL)                                                         \
            return FORWARD(sym, handler);                                                          \
        result = mem_admit(sym, MEM_DATA, bytes, &admission);                                      \
        if (result == CUDA_SUCCESS)                                                                \
            result = REAL(sym, handler)(&address, &real_pitch, width, height, element_bytes);      \
        if (result == CUDA_SUCCESS)                                                                \
            bytes = (uint64_t)real_pitch * height;                                                 \
        result = mem_settle(&admission, result, address, bytes);                                   \
        if (result == CUDA_SUCCESS) {                                                              \
            *dptr = address;                                                                       \
            *pitch = real_pitch;                                                                   \
        }                                                                                          \
        trace_memory(sym, bytes, address, result);                                                 \
        return result;                                                                             \
    }

ALLOCATE_PITCHED(mem_alloc_pitch)
ALLOCATE_PITCHED(mem_alloc_pitch_v1)

FREE(mem_free_v1, MEM_DATA, dptr)

HANDLER(mem_free)
{
    struct mem_free freeing;
    bool known = mem_free_begin(MEM_DATA, dptr, &freeing);
    CUresult result = REAL(sym, mem_free)(dptr);

    mem_free_end(&freeing, result);
    /* Memory of a pool: such a free waits, and the pool may have shrunk after it. */
    if (!known && dptr != 0 && result == CUDA_SUCCESS)
        pool_refresh();
    trace_memory(sym, freeing.entry.bytes, dptr, result);
    return result;
}
