/*
 * Memory that crosses processes: what this process has exported, and what it has imported of its
 * instance.
 *
 * An import has to be told which memory it is of, so that this is charged once. A descriptor cannot
 * be told by its inode: all that the driver exports are the same device. So the file itself is
 * marked: a lock of its open file description at a position that nobody else uses. The kernel keeps
 * it as long as any process has the file, and says whether this very file has it. Handles that are
 * bytes (fabric, IPC) are told by them.
 *
 * Everything here is thread-safe and keeps errno; no lock is held across a call into the driver.
 */
#ifndef VGPU_HOOK_SHARED_H
#define VGPU_HOOK_SHARED_H

#include "account/share.h"
#include "hook/hook.h"

struct shared; /* one for each memory; counts what of this process refers to it */

/* How a handle is handed from process to process. */
struct shared_handle {
    int fd;            /* -1: it is bytes */
    const void *bytes; /* of `length` */
    size_t length;
};

/*
 * This process exports `bytes` of a vdev that it is charged for. The caller's reference is the
 * first. *ret_shared NULL and 0: nothing has to be followed (a guard does it); -errno: it cannot
 * be.
 */
int shared_new(struct vgpu_ledger *ledger, unsigned vdev, enum vgpu_kind kind, uint64_t bytes,
               struct shared **ret_shared);

/* From now on this process's charge for it is given back by shared_drop(). */
void shared_own(struct shared *shared, enum vgpu_kind kind, uint64_t own_bytes);

/* One reference more, for the holder of another. One that is never dropped keeps the charge until
 * the process ends. */
void shared_hold(struct shared *shared);

/* Makes a handle of it known to whoever imports it. -errno: it cannot be; the memory is then to
 * stay charged. */
int shared_exported(struct vgpu_ledger *ledger, struct shared *shared,
                    const struct shared_handle *handle);

/* The maker of memory that cannot be followed keeps its charge until it ends; said once. */
void shared_cannot_follow(int negative_errno);

/*
 * After the driver's import. 0: *ret_shared has one more reference; NULL: the memory is none of
 * this instance. -ESTALE: nobody is charged for it any more; the caller has to be, for what
 * *ret_memory says.
 */
int shared_imported(struct vgpu_ledger *ledger, const struct shared_handle *handle,
                    struct shared **ret_shared, struct ledger_share_memory *ret_memory);

/*
 * One reference less. The last gives the charge back, or leaves it to those who have the memory
 * still. A descriptor keeps the memory as a handle does, in whatever process it is: then the charge
 * stays with this one until it is closed.
 */
void shared_drop(struct vgpu_ledger *ledger, struct shared *shared);

/* Gives back what was charged only for descriptors that are closed by now. A load where there are
 * none. */
void shared_sweep(struct vgpu_ledger *ledger);

#endif
