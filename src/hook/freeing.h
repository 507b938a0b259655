/*
 * The streams on which pool memory was freed. It goes back to its pool's other users when its
 * stream gets there, and to the driver when the program waits for that stream; so before an
 * allocation is refused these streams get some time.
 */
#ifndef VGPU_HOOK_FREEING_H
#define VGPU_HOOK_FREEING_H

#include "hook/hook.h"

/* After a cuMemFreeAsync. A few loads where the stream is known already. */
void freeing_note(CUstream stream, bool per_thread);

/*
 * Gives the calling thread's stream, and then the others, up to a second in all to get to their
 * frees, as the driver does when the card is full. Asks, and does not block: a stream may wait for
 * this very thread. True: some got there, so that the quota may have room now. False at once while
 * anything is being captured.
 */
bool freeing_wait(CUstream stream, bool per_thread);

void freeing_forked(void); /* in the child of a fork */

#endif
