/* cuMemCreate. Memory stays until its handle is released and no mapping is left. */
#include "vmm.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024

static struct sim_physical *buckets[BUCKETS];
static uint64_t next_handle = 0x600000;

struct sim_physical *physical_find(uint64_t handle)
{
    struct sim_physical *physical = buckets[handle % BUCKETS];

    while (physical && physical->handle != handle)
        physical = physical->next;
    return physical;
}

struct sim_physical *physical_of_object(uint64_t id)
{
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        for (struct sim_physical *physical = buckets[bucket]; physical; physical = physical->next) {
            if (physical->object_id == id && !physical->original)
                return physical;
        }
    }
    return NULL;
}

struct sim_physical *physical_new(uint64_t bytes, const CUmemAllocationProp *prop)
{
    struct sim_physical *physical = calloc(1, sizeof(*physical));

    if (!physical)
        return NULL;
    physical->handle = next_handle++;
    physical->bytes = bytes;
    physical->prop = *prop;
    physical->references = 1;
    bool device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    physical->device = sim.map[device ? prop->location.id : 0];
    physical->kind = device ? SIM_VMM : SIM_HOST;
    physical->next = buckets[physical->handle % BUCKETS];
    buckets[physical->handle % BUCKETS] = physical;
    return physical;
}

static void leave_object(struct sim_physical *physical)
{
    if (!physical->object_id)
        return;
    sim_lock_state();
    struct sim_object *object =
        state_object_find_locked(sim.state, physical->object_id, physical->object_nonce);
    if (object && physical->imported)
        state_object_drop_locked(sim.state, object, sim.slot);
    else if (object)
        state_object_disown_locked(sim.state, object);
    state_unlock(sim.state);
}

void physical_put(struct sim_physical *physical)
{
    if (physical->references || physical->mappings || physical->aliases)
        return;
    struct sim_physical *original = physical->original;
    if (!physical->imported)
        sim_release(physical->device, physical->kind, physical->bytes);
    if (!original)
        leave_object(physical);
    LIST_REMOVE(buckets[physical->handle % BUCKETS], physical);
    free(physical);
    if (original) {
        original->aliases--;
        physical_put(original);
    }
}

static int check_prop(const CUmemAllocationProp *prop)
{
    if (!prop || prop->type != 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        return sim_ordinal_valid(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    if (prop->location.type < CU_MEM_LOCATION_TYPE_HOST ||
        prop->location.type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

API(cuMemCreate, CUmemGenericAllocationHandle *ret_handle, size_t bytes,
    const CUmemAllocationProp *prop, unsigned long long flags)
{
    ENTER_KERNEL(cuMemCreate);
    int code = check_prop(prop);
    if (code)
        return code;
    if (!ret_handle || !bytes || bytes % SIM_BLOCK || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->requestedHandleTypes &
        ~(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC))
        return CUDA_ERROR_NOT_SUPPORTED;
    sim_lock();
    struct sim_physical *physical = physical_new(bytes, prop);
    if (!physical) {
        code = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        code = sim_charge(physical->device, physical->kind, bytes);
        if (code) {
            physical->references = 0;
            physical->imported = true; /* nothing to give back */
            physical_put(physical);
        } else {
            *ret_handle = physical->handle;
        }
    }
    sim_unlock();
    return code;
}

API(cuMemRelease, CUmemGenericAllocationHandle handle)
{
    ENTER_KERNEL(cuMemRelease);
    sim_lock();
    struct sim_physical *physical = physical_find(handle);
    bool valid = physical && physical->references;
    if (valid) {
        physical->references--;
        physical_put(physical);
    }
    sim_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp *ret_prop, uint64_t handle)
{
    ENTER(cuMemGetAllocationPropertiesFromHandle);
    if (!ret_prop)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_physical *physical = physical_find(handle);
    if (physical)
        *ret_prop = physical->prop;
    sim_unlock();
    return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API(cuMemGetAllocationGranularity, size_t *ret_bytes, const CUmemAllocationProp *prop,
    CUmemAllocationGranularity_flags option)
{
    ENTER(cuMemGetAllocationGranularity);
    TRY(check_prop(prop));
    if (!ret_bytes || option < 0 || option > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_bytes = SIM_BLOCK;
    return CUDA_SUCCESS;
}
