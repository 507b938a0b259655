/* Errors by name, and what is known about a pointer. */
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

API(cuGetErrorName, int code, const char **ret_name)
{
    ENTER_EARLY(cuGetErrorName);
    if (!ret_name)
        return ERR_INVALID_VALUE;
    *ret_name = error_name(code);
    return *ret_name ? OK : ERR_INVALID_VALUE;
}

API(cuGetErrorString, int code, const char **ret_text)
{
    ENTER_EARLY(cuGetErrorString);
    if (!ret_text)
        return ERR_INVALID_VALUE;
    const char *name = error_name(code);
    *ret_text = !name                               ? NULL
                : code == 0                         ? "no error"
                : !strncmp(name, "CUDA_ERROR_", 11) ? name + 11
                                                    : name;
    return name ? OK : ERR_INVALID_VALUE;
}

enum {
    POINTER_CONTEXT = 1,
    POINTER_MEMORY_TYPE,
    POINTER_DEVICE_POINTER,
    POINTER_HOST_POINTER,
    POINTER_P2P_TOKENS,
    POINTER_SYNC_MEMOPS,
    POINTER_BUFFER_ID,
    POINTER_IS_MANAGED,
    POINTER_DEVICE_ORDINAL,
    POINTER_IPC_CAPABLE,
    POINTER_RANGE_START,
    POINTER_RANGE_SIZE,
    POINTER_MAPPED,
    POINTER_HANDLE_TYPES,
    POINTER_RDMA_CAPABLE,
    POINTER_ACCESS_FLAGS,
    POINTER_POOL,
    POINTER_MAPPING_SIZE,
    POINTER_MAPPING_BASE,
    POINTER_BLOCK_ID,
    POINTER_LAST = 21,
};

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
    return OK;
}

static int put_narrow(void *ret_value, int value)
{
    *(int *)ret_value = value;
    return OK;
}

static int put(const struct facts *facts, int attribute, void *ret_value)
{
    struct sim_range *range = facts->range;

    switch (attribute) {
    case POINTER_CONTEXT:
        return put_wide(ret_value,
                        (uintptr_t)(range && range->context ? range->context : sim_current()));
    case POINTER_MEMORY_TYPE:
        return put_narrow(ret_value, facts->host ? MEMORY_HOST : MEMORY_DEVICE);
    case POINTER_DEVICE_POINTER:
        return put_wide(ret_value, facts->address);
    case POINTER_HOST_POINTER:
        if (!facts->host && !facts->managed)
            return ERR_INVALID_VALUE;
        return put_wide(ret_value, facts->address);
    case POINTER_SYNC_MEMOPS:
        return put_narrow(ret_value, 0);
    case POINTER_BUFFER_ID:
    case POINTER_BLOCK_ID:
        return put_wide(ret_value, range ? range->number : 1);
    case POINTER_IS_MANAGED:
        return put_narrow(ret_value, facts->managed);
    case POINTER_DEVICE_ORDINAL:
        return put_narrow(ret_value, facts->ordinal);
    case POINTER_IPC_CAPABLE:
        return put_narrow(ret_value,
                          range && range->kind == SIM_DATA && range->what != RANGE_IMPORT);
    case POINTER_RANGE_START:
    case POINTER_MAPPING_BASE:
        return put_wide(ret_value, facts->base);
    case POINTER_RANGE_SIZE:
    case POINTER_MAPPING_SIZE:
        return put_wide(ret_value, facts->bytes);
    case POINTER_MAPPED:
    case POINTER_RDMA_CAPABLE:
        return put_narrow(ret_value, 1);
    case POINTER_HANDLE_TYPES:
        return put_wide(ret_value, facts->pool ? (uint64_t)facts->pool->handle_types : 0);
    case POINTER_ACCESS_FLAGS:
        return put_narrow(ret_value, 3);
    case POINTER_POOL:
        return put_wide(ret_value, (uintptr_t)facts->pool);
    default:
        return ERR_NOT_SUPPORTED;
    }
}

API(cuPointerGetAttribute, void *ret_value, int attribute, devptr address)
{
    ENTER(cuPointerGetAttribute);
    if (!ret_value || attribute < POINTER_CONTEXT || attribute > POINTER_LAST)
        return ERR_INVALID_VALUE;
    sim_lock();
    struct facts facts = facts_of(address);
    int code = facts.known ? put(&facts, attribute, ret_value) : ERR_INVALID_VALUE;
    sim_unlock();
    return code;
}

/* For memory nobody knows every answer is empty: zero, and -2 as the device. */
static void put_unknown(int attribute, void *ret_value)
{
    switch (attribute) {
    case POINTER_MEMORY_TYPE:
    case POINTER_SYNC_MEMOPS:
    case POINTER_ACCESS_FLAGS:
    case POINTER_IS_MANAGED:
    case POINTER_IPC_CAPABLE:
    case POINTER_MAPPED:
    case POINTER_RDMA_CAPABLE:
    case POINTER_LAST:
        put_narrow(ret_value, 0);
        break;
    case POINTER_DEVICE_ORDINAL:
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
        return ERR_INVALID_VALUE;
    sim_lock();
    struct facts facts = facts_of(address);
    for (unsigned at = 0; at < count; at++) {
        if (!facts.known || put(&facts, attributes[at], ret_values[at]))
            put_unknown(attributes[at], ret_values[at]);
    }
    sim_unlock();
    return OK;
}

API(cuPointerSetAttribute, const void *value, int attribute, devptr address)
{
    ENTER(cuPointerSetAttribute);
    sim_lock();
    bool known = facts_of(address).known;
    sim_unlock();
    return known && value && attribute == POINTER_SYNC_MEMOPS ? OK : ERR_INVALID_VALUE;
}

API(cuMemAdvise, devptr address, size_t bytes, int advice, int ordinal)
{
    ENTER(cuMemAdvise);
    (void)ordinal;
    sim_lock();
    struct facts facts = facts_of(address);
    sim_unlock();
    return facts.managed && bytes && advice >= 1 && advice <= 6 ? OK : ERR_INVALID_VALUE;
}

API(cuMemAdvise_v2, devptr address, size_t bytes, int advice, struct abi_location location)
{
    ENTER(cuMemAdvise_v2);
    (void)location;
    sim_lock();
    struct facts facts = facts_of(address);
    sim_unlock();
    return facts.managed && bytes && advice >= 1 && advice <= 6 ? OK : ERR_INVALID_VALUE;
}

static int prefetch(devptr address, size_t bytes)
{
    sim_lock();
    struct facts facts = facts_of(address);
    sim_unlock();
    return facts.managed && bytes ? OK : ERR_INVALID_VALUE;
}

API_PTSZ(cuMemPrefetchAsync,
         ordinal < -1 || ordinal >= sim.device_count ? ERR_INVALID_DEVICE
                                                     : prefetch(address, bytes),
         devptr address, size_t bytes, int ordinal, struct sim_stream *stream)
API_PTSZ(cuMemPrefetchAsync_v2, flags ? ERR_INVALID_VALUE : prefetch(address, bytes),
         devptr address, size_t bytes, struct abi_location location, unsigned flags,
         struct sim_stream *stream)
API_TWINS(cuProfilerStart, cuProfilerStop, OK, void)
