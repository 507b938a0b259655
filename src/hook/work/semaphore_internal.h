/* What the files of the semaphore share. */
#ifndef VGPU_HOOK_WORK_SEMAPHORE_INTERNAL_H
#define VGPU_HOOK_WORK_SEMAPHORE_INTERNAL_H

#include "hook/work/semaphore.h"

/* After the end of turns: opens the semaphores that streams wait at, whatever becomes of the page,
 * and lets nobody wait for this process. */
void semaphore_stay_away(struct sched_client *client);

/* Starts the semaphore's thread if it does not run. False: there can be none. Under the semaphore's
 * mutex. */
bool semaphore_start_helper(struct semaphore *semaphore);

/* Ends turns for this process. Logs `why`, and the `code` of the driver or the system. Under the
 * semaphore's mutex. */
void semaphore_give_up(struct semaphore *semaphore, const char *why, int code);

/* The page in `context`, registered if it is not yet. NULL: it cannot be. Under the semaphore's
 * mutex. */
const struct page_map *semaphore_page_map_of(struct semaphore *semaphore, CUcontext context);

/* Work of the process waits from now on. Without the mutex. */
void semaphore_wake_helper(struct semaphore *semaphore);

#endif
