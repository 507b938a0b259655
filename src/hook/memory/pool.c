/* Memory pools, cuMemAllocAsync, cuMemAllocFromPoolAsync and cuMemFreeAsync. */
#include "hook/memory/pool.h"

#include "base/cleanup.h"
#include "base/forkwatch.h"
#include "base/nocancel.h"
#include "hook/work/capture.h"
#include "hook/memory/admission.h"
#include "hook/memory/graph.h"
#include "hook/memory/driver_sized.h"
#include "hook/memory/pending_free.h"
#include "hook/memory/reconcile.h"
#include "hook/loader/sources.h"
#include "hook/work/stream_key.h"
#include "account/refuse.h"

#include <stdlib.h>

/* Never freed: a handle that comes back finds its pool again. */
struct pool {
    struct driver_sized sized;
    CUmemoryPool handle;
    CUdevice device;
    atomic_bool counted; /* a device of the instance has it, and this process is charged */
};

static struct vgpu_mutex pools_lock = VGPU_MUTEX_INIT; /* for adding a pool, and for what follows */

/* The current pool of each device, as the driver answered last. Forgotten when anybody
 * changes one. */
static _Atomic(struct pool *) current_pool[VGPU_DEVICES_MAX];
static atomic_uint current_generation;

/* The size of a pool */

static bool read_pool(const struct driver_sized *sized, uint64_t *ret_bytes)
{
    const struct pool *pool = (const struct pool *)sized; /* its first member */
    cuuint64_t value = 0;

    if (DRIVER(cuMemPoolGetAttribute)(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value) !=
        CUDA_SUCCESS)
        return false;
    *ret_bytes = value;
    return true;
}

static void trim_pool(struct driver_sized *sized)
{
    if (HAVE(cuMemPoolTrimTo))
        DRIVER(cuMemPoolTrimTo)(((struct pool *)sized)->handle, 0);
}

static const struct driver_sized_ops pool_driver = {.read = read_pool, .trim = trim_pool};

void pool_refresh_all(void)
{
    NO_CANCEL;

    fork_check();
    pending_free_settle();
    driver_sized_refresh_all(&pool_driver);
}

void pool_refresh_after(CUstream stream, bool per_thread)
{
    NO_CANCEL;

    fork_check();
    pending_free_settle_stream(stream, per_thread);
    driver_sized_refresh_all(&pool_driver);
}

void pool_refresh(void)
{
    driver_sized_refresh_all(&pool_driver);
}

/* The table of pools */

static struct pool *pool_find(CUmemoryPool handle)
{
    struct vgpu_track_entry entry;

    return record_get(RECORDS_POOLS, (uintptr_t)handle, &entry)
               ? (struct pool *)(uintptr_t)entry.extra
               : NULL;
}

static void forget_current(void)
{
    mutex_lock(&pools_lock);
    atomic_fetch_add(&current_generation, 1);
    for (int i = 0; i < VGPU_DEVICES_MAX; i++)
        atomic_store(&current_pool[i], NULL);
    mutex_unlock(&pools_lock);
}

static void pool_forget(void)
{
    mutex_init(&pools_lock);
    forget_current();
}

static struct memory_source pool_source = {.forked = pool_forget};

/* Records `handle`, or records it anew. `device` negative: it is not counted. NULL: no memory. */
static struct pool *pool_add(CUmemoryPool handle, CUdevice device, enum vgpu_kind kind, bool anew)
{
    unsigned vdev = 0;
    bool counted = device >= 0 && device_vdev(device, &vdev) == 0;
    struct vgpu_track_entry entry = {.kind = kind};
    struct pool *pool;

    sources_register(&pool_source);
    fork_check();
    mutex_lock(&pools_lock);
    pool = pool_find(handle);
    if (pool == NULL) {
        pool = hook_zalloc(sizeof(*pool));
        if (pool == NULL)
            goto out;
        pool->handle = handle;
        pool->device = device;
        atomic_init(&pool->counted, counted);
        driver_sized_init(&pool->sized, vdev, kind, &pool_driver);
        entry.extra = (uintptr_t)pool;
        if (!record_put(RECORDS_POOLS, (uintptr_t)handle, &entry))
            pool = NULL; /* it stays on the list of driver-sized memory, without a charge */
    } else if (anew) {
        pool->sized.vdev = vdev;
        pool->sized.kind = kind;
        pool->device = device;
        driver_sized_attach(&pool->sized, 0);
        atomic_store(&pool->counted, counted);
    }
out:
    mutex_unlock(&pools_lock);
    return pool;
}

static int device_total(void)
{
    static atomic_int total;
    int count = atomic_load_explicit(&total, memory_order_relaxed);

    if (count > 0)
        return count;
    if (DRIVER(cuDeviceGetCount)(&count) != CUDA_SUCCESS || count <= 0)
        return 0;
    atomic_store_explicit(&total, count, memory_order_relaxed);
    return count;
}

/* The device of a pool that cuMemPoolCreate did not make: a default pool, of a device or of managed
 * memory. -1: not found. */
static CUdevice device_of_default(CUmemoryPool handle, enum vgpu_kind *ret_kind)
{
    struct capture_mode mode = capture_enter();
    CUdevice found = -1;

    for (CUdevice device = 0; device < device_total() && found < 0; device++) {
        CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
        CUmemoryPool pool = NULL;

        if (DRIVER(cuDeviceGetDefaultMemPool)(&pool, device) == CUDA_SUCCESS && pool == handle) {
            *ret_kind = VGPU_KIND_POOL;
            found = device;
        } else if (HAVE(cuMemGetDefaultMemPool) &&
                   DRIVER(cuMemGetDefaultMemPool)(&pool, &location,
                                                  CU_MEM_ALLOCATION_TYPE_MANAGED) == CUDA_SUCCESS &&
                   pool == handle) {
            *ret_kind = VGPU_KIND_MANAGED;
            found = device;
        }
    }
    capture_leave(&mode);
    return found;
}

static struct pool *known_pool(CUmemoryPool handle)
{
    enum vgpu_kind kind = VGPU_KIND_POOL;
    struct pool *pool = pool_find(handle);
    CUdevice device;

    if (pool != NULL || handle == NULL || !HAVE(cuMemPoolGetAttribute) ||
        !HAVE(cuDeviceGetDefaultMemPool))
        return pool;
    device = device_of_default(handle, &kind);
    return pool_add(handle, device, kind, false);
}

/* The device whose current pool serves an allocation on this stream. Negative: the driver will
 * refuse the allocation. */
static CUdevice device_of_stream(CUstream stream, bool per_thread)
{
    enum hook_symbol sym = per_thread ? SYMBOL_cuStreamGetDevice_ptsz : SYMBOL_cuStreamGetDevice;
    struct capture_mode mode;
    CUdevice device = -1;
    CUresult result;

    if (__builtin_expect(device_total() == 1, 1))
        return 0;
    mode = capture_enter();
    if (stream_handle(stream, per_thread) <= STREAM_PER_THREAD || hook_real[sym] == NULL)
        result = DRIVER(cuCtxGetDevice)(&device);
    else
        result = REAL(sym, cuStreamGetDevice)(stream, &device);
    capture_leave(&mode);
    return result == CUDA_SUCCESS ? device : -1;
}

static struct pool *pool_of_device(CUdevice device)
{
    struct capture_mode mode;
    CUmemoryPool handle = NULL;
    struct pool *pool;
    unsigned generation;
    CUresult result;

    if (device < 0 || device >= VGPU_DEVICES_MAX)
        return NULL;
    pool = atomic_load_explicit(&current_pool[device], memory_order_acquire);
    if (pool != NULL)
        return pool;
    if (!HAVE(cuDeviceGetMemPool))
        return NULL;
    generation = atomic_load(&current_generation);
    mode = capture_enter();
    result = DRIVER(cuDeviceGetMemPool)(&handle, device);
    capture_leave(&mode);
    if (result != CUDA_SUCCESS)
        return NULL;
    pool = known_pool(handle);
    mutex_lock(&pools_lock);
    if (generation == atomic_load(&current_generation))
        atomic_store_explicit(&current_pool[device], pool, memory_order_release);
    mutex_unlock(&pools_lock);
    return pool;
}

/* Allocation */

struct allocation {
    struct pool *pool; /* NULL: nothing is charged */
    struct driver_sized_ticket ticket;
};

/* Whether a request can be charged at all, before its pool is looked for. */
static bool pool_charges(size_t bytes, CUstream stream, bool per_thread)
{
    if (hook_ledger() == NULL || bytes == 0 || bytes > MEM_LIMIT_BYTES)
        return false;
    if (capture_running() && capture_records(stream, per_thread)) {
        graph_memory_possible(); /* it becomes a node; no memory moves now */
        return false;
    }
    return true;
}

/* Reserves the most that the pool can grow by. */
static CUresult pool_begin(enum hook_symbol sym, struct pool *pool, size_t bytes, CUstream stream,
                           struct allocation *ret_allocation)
{
    KEEP_ERRNO;
    uint64_t quota_bytes;

    if (pool != NULL && !atomic_load_explicit(&pool->counted, memory_order_relaxed))
        pool = NULL;
    ret_allocation->pool = pool;
    if (pool == NULL || driver_sized_begin(&pool->sized, bytes, &ret_allocation->ticket))
        return CUDA_SUCCESS;
    quota_bytes = ledger_quota(hook_ledger(), pool->sized.vdev);
    if ((quota_bytes == 0 || bytes <= quota_bytes) &&
        pending_free_wait(stream, hook_symbol_per_thread(sym)) &&
        driver_sized_begin(&pool->sized, bytes, &ret_allocation->ticket))
        return CUDA_SUCCESS;
    ledger_refuse(hook_ledger(), pool->sized.vdev, bytes, hook_symbol_name(sym));
    ret_allocation->pool = NULL;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* After the driver's answer: charges the growth. Where it does not fit, undoes the allocation. */
static CUresult pool_end(enum hook_symbol sym, const struct allocation *allocation,
                         CUdeviceptr address, size_t bytes, CUstream stream, CUresult result)
{
    struct pool *pool = allocation->pool;

    if (pool == NULL ||
        driver_sized_end(&pool->sized, &allocation->ticket, result == CUDA_SUCCESS ? bytes : 0) ||
        result != CUDA_SUCCESS)
        return result;
    REAL(hook_symbol_per_thread(sym) ? SYMBOL_cuMemFreeAsync_ptsz : SYMBOL_cuMemFreeAsync,
         mem_free_async)
    (address, stream);
    driver_sized_trim(&pool->sized);
    ledger_refuse(hook_ledger(), pool->sized.vdev, bytes, hook_symbol_name(sym));
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The handler of an allocation from `from`, a struct pool, in the order of a stream. */
#define ALLOCATE_ASYNC(handler, from, ...)                                                         \
    HANDLER(handler)                                                                               \
    {                                                                                              \
        bool per_thread = hook_symbol_per_thread(sym);                                             \
        struct allocation allocation;                                                              \
        CUdeviceptr address = 0;                                                                   \
        CUresult result;                                                                           \
                                                                                                   \
        if (dptr == NULL)                                                                          \
            return FORWARD(sym, handler);                                                          \
        result = pool_begin(sym, pool_charges(bytes, stream, per_thread) ? (from) : NULL, bytes,   \
                            stream, &allocation);                                                  \
        if (result == CUDA_SUCCESS)                                                                \
            result = REAL(sym, handler)(&address, __VA_ARGS__);                                    \
        result = pool_end(sym, &allocation, address, bytes, stream, result);                       \
        if (result == CUDA_SUCCESS)                                                                \
            *dptr = address;                                                                       \
        trace_memory(sym, bytes, address, result);                                                 \
        return result;                                                                             \
    }

ALLOCATE_ASYNC(mem_alloc_async, pool_of_device(device_of_stream(stream, per_thread)), bytes, stream)
ALLOCATE_ASYNC(mem_alloc_from_pool_async, known_pool(pool), bytes, pool, stream)

/* Memory of cuMemAlloc, freed in stream order. */
static CUresult free_plain(enum hook_symbol sym, const struct mem_free *freeing, CUstream stream)
{
    NO_CANCEL;
    CUresult result = REAL(sym, mem_free_async)(freeing->key, stream);

    if (result != CUDA_SUCCESS || !pending_free_add(freeing, stream, hook_symbol_per_thread(sym)))
        mem_free_end(freeing, result);
    return result;
}

CUresult hook_mem_free_async(enum hook_symbol sym, CUdeviceptr dptr, CUstream stream)
{
    bool per_thread = hook_symbol_per_thread(sym);
    struct mem_free freeing;
    CUresult result;

    /* Memory of a pool stays reserved, so nothing goes back here. A free that a capture records
     * frees nothing now. */
    if (mem_pointer_possible(dptr) && !capture_records(stream, per_thread) &&
        mem_free_begin(MEM_DATA, dptr, &freeing))
        result = free_plain(sym, &freeing, stream);
    else
        result = REAL(sym, mem_free_async)(dptr, stream);
    if (result == CUDA_SUCCESS)
        pending_free_note_stream(stream, per_thread);
    trace_memory(sym, 0, dptr, result);
    return result;
}

/* Pools */

CUresult hook_mem_pool_create(enum hook_symbol sym, CUmemoryPool *pool, const CUmemPoolProps *props)
{
    CUresult result = REAL(sym, mem_pool_create)(pool, props);
    struct vgpu_ledger *ledger = hook_ledger();

    if (result == CUDA_SUCCESS && ledger != NULL) {
        bool on_device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
        bool managed = props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
        CUdevice device = on_device ? props->location.id : -1;

        /* A pool of managed memory may name no location. It is charged to the device of the thread
         * that creates it. */
        if (managed && props->location.type == CU_MEM_LOCATION_TYPE_INVALID) {
            unsigned vdev;

            if (device_current(&device, &vdev) < 0)
                device = -1;
        }
        if (pool_add(*pool, device, managed ? VGPU_KIND_MANAGED : VGPU_KIND_POOL, true) == NULL) {
            DRIVER(cuMemPoolDestroy)(*pool);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    trace_memory(sym, 0, result == CUDA_SUCCESS ? (uintptr_t)*pool : 0, result);
    return result;
}

CUresult hook_mem_pool_import(enum hook_symbol sym, CUmemoryPool *pool, void *handle,
                              CUmemAllocationHandleType handle_type, unsigned long long flags)
{
    CUresult result = REAL(sym, mem_pool_import)(pool, handle, handle_type, flags);

    if (result == CUDA_SUCCESS && hook_ledger() != NULL)
        pool_add(*pool, -1, VGPU_KIND_POOL, true); /* the exporting process is charged */
    trace_memory(sym, 0, result == CUDA_SUCCESS ? (uintptr_t)*pool : 0, result);
    return result;
}

CUresult hook_mem_pool_destroy(enum hook_symbol sym, CUmemoryPool pool)
{
    struct pool *known = pool_find(pool);
    bool counted = known != NULL && atomic_exchange(&known->counted, false);
    unsigned vdev = counted ? known->sized.vdev : 0;
    enum vgpu_kind kind = counted ? known->sized.kind : VGPU_KIND_POOL;
    uint64_t charged = counted ? driver_sized_detach(&known->sized) : 0;
    CUresult result;

    forget_current(); /* if it was one, the device returns to its default pool */
    reconcile_free_begin();
    result = REAL(sym, mem_pool_destroy)(pool);
    forget_current();
    if (counted && result != CUDA_SUCCESS) {
        driver_sized_attach(&known->sized, charged);
        atomic_store(&known->counted, true);
    } else if (charged > 0) {
        ledger_release(hook_ledger(), vdev, kind, charged);
    }
    reconcile_free_end();
    if (result == CUDA_SUCCESS && charged > 0) {
        /* Allocations that outlive the pool stay on the device. No pool can be asked about them any
         * more, but NVML counts them. */
        reconcile_now(vdev);
    }
    trace_memory(sym, 0, (uintptr_t)pool, result);
    return result;
}

static void look_at(CUmemoryPool handle)
{
    struct pool *pool = pool_find(handle);

    if (pool != NULL && atomic_load(&pool->counted))
        driver_sized_refresh(&pool->sized);
}

CUresult hook_mem_pool_trim_to(enum hook_symbol sym, CUmemoryPool pool, size_t keep_bytes)
{
    CUresult result = REAL(sym, mem_pool_trim_to)(pool, keep_bytes);

    look_at(pool);
    trace_memory(sym, keep_bytes, (uintptr_t)pool, result);
    return result;
}

CUresult hook_mem_pool_set_attribute(enum hook_symbol sym, CUmemoryPool pool,
                                     CUmemPool_attribute attribute, void *value)
{
    CUresult result = REAL(sym, mem_pool_set_attribute)(pool, attribute, value);

    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        look_at(pool);
    return result;
}

CUresult hook_device_set_mem_pool(enum hook_symbol sym, CUdevice device, CUmemoryPool pool)
{
    CUresult result = REAL(sym, device_set_mem_pool)(device, pool);

    forget_current();
    return result;
}

CUresult hook_mem_set_mem_pool(enum hook_symbol sym, CUmemLocation *location,
                               CUmemAllocationType type, CUmemoryPool pool)
{
    CUresult result = REAL(sym, mem_set_mem_pool)(location, type, pool);

    forget_current();
    return result;
}
