/* Processes that the command has started and left behind. */
#ifndef VGPU_GUARD_LEFTOVER_H
#define VGPU_GUARD_LEFTOVER_H

#include "guard/notify/notify.h"

/* Kills those with a file of the driver open or mapped, whether or not they have made calls;
 * returns how many. A process that keeps its map from being read is one. `strict`: also one whose
 * descriptors cannot be looked at. Once a process, at the end. */
unsigned leftovers_kill(struct notify *notify, bool strict);

#endif
