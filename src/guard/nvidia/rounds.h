/* What the watch thread and the control thread do once a second. Without the lock. `nvidia`: a
 * struct nvidia. */
#ifndef VGPU_GUARD_ROUNDS_H
#define VGPU_GUARD_ROUNDS_H

#include "guard/nvidia/nvidia.h"

/* The watch thread's: files, mappings, the audit; in strict mode a difference ends the instance. */
void round_watch(void *nvidia);
/*
 * The control thread's. Switches off what vdevs_pause() could not switch off at once. Sees to it
 * that the watch thread is not held up: a program can make a reader of its map wait (a fault in a
 * file system of its own, and a change of that mapping), and nothing would be checked any more.
 */
void round_control(void *nvidia);

#endif
