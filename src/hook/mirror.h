/* Keeps what HAMi's monitor reads up to date while the program does nothing. */
#ifndef VGPU_HOOK_MIRROR_H
#define VGPU_HOOK_MIRROR_H

/*
 * Starts the thread that does, once a process; a forked child needs its own. Nothing without a
 * cache file. To be called when the program begins to use the GPU. Any thread; keeps errno.
 */
void mirror_start(void);

#endif
