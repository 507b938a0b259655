/*
 * Declares, for each row of spec/nvml.def, <handler>_fn, the type of the entry point, and
 * hook_<handler>(), its handler, which gets the symbol's id first.
 */
#ifndef VGPU_HOOK_LOADER_NVML_HANDLERS_H
#define VGPU_HOOK_LOADER_NVML_HANDLERS_H

#include "abi/nvml.h"
#include "signature.h"

/* One id for each row of spec/nvml.def, in its order. */
enum nvml_symbol {
#define HOOK(sym, handler) NVML_SYMBOL_##sym,
#include "nvml.def"
#undef HOOK
    NVML_SYMBOL_COUNT
};

#define HOOK(sym, handler)                                                                         \
    typedef nvmlReturn_t handler##_fn SIGNATURE(PARAMS(handler));                                  \
    nvmlReturn_t hook_##handler SIGNATURE_WITH(enum nvml_symbol sym, PARAMS(handler));
#include "nvml.def"
#undef HOOK

/* The driver's functions; NULL: this driver has none. Filled once, when libnvidia-ml is first seen.
 * NVML_REAL(sym, nvml_count)(count) calls the one behind a handler's own symbol. */
extern void *nvml_real[NVML_SYMBOL_COUNT];
#define NVML_REAL(sym, handler) ((handler##_fn *)nvml_real[sym])

#endif
