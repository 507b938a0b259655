/*
 * Virtual memory management: physical memory by handle, which a program maps where it likes. It
 * stays allocated, and charged to the device in its properties, until the last reference to the
 * handle and the last mapping are gone.
 *
 * Exported and imported memory is charged by shared.h. Handles without a charge have records, too:
 * of host memory, of imports from outside of the instance, of multicast objects. So their mappings
 * are told apart from others, and a handle's value may return for other memory.
 */
#include "base/forkwatch.h"
#include "base/mutex.h"
#include "hook/memory/admission.h"
#include "hook/memory/reconcile.h"
#include "hook/memory/shared.h"
#include "hook/loader/sources.h"

#include <stdlib.h>

#define FABRIC_HANDLE_BYTES 64

struct physical {
    uint64_t handle;
    uint64_t charged_bytes; /* by this record alone; 0: `shared` has the charge */
    struct shared *shared;  /* exported or imported; one reference to it */
    uint32_t vdev;
    uint32_t references; /* to the handle */
    uint32_t mappings;
};

struct mapping {
    uint64_t address;
    uint64_t bytes;
    struct physical *physical;
    struct mapping *next; /* in a list of mappings that are being taken down */
};

/* For the counts of every record, and for what the tables point to. Never held across a call into
 * the driver. */
static struct vgpu_mutex vmm_lock = VGPU_MUTEX_INIT;

static void vmm_forget(void)
{
    mutex_init(&vmm_lock);
}

static struct memory_source source = {.forked = vmm_forget};

static void vmm_lock_records(void)
{
    sources_register(&source);
    fork_check();
    mutex_lock(&vmm_lock);
}

/* Under the lock from here. */

static struct physical *physical_find(uint64_t handle)
{
    struct vgpu_track_entry entry;

    if (!record_get(RECORDS_PHYSICAL, handle, &entry))
        return NULL;
    return (struct physical *)(uintptr_t)entry.extra;
}

static bool physical_put(struct physical *physical)
{
    struct vgpu_track_entry entry = {.bytes = physical->charged_bytes,
                                     .extra = (uintptr_t)physical,
                                     .vdev = physical->vdev,
                                     .kind = VGPU_KIND_DATA};

    return record_put(RECORDS_PHYSICAL, physical->handle, &entry);
}

/* Takes a record out once nothing refers to it. True: it is the caller's then. */
static bool physical_take_if_dead(struct physical *physical)
{
    struct vgpu_track_entry entry;

    if (physical->references > 0 || physical->mappings > 0)
        return false;
    /* Another record has the handle's value if that returned before this one died. */
    if (physical_find(physical->handle) == physical)
        record_take(RECORDS_PHYSICAL, physical->handle, &entry);
    return true;
}

/* Without the lock again. */

static void physical_free(struct vgpu_ledger *ledger, struct physical *physical)
{
    if (physical->shared != NULL && ledger != NULL)
        shared_drop(ledger, physical->shared);
    if (physical->charged_bytes > 0 && ledger != NULL)
        ledger_release(ledger, physical->vdev, VGPU_KIND_DATA, physical->charged_bytes);
    free(physical);
}

/* Records a new handle, with one reference, which takes over that of `shared`. False: no memory. */
static bool physical_add(struct vgpu_ledger *ledger, uint64_t handle, unsigned vdev,
                         uint64_t charged_bytes, struct shared *shared)
{
    struct physical *physical = hook_zalloc(sizeof(*physical));
    struct physical *before;
    bool known;

    if (physical == NULL)
        return false;
    physical->handle = handle;
    physical->charged_bytes = charged_bytes;
    physical->shared = shared;
    physical->vdev = vdev;
    physical->references = 1;
    vmm_lock_records();
    before = physical_find(handle);
    known = physical_put(physical);
    /* The driver gave the value out again, so nothing refers to the old handle. Only mappings can
     * keep it. */
    if (known && before != NULL)
        before->references = 0;
    if (!known || (before != NULL && before->mappings > 0))
        before = NULL;
    mutex_unlock(&vmm_lock);
    if (before != NULL)
        physical_free(ledger, before);
    if (!known)
        free(physical);
    return known;
}

/* One reference more to a handle that the driver may have given out before. False: it has no
 * record. */
static bool physical_reference(uint64_t handle)
{
    struct physical *physical;

    vmm_lock_records();
    physical = physical_find(handle);
    if (physical != NULL)
        physical->references++;
    mutex_unlock(&vmm_lock);
    return physical != NULL;
}

CUresult hook_mem_create(enum hook_symbol sym, CUmemGenericAllocationHandle *handle, size_t bytes,
                         const CUmemAllocationProp *prop, unsigned long long flags)
{
    CUmemGenericAllocationHandle made = 0;
    struct admission admission;
    unsigned vdev = 0;
    CUresult result;
    bool charged;

    if (hook_ledger() == NULL || handle == NULL || prop == NULL) {
        result = REAL(sym, mem_create)(handle, bytes, prop, flags);
        trace_memory(sym, bytes, result == CUDA_SUCCESS ? *handle : 0, result);
        return result;
    }
    charged = bytes <= MEM_LIMIT_BYTES && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
              device_vdev(prop->location.id, &vdev) == 0;
    result = mem_admit_on(sym, MEM_PHYSICAL, vdev, charged ? bytes : 0, &admission);
    if (result == CUDA_SUCCESS)
        result = REAL(sym, mem_create)(&made, bytes, prop, flags);
    if (result == CUDA_SUCCESS &&
        !physical_add(hook_ledger(), made, vdev, admission.reserved_bytes, NULL)) {
        DRIVER(cuMemRelease)(made);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS) {
        mem_commit(&admission, admission.reserved_bytes);
        *handle = made;
    } else {
        mem_cancel(&admission);
    }
    trace_memory(sym, bytes, made, result);
    return result;
}

CUresult hook_mem_release(enum hook_symbol sym, CUmemGenericAllocationHandle handle)
{
    struct vgpu_ledger *ledger = hook_ledger();
    struct physical *physical;
    uint64_t bytes = 0;
    bool dropped = false, dead = false;
    CUresult result;

    vmm_lock_records();
    physical = physical_find(handle);
    if (physical != NULL) {
        bytes = physical->charged_bytes;
        /* The driver forgives one release too many while the memory is mapped. */
        dropped = physical->references > 0;
        if (dropped)
            physical->references--;
        dead = dropped && physical_take_if_dead(physical);
    }
    mutex_unlock(&vmm_lock);

    if (dead)
        reconcile_free_begin();
    result = REAL(sym, mem_release)(handle);
    if (dead && result == CUDA_SUCCESS) {
        physical_free(ledger, physical);
    } else if (dropped && result != CUDA_SUCCESS) {
        vmm_lock_records();
        physical->references++;
        if (dead)
            physical_put(physical);
        mutex_unlock(&vmm_lock);
    }
    if (dead)
        reconcile_free_end();
    trace_memory(sym, bytes, handle, result);
    return result;
}

CUresult hook_mem_retain_handle(enum hook_symbol sym, CUmemGenericAllocationHandle *handle,
                                void *addr)
{
    CUresult result = REAL(sym, mem_retain_handle)(handle, addr);

    if (result == CUDA_SUCCESS && hook_ledger() != NULL && !physical_reference(*handle))
        physical_add(hook_ledger(), *handle, 0, 0, NULL);
    trace_memory(sym, 0, result == CUDA_SUCCESS ? *handle : 0, result);
    return result;
}

/* Exports and imports */

static bool handle_of(void *os_handle, CUmemAllocationHandleType type,
                      struct shared_handle *ret_handle)
{
    *ret_handle = (struct shared_handle){.fd = -1};
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        ret_handle->fd = (int)(intptr_t)os_handle;
    else if (type == CU_MEM_HANDLE_TYPE_FABRIC)
        *ret_handle =
            (struct shared_handle){.fd = -1, .bytes = os_handle, .length = FABRIC_HANDLE_BYTES};
    return ret_handle->fd >= 0 || ret_handle->bytes != NULL;
}

/* Under the lock. With a reference for the caller: another thread may release the handle
 * meanwhile. */
static struct shared *shared_of(const struct physical *physical)
{
    if (physical == NULL || physical->shared == NULL)
        return NULL;
    shared_hold(physical->shared);
    return physical->shared;
}

/* A reference to what other processes can import of a handle's memory. NULL and 0: it is not
 * charged. */
static int vmm_share(struct vgpu_ledger *ledger, uint64_t handle, struct shared **ret_shared)
{
    struct physical *physical;
    struct shared *made = NULL;
    unsigned vdev = 0;
    uint64_t bytes = 0;
    int rc;

    vmm_lock_records();
    physical = physical_find(handle);
    *ret_shared = shared_of(physical);
    if (physical != NULL) {
        vdev = physical->vdev;
        bytes = physical->charged_bytes;
    }
    mutex_unlock(&vmm_lock);
    if (*ret_shared != NULL || bytes == 0)
        return 0;
    rc = shared_new(ledger, vdev, VGPU_KIND_DATA, bytes, &made);
    if (made == NULL)
        return rc;
    vmm_lock_records();
    physical = physical_find(handle);
    /* Another thread may have exported it meanwhile. */
    if (physical != NULL && physical->shared == NULL && physical->charged_bytes == bytes) {
        shared_own(made, VGPU_KIND_DATA, bytes);
        physical->charged_bytes = 0;
        physical->shared = made;
        made = NULL;
    }
    *ret_shared = shared_of(physical);
    mutex_unlock(&vmm_lock);
    if (made != NULL)
        shared_drop(ledger, made);
    return 0;
}

/* For memory that cannot be followed: its record gives nothing back when it dies. */
static void keep_charged(uint64_t handle, int rc)
{
    struct physical *physical;

    vmm_lock_records();
    physical = physical_find(handle);
    if (physical != NULL) {
        physical->charged_bytes = 0;
        physical->shared = NULL;
    }
    mutex_unlock(&vmm_lock);
    shared_cannot_follow(rc);
}

CUresult hook_mem_export_handle(enum hook_symbol sym, void *os_handle,
                                CUmemGenericAllocationHandle handle,
                                CUmemAllocationHandleType handle_type, unsigned long long flags)
{
    struct vgpu_ledger *ledger = hook_ledger();
    CUresult result = REAL(sym, mem_export_handle)(os_handle, handle, handle_type, flags);
    struct shared_handle exported;
    struct shared *shared;
    int rc;

    if (result == CUDA_SUCCESS && ledger != NULL) {
        void *value = handle_type == CU_MEM_HANDLE_TYPE_FABRIC
                          ? os_handle
                          : (void *)(intptr_t) * (int *)os_handle;

        rc = vmm_share(ledger, handle, &shared);
        if (rc == 0 && shared != NULL && handle_of(value, handle_type, &exported))
            rc = shared_exported(ledger, shared, &exported);
        if (rc < 0)
            keep_charged(handle, rc);
        if (shared != NULL)
            shared_drop(ledger, shared);
    }
    trace_memory(sym, 0, handle, result);
    return result;
}

/* After the driver's import: charges this process, unless another one of the instance is charged.
 * False: it does not fit. */
static bool vmm_imported(enum hook_symbol sym, struct vgpu_ledger *ledger, uint64_t handle,
                         const struct shared_handle *from)
{
    struct ledger_share_memory memory;
    struct admission admission;
    struct shared *shared;
    uint64_t charged = 0;

    if (shared_imported(ledger, from, &shared, &memory) < 0) {
        if (mem_admit_on(sym, MEM_PHYSICAL, memory.vdev, memory.bytes, &admission) != CUDA_SUCCESS)
            return false;
        mem_commit(&admission, memory.bytes);
        charged = memory.bytes;
    }
    if (charged == 0 && physical_reference(handle)) {
        /* The driver gave the same handle again: its record has a reference to the share. */
        if (shared != NULL)
            shared_drop(ledger, shared);
        return true;
    }
    if (physical_add(ledger, handle, charged > 0 ? memory.vdev : 0, charged, shared))
        return true;
    if (shared != NULL)
        shared_drop(ledger, shared);
    if (charged > 0)
        ledger_release(ledger, memory.vdev, VGPU_KIND_DATA, charged);
    return false;
}

CUresult hook_mem_import_handle(enum hook_symbol sym, CUmemGenericAllocationHandle *handle,
                                void *os_handle, CUmemAllocationHandleType handle_type)
{
    struct vgpu_ledger *ledger = hook_ledger();
    CUmemGenericAllocationHandle made = 0;
    struct shared_handle from;
    CUresult result;

    if (ledger == NULL || handle == NULL || !handle_of(os_handle, handle_type, &from))
        return REAL(sym, mem_import_handle)(handle, os_handle, handle_type);
    result = REAL(sym, mem_import_handle)(&made, os_handle, handle_type);
    if (result == CUDA_SUCCESS && !vmm_imported(sym, ledger, made, &from)) {
        DRIVER(cuMemRelease)(made);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS)
        *handle = made;
    trace_memory(sym, 0, made, result);
    return result;
}

CUresult hook_multicast_create(enum hook_symbol sym, CUmemGenericAllocationHandle *handle,
                               const CUmulticastObjectProp *prop)
{
    CUresult result = REAL(sym, multicast_create)(handle, prop);

    /* It takes no memory. What a program binds to it was charged when it was made. */
    if (result == CUDA_SUCCESS && hook_ledger() != NULL)
        physical_add(hook_ledger(), *handle, 0, 0, NULL);
    trace_memory(sym, result == CUDA_SUCCESS ? prop->size : 0, result == CUDA_SUCCESS ? *handle : 0,
                 result);
    return result;
}

/* Mappings */

static struct mapping *mapping_take(uint64_t address)
{
    struct vgpu_track_entry entry;

    if (!record_take(RECORDS_MAPPINGS, address, &entry))
        return NULL;
    return (struct mapping *)(uintptr_t)entry.extra;
}

static bool mapping_put(struct mapping *mapping)
{
    struct vgpu_track_entry entry = {
        .bytes = mapping->bytes, .extra = (uintptr_t)mapping, .kind = VGPU_KIND_DATA};

    return record_put(RECORDS_MAPPINGS, mapping->address, &entry);
}

/* The driver took a mapping down: its memory dies with the last one. */
static void mapping_removed(struct vgpu_ledger *ledger, struct mapping *mapping)
{
    struct physical *physical = mapping->physical;
    bool dead;

    vmm_lock_records();
    physical->mappings--;
    dead = physical_take_if_dead(physical);
    mutex_unlock(&vmm_lock);
    if (dead)
        physical_free(ledger, physical);
    free(mapping);
}

CUresult hook_mem_map(enum hook_symbol sym, CUdeviceptr ptr, size_t bytes, size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct vgpu_ledger *ledger = hook_ledger();
    struct mapping *mapping = ledger != NULL ? hook_zalloc(sizeof(*mapping)) : NULL;
    struct mapping *stale;
    CUresult result;

    if (ledger != NULL && mapping == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (mapping != NULL) {
        vmm_lock_records();
        mapping->physical = physical_find(handle);
        /* Counted before the driver maps it: a release by another thread must not be the last
         * reference. */
        if (mapping->physical != NULL)
            mapping->physical->mappings++;
        mutex_unlock(&vmm_lock);
        mapping->address = ptr;
        mapping->bytes = bytes;
        if (mapping->physical == NULL) {
            free(mapping);
            mapping = NULL;
        }
    }
    result = REAL(sym, mem_map)(ptr, bytes, offset, handle, flags);
    if (mapping != NULL && result != CUDA_SUCCESS) {
        mapping_removed(ledger, mapping);
    } else if (mapping != NULL) {
        stale = mapping_take(ptr); /* the driver took it down unseen */
        if (stale != NULL)
            mapping_removed(ledger, stale);
        mapping_put(mapping);
    }
    trace_memory(sym, bytes, ptr, result);
    return result;
}

struct collection {
    struct mapping *list;
    uint64_t end;
};

static bool mapping_collect(uint64_t key, struct vgpu_track_entry *entry, void *arg)
{
    struct collection *collection = arg;
    struct mapping *mapping = (struct mapping *)(uintptr_t)entry->extra;

    (void)key;
    if (mapping->address + mapping->bytes > collection->end)
        return false;
    mapping->next = collection->list;
    collection->list = mapping;
    return true;
}

/* Takes the mappings in a range out of the table. They follow each other, unless one was never
 * seen. */
static struct mapping *mapping_take_range(uint64_t address, uint64_t bytes)
{
    struct collection collection = {.list = NULL, .end = address + bytes};
    uint64_t next = address;

    if (bytes == 0)
        return NULL;
    while (next < collection.end) {
        struct mapping *mapping = mapping_take(next);

        if (mapping == NULL)
            break;
        next += mapping->bytes;
        mapping->next = collection.list;
        collection.list = mapping;
    }
    if (next < collection.end)
        record_sweep(RECORDS_MAPPINGS, next, collection.end - 1, mapping_collect, &collection);
    return collection.list;
}

CUresult hook_mem_unmap(enum hook_symbol sym, CUdeviceptr ptr, size_t bytes)
{
    struct vgpu_ledger *ledger = hook_ledger();
    struct mapping *list = ledger != NULL ? mapping_take_range(ptr, bytes) : NULL;
    struct mapping *next;
    CUresult result;

    reconcile_free_begin();
    result = REAL(sym, mem_unmap)(ptr, bytes);
    for (; list != NULL; list = next) {
        next = list->next;
        if (result == CUDA_SUCCESS)
            mapping_removed(ledger, list);
        else
            mapping_put(list);
    }
    reconcile_free_end();
    trace_memory(sym, bytes, ptr, result);
    return result;
}
