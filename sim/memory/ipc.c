/* Memory that processes share: descriptors of physical memory and of pools, and IPC handles. */
#include "pool.h"
#include "vmm.h"

#include <string.h>

#define IPC_MAGIC 0x73696d6770756970ULL

/* A descriptor of an object that this process has made. */
static int export_fd(uint64_t id, uint64_t nonce, int *ret_fd)
{
    sim_lock_state();
    struct sim_object *object = state_object_find_locked(sim.state, id, nonce);
    int error = object ? files_descriptor_new(object, ret_fd) : -1;
    state_unlock(sim.state);
    return error ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

/* Copies the object of a descriptor. */
static int export_read(int fd, struct sim_object *ret_copy)
{
    uint64_t id = files_descriptor_id(fd);

    sim_lock_state();
    struct sim_object *object = id ? state_object_find_locked(sim.state, id, 0) : NULL;
    if (object)
        *ret_copy = *object;
    state_unlock(sim.state);
    return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Makes an object with the size and properties of `wanted`, owned by this process. */
static int make_object(const struct sim_object *wanted, uint64_t *ret_id, uint64_t *ret_nonce)
{
    sim_lock_state();
    struct sim_object *object =
        state_object_new_locked(sim.state, sim.slot, wanted->device, wanted->bytes);
    if (object) {
        object->pool = wanted->pool;
        object->map_bytes = wanted->map_bytes;
        object->prop = wanted->prop;
        *ret_id = object->id;
        *ret_nonce = object->nonce;
    }
    state_unlock(sim.state);
    return object ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Holds the object for this process. *ret_owner: this process made it. */
static int hold_object(uint64_t id, uint64_t nonce, bool *ret_owner, struct sim_object *ret_copy)
{
    sim_lock_state();
    struct sim_object *object = state_object_find_locked(sim.state, id, nonce);
    if (object) {
        *ret_owner = object->owner == sim.slot;
        if (!*ret_owner)
            state_object_hold_locked(object, sim.slot);
        *ret_copy = *object;
    }
    state_unlock(sim.state);
    return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static int export_physical(struct sim_physical *physical, int *ret_fd)
{
    struct sim_object wanted = {.device = physical->device,
                                .bytes = physical->kind == SIM_HOST ? 0 : physical->bytes,
                                .map_bytes = physical->bytes,
                                .prop = physical->prop};
    int code = CUDA_SUCCESS;

    if (!physical->object_id)
        code = make_object(&wanted, &physical->object_id, &physical->object_nonce);
    return code ? code : export_fd(physical->object_id, physical->object_nonce, ret_fd);
}

API(cuMemExportToShareableHandle, void *ret_shareable, CUmemGenericAllocationHandle handle,
    CUmemAllocationHandleType type, unsigned long long flags)
{
    ENTER_KERNEL(cuMemExportToShareableHandle);
    if (!ret_shareable || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    sim_lock();
    struct sim_physical *physical = physical_find(handle);
    int code = CUDA_ERROR_INVALID_VALUE;
    if (physical && physical->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        code = export_physical(physical, ret_shareable);
    sim_unlock();
    return code;
}

static int import_physical(const struct sim_object *content,
                           CUmemGenericAllocationHandle *ret_handle)
{
    struct sim_physical *original = physical_of_object(content->id);
    struct sim_object object;
    bool owner;

    if (!original) {
        int code = hold_object(content->id, content->nonce, &owner, &object);
        if (code)
            return code;
    }
    struct sim_physical *physical = physical_new(content->map_bytes, &content->prop);
    if (!physical)
        return CUDA_ERROR_OUT_OF_MEMORY;
    physical->imported = true;
    physical->original = original;
    if (original)
        original->aliases++;
    physical->device = content->device;
    physical->object_id = content->id;
    physical->object_nonce = content->nonce;
    *ret_handle = physical->handle;
    return CUDA_SUCCESS;
}

API(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle *ret_handle, void *shareable,
    CUmemAllocationHandleType type)
{
    struct sim_object content;

    ENTER_KERNEL(cuMemImportFromShareableHandle);
    if (!ret_handle)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    int code = export_read((int)(intptr_t)shareable, &content);
    if (code || content.pool)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    code = import_physical(&content, ret_handle);
    sim_unlock();
    return code;
}

struct pool_pointer { /* in the 64 bytes of CUmemPoolPtrExportData */
    uint64_t id;
    uint64_t nonce;
    uint64_t offset;
    uint64_t bytes;
    unsigned char reserved[32];
};

static int ipc_handle(devptr address, struct sim_ipc_handle *handle)
{
    struct sim_range *range;
    devptr base;
    uint64_t bytes;

    if (!address_find(address, &base, &bytes, &range) || range->kind != SIM_DATA ||
        (range->what != RANGE_DATA && range->what != RANGE_BLOCK))
        return CUDA_ERROR_INVALID_VALUE;
    if (!range->object_id) {
        struct sim_object wanted = {.device = range->device, .bytes = range->charged};
        int code = make_object(&wanted, &range->object_id, &range->object_nonce);
        if (code)
            return code;
    }
    memset(handle, 0, sizeof(*handle));
    handle->magic = IPC_MAGIC;
    handle->id = range->object_id;
    handle->nonce = range->object_nonce;
    handle->offset = base - range->base;
    handle->bytes = bytes;
    handle->pid = sim.self->pid;
    return CUDA_SUCCESS;
}

API(cuIpcGetMemHandle, CUipcMemHandle *ret_handle, devptr address)
{
    ENTER_KERNEL(cuIpcGetMemHandle);
    if (!ret_handle)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = ipc_handle(address, (struct sim_ipc_handle *)ret_handle);
    sim_unlock();
    return code;
}

static struct sim_range *imported(struct sim_context *context, uint64_t id)
{
    for (struct sim_range *range = context->ranges; range; range = range->next) {
        if (range->what == RANGE_IMPORT && range->object_id == id)
            return range;
    }
    return NULL;
}

static int open_ipc(struct sim_context *context, const struct sim_ipc_handle *handle,
                    devptr *ret_address)
{
    struct sim_range *range = imported(context, handle->id);
    struct sim_object object;
    bool owner;

    if (range) {
        range->references++;
        *ret_address = range->base + handle->offset;
        return CUDA_SUCCESS;
    }
    TRY(hold_object(handle->id, handle->nonce, &owner, &object));
    if (owner)
        return CUDA_ERROR_INVALID_CONTEXT;
    range = range_new(object.bytes, RANGE_IMPORT);
    if (!range)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range->device = object.device;
    range->kind = SIM_DATA;
    range->object_id = handle->id;
    range->object_nonce = handle->nonce;
    range_link(range, context);
    *ret_address = range->base + handle->offset;
    return CUDA_SUCCESS;
}

static int open_call(devptr *ret_address, const CUipcMemHandle *bytes, unsigned flags)
{
    struct sim_ipc_handle handle;

    NEED_CONTEXT(context);
    memcpy(&handle, bytes, sizeof(handle));
    if (!ret_address || handle.magic != IPC_MAGIC || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = open_ipc(context, &handle, ret_address);
    sim_unlock();
    return code;
}

API_TWINS_KERNEL(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, open_call(ret_address, &handle, flags),
                 devptr *ret_address, CUipcMemHandle handle, unsigned flags)

API(cuIpcCloseMemHandle, devptr address)
{
    ENTER_KERNEL(cuIpcCloseMemHandle);
    sim_lock();
    struct sim_range *range = range_find(address);
    bool valid = range && range->what == RANGE_IMPORT && range->object_id;
    if (valid && --range->references == 0)
        range_free(range);
    sim_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API(cuMemPoolExportToShareableHandle, void *ret_shareable, struct sim_pool *pool, int type,
    unsigned long long flags)
{
    ENTER_KERNEL(cuMemPoolExportToShareableHandle);
    if (!ret_shareable || !IS(pool, MAGIC_POOL) || flags ||
        type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !(pool->handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = CUDA_SUCCESS;
    if (!pool->object_id)
        code = make_object(&(struct sim_object){.device = pool->device, .pool = 1},
                           &pool->object_id, &pool->object_nonce);
    if (!code)
        code = export_fd(pool->object_id, pool->object_nonce, ret_shareable);
    sim_unlock();
    return code;
}

API(cuMemPoolImportFromShareableHandle, struct sim_pool **ret_pool, void *shareable,
    CUmemAllocationHandleType type, unsigned long long flags)
{
    struct sim_object content;

    ENTER_KERNEL(cuMemPoolImportFromShareableHandle);
    if (!ret_pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        export_read((int)(intptr_t)shareable, &content) || !content.pool)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_pool *pool = pool_new(content.device, SIM_POOL);
    if (pool) {
        pool->imported = true;
        pool->object_id = content.id;
        pool->object_nonce = content.nonce;
        *ret_pool = pool;
    }
    sim_unlock();
    return pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API(cuMemPoolExportPointer, struct pool_pointer *ret_pointer, devptr address)
{
    struct sim_range *range;
    devptr base;
    uint64_t bytes;

    ENTER(cuMemPoolExportPointer);
    if (!ret_pointer)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    bool found = address_find(address, &base, &bytes, &range) && range->what == RANGE_POOL;
    struct sim_pool *pool = found ? range->owner : NULL;
    if (found) {
        memset(ret_pointer, 0, sizeof(*ret_pointer));
        *ret_pointer = (struct pool_pointer){
            .id = pool->object_id, .nonce = pool->object_nonce, .bytes = bytes};
    }
    sim_unlock();
    return found && pool->object_id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API(cuMemPoolImportPointer, devptr *ret_address, struct sim_pool *pool,
    const struct pool_pointer *pointer)
{
    ENTER(cuMemPoolImportPointer);
    NEED_CONTEXT(context);
    if (!ret_address || !pointer || !IS(pool, MAGIC_POOL) || !pool->imported ||
        pointer->id != pool->object_id)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_range *range = range_new(pointer->bytes, RANGE_IMPORT);
    if (range) {
        range->device = pool->device;
        range->kind = SIM_POOL;
        range_link(range, context);
        *ret_address = range->base;
    }
    sim_unlock();
    return range ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
