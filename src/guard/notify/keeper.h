/* The keeper: a process that does what is left to do when the supervisor has died. */
#ifndef VGPU_GUARD_KEEPER_H
#define VGPU_GUARD_KEEPER_H

#include "guard/notify/notify.h"

/* `rescue` runs in the keeper once the supervisor has ended, without keeper_end(). It may neither
 * allocate nor lock. -errno. */
int keeper_start(struct notify *notify, void (*rescue)(void *arg), void *arg);
void keeper_end(struct notify *notify);

#endif
