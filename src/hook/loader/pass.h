/*
 * Counting trampolines: pass_<symbol> for every PASS row of spec/driver.def (pass_x86_64.S,
 * pass_aarch64.S). Each counts a call and jumps to the driver's function with every argument as it
 * came. They need no prototypes and are used only where calls are traced.
 */
#ifndef VGPU_HOOK_LOADER_PASS_H
#define VGPU_HOOK_LOADER_PASS_H

#include <stdint.h>

/* The trampoline of a PASS row is at pass_base + pass_offset[row]; 0: a HOOK row. */
extern const char pass_base[];
extern const int32_t pass_offset[];

/* Called by a trampoline whose driver function is not known yet: its address, or that of an answer
 * to give instead. */
void *pass_resolve(unsigned sym);

#endif
