/*
 * Both tables as one: every symbol of spec/driver.def and spec/nvml.def is an entry. Found by name
 * (what a program asks dlsym for) and, once its library is loaded, by the driver's address (what
 * dlsym or cuGetProcAddress answers).
 *
 * Thread-safe without a lock: dlsym may be called while the loader's lock is held, so nothing here
 * may wait.
 */
#ifndef VGPU_HOOK_SYMBOLS_H
#define VGPU_HOOK_SYMBOLS_H

#include "hook/nvml_handlers.h"
#include "hook/symbol_ids.h"

#include <stdbool.h>

/* A row of driver.def, or SYMBOL_COUNT + a row of nvml.def. */
enum { ENTRY_COUNT = (int)SYMBOL_COUNT + (int)NVML_SYMBOL_COUNT, ENTRY_NONE = -1 };

enum symbols_library { LIBRARY_CUDA, LIBRARY_NVML, LIBRARY_COUNT };

enum symbols_library symbols_library_of(int entry);
const char *symbols_name(int entry);
const char *symbols_soname(enum symbols_library library);

/* The entry of a name; ENTRY_NONE at once for a name that does not begin with cu[A-Z] or
 * nvml[A-Z]. */
int symbols_find(const char *name);

/*
 * What this library exports for an entry: the wrapper of a HOOK row, the counting trampoline of a
 * PASS row (exported by libvgpu-trace.so only). Never NULL.
 */
void *symbols_own(int entry);
bool symbols_is_hook(int entry);

/* The driver's own address of an entry; NULL where its library is not loaded or lacks it. */
void *symbols_real(int entry);

/*
 * Looks for the library among the loaded objects and, the first time that it is there, fills
 * hook_real or nvml_real. Loads nothing; the library stays loaded from then on. False: it is not
 * there yet, ask again.
 */
bool symbols_resolve(enum symbols_library library);

/* The entry whose driver address this is; ENTRY_NONE. Finds nothing before symbols_resolve() has
 * succeeded. */
int symbols_at_address(const void *address);

/* Whether an address lies in a driver library that has been resolved. */
bool symbols_in_driver(const void *address);

#endif
