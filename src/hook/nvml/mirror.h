/* Keeps HAMi's cache file up to date while the program does nothing. */
#ifndef VGPU_HOOK_NVML_MIRROR_H
#define VGPU_HOOK_NVML_MIRROR_H

/* Starts a thread for that, once a process; a forked child needs its own. Does nothing without a
 * cache file. For when the program begins to use the GPU. Any thread; keeps errno. */
void mirror_start(void);

#endif
