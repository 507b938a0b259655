/*
 * Memory that was freed in stream order and that the driver still has.
 *
 * Plain memory (of cuMemAlloc): measured, the driver frees it when the program waits for this very
 * stream, an event in it, or the context; not when the stream has got there, and not when an
 * unrelated one is waited for. Until then it stays charged.
 *
 * Pool memory goes back to its pool's other users when its stream gets there, and to the driver
 * when the program waits for that stream. So an allocation is refused only after these streams had
 * some time.
 */
#ifndef VGPU_HOOK_MEMORY_PENDING_FREE_H
#define VGPU_HOOK_MEMORY_PENDING_FREE_H

#include "hook/memory/admission.h"

/* After cuMemFreeAsync of plain memory. False: no memory for the record; the charge is still the
 * caller's. */
bool pending_free_add(const struct mem_free *freeing, CUstream stream, bool per_thread);

/* Gives back what was freed in the order of one stream, which the program waited for; or of all. */
void pending_free_settle_stream(CUstream stream, bool per_thread);
void pending_free_settle(void);

/* After cuMemFreeAsync of any memory. A few loads where the stream is known already. */
void pending_free_note_stream(CUstream stream, bool per_thread);

/* Before the driver destroys a stream. */
void pending_free_forget_stream(CUstream stream);

/*
 * Gives streams up to a second in all to get to their frees, as the driver does when the device is
 * full: first the calling thread's stream, then the noted ones. Asks, and does not block: a stream
 * may wait for this very thread. True: some got there, so that the quota may have room now. False
 * at once while anything is being captured.
 */
bool pending_free_wait(CUstream stream, bool per_thread);

#endif
