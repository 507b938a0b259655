/* Declares the symbol of each HOOK row of spec/driver.def and spec/nvml.def, with its type. */
#ifndef VGPU_HOOK_LOADER_WRAPPERS_H
#define VGPU_HOOK_LOADER_WRAPPERS_H

#include "hook/loader/handlers.h"
#include "hook/loader/nvml_handlers.h"
#include "hook/loader/symbols.h"

#define PASS(sym)
#define HOOK(sym, handler) handler##_fn sym;
#include "driver.def"
#include "nvml.def"
#undef HOOK
#undef PASS

/* The wrapper of an entry; NULL for a PASS row. */
extern void *const wrappers[ENTRY_COUNT];

#endif
