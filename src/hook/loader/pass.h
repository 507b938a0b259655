/*
 * Counting trampolines, one for every PASS row of spec/driver.def, under the symbol's name
 * (pass_x86_64.S, pass_aarch64.S). Each counts a call and jumps to the driver's function with every
 * argument as it came. They need no prototypes and are used only where calls are traced. Of the
 * libraries only libvgpu-trace.so exports them.
 */
#ifndef VGPU_HOOK_LOADER_PASS_H
#define VGPU_HOOK_LOADER_PASS_H

#define PASS_BYTES 16 /* from a row's trampoline to that of the next row */

#ifndef __ASSEMBLER__
/* Where the trampoline of row 0 is, or would be: a HOOK row has none. */
extern const char pass_base[];

/* Called by a trampoline whose driver function is not known yet: its address, or that of an answer
 * to give instead. */
void *pass_resolve(unsigned sym);
#endif

#endif
