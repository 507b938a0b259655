/*
 * Both tables as one: every symbol of spec/driver.def and spec/nvml.def is an entry. It is found by
 * the name that a program gives to dlsym(). Once its library is loaded, it is also found by the
 * driver's address, which dlsym() or cuGetProcAddress() returns.
 *
 * Thread-safe without a lock. A program can call dlsym() while it holds the loader's lock, so no
 * function here waits.
 */
#ifndef VGPU_HOOK_LOADER_SYMBOLS_H
#define VGPU_HOOK_LOADER_SYMBOLS_H

#include "hook/loader/nvml_handlers.h"
#include "hook/loader/symbol_ids.h"

#include <stdbool.h>

/* A row of driver.def, or SYMBOL_COUNT + a row of nvml.def. */
enum { ENTRY_COUNT = (int)SYMBOL_COUNT + (int)NVML_SYMBOL_COUNT, ENTRY_NONE = -1 };

enum symbols_library { LIBRARY_CUDA, LIBRARY_NVML, LIBRARY_COUNT };

enum symbols_library symbols_library_of(int entry);
const char *symbols_name(int entry);
const char *symbols_soname(enum symbols_library library);

/* The entry of a name, or ENTRY_NONE. Rejects a name without cu[A-Z] or nvml[A-Z] in front at
 * once. */
int symbols_find(const char *name);

/* The driver's own address of an entry. NULL: its library is not loaded or lacks it. */
void *symbols_real(int entry);

/*
 * Looks for the library among the loaded objects. The first time that it is there, fills hook_real
 * or nvml_real, and keeps the library loaded. Loads nothing itself. False: the library is not
 * loaded yet.
 */
bool symbols_resolve(enum symbols_library library);

/* The entry with this address in the driver, or ENTRY_NONE. Finds nothing before symbols_resolve()
 * returns true. */
int symbols_at_address(const void *address);

/* Whether an address lies in a driver library that has been resolved. */
bool symbols_in_driver(const void *address);

#endif
