/*
 * Declares, for each HOOK row of spec/driver.def, <handler>_fn, the type of the entry point, and
 * hook_<handler>(), its handler. A handler gets the symbol's id first, so that symbols of one
 * signature share it.
 */
#ifndef VGPU_HOOK_LOADER_HANDLERS_H
#define VGPU_HOOK_LOADER_HANDLERS_H

#include "abi/entry_points.h"
#include "hook/loader/symbol_ids.h"

#define PASS(sym)
#define HOOK(sym, handler)                                                                         \
    typedef sym##_fn handler##_fn;                                                                 \
    CUresult hook_##handler SIGNATURE_WITH(enum hook_symbol sym, PARAMS(handler));
#include "driver.def"
#undef HOOK
#undef PASS

#endif
