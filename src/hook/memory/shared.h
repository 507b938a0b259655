/*
 * Memory that crosses processes: what this process has exported, and what it has imported of its
 * instance.
 *
 * vgpu has to recognise the memory behind an import, to charge it once. The inode of a descriptor
 * does not help: all that the driver exports are files of one device. So vgpu marks the open file
 * itself, with a lock of its open file description at a position that nobody else uses. The kernel
 * keeps that lock as long as any process has the file, and says whether this very file has it.
 * Handles that are bytes (fabric, IPC) are recognised by them.
 *
 * Thread-safe; keeps errno. No lock is held across a call into the driver.
 */
#ifndef VGPU_HOOK_MEMORY_SHARED_H
#define VGPU_HOOK_MEMORY_SHARED_H

#include "account/share.h"
#include "hook/loader/hook.h"

struct shared; /* one for each memory; counts the references of this process */

/* How one process hands a handle to another. */
struct shared_handle {
    int fd;            /* -1: it is bytes */
    const void *bytes; /* of `length` */
    size_t length;
};

/*
 * This process exports `bytes` of a vdev that it is charged for. The first reference is the
 * caller's. *ret_shared NULL and 0: nobody has to follow it (a guard does). -errno: it cannot be
 * followed.
 */
int shared_new(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind, uint64_t bytes,
               struct shared **ret_shared);

/* From now on shared_drop() gives this process's charge back. */
void shared_own(struct shared *shared, enum vgpu_kind kind, uint64_t own_bytes);

/* One reference more, for the holder of another. One that is never dropped keeps the charge until
 * the process ends. */
void shared_hold(struct shared *shared);

/* Lets importers find it by a handle. -errno: they cannot; the memory is then to stay charged. */
int shared_exported(struct vgpu_ledger *ledger, struct shared *shared,
                    const struct shared_handle *handle);

/* Says once that memory cannot be followed. Its maker keeps the charge until it ends. */
void shared_cannot_follow(int negative_errno);

/*
 * After the driver's import. 0: *ret_shared has one more reference; NULL: the memory is none of
 * this instance. -ESTALE: no process is charged for it any more; the caller has to be, for
 * *ret_memory.
 */
int shared_imported(struct vgpu_ledger *ledger, const struct shared_handle *handle,
                    struct shared **ret_shared, struct ledger_share_memory *ret_memory);

/*
 * One reference less. The last one gives the charge back, or leaves it to processes that still have
 * the memory. A descriptor keeps the memory as a handle does, in any process: then the charge stays
 * with this process until the descriptor is closed.
 */
void shared_drop(struct vgpu_ledger *ledger, struct shared *shared);

/* Gives back what was charged only for descriptors that are closed by now. One load if there are
 * none. */
void shared_sweep(struct vgpu_ledger *ledger);

#endif
