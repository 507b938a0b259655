/* Memory of other APIs. An import takes the device memory that its description says. */
#include "sim.h"

#include <stdlib.h>
#include <unistd.h>

struct sim_external {
    unsigned magic;
    int device;
    uint64_t bytes;
};

API(cuImportExternalMemory, struct sim_external **ret_external,
    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    ENTER_KERNEL(cuImportExternalMemory);
    NEED_CONTEXT(context);
    if (!ret_external || !desc || !desc->size || (desc->flags & ~1u))
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD &&
        desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_external *external = sim_object(sizeof(*external), MAGIC_EXTERNAL);
    if (!external)
        return CUDA_ERROR_OUT_OF_MEMORY;
    external->device = context->device;
    external->bytes = desc->size;
    if (sim_charge(external->device, SIM_EXTERNAL, external->bytes)) {
        free(external);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (desc->handle.fd >= 0)
        close(desc->handle.fd); /* the driver owns it now */
    *ret_external = external;
    return CUDA_SUCCESS;
}

API(cuExternalMemoryGetMappedBuffer, devptr *ret_address, struct sim_external *external,
    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    ENTER_KERNEL(cuExternalMemoryGetMappedBuffer);
    NEED_CONTEXT(context);
    if (!IS(external, MAGIC_EXTERNAL))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_address || !desc || !desc->size || desc->offset > external->bytes ||
        desc->size > external->bytes - desc->offset)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_range *range = range_new(desc->size, RANGE_IMPORT);
    if (range) {
        range->device = external->device;
        range->kind = SIM_EXTERNAL;
        range_link(range, context);
        *ret_address = range->base;
    }
    sim_unlock();
    return range ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API(cuDestroyExternalMemory, struct sim_external *external)
{
    ENTER_KERNEL(cuDestroyExternalMemory);
    if (!IS(external, MAGIC_EXTERNAL))
        return CUDA_ERROR_INVALID_HANDLE;
    sim_release(external->device, SIM_EXTERNAL, external->bytes);
    handle_retire(external);
    return CUDA_SUCCESS;
}
