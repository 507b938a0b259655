/* Reserved addresses and what is mapped there. */
#include "vmm.h"

#include <stdlib.h>
#include <sys/mman.h>

struct mapping {
    struct mapping *next;
    devptr base;
    uint64_t bytes;
    struct sim_physical *physical;
    int access;
    bool touched;
};

static struct mapping *mapping_of(const struct sim_range *range, devptr address)
{
    for (struct mapping *mapping = range->owner; mapping; mapping = mapping->next) {
        if (address >= mapping->base && address < mapping->base + mapping->bytes)
            return mapping;
    }
    return NULL;
}

static struct sim_range *reservation(devptr address, uint64_t bytes)
{
    struct sim_range *range = range_find(address);

    if (!range || range->what != RANGE_RESERVED || bytes > range->base + range->bytes - address)
        return NULL;
    return range;
}

static bool mapping_find(struct sim_range *range, devptr address, devptr *ret_base,
                         uint64_t *ret_bytes)
{
    struct mapping *mapping = mapping_of(range, address);

    if (!mapping)
        return false;
    *ret_base = mapping->base;
    *ret_bytes = mapping->bytes;
    return true;
}

struct sim_physical *mapping_physical(devptr address)
{
    struct sim_range *range = reservation(address, 0);
    struct mapping *mapping = range ? mapping_of(range, address) : NULL;

    return mapping ? mapping->physical : NULL;
}

static bool mapping_touch(struct sim_range *range, devptr address, uint64_t bytes)
{
    devptr end = address + bytes;

    while (address < end) {
        struct mapping *mapping = mapping_of(range, address);
        if (!mapping || mapping->bytes > SIM_BACKED)
            return false;
        if (!mapping->touched &&
            mprotect((void *)(uintptr_t)mapping->base, mapping->bytes, PROT_READ | PROT_WRITE))
            return false;
        mapping->touched = true;
        address = mapping->base + mapping->bytes;
    }
    return true;
}

static const struct range_ops mapping_ops = {mapping_find, mapping_touch, range_free_whole};

API(cuMemAddressReserve, devptr *ret_address, size_t bytes, size_t alignment, devptr wanted,
    unsigned long long flags)
{
    ENTER_KERNEL(cuMemAddressReserve);
    if (!ret_address || !bytes || bytes % SIM_BLOCK || flags || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_range *range = range_new_at(wanted, bytes, alignment, RANGE_RESERVED);
    if (range) {
        range->kind = SIM_VMM;
        range->ops = &mapping_ops;
        *ret_address = range->base;
    }
    sim_unlock();
    return range ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API(cuMemAddressFree, devptr address, size_t bytes)
{
    ENTER_KERNEL(cuMemAddressFree);
    sim_lock();
    struct sim_range *range = reservation(address, bytes);
    bool valid = range && range->base == address && range->bytes == bytes && !range->owner;
    if (valid)
        range_free(range);
    sim_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool overlaps(const struct sim_range *range, devptr address, uint64_t bytes)
{
    for (struct mapping *mapping = range->owner; mapping; mapping = mapping->next) {
        if (address < mapping->base + mapping->bytes && mapping->base < address + bytes)
            return true;
    }
    return false;
}

static int map(devptr address, uint64_t bytes, uint64_t handle)
{
    struct sim_range *range = reservation(address, bytes);
    struct sim_physical *physical = physical_find(handle);

    if (!range || !physical)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes != physical->bytes)
        return CUDA_ERROR_NOT_SUPPORTED; /* as the real driver has it */
    if (overlaps(range, address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct mapping *mapping = calloc(1, sizeof(*mapping));
    if (!mapping)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *mapping = (struct mapping){
        .next = range->owner, .base = address, .bytes = bytes, .physical = physical};
    range->owner = mapping;
    physical->mappings++;
    return CUDA_SUCCESS;
}

API(cuMemMap, devptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
    unsigned long long flags)
{
    ENTER_KERNEL(cuMemMap);
    if (!bytes || bytes % SIM_BLOCK || address % SIM_BLOCK || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (offset)
        return CUDA_ERROR_NOT_SUPPORTED;
    sim_lock();
    int code = map(address, bytes, handle);
    sim_unlock();
    return code;
}

/* True if whole mappings cover the range, without a gap. */
static bool covers(const struct sim_range *range, devptr address, uint64_t bytes)
{
    devptr end = address + bytes;

    while (address < end) {
        struct mapping *mapping = mapping_of(range, address);
        if (!mapping || mapping->base != address || mapping->base + mapping->bytes > end)
            return false;
        address = mapping->base + mapping->bytes;
    }
    return true;
}

static int unmap(devptr address, uint64_t bytes)
{
    struct sim_range *range = reservation(address, bytes);

    if (!range || !covers(range, address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    for (struct mapping **link = (struct mapping **)&range->owner; *link;) {
        struct mapping *mapping = *link;
        if (mapping->base < address || mapping->base >= address + bytes) {
            link = &mapping->next;
            continue;
        }
        *link = mapping->next;
        if (mapping->touched)
            mmap((void *)(uintptr_t)mapping->base, mapping->bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        mapping->physical->mappings--;
        physical_put(mapping->physical);
        free(mapping);
    }
    return CUDA_SUCCESS;
}

API(cuMemUnmap, devptr address, size_t bytes)
{
    ENTER_KERNEL(cuMemUnmap);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = unmap(address, bytes);
    sim_unlock();
    return code;
}

API(cuMemSetAccess, devptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    ENTER_KERNEL(cuMemSetAccess);
    if (!bytes || !access || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < count; at++) {
        if (access[at].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
            !sim_ordinal_valid(access[at].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
    }
    sim_lock();
    struct sim_range *range = reservation(address, bytes);
    bool valid = range && covers(range, address, bytes);
    for (devptr at = address; valid && at < address + bytes;) {
        struct mapping *mapping = mapping_of(range, at);
        mapping->access = access[0].flags;
        at = mapping->base + mapping->bytes;
    }
    sim_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API(cuMemGetAccess, unsigned long long *ret_flags, const CUmemLocation *location, devptr address)
{
    ENTER(cuMemGetAccess);
    if (!ret_flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_range *range = reservation(address, 0);
    struct mapping *mapping = range ? mapping_of(range, address) : NULL;
    if (mapping)
        *ret_flags = (unsigned long long)mapping->access;
    sim_unlock();
    return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle *ret_handle, void *address)
{
    ENTER(cuMemRetainAllocationHandle);
    if (!ret_handle)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_physical *physical = mapping_physical((devptr)(uintptr_t)address);
    if (physical) {
        physical->references++;
        *ret_handle = physical->handle;
    }
    sim_unlock();
    return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
