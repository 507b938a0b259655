/*
 * Admission and records: see admission.h.
 */
#include "hook/admission.h"

#include "hook/reconcile.h"
#include "hook/shared.h"
#include "hook/sources.h"

static _Atomic(struct vgpu_track *) tables[CHARGE_TABLES];
static _Atomic(struct vgpu_granules *) granules;
_Atomic uint64_t charge_lowest_pointer = UINT64_MAX, charge_highest_pointer;

static struct vgpu_track *table_of(enum charge_table table)
{
    struct vgpu_track *track = atomic_load_explicit(&tables[table], memory_order_acquire);
    struct vgpu_track *other = NULL;

    if (track != NULL)
        return track;
    track = track_new();
    /* The loser of a race keeps its empty table; it happens once a process at most, and a table has
     * no free. */
    if (track != NULL && !atomic_compare_exchange_strong(&tables[table], &other, track))
        track = other;
    return track;
}

static struct vgpu_granules *all_granules(void)
{
    struct vgpu_granules *made = atomic_load_explicit(&granules, memory_order_acquire);
    struct vgpu_granules *other = NULL;

    if (made != NULL)
        return made;
    made = granules_new(CHARGE_BLOCK_BYTES);
    if (made != NULL && !atomic_compare_exchange_strong(&granules, &other, made))
        made = other;
    return made;
}

void charge_refresh(unsigned vdev)
{
    if (vdev == VGPU_VDEV_HOST)
        return;
    sources_refresh();
    shared_sweep(hook_ledger());
    reconcile_now(vdev);
}

bool charge_make_room(struct vgpu_ledger *ledger, unsigned vdev, uint64_t bytes)
{
    uint64_t quota = ledger_quota(ledger, vdev);

    if (vdev == VGPU_VDEV_HOST || (quota > 0 && bytes > quota))
        return false;
    charge_refresh(vdev);
    if (ledger_reserve(ledger, vdev, bytes) == 0)
        return true;
    sources_trim(vdev);
    return ledger_reserve(ledger, vdev, bytes) == 0;
}

bool charge_reserve(enum hook_symbol sym, struct vgpu_ledger *ledger, unsigned vdev, uint64_t bytes)
{
    if (vdev != VGPU_VDEV_HOST)
        reconcile_maybe(vdev);
    if (ledger_reserve(ledger, vdev, bytes) == 0 || charge_make_room(ledger, vdev, bytes))
        return true;
    ledger_refuse(ledger, vdev, bytes, hook_symbol_name(sym));
    return false;
}

/* Widens the range that charge_pointer_possible() looks at; it never narrows. */
static void note_pointer(uint64_t address)
{
    uint64_t lowest = atomic_load_explicit(&charge_lowest_pointer, memory_order_relaxed);
    uint64_t highest = atomic_load_explicit(&charge_highest_pointer, memory_order_relaxed);

    while (address < lowest &&
           !atomic_compare_exchange_weak(&charge_lowest_pointer, &lowest, address))
        ;
    while (address > highest &&
           !atomic_compare_exchange_weak(&charge_highest_pointer, &highest, address))
        ;
}

static uint64_t current_context(void)
{
    CUcontext context = NULL;

    if (!HAVE(cuCtxGetCurrent) || DRIVER(cuCtxGetCurrent)(&context) != CUDA_SUCCESS)
        return 0;
    return (uint64_t)(uintptr_t)context;
}

/* Blocks that nothing of ours is in any more. */
static void leave(struct vgpu_ledger *ledger, unsigned vdev,
                  const struct granule_share left[GRANULE_SHARES])
{
    for (unsigned i = 0; i < GRANULE_SHARES; i++) {
        if (ledger != NULL && left[i].note != NULL)
            sources_noted_left(ledger, &left[i]);
        else if (ledger != NULL && left[i].bytes > 0)
            ledger_release(ledger, vdev, left[i].kind, left[i].bytes);
    }
}

static void give_back(struct vgpu_ledger *ledger, enum charge_table table, uint64_t key,
                      const struct vgpu_track_entry *entry)
{
    struct granule_share left[GRANULE_SHARES] = {{.kind = entry->kind, .bytes = entry->bytes}};

    if (table == CHARGE_POINTERS)
        granule_drop(all_granules(), entry->vdev, entry->kind, key, entry->bytes, left);
    leave(ledger, entry->vdev, left);
}

/* Leaves blocks of which `counted` bytes are new and were not charged. Meanwhile others may have
 * come or gone. */
static void undo_blocks(struct vgpu_ledger *ledger, uint64_t key,
                        const struct vgpu_track_entry *entry, uint64_t counted)
{
    struct granule_share left[GRANULE_SHARES];
    uint64_t own;

    granule_drop(all_granules(), entry->vdev, entry->kind, key, entry->bytes, left);
    own = left[0].bytes;
    left[0].bytes = own > counted ? own - counted : 0;
    /* Somebody else is in a block that was ours to charge: it stays charged, whether or not it
     * fits. */
    if (own < counted)
        ledger_settle(ledger, entry->vdev, entry->kind, 0, (int64_t)(counted - own));
    leave(ledger, entry->vdev, left);
}

bool charge_commit(enum hook_symbol sym, struct vgpu_ledger *ledger, enum charge_table table,
                   uint64_t key, unsigned vdev, enum vgpu_kind kind, uint64_t reserved_bytes,
                   uint64_t bytes)
{
    struct vgpu_track_entry entry = {
        .bytes = bytes, .extra = current_context(), .vdev = vdev, .kind = kind};
    struct vgpu_track_entry stale;
    struct vgpu_track *track = table_of(table);
    struct vgpu_granules *blocks = table == CHARGE_POINTERS ? all_granules() : NULL;
    uint64_t charged = bytes;
    bool was_stale;

    if (track == NULL || (table == CHARGE_POINTERS && blocks == NULL))
        goto refuse;
    /* The driver gave an address that we still have: it was freed in a way that nobody saw. */
    was_stale = track_take(track, key, &stale);
    if (blocks != NULL && granule_add(blocks, vdev, kind, key, bytes, &charged) < 0)
        goto undo_stale;
    if (ledger_commit(ledger, vdev, kind, reserved_bytes, charged) < 0)
        goto undo_granules;
    if (table == CHARGE_POINTERS)
        note_pointer(key);
    if (track_put(track, key, &entry) < 0) {
        if (was_stale)
            give_back(ledger, table, key, &stale);
        give_back(ledger, table, key, &entry);
        ledger_refuse(ledger, vdev, bytes, hook_symbol_name(sym));
        return false;
    }
    if (was_stale)
        give_back(ledger, table, key, &stale);
    return true;

undo_granules:
    if (blocks != NULL)
        undo_blocks(ledger, key, &entry, charged);
undo_stale:
    if (was_stale)
        give_back(ledger, table, key, &stale);
refuse:
    ledger_cancel(ledger, vdev, reserved_bytes);
    ledger_refuse(ledger, vdev, bytes, hook_symbol_name(sym));
    return false;
}

bool charge_take(enum charge_table table, uint64_t key, struct vgpu_track_entry *ret_entry)
{
    struct vgpu_track *track = atomic_load_explicit(&tables[table], memory_order_acquire);

    if (track == NULL)
        return false;
    reconcile_free_begin();
    if (track_take(track, key, ret_entry))
        return true;
    reconcile_free_end();
    return false;
}

void charge_put_back(enum charge_table table, uint64_t key, const struct vgpu_track_entry *entry)
{
    struct vgpu_track *track = table_of(table);

    if (track != NULL)
        track_put(track, key, entry);
    reconcile_free_end();
}

void charge_give_back(struct vgpu_ledger *ledger, enum charge_table table, uint64_t key,
                      const struct vgpu_track_entry *entry)
{
    give_back(ledger, table, key, entry);
    reconcile_free_end();
}

bool charge_look(enum charge_table table, uint64_t key, struct vgpu_track_entry *ret_entry)
{
    struct vgpu_track *track = atomic_load_explicit(&tables[table], memory_order_acquire);

    return track != NULL && track_get(track, key, ret_entry);
}

void *charge_note(uint64_t key, const struct vgpu_track_entry *entry, void *note)
{
    struct vgpu_granules *blocks = all_granules();

    return blocks != NULL ? granule_note(blocks, entry->vdev, entry->kind, key, note) : NULL;
}

struct sweep {
    uint64_t context;
    enum charge_table table;
};

static bool sweep_context(uint64_t key, struct vgpu_track_entry *entry, void *arg)
{
    const struct sweep *sweep = arg;

    if (entry->extra != sweep->context)
        return false;
    give_back(hook_ledger(), sweep->table, key, entry);
    return true;
}

void charge_context_gone(CUcontext context)
{
    struct sweep sweep = {.context = (uint64_t)(uintptr_t)context};

    if (context == NULL)
        return;
    for (int i = 0; i < CHARGE_TABLES; i++) {
        struct vgpu_track *track = atomic_load_explicit(&tables[i], memory_order_acquire);

        sweep.table = i;
        if (track != NULL)
            track_sweep(track, 0, UINT64_MAX, sweep_context, &sweep);
    }
    sources_context_gone(context);
    sources_refresh(); /* of its device's pools and graphs the driver keeps what it likes */
}
