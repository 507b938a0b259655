/* Names of errors, and attributes of pointers. */
#include "pool.h"
#include "vmm.h"

#include <string.h>

static const char *error_name(int code)
{
    switch (code) {
#define ERROR(number, name)                                                                        \
    case number:                                                                                   \
        return #name;
#include "errors.def"
#undef ERROR
    default:
        return NULL;
    }
}

API(cuGetErrorName, CUresult code, const char **ret_name)
{
    ENTER_EARLY(cuGetErrorName);
    if (!ret_name)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_name = error_name(code);
    return *ret_name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API(cuGetErrorString, int code, const char **ret_text)
{
    ENTER_EARLY(cuGetErrorString);
    if (!ret_text)
        return CUDA_ERROR_INVALID_VALUE;
    const char *name = error_name(code);
    *ret_text = !name                               ? NULL
                : code == 0                         ? "no error"
                : !strncmp(name, "CUDA_ERROR_", 11) ? name + 11
                                                    : name;
    return name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#define POINTER_LAST CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID

struct facts {
    bool known, host, managed;
    devptr address, base;
    uint64_t bytes;
    struct sim_range *range;
    int ordinal;
    struct sim_pool *pool;
};

static int ordinal_of(int device)
{
    for (int ordinal = 0; ordinal < sim.device_count; ordinal++) {
        if (sim.map[ordinal] == device)
            return ordinal;
    }
    return -1;
}

static struct facts facts_of(devptr address)
{
    struct facts facts = {.address = address, .ordinal = -2};

    if (address_find(address, &facts.base, &facts.bytes, &facts.range)) {
        struct sim_physical *physical =
            facts.range->what == RANGE_RESERVED ? mapping_physical(address) : NULL;
        facts.known = true;
        facts.managed = facts.range->kind == SIM_MANAGED;
        facts.host = facts.range->kind == SIM_HOST || (physical && physical->kind == SIM_HOST);
        facts.ordinal = ordinal_of(physical ? physical->device : facts.range->device);
        if (facts.range->what == RANGE_POOL)
            facts.pool = facts.range->owner;
    } else if (host_find(address, &facts.base, &facts.bytes)) {
        facts.known = facts.host = true;
        facts.ordinal = 0;
    }
    return facts;
}

static int put_wide(void *ret_value, uint64_t value)
{
    *(uint64_t *)ret_value = value;
    return CUDA_SUCCESS;
}

static int put_narrow(void *ret_value, int value)
{
    *(int *)ret_value = value;
    return CUDA_SUCCESS;
}

static int put(const struct facts *facts, int attribute, void *ret_value)
{
    struct sim_range *range = facts->range;

    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return put_wide(ret_value,
                        (uintptr_t)(range && range->context ? range->context : sim_current()));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return put_narrow(ret_value, facts->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return put_wide(ret_value, facts->address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!facts->host && !facts->managed)
            return CUDA_ERROR_INVALID_VALUE;
        return put_wide(ret_value, facts->address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return put_narrow(ret_value, 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return put_wide(ret_value, range ? range->number : 1);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return put_narrow(ret_value, facts->managed);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return put_narrow(ret_value, facts->ordinal);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return put_narrow(ret_value,
                          range && range->kind == SIM_DATA && range->what != RANGE_IMPORT);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return put_wide(ret_value, facts->base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return put_wide(ret_value, facts->bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return put_narrow(ret_value, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return put_wide(ret_value, facts->pool ? (uint64_t)facts->pool->handle_types : 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return put_narrow(ret_value, 3);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return put_wide(ret_value, (uintptr_t)facts->pool);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

API(cuPointerGetAttribute, void *ret_value, CUpointer_attribute attribute, devptr address)
{
    ENTER(cuPointerGetAttribute);
    if (!ret_value || attribute < CU_POINTER_ATTRIBUTE_CONTEXT || attribute > POINTER_LAST)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct facts facts = facts_of(address);
    int code = facts.known ? put(&facts, attribute, ret_value) : CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return code;
}

/* For unknown memory all attributes are zero, but the device, which is -2. */
static void put_unknown(int attribute, void *ret_value)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case POINTER_LAST:
        put_narrow(ret_value, 0);
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put_narrow(ret_value, -2);
        break;
    default:
        put_wide(ret_value, 0);
    }
}

API(cuPointerGetAttributes, unsigned count, const int *attributes, void **ret_values,
    devptr address)
{
    ENTER(cuPointerGetAttributes);
    if (!count || !attributes || !ret_values)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct facts facts = facts_of(address);
    for (unsigned at = 0; at < count; at++) {
        if (!facts.known || put(&facts, attributes[at], ret_values[at]))
            put_unknown(attributes[at], ret_values[at]);
    }
    sim_unlock();
    return CUDA_SUCCESS;
}

API(cuPointerSetAttribute, const void *value, int attribute, devptr address)
{
    ENTER(cuPointerSetAttribute);
    sim_lock();
    bool known = facts_of(address).known;
    sim_unlock();
    return known && value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

API(cuMemAdvise, devptr address, size_t bytes, int advice, int ordinal)
{
    ENTER(cuMemAdvise);
    (void)ordinal;
    sim_lock();
    struct facts facts = facts_of(address);
    sim_unlock();
    return facts.managed && bytes && advice >= 1 && advice <= 6 ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_VALUE;
}

API(cuMemAdvise_v2, devptr address, size_t bytes, int advice, CUmemLocation location)
{
    ENTER(cuMemAdvise_v2);
    (void)location;
    sim_lock();
    struct facts facts = facts_of(address);
    sim_unlock();
    return facts.managed && bytes && advice >= 1 && advice <= 6 ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_VALUE;
}

static int prefetch(devptr address, size_t bytes)
{
    sim_lock();
    struct facts facts = facts_of(address);
    sim_unlock();
    return facts.managed && bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API_PTSZ(cuMemPrefetchAsync,
         ordinal < -1 || ordinal >= sim.device_count ? CUDA_ERROR_INVALID_DEVICE
                                                     : prefetch(address, bytes),
         devptr address, size_t bytes, int ordinal, struct sim_stream *stream)
API_PTSZ(cuMemPrefetchAsync_v2, flags ? CUDA_ERROR_INVALID_VALUE : prefetch(address, bytes),
         devptr address, size_t bytes, CUmemLocation location, unsigned flags,
         struct sim_stream *stream)
API_TWINS(cuProfilerStart, cuProfilerStop, CUDA_SUCCESS, void)
