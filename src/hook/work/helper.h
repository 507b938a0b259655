/* The library's own threads in the program's process. */
#ifndef VGPU_HOOK_WORK_HELPER_H
#define VGPU_HOOK_WORK_HELPER_H

#include <stdbool.h>

/*
 * Starts help(arg) in a detached thread that takes no signal of the program's. A forked child does
 * not have it. False: the program has no threads library (old C libraries), or the system has no
 * thread.
 */
bool helper_start(void *(*help)(void *arg), void *arg);

#endif
