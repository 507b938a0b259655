/* What the files of the semaphore share. */
#ifndef VGPU_HOOK_SEMAPHORE_INTERNAL_H
#define VGPU_HOOK_SEMAPHORE_INTERNAL_H

#include "hook/semaphore.h"

/* Where there are no turns any more: nothing waits at a semaphore, whatever becomes of the page,
 * and nobody for this one. */
void semaphore_stay_away(struct sched_client *client);

/* The semaphore's thread, started if need be. False: there can be none. Under the semaphore's
 * mutex. */
bool semaphore_start_helper(struct semaphore *semaphore);

/* No turns for this process any more: `why` and the driver's or the system's `code` are logged.
 * Under the semaphore's mutex. */
void semaphore_give_up(struct semaphore *semaphore, const char *why, int code);

/* The page as `context` has it, made known to the driver if need be. NULL: it cannot be had. Under
 * the semaphore's mutex. */
const struct page_map *semaphore_page_map_of(struct semaphore *semaphore, CUcontext context);

/* Work of the process waits from now on. Without the mutex. */
void semaphore_wake_helper(struct semaphore *semaphore);

#endif
