/*
 * IPC handles of plain device memory: cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcCloseMemHandle.
 *
 * A handle is of whole blocks. A process that opens it keeps them on the device, even if the maker
 * frees its allocation. So the share (shared.h) is of the blocks, and hangs on the first of them by
 * mem_note(): when the maker leaves that block, its charge becomes the share's.
 *
 * An import joins the share before the driver's call: the maker may free the memory right after it.
 */
#include "base/forkwatch.h"
#include "base/mutex.h"
#include "hook/memory/admission.h"
#include "hook/memory/shared.h"
#include "hook/loader/sources.h"

#include <errno.h>
#include <stdlib.h>

/* One cuIpcOpenMemHandle. The driver gives the same address each time, and wants as many closes. */
struct opened {
    struct opened *next; /* of the same address */
    CUcontext context;
    struct shared *shared;  /* NULL: this process is charged */
    uint64_t charged_bytes; /* of `vdev` */
    unsigned vdev;
};

static struct vgpu_mutex ipc_lock =
    VGPU_MUTEX_INIT; /* for the lists, and for taking a reference by a note */
static char kept;    /* the note of blocks that stay charged until the process ends */

static void context_gone(CUcontext context);
static void noted_left(struct vgpu_ledger *ledger, const struct granule_share *left);

static void ipc_forget(void)
{
    mutex_init(&ipc_lock);
}

static struct memory_source ipc_source = {
    .context_gone = context_gone, .noted_left = noted_left, .forked = ipc_forget};

static void ipc_lock_lists(void)
{
    sources_register(&ipc_source);
    fork_check();
    mutex_lock(&ipc_lock);
}

/* Exports */

/* Under the lock. */
static struct shared *ipc_referenced(void *note)
{
    if (note == NULL || note == &kept)
        return NULL;
    shared_hold(note);
    return note;
}

static uint64_t blocks_of(uint64_t address, uint64_t bytes)
{
    return mem_round(address % MEM_BLOCK_BYTES + bytes, MEM_BLOCK_BYTES);
}

/* A reference to the share of an allocation's blocks. NULL and 0: nobody has to follow it. */
static int ipc_share(struct vgpu_ledger *ledger, uint64_t address, struct shared **ret_shared)
{
    struct vgpu_track_entry entry;
    struct shared *made = NULL;
    void *note;
    int rc;

    *ret_shared = NULL;
    if (!record_get(RECORDS_POINTERS, address, &entry))
        return 0;
    ipc_lock_lists();
    note = mem_note(address, &entry, NULL);
    *ret_shared = ipc_referenced(note);
    mutex_unlock(&ipc_lock);
    if (note != NULL)
        return 0;
    rc = shared_new(ledger, entry.vdev, entry.kind, blocks_of(address, entry.bytes), &made);
    if (rc == 0 && made == NULL)
        return 0;
    ipc_lock_lists();
    note = mem_note(address, &entry, rc < 0 ? (void *)&kept : made);
    *ret_shared = ipc_referenced(note);
    mutex_unlock(&ipc_lock);
    /* Another thread was first, or there is no memory for the note. */
    if (made != NULL && note != made)
        shared_drop(ledger, made);
    return rc < 0 || note != NULL ? rc : -ENOMEM;
}

static void ipc_exported(struct vgpu_ledger *ledger, const CUipcMemHandle *handle, CUdeviceptr ptr)
{
    struct shared_handle bytes = {.fd = -1, .bytes = handle, .length = sizeof(*handle)};
    struct shared *shared;
    CUdeviceptr address;
    size_t size;
    int rc;

    if (DRIVER(cuMemGetAddressRange_v2)(&address, &size, ptr) != CUDA_SUCCESS)
        address = ptr;
    rc = ipc_share(ledger, address, &shared);
    if (shared != NULL) {
        rc = shared_exported(ledger, shared, &bytes);
        /* Without a key nobody finds it: the reference stays. */
        if (rc == 0)
            shared_drop(ledger, shared);
    }
    if (rc < 0)
        shared_cannot_follow(rc);
}

CUresult hook_ipc_get_mem_handle(enum hook_symbol sym, CUipcMemHandle *handle, CUdeviceptr ptr)
{
    struct vgpu_ledger *ledger = hook_ledger();
    CUresult result = REAL(sym, ipc_get_mem_handle)(handle, ptr);

    if (result == CUDA_SUCCESS && ledger != NULL)
        ipc_exported(ledger, handle, ptr);
    trace_memory(sym, 0, ptr, result);
    return result;
}

static void noted_left(struct vgpu_ledger *ledger, const struct granule_share *left)
{
    if (left->note == &kept)
        return;
    /* A thread that has seen the note has taken its reference by now. */
    ipc_lock_lists();
    mutex_unlock(&ipc_lock);
    shared_own(left->note, left->kind, left->bytes);
    shared_drop(ledger, left->note);
}

/* Imports */

static void ipc_close_one(struct vgpu_ledger *ledger, struct opened *opened)
{
    if (opened->shared != NULL)
        shared_drop(ledger, opened->shared);
    if (opened->charged_bytes > 0)
        ledger_release(ledger, opened->vdev, VGPU_KIND_DATA, opened->charged_bytes);
    free(opened);
}

static void ipc_close_list(struct vgpu_ledger *ledger, struct opened *list)
{
    while (list != NULL) {
        struct opened *next = list->next;

        ipc_close_one(ledger, list);
        list = next;
    }
}

/* Under the lock. NULL: nothing is recorded. */
static struct opened *list_at(CUdeviceptr address)
{
    struct vgpu_track_entry entry;

    if (!record_get(RECORDS_IPC, address, &entry))
        return NULL;
    return (struct opened *)(uintptr_t)entry.extra;
}

/* Under the lock. False: no memory. */
static bool set_list(CUdeviceptr address, struct opened *list)
{
    struct vgpu_track_entry entry = {.extra = (uintptr_t)list};

    if (list != NULL)
        return record_put(RECORDS_IPC, address, &entry);
    record_take(RECORDS_IPC, address, &entry);
    return true;
}

/* Before the driver's call: takes part in the share of the memory, or charges this process. False:
 * it does not fit. */
static bool ipc_admit(enum hook_symbol sym, struct vgpu_ledger *ledger,
                      const CUipcMemHandle *handle, struct opened **ret_opened)
{
    struct shared_handle from = {.fd = -1, .bytes = handle, .length = sizeof(*handle)};
    struct ledger_share_memory memory;
    struct admission admission;
    struct opened *opened = hook_zalloc(sizeof(*opened));

    *ret_opened = opened;
    if (opened == NULL)
        return false;
    if (shared_imported(ledger, &from, &opened->shared, &memory) < 0) {
        if (mem_admit_on(sym, MEM_DATA, memory.vdev, memory.bytes, &admission) != CUDA_SUCCESS) {
            free(opened);
            return false;
        }
        mem_commit(&admission, memory.bytes);
        opened->vdev = memory.vdev;
        opened->charged_bytes = memory.bytes;
    }
    return true;
}

/* Memory from outside of the instance is recorded as well: each close takes one record. False: no
 * memory. */
static bool ipc_record(struct vgpu_ledger *ledger, CUdeviceptr address, struct opened *opened)
{
    struct opened *stale = NULL;
    bool known;

    if (DRIVER(cuCtxGetCurrent)(&opened->context) != CUDA_SUCCESS)
        opened->context = NULL;
    ipc_lock_lists();
    opened->next = list_at(address);
    /* That context ended unseen: the address is another memory's now. */
    if (opened->next != NULL && opened->next->context != opened->context) {
        stale = opened->next;
        opened->next = NULL;
    }
    known = set_list(address, opened);
    mutex_unlock(&ipc_lock);
    if (known)
        ipc_close_list(ledger, stale);
    return known;
}

CUresult hook_ipc_open_mem_handle(enum hook_symbol sym, CUdeviceptr *ptr, CUipcMemHandle handle,
                                  unsigned int flags)
{
    struct vgpu_ledger *ledger = hook_ledger();
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    CUdeviceptr address = 0;
    struct opened *opened;

    if (ledger == NULL || ptr == NULL)
        return REAL(sym, ipc_open_mem_handle)(ptr, handle, flags);
    if (ipc_admit(sym, ledger, &handle, &opened)) {
        result = REAL(sym, ipc_open_mem_handle)(&address, handle, flags);
        if (result == CUDA_SUCCESS && !ipc_record(ledger, address, opened)) {
            DRIVER(cuIpcCloseMemHandle)(address);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (result == CUDA_SUCCESS)
            *ptr = address;
        else
            ipc_close_one(ledger, opened);
    }
    trace_memory(sym, 0, address, result);
    return result;
}

static void ipc_put_back(struct vgpu_ledger *ledger, CUdeviceptr address, struct opened *opened)
{
    bool known;

    ipc_lock_lists();
    opened->next = list_at(address);
    known = set_list(address, opened);
    mutex_unlock(&ipc_lock);
    if (!known)
        ipc_close_one(ledger, opened);
}

CUresult hook_ipc_close_mem_handle(enum hook_symbol sym, CUdeviceptr ptr)
{
    struct vgpu_ledger *ledger = hook_ledger();
    struct opened *opened;
    CUresult result;

    /* Out of the list before the driver's call: another thread may get the address right
     * after it. */
    ipc_lock_lists();
    opened = list_at(ptr);
    if (opened != NULL)
        set_list(ptr, opened->next);
    mutex_unlock(&ipc_lock);
    result = REAL(sym, ipc_close_mem_handle)(ptr);
    if (opened != NULL && result == CUDA_SUCCESS)
        ipc_close_one(ledger, opened);
    else if (opened != NULL)
        ipc_put_back(ledger, ptr, opened);
    trace_memory(sym, 0, ptr, result);
    return result;
}

struct collection {
    CUcontext context;
    struct opened *list;
};

static bool ipc_collect(uint64_t key, struct vgpu_track_entry *entry, void *arg)
{
    struct collection *collection = arg;
    struct opened *first = (struct opened *)(uintptr_t)entry->extra, *last = first;

    (void)key;
    if (first->context != collection->context)
        return false;
    while (last->next != NULL)
        last = last->next;
    last->next = collection->list;
    collection->list = first;
    return true;
}

static void context_gone(CUcontext context)
{
    struct collection collection = {.context = context};

    ipc_lock_lists();
    record_sweep(RECORDS_IPC, 0, UINT64_MAX, ipc_collect, &collection);
    mutex_unlock(&ipc_lock);
    ipc_close_list(hook_ledger(), collection.list);
}
