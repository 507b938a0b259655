#include "hook/memory/admission.h"

#include "hook/memory/reconcile.h"
#include "hook/memory/shared.h"
#include "hook/loader/sources.h"
#include "account/refuse.h"

static const struct {
    enum vgpu_kind kind;
    enum record_table table;
    uint64_t step_bytes;
} classes[] = {
#define X(class, kind, table, step, ...) [MEM_##class] = {kind, table, step},
    MEM_CLASSES(X)
#undef X
#define X(class, kind) [MEM_##class] = {kind, RECORD_TABLES, MEM_BLOCK_BYTES},
        MEM_UNRECORDED_CLASSES(X)
#undef X
};

static _Atomic(struct vgpu_granules *) granules;
_Atomic uint64_t mem_lowest_pointer = UINT64_MAX, mem_highest_pointer;

static struct vgpu_granules *all_granules(void)
{
    struct vgpu_granules *made = atomic_load_explicit(&granules, memory_order_acquire);
    struct vgpu_granules *other = NULL;

    if (made != NULL)
        return made;
    made = granules_new(MEM_BLOCK_BYTES);
    if (made != NULL && !atomic_compare_exchange_strong(&granules, &other, made))
        made = other;
    return made;
}

/* Room */

void mem_refresh(unsigned vdev)
{
    if (vdev == VGPU_VDEV_HOST)
        return;
    sources_refresh();
    shared_sweep(hook_ledger());
    reconcile_now(vdev);
}

bool mem_make_room(unsigned vdev, uint64_t bytes)
{
    struct vgpu_ledger *ledger = hook_ledger();
    uint64_t quota = ledger_quota(ledger, vdev);

    if (vdev == VGPU_VDEV_HOST || (quota > 0 && bytes > quota))
        return false;
    mem_refresh(vdev);
    if (ledger_reserve(ledger, vdev, bytes) == 0)
        return true;
    sources_trim(vdev);
    return ledger_reserve(ledger, vdev, bytes) == 0;
}

CUresult mem_admit_on(enum hook_symbol sym, enum mem_class class, unsigned vdev, uint64_t bytes,
                      struct admission *ret_admission)
{
    struct vgpu_ledger *ledger = hook_ledger();
    uint64_t reserved_bytes = mem_round(bytes, classes[class].step_bytes);

    *ret_admission = (struct admission){
        .sym = sym, .class = class, .vdev = vdev, .reserved_bytes = reserved_bytes};
    if (ledger != NULL && bytes > 0 && vdev != VGPU_VDEV_HOST)
        reconcile_maybe(vdev);
    if (ledger != NULL && bytes > 0 && ledger_reserve(ledger, vdev, reserved_bytes) < 0 &&
        !mem_make_room(vdev, reserved_bytes)) {
        ledger_refuse(ledger, vdev, reserved_bytes, hook_symbol_name(sym));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    ret_admission->ledger = ledger;
    return CUDA_SUCCESS;
}

CUresult mem_admit(enum hook_symbol sym, enum mem_class class, uint64_t bytes,
                   struct admission *ret_admission)
{
    unsigned vdev = VGPU_VDEV_HOST;
    CUdevice device;

    *ret_admission = (struct admission){.ledger = NULL};
    if (hook_ledger() == NULL || bytes == 0 || bytes > MEM_LIMIT_BYTES ||
        (classes[class].kind != VGPU_KIND_HOST && device_current(&device, &vdev) < 0))
        return CUDA_SUCCESS;
    return mem_admit_on(sym, class, vdev, bytes, ret_admission);
}

/* Charges */

bool mem_commit(const struct admission *admission, uint64_t bytes)
{
    return admission->ledger == NULL ||
           ledger_commit(admission->ledger, admission->vdev, classes[admission->class].kind,
                         admission->reserved_bytes, bytes) == 0;
}

void mem_cancel(const struct admission *admission)
{
    if (admission->ledger != NULL)
        ledger_cancel(admission->ledger, admission->vdev, admission->reserved_bytes);
}

void mem_refuse(const struct admission *admission, uint64_t bytes)
{
    mem_cancel(admission);
    ledger_refuse(admission->ledger, admission->vdev, bytes, hook_symbol_name(admission->sym));
}

/* Widens the range that mem_pointer_possible() looks at; it never narrows. */
static void widen_pointers(uint64_t address)
{
    uint64_t lowest = atomic_load_explicit(&mem_lowest_pointer, memory_order_relaxed);
    uint64_t highest = atomic_load_explicit(&mem_highest_pointer, memory_order_relaxed);

    while (address < lowest && !atomic_compare_exchange_weak(&mem_lowest_pointer, &lowest, address))
        ;
    while (address > highest &&
           !atomic_compare_exchange_weak(&mem_highest_pointer, &highest, address))
        ;
}

static uint64_t current_context(void)
{
    CUcontext context = NULL;

    if (!HAVE(cuCtxGetCurrent) || DRIVER(cuCtxGetCurrent)(&context) != CUDA_SUCCESS)
        return 0;
    return (uint64_t)(uintptr_t)context;
}

/* Gives back blocks that no allocation of this process is in any more. */
static void mem_leave_blocks(struct vgpu_ledger *ledger, unsigned vdev,
                             const struct granule_share left[GRANULE_SHARES])
{
    for (unsigned i = 0; i < GRANULE_SHARES; i++) {
        if (ledger != NULL && left[i].note != NULL)
            sources_noted_left(ledger, &left[i]);
        else if (ledger != NULL && left[i].bytes > 0)
            ledger_release(ledger, vdev, left[i].kind, left[i].bytes);
    }
}

static void mem_give_back(struct vgpu_ledger *ledger, enum record_table table, uint64_t key,
                          const struct vgpu_track_entry *entry)
{
    struct granule_share left[GRANULE_SHARES] = {{.kind = entry->kind, .bytes = entry->bytes}};

    if (table == RECORDS_POINTERS)
        granule_drop(all_granules(), entry->vdev, entry->kind, key, entry->bytes, left);
    mem_leave_blocks(ledger, entry->vdev, left);
}

/* Leaves blocks of which `counted` bytes are new and were not charged. Meanwhile others may have
 * come or gone. */
static void mem_undo_blocks(struct vgpu_ledger *ledger, uint64_t key,
                            const struct vgpu_track_entry *entry, uint64_t counted)
{
    struct granule_share left[GRANULE_SHARES];
    uint64_t own;

    granule_drop(all_granules(), entry->vdev, entry->kind, key, entry->bytes, left);
    own = left[0].bytes;
    left[0].bytes = own > counted ? own - counted : 0;
    /* Another allocation is in a block that was this one's to charge: that stays charged, whether
     * or not it fits. */
    if (own < counted)
        ledger_settle(ledger, entry->vdev, entry->kind, 0, (int64_t)(counted - own));
    mem_leave_blocks(ledger, entry->vdev, left);
}

/* Charges an allocation and records it. False: it does not fit, and the reservation stands; or
 * there is no memory for the record, and *ret_charged tells that it is charged. */
static bool mem_charge(const struct admission *admission, enum record_table table, uint64_t key,
                       const struct vgpu_track_entry *entry, bool *ret_charged)
{
    struct vgpu_granules *blocks = table == RECORDS_POINTERS ? all_granules() : NULL;
    uint64_t bytes = entry->bytes;

    *ret_charged = false;
    if (table == RECORDS_POINTERS) {
        if (blocks == NULL ||
            granule_add(blocks, entry->vdev, entry->kind, key, entry->bytes, &bytes) < 0)
            return false;
        widen_pointers(key);
    }
    if (!mem_commit(admission, bytes)) {
        if (blocks != NULL)
            mem_undo_blocks(admission->ledger, key, entry, bytes);
        return false;
    }
    *ret_charged = true;
    return record_put(table, key, entry);
}

static void free_by_driver(enum mem_class class, uint64_t key)
{
    switch (class) {
#define X(class, kind, table, step, undo, type)                                                    \
    case MEM_##class:                                                                              \
        DRIVER(undo)((type)key);                                                                   \
        break;
        MEM_CLASSES(X)
#undef X
    default:
        break;
    }
}

CUresult mem_settle(const struct admission *admission, CUresult result, uint64_t key,
                    uint64_t bytes)
{
    enum record_table table = classes[admission->class].table;
    struct vgpu_track_entry entry = {
        .bytes = bytes, .vdev = admission->vdev, .kind = classes[admission->class].kind};
    struct vgpu_track_entry stale;
    bool was_stale, charged;

    if (admission->ledger == NULL)
        return result;
    if (result != CUDA_SUCCESS || bytes == 0) {
        mem_cancel(admission);
        return result;
    }
    entry.extra = current_context();
    /* The driver gave a handle that is recorded still: its memory was freed in an unseen way. */
    was_stale = record_take(table, key, &stale);
    if (!mem_charge(admission, table, key, &entry, &charged)) {
        reconcile_free_begin();
        free_by_driver(admission->class, key);
        if (charged) {
            mem_give_back(admission->ledger, table, key, &entry);
            ledger_refuse(admission->ledger, admission->vdev, bytes,
                          hook_symbol_name(admission->sym));
        } else {
            mem_refuse(admission, bytes);
        }
        reconcile_free_end();
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (was_stale)
        mem_give_back(admission->ledger, table, key, &stale);
    return result;
}

/* Frees */

bool mem_free_begin(enum mem_class class, uint64_t key, struct mem_free *ret_free)
{
    *ret_free = (struct mem_free){.class = class, .key = key};
    reconcile_free_begin();
    ret_free->known = record_take(classes[class].table, key, &ret_free->entry);
    if (!ret_free->known)
        reconcile_free_end();
    return ret_free->known;
}

void mem_free_end(const struct mem_free *freeing, CUresult result)
{
    enum record_table table = classes[freeing->class].table;

    if (!freeing->known)
        return;
    if (result == CUDA_SUCCESS)
        mem_give_back(hook_ledger(), table, freeing->key, &freeing->entry);
    else
        record_put(table, freeing->key, &freeing->entry);
    reconcile_free_end();
}

void *mem_note(uint64_t key, const struct vgpu_track_entry *entry, void *note)
{
    struct vgpu_granules *blocks = all_granules();

    return blocks != NULL ? granule_note(blocks, entry->vdev, entry->kind, key, note) : NULL;
}

struct sweep {
    uint64_t context;
    enum record_table table;
};

static bool mem_sweep_context(uint64_t key, struct vgpu_track_entry *entry, void *arg)
{
    const struct sweep *sweep = arg;

    if (entry->extra != sweep->context)
        return false;
    mem_give_back(hook_ledger(), sweep->table, key, entry);
    return true;
}

void mem_context_gone(CUcontext context)
{
    struct sweep sweep = {.context = (uint64_t)(uintptr_t)context};

    if (context == NULL)
        return;
    for (sweep.table = 0; sweep.table < RECORDS_OF_CONTEXTS; sweep.table++)
        record_sweep(sweep.table, 0, UINT64_MAX, mem_sweep_context, &sweep);
    sources_context_gone(context);
    sources_refresh(); /* of its device's pools and graphs the driver keeps what it likes */
}
