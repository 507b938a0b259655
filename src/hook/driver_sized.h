/*
 * Memory whose size the driver decides: a pool, or the memory behind graphs. It grows by more than
 * was asked for, and shrinks when the driver likes. So the most that a call can add is set aside
 * before it, and what was really added is read from the driver and charged after it.
 *
 * Several threads may be in calls that grow the same thing. What they set aside is one pot: whoever
 * reads the size first pays for all growth that it sees, and leaves in the pot what the others may
 * still need.
 */
#ifndef VGPU_HOOK_DRIVER_SIZED_H
#define VGPU_HOOK_DRIVER_SIZED_H

#include "base/mutex.h"
#include "hook/hook.h"

#define DRIVER_SIZED_STEP_BYTES (32ULL << 20) /* the driver adds memory to a pool in such steps */

struct driver_sized;

struct driver_sized_ops {
    /* Reads the reserved bytes. False: the driver does not say. */
    bool (*read)(const struct driver_sized *sized, uint64_t *ret_bytes);
    /* Has the driver let go of what nothing uses, as it does itself when the card is full. Never
     * waits for the card. */
    void (*trim)(struct driver_sized *sized);
};

struct driver_sized {
    struct vgpu_mutex lock; /* held while the size is read and while it is trimmed, never while the
                               driver allocates */
    const struct driver_sized_ops *driver;
    _Atomic uint64_t charged_bytes;  /* changed under the lock */
    _Atomic uint64_t reserved_bytes; /* set aside by calls under way */
    uint64_t
        consumed_bytes; /* the part of it that is charged or given back already; under the lock */
    uint64_t guaranteed_bytes; /* of what is charged, what calls under way count on, in steps; under
                                  the lock */
    uint64_t contiguous_bytes; /* of what it has, never used yet and in one piece, at least; under
                                  the lock */
    uint64_t carried_over_bytes; /* pledges of calls that are over, for claims that are not; under
                                    the lock */
    bool retained; /* something that went away is charged still, for those calls; under the lock */
    bool detached; /* it is gone, or about to be: the driver must not be asked; under the lock */
    unsigned vdev;
    enum vgpu_kind kind;
    struct driver_sized *next; /* of all */
};

/* What a call under way has: room in the quota for growth, or the certainty that it needs none. */
struct driver_sized_ticket {
    uint64_t taken_bytes;
    uint64_t guaranteed_bytes;
};

/* Once: it stays on the list of all, so `sized` must stay, too. */
void driver_sized_init(struct driver_sized *sized, unsigned vdev, enum vgpu_kind kind,
                       const struct driver_sized_ops *driver);

/* Before a call that wants `bytes`. False: over the quota; the caller records the refusal. */
bool driver_sized_begin(struct driver_sized *sized, uint64_t bytes,
                        struct driver_sized_ticket *ret_ticket);

/*
 * Before a call for which `bytes` are there already, as `still(arg)` says under the lock. They stay
 * charged until driver_sized_end(), also if the driver lets go of them meanwhile. False: they are
 * not.
 */
bool driver_sized_claim(struct driver_sized *sized, uint64_t bytes, bool (*still)(const void *arg),
                        const void *arg, struct driver_sized_ticket *ret_ticket);

/*
 * After the call, whatever came of it; `used_bytes` is what it got (0: it failed, or that does not
 * matter). False: it grew beyond what was set aside and the quota has no room for that.
 */
bool driver_sized_end(struct driver_sized *sized, const struct driver_sized_ticket *ticket,
                      uint64_t used_bytes);

/* Looks at the size again (and trims it before). Cheap where nothing is charged. */
void driver_sized_refresh(struct driver_sized *sized);
void driver_sized_trim(struct driver_sized *sized);

/*
 * Before the thing itself is destroyed: from now on nobody asks the driver about it, and what is
 * charged for it lies with the caller, who gives it back to the ledger when the driver has
 * destroyed it, or attaches it again when not.
 */
uint64_t driver_sized_detach(struct driver_sized *sized);
void driver_sized_attach(struct driver_sized *sized, uint64_t charged_bytes);

/* Looks at all sizes that `driver` reads again; NULL: at those of pools and of graphs. */
void driver_sized_refresh_all(const struct driver_sized_ops *driver);

/* Waits until no thread is reading a size: from then on each sees what capture_active says. */
void driver_sized_quiesce(void);

#endif
