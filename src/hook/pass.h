/*
 * Counting trampolines: pass_<symbol> for every PASS row of spec/driver.def (pass_x86_64.S,
 * pass_aarch64.S). Each counts a call, adds the size argument where spec/sized.def names one, and
 * jumps to the driver's function with every argument as it came. They need no prototypes and are
 * used only where calls are traced.
 */
#ifndef VGPU_HOOK_PASS_H
#define VGPU_HOOK_PASS_H

#include <stdint.h>

/* The trampoline of a PASS row is at pass_base + pass_offset[row]; 0: a HOOK row. */
extern const char pass_base[];
extern const int32_t pass_offset[];

/* Of a row: argument number (1..6) in bits 0-2, log2 of the bytes that one of it stands for above;
 * 0: not sized. */
extern const unsigned char pass_sized[];

/* Called by a trampoline whose driver function is not known yet: its address, or that of an answer
 * to give instead. */
void *pass_resolve(unsigned sym);

#endif
