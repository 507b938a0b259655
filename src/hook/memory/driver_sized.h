/*
 * Memory whose size the driver decides: a pool, or the memory behind graphs. It grows by more than
 * a call asks for, and shrinks when the driver likes. So vgpu reserves the most that a call can add
 * before it, reads from the driver how much it added, and charges that after it.
 *
 * Several threads may be in calls that grow the same memory. Their reservations are one pot. The
 * first thread that reads the size pays from the pot for all growth that it sees. It leaves in
 * there what the other calls may still need.
 */
#ifndef VGPU_HOOK_MEMORY_DRIVER_SIZED_H
#define VGPU_HOOK_MEMORY_DRIVER_SIZED_H

#include "base/mutex.h"
#include "hook/loader/hook.h"

#define DRIVER_SIZED_STEP_BYTES (32ULL << 20) /* the driver adds memory to a pool in such steps */

struct driver_sized;

struct driver_sized_ops {
    /* Reads the bytes that the driver has. False: the driver does not say. */
    bool (*read)(const struct driver_sized *sized, uint64_t *ret_bytes);
    /* Has the driver free what nothing uses, as it does itself when the device is full. Never waits
     * for the device. */
    void (*trim)(struct driver_sized *sized);
};

struct driver_sized {
    const struct driver_sized_ops *driver;
    unsigned vdev;
    enum vgpu_kind kind;
    struct driver_sized *next; /* of all */

    /* Guards what follows. Held to read the size and to trim, never while the driver allocates. */
    struct vgpu_mutex lock;
    _Atomic uint64_t charged_bytes;  /* read without the lock, too */
    _Atomic uint64_t reserved_bytes; /* by calls under way; grows without the lock */
    uint64_t consumed_bytes;         /* of reserved_bytes, charged or given back already */
    uint64_t guaranteed_bytes;       /* of charged_bytes, in steps: calls under way rely on them */
    uint64_t contiguous_bytes;       /* never used yet and in one piece, at least */
    uint64_t carried_over_bytes;     /* reserved by calls that are over, for claims that are not */
    bool retained;                   /* the driver has freed bytes that calls under way rely on */
    bool detached;                   /* destroyed, or about to be: the driver must not be asked */
};

/* What a call under way holds: room in the quota for growth, or the certainty that it
 * needs none. */
struct driver_sized_ticket {
    uint64_t taken_bytes;
    uint64_t guaranteed_bytes;
};

/* Once. `sized` goes on the list of all, and must stay. */
void driver_sized_init(struct driver_sized *sized, unsigned vdev, enum vgpu_kind kind,
                       const struct driver_sized_ops *driver);

/* Before a call that wants `bytes`. False: over the quota; the caller records the refusal. */
bool driver_sized_begin(struct driver_sized *sized, uint64_t bytes,
                        struct driver_sized_ticket *ret_ticket);

/*
 * Before a call whose `bytes` are there already, as still(arg) tells under the lock. They stay
 * charged until driver_sized_end(), even if the driver frees them meanwhile. False: they are not
 * there.
 */
bool driver_sized_claim(struct driver_sized *sized, uint64_t bytes, bool (*still)(const void *arg),
                        const void *arg, struct driver_sized_ticket *ret_ticket);

/* After the call, successful or not. `used_bytes` is what it got; 0: it failed, or that does not
 * matter. False: the memory grew beyond the reservation, and the quota has no room for that. */
bool driver_sized_end(struct driver_sized *sized, const struct driver_sized_ticket *ticket,
                      uint64_t used_bytes);

/* Reads the size again; driver_sized_trim() trims before. Cheap where nothing is charged. */
void driver_sized_refresh(struct driver_sized *sized);
void driver_sized_trim(struct driver_sized *sized);

/* Before the memory is destroyed: from now on nobody asks the driver about it. Returns the charge,
 * which the caller gives back to the ledger once the driver has destroyed it, or attaches again. */
uint64_t driver_sized_detach(struct driver_sized *sized);
void driver_sized_attach(struct driver_sized *sized, uint64_t charged_bytes);

/* Reads the sizes that `driver` reads; NULL: those of pools and of graphs. */
void driver_sized_refresh_all(const struct driver_sized_ops *driver);

/* Waits until no thread is reading a size: from then on each sees the new capture_active. */
void driver_sized_quiesce(void);

#endif
