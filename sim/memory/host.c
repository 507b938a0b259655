/* Pinned host memory: real memory, counted apart from the device's. */
#include "memory.h"

#include <stdlib.h>
#include <sys/mman.h>

struct host {
    struct host *next;
    struct sim_context *context;
    uintptr_t base;
    size_t bytes;
    unsigned flags;
    bool registered; /* the program's own memory */
};

static struct host *hosts;

static struct host *find(uintptr_t address)
{
    for (struct host *host = hosts; host; host = host->next) {
        if (address >= host->base && address < host->base + host->bytes)
            return host;
    }
    return NULL;
}

bool host_find(devptr address, devptr *ret_base, uint64_t *ret_bytes)
{
    struct host *host = find((uintptr_t)address);

    if (!host)
        return false;
    *ret_base = host->base;
    *ret_bytes = host->bytes;
    return true;
}

static int add(struct sim_context *context, void *memory, size_t bytes, unsigned flags,
               bool registered)
{
    struct host *host = calloc(1, sizeof(*host));

    if (!host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *host = (struct host){hosts, context, (uintptr_t)memory, bytes, flags, registered};
    hosts = host;
    sim_charge(context->device, SIM_HOST, bytes);
    return CUDA_SUCCESS;
}

static void drop(struct host *host)
{
    LIST_REMOVE(hosts, host);
    sim_release(host->context->device, SIM_HOST, host->bytes);
    if (!host->registered)
        munmap((void *)host->base, host->bytes);
    free(host);
}

void host_context_end(struct sim_context *context)
{
    for (struct host *host = hosts, *next; host; host = next) {
        next = host->next;
        if (host->context == context)
            drop(host);
    }
}

static int alloc_call(void **ret_memory, size_t bytes, unsigned flags)
{
    NEED_CONTEXT(context);
    if (!ret_memory || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_refuse());
    if (!bytes) {
        *ret_memory = NULL;
        return CUDA_SUCCESS;
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_lock();
    int code = add(context, memory, bytes, flags, false);
    sim_unlock();
    if (code)
        munmap(memory, bytes);
    else
        *ret_memory = memory;
    return code;
}

API_AS_KERNEL(cuMemAllocHost, alloc_call(ret_memory, bytes, 0), void **ret_memory, unsigned bytes)
API_AS_KERNEL(cuMemAllocHost_v2, alloc_call(ret_memory, bytes, 0), void **ret_memory, size_t bytes)
API_AS_KERNEL(cuMemHostAlloc, alloc_call(ret_memory, bytes, flags), void **ret_memory, size_t bytes,
              unsigned flags)

API(cuMemFreeHost, void *memory)
{
    ENTER_KERNEL(cuMemFreeHost);
    if (!memory)
        return CUDA_SUCCESS;
    sim_lock();
    struct host *host = find((uintptr_t)memory);
    bool own = host && host->base == (uintptr_t)memory && !host->registered;
    if (own)
        drop(host);
    sim_unlock();
    return own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static int register_call(void *memory, size_t bytes, unsigned flags)
{
    int code;

    NEED_CONTEXT(context);
    if (!memory || !bytes || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_refuse());
    sim_lock();
    if (find((uintptr_t)memory) || find((uintptr_t)memory + bytes - 1))
        code = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else
        code = add(context, memory, bytes, flags, true);
    sim_unlock();
    return code;
}

API_TWINS_KERNEL(cuMemHostRegister, cuMemHostRegister_v2, register_call(memory, bytes, flags),
                 void *memory, size_t bytes, unsigned flags)

API(cuMemHostUnregister, void *memory)
{
    ENTER_KERNEL(cuMemHostUnregister);
    NEED_CONTEXT(context);
    sim_lock();
    struct host *host = find((uintptr_t)memory);
    bool own = host && host->base == (uintptr_t)memory && host->registered;
    if (own)
        drop(host);
    sim_unlock();
    return own    ? CUDA_SUCCESS
           : host ? CUDA_ERROR_INVALID_VALUE
                  : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

API(cuMemHostGetDevicePointer_v2, devptr *ret_address, void *memory, unsigned flags)
{
    ENTER(cuMemHostGetDevicePointer_v2);
    if (!ret_address || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    bool known = find((uintptr_t)memory) != NULL;
    sim_unlock();
    if (!known)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_address = (devptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}

API(cuMemHostGetFlags, unsigned *ret_flags, void *memory)
{
    ENTER(cuMemHostGetFlags);
    if (!ret_flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct host *host = find((uintptr_t)memory);
    if (host)
        *ret_flags = host->flags | 2; /* everything is mapped */
    sim_unlock();
    return host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
