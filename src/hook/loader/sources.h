/*
 * The sources of memory that changes without a call for it: pools and graph memory, whose size the
 * driver decides, and records of what the driver frees later or along with something else.
 *
 * A source registers itself before it first holds anything. What admits memory asks all of them,
 * and so depends on none.
 */
#ifndef VGPU_HOOK_LOADER_SOURCES_H
#define VGPU_HOOK_LOADER_SOURCES_H

#include "account/track.h"
#include "hook/loader/hook.h"

/* Each function may be NULL. */
struct memory_source {
    /* Brings the ledger up to what the driver holds now. Never waits for the device. */
    void (*refresh)(void);
    /* Has the driver free what nothing on a vdev uses, for when the quota is short. */
    void (*trim)(unsigned vdev);
    /* The driver has destroyed a context, and with it what was allocated in there. */
    void (*context_gone)(CUcontext context);
    /* The process left blocks that carry a note of this source (granule_note()). One source notes.
     */
    void (*noted_left)(struct vgpu_ledger *ledger, const struct granule_share *left);
    /* In the child of a fork: forgets what the parent held, makes locks anew. */
    void (*forked)(void);

    atomic_bool registered;
    struct memory_source *next;
};

/* Idempotent: one load once it is done. `source` is static. Any thread. */
void sources_register(struct memory_source *source);

void sources_refresh(void);
void sources_trim(unsigned vdev);
void sources_context_gone(CUcontext context);
void sources_noted_left(struct vgpu_ledger *ledger, const struct granule_share *left);

#endif
