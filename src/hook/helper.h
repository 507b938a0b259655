/* Threads of the library's own in the program's process. */
#ifndef VGPU_HOOK_HELPER_H
#define VGPU_HOOK_HELPER_H

#include <stdbool.h>

/*
 * Starts help(arg) in a detached thread that takes no signal of the program's. It is not in a
 * forked child. False: the program has no threads library (old C libraries), or the system no
 * thread to give.
 */
bool helper_start(void *(*help)(void *arg), void *arg);

#endif
