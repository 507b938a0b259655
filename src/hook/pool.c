/*
 * cuMemAllocAsync, cuMemAllocFromPoolAsync, cuMemFreeAsync and the pools themselves: see pool.h.
 */
#include "hook/pool.h"

#include "base/cleanup.h"
#include "base/forkwatch.h"
#include "base/nocancel.h"
#include "hook/capture.h"
#include "hook/admission.h"
#include "hook/graph.h"
#include "hook/driver_sized.h"
#include "hook/pending_free.h"
#include "hook/reconcile.h"
#include "hook/sources.h"
#include "hook/stream_key.h"
#include "account/refuse.h"

#include <stdlib.h>

#define POOL_BUCKETS 64

/* Never freed: a handle that comes back finds its pool again. */
struct pool {
    struct driver_sized sized;
    CUmemoryPool handle;
    CUdevice device;
    atomic_bool counted; /* lies on a device of ours, and nobody else is charged for it */
    struct pool *next_in_bucket;
    struct pool *next;
};

static _Atomic(struct pool *) buckets[POOL_BUCKETS];
static _Atomic(struct pool *) pools;                   /* all of them */
static struct vgpu_mutex pools_lock = VGPU_MUTEX_INIT; /* for adding to the lists */

/* The current pool of each device, as the driver said last; forgotten when anybody changes it. */
static _Atomic(struct pool *) current_pool[VGPU_DEVICES_MAX];
static atomic_uint current_generation;

/* Growth: what a pool has */

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

static void refresh(void)
{
    struct vgpu_ledger *ledger = hook_ledger();

    if (ledger == NULL)
        return;
    fork_check();
    for (struct pool *pool = atomic_load_explicit(&pools, memory_order_acquire); pool != NULL;
         pool = pool->next) {
        if (atomic_load_explicit(&pool->counted, memory_order_relaxed))
            driver_sized_refresh(&pool->sized, ledger);
    }
}

void pool_refresh_all(void)
{
    NO_CANCEL;

    fork_check();
    pending_free_settle();
    refresh();
}

void pool_refresh_after(CUstream stream, bool per_thread)
{
    NO_CANCEL;

    fork_check();
    pending_free_settle_stream(stream, per_thread);
    refresh();
}

void pool_look_again(void)
{
    refresh();
}

static void trim(unsigned vdev)
{
    struct vgpu_ledger *ledger = hook_ledger();

    for (struct pool *pool = atomic_load_explicit(&pools, memory_order_acquire); pool != NULL;
         pool = pool->next) {
        if (atomic_load_explicit(&pool->counted, memory_order_relaxed) && pool->sized.vdev == vdev)
            driver_sized_trim(&pool->sized, ledger);
    }
}

void pool_quiesce(void)
{
    fork_check();
    for (struct pool *pool = atomic_load_explicit(&pools, memory_order_acquire); pool != NULL;
         pool = pool->next)
        driver_sized_quiesce(&pool->sized);
}

/* The table of pools */

static unsigned bucket_of(CUmemoryPool handle)
{
    uint64_t key = (uint64_t)(uintptr_t)handle;

    return (unsigned)((key * 0x9e3779b97f4a7c15ULL) >> 58) % POOL_BUCKETS;
}

static struct pool *find(CUmemoryPool handle)
{
    struct pool *pool = atomic_load_explicit(&buckets[bucket_of(handle)], memory_order_acquire);

    while (pool != NULL && pool->handle != handle)
        pool = pool->next_in_bucket;
    return pool;
}

static void forget_current(void)
{
    mutex_lock(&pools_lock);
    atomic_fetch_add(&current_generation, 1);
    for (int i = 0; i < VGPU_DEVICES_MAX; i++)
        atomic_store(&current_pool[i], NULL);
    mutex_unlock(&pools_lock);
}

static void forget_all(void)
{
    mutex_init(&pools_lock);
    for (struct pool *pool = atomic_load(&pools); pool != NULL; pool = pool->next) {
        driver_sized_forked(&pool->sized);
        atomic_store(&pool->counted, false);
    }
    forget_current();
}

static struct memory_source pool_source = {.refresh = refresh, .trim = trim, .forked = forget_all};

/* Makes `handle` known, or known anew. `device` negative: it is not counted. NULL: no memory. */
static struct pool *add(CUmemoryPool handle, CUdevice device, enum vgpu_kind kind, bool anew)
{
    unsigned bucket = bucket_of(handle);
    unsigned vdev = 0;
    bool counted = device >= 0 && device_vdev(device, &vdev) == 0;
    struct pool *pool;

    sources_register(&pool_source);
    fork_check();
    mutex_lock(&pools_lock);
    pool = find(handle);
    if (pool == NULL) {
        pool = hook_zalloc(sizeof(*pool));
        if (pool == NULL)
            goto out;
        driver_sized_init(&pool->sized, vdev, kind, &pool_driver);
        pool->handle = handle;
        pool->device = device;
        atomic_init(&pool->counted, counted);
        pool->next_in_bucket = atomic_load_explicit(&buckets[bucket], memory_order_relaxed);
        pool->next = atomic_load_explicit(&pools, memory_order_relaxed);
        atomic_store_explicit(&buckets[bucket], pool, memory_order_release);
        atomic_store_explicit(&pools, pool, memory_order_release);
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

/* A pool that was not made by cuMemPoolCreate: a default pool, of a device or of the host. Not
 * found: -1. */
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
    struct pool *pool = find(handle);
    CUdevice device;

    if (pool != NULL || handle == NULL || !HAVE(cuMemPoolGetAttribute) ||
        !HAVE(cuDeviceGetDefaultMemPool))
        return pool;
    device = device_of_default(handle, &kind);
    return add(handle, device, kind, false);
}

/* The device whose current pool an allocation on this stream comes from; negative: the driver will
 * refuse it. */
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
    struct vgpu_ledger *ledger;
    struct pool *pool; /* NULL: nothing is charged */
    struct driver_sized_ticket ticket;
};

/* Whether a request is worth a charge at all, before its pool is looked for. */
static struct vgpu_ledger *worth(const CUdeviceptr *dptr, size_t bytes, CUstream stream,
                                 bool per_thread)
{
    struct vgpu_ledger *ledger = hook_ledger();

    if (ledger == NULL || dptr == NULL || bytes == 0 || bytes > MEM_LIMIT_BYTES)
        return NULL;
    if (capture_running() && capture_records(stream, per_thread)) {
        graph_memory_possible(); /* it becomes a node; no memory moves now */
        return NULL;
    }
    return ledger;
}

/* Sets aside what the pool can grow by. False: over the quota; that is recorded. */
static bool begin(enum hook_symbol sym, struct allocation *allocation, size_t bytes,
                  CUstream stream, bool per_thread)
{
    KEEP_ERRNO;
    struct pool *pool = allocation->pool;
    uint64_t quota_bytes;

    if (pool != NULL && !atomic_load_explicit(&pool->counted, memory_order_relaxed))
        allocation->pool = pool = NULL;
    if (pool == NULL)
        return true;
    if (driver_sized_begin(&pool->sized, allocation->ledger, bytes, &allocation->ticket))
        return true;
    quota_bytes = ledger_quota(allocation->ledger, pool->sized.vdev);
    if ((quota_bytes == 0 || bytes <= quota_bytes) && pending_free_wait(stream, per_thread) &&
        driver_sized_begin(&pool->sized, allocation->ledger, bytes, &allocation->ticket))
        return true;
    ledger_refuse(allocation->ledger, pool->sized.vdev, bytes, hook_symbol_name(sym));
    return false;
}

/* After the driver's answer: charges the growth. Where there is no room for it, the allocation is
 * undone. */
static CUresult conclude(enum hook_symbol sym, struct allocation *allocation, CUdeviceptr address,
                         size_t bytes, CUstream stream, CUresult result)
{
    struct pool *pool = allocation->pool;
    bool per_thread;

    if (pool == NULL)
        return result;
    if (driver_sized_end(&pool->sized, allocation->ledger, &allocation->ticket,
                         result == CUDA_SUCCESS ? bytes : 0) ||
        result != CUDA_SUCCESS)
        return result;
    per_thread = hook_symbol_per_thread(sym);
    REAL(per_thread ? SYMBOL_cuMemFreeAsync_ptsz : SYMBOL_cuMemFreeAsync, mem_free_async)
    (address, stream);
    driver_sized_trim(&pool->sized, allocation->ledger);
    ledger_refuse(allocation->ledger, pool->sized.vdev, bytes, hook_symbol_name(sym));
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult hook_mem_alloc_async(enum hook_symbol sym, CUdeviceptr *dptr, size_t bytes,
                              CUstream stream)
{
    bool per_thread = hook_symbol_per_thread(sym);
    struct allocation allocation = {.ledger = worth(dptr, bytes, stream, per_thread)};
    CUdeviceptr address = 0;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (allocation.ledger != NULL)
        allocation.pool = pool_of_device(device_of_stream(stream, per_thread));
    if (begin(sym, &allocation, bytes, stream, per_thread)) {
        result = REAL(sym, mem_alloc_async)(dptr == NULL ? NULL : &address, bytes, stream);
        result = conclude(sym, &allocation, address, bytes, stream, result);
        if (result == CUDA_SUCCESS && dptr != NULL)
            *dptr = address;
    }
    trace_memory(sym, bytes, address, result);
    return result;
}

CUresult hook_mem_alloc_from_pool_async(enum hook_symbol sym, CUdeviceptr *dptr, size_t bytes,
                                        CUmemoryPool pool, CUstream stream)
{
    bool per_thread = hook_symbol_per_thread(sym);
    struct allocation allocation = {.ledger = worth(dptr, bytes, stream, per_thread)};
    CUdeviceptr address = 0;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (allocation.ledger != NULL)
        allocation.pool = known_pool(pool);
    if (begin(sym, &allocation, bytes, stream, per_thread)) {
        result = REAL(sym, mem_alloc_from_pool_async)(dptr == NULL ? NULL : &address, bytes, pool,
                                                      stream);
        result = conclude(sym, &allocation, address, bytes, stream, result);
        if (result == CUDA_SUCCESS && dptr != NULL)
            *dptr = address;
    }
    trace_memory(sym, bytes, address, result);
    return result;
}

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

    /* Memory of a pool stays reserved: nothing to give back here. What a capture records frees
     * nothing now. */
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

        /* A pool of managed memory may name no place: it is charged where its first user is. */
        if (managed && props->location.type == CU_MEM_LOCATION_TYPE_INVALID) {
            unsigned vdev;

            if (device_current(&device, &vdev) < 0)
                device = -1;
        }
        if (add(*pool, device, managed ? VGPU_KIND_MANAGED : VGPU_KIND_POOL, true) == NULL) {
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
        add(*pool, -1, VGPU_KIND_POOL, true); /* the exporter is charged */
    trace_memory(sym, 0, result == CUDA_SUCCESS ? (uintptr_t)*pool : 0, result);
    return result;
}

CUresult hook_mem_pool_destroy(enum hook_symbol sym, CUmemoryPool pool)
{
    struct vgpu_ledger *ledger = hook_ledger();
    struct pool *known = ledger != NULL ? find(pool) : NULL;
    bool counted = known != NULL && atomic_exchange(&known->counted, false);
    unsigned vdev = counted ? known->sized.vdev : 0;
    enum vgpu_kind kind = counted ? known->sized.kind : VGPU_KIND_POOL;
    uint64_t charged = counted ? driver_sized_detach(&known->sized) : 0;
    CUresult result;

    forget_current(); /* it may have been one; then the device goes back to its default pool */
    reconcile_free_begin();
    result = REAL(sym, mem_pool_destroy)(pool);
    forget_current();
    if (counted && result != CUDA_SUCCESS) {
        driver_sized_attach(&known->sized, charged);
        atomic_store(&known->counted, true);
    } else if (charged > 0) {
        ledger_release(ledger, vdev, kind, charged);
    }
    reconcile_free_end();
    if (result == CUDA_SUCCESS && charged > 0) {
        /* What was not freed before stays allocated without a pool that could be asked; NVML still
         * sees it. */
        reconcile_now(vdev);
    }
    trace_memory(sym, 0, (uintptr_t)pool, result);
    return result;
}

static void look_at(CUmemoryPool handle)
{
    struct vgpu_ledger *ledger = hook_ledger();
    struct pool *pool = ledger != NULL ? find(handle) : NULL;

    if (pool != NULL && atomic_load(&pool->counted))
        driver_sized_refresh(&pool->sized, ledger);
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
