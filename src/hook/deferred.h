/*
 * Plain memory (of cuMemAlloc) that was freed in stream order. Measured: the driver frees it when
 * the program waits for this very stream, an event in it, or the context; not when the stream has
 * got there, and not when an unrelated one is waited for. Until then it stays charged.
 */
#ifndef VGPU_HOOK_DEFERRED_H
#define VGPU_HOOK_DEFERRED_H

#include "core/track.h"
#include "hook/hook.h"

/* After the driver's cuMemFreeAsync. False: no memory to remember it; the charge is still the
 * caller's. */
bool deferred_add(CUdeviceptr address, const struct vgpu_track_entry *entry, CUstream stream,
                  bool per_thread);

/* Gives back what was freed in the order of one stream, which was waited for; or in that of all of
 * them. */
void deferred_settle_stream(CUstream stream, bool per_thread);
void deferred_settle(void);

void deferred_forked(void); /* in the child of a fork */

#endif
