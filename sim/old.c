/*
 * The memory calls of the first ABI, with 32-bit addresses. The real driver refuses them in a context of today
 * (measured), so there is nothing to simulate.
 */
#include "sim.h"

API(cuMemAlloc, unsigned *ret_address, unsigned bytes)
{
    ENTER(cuMemAlloc);
    (void)ret_address;
    (void)bytes;
    return ERR_INVALID_CONTEXT;
}

API(cuMemAllocPitch, unsigned *ret_address, unsigned *ret_pitch, unsigned width, unsigned height,
    unsigned element_bytes)
{
    ENTER(cuMemAllocPitch);
    (void)ret_address;
    (void)ret_pitch;
    (void)width;
    (void)height;
    (void)element_bytes;
    return ERR_INVALID_CONTEXT;
}

API(cuMemFree, unsigned address)
{
    ENTER(cuMemFree);
    (void)address;
    return ERR_INVALID_CONTEXT;
}

API(cuMemGetInfo, unsigned *ret_free, unsigned *ret_total)
{
    ENTER(cuMemGetInfo);
    if (ret_free)
        *ret_free = 0;
    if (ret_total)
        *ret_total = 0;
    return ERR_INVALID_CONTEXT;
}
