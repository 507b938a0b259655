/*
 * What the memory handlers share: getting room in the quota, and remembering who holds what so that
 * a free gives back exactly what the allocation took.
 *
 * The order that every handler keeps: room first, then the driver, then the record; and on the way
 * back the record is taken out before the driver frees (another thread may get the same address at
 * once) and the quota is given back after it did. Everything here is thread-safe, keeps errno and
 * holds no lock across a call into the driver.
 */
#ifndef VGPU_HOOK_ADMISSION_H
#define VGPU_HOOK_ADMISSION_H

#include "account/track.h"
#include "hook/hook.h"

#define CHARGE_BLOCK_BYTES (2ULL << 20) /* what the driver takes device memory in */
/* No memory is that large: such a request is the driver's to refuse. */
#define CHARGE_LIMIT_BYTES (1ULL << 52)

static inline uint64_t charge_round(uint64_t bytes, uint64_t step_bytes)
{
    return (bytes + step_bytes - 1) / step_bytes * step_bytes;
}

/*
 * Sets `bytes` of a vdev aside. Where they do not fit, what went back to the driver unseen is
 * looked for first. False: they still do not fit; the refusal of `sym` is recorded, answer
 * CUDA_ERROR_OUT_OF_MEMORY.
 */
bool charge_reserve(enum hook_symbol sym, struct vgpu_ledger *ledger, unsigned vdev,
                    uint64_t bytes);

/* Looks again at everything whose size the driver changes on its own, so that the ledger has what
 * is really held. */
void charge_refresh(unsigned vdev);

/*
 * Reserves after a first try without luck: refreshes, then has the driver let go of what nothing
 * uses, as it does itself when the card is full. Records no refusal.
 */
bool charge_make_room(struct vgpu_ledger *ledger, unsigned vdev, uint64_t bytes);

/* Tables of records. Keys of one table are told apart by the driver: addresses, handles. */
enum charge_table {
    CHARGE_POINTERS, /* device memory, charged by the blocks that it touches */
    CHARGE_HOST,
    CHARGE_ARRAYS,
    CHARGE_EXTERNAL,
    CHARGE_TABLES
};

/* False: CHARGE_POINTERS has no such key for sure. Two loads, for paths that can't afford to
 * look. */
extern _Atomic uint64_t charge_lowest_pointer, charge_highest_pointer;

static inline bool charge_pointer_possible(uint64_t address)
{
    return address >= atomic_load_explicit(&charge_lowest_pointer, memory_order_relaxed) &&
           address <= atomic_load_explicit(&charge_highest_pointer, memory_order_relaxed);
}

/*
 * Turns a reservation into a charge of `bytes` (for CHARGE_POINTERS: of the blocks of [key, key +
 * bytes) that nothing else is in) and records it under `key`, with the calling thread's context.
 * False: there was no room for what the driver took beyond the reservation, or no memory for the
 * record; nothing is held any more, the refusal is recorded. The caller then frees what the driver
 * gave.
 */
bool charge_commit(enum hook_symbol sym, struct vgpu_ledger *ledger, enum charge_table table,
                   uint64_t key, unsigned vdev, enum vgpu_kind kind, uint64_t reserved_bytes,
                   uint64_t bytes);

/*
 * Takes a record out; false where there is none. Then, by what the driver said: put it back, or
 * give the quota back. From the first to the last the driver is freeing (reconcile_free_begin()).
 */
bool charge_take(enum charge_table table, uint64_t key, struct vgpu_track_entry *ret_entry);
void charge_put_back(enum charge_table table, uint64_t key, const struct vgpu_track_entry *entry);
void charge_give_back(struct vgpu_ledger *ledger, enum charge_table table, uint64_t key,
                      const struct vgpu_track_entry *entry);

/*
 * What is exported of device memory. charge_look() is charge_take() that leaves the record in.
 * charge_note() is granule_note() of such a record; what the note is for gets the charge in place
 * of the ledger: see struct memory_source.
 */
bool charge_look(enum charge_table table, uint64_t key, struct vgpu_track_entry *ret_entry);
void *charge_note(uint64_t key, const struct vgpu_track_entry *entry, void *note);

/*
 * A context was destroyed (or reset, or released for the last time), and with it the driver freed
 * what was allocated in it: gives all of that back. For whoever hooks the end of contexts, after
 * the driver's call.
 */
void charge_context_gone(CUcontext context);

#endif
