/*
 * Pinned host memory: a quota of its own, unlimited unless asked for.
 */
#include "hook/memory/admission.h"

ALLOCATE(mem_alloc_host, MEM_HOST, host, bytes, bytes)
ALLOCATE(mem_alloc_host_v1, MEM_HOST, host, bytes, bytes)
ALLOCATE(mem_host_alloc, MEM_HOST, host, bytes, bytes, flags)

FREE(mem_free_host, MEM_HOST, host)
FREE(mem_host_unregister, MEM_REGISTERED, host)

HANDLER(mem_host_register)
{
    struct admission admission;
    CUresult result = mem_admit(sym, MEM_REGISTERED, host != NULL ? bytes : 0, &admission);

    if (result == CUDA_SUCCESS)
        result = FORWARD(sym, mem_host_register);
    result = mem_settle(&admission, result, (uintptr_t)host, bytes);
    trace_memory(sym, bytes, (uintptr_t)host, result);
    return result;
}
