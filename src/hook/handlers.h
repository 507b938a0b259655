/*
 * Declares, for each row of spec/driver.def:
 *   HOOK  <handler>_fn and <symbol>_fn, the type of the entry point; hook_<handler>(), its handler
 *   CALL  <symbol>_fn
 * A handler gets the symbol's id first, so that symbols of one signature share it.
 */
#ifndef VGPU_HOOK_HANDLERS_H
#define VGPU_HOOK_HANDLERS_H

#include "hook/cuda_abi.h"
#include "hook/symbol_ids.h"
#include "signature.h"

#define PASS(sym)
#define CALL(sym, ...) typedef CUresult sym##_fn SIGNATURE(__VA_ARGS__);
#define HOOK(sym, handler)                                                                         \
    typedef CUresult handler##_fn SIGNATURE(PARAMS(handler));                                      \
    typedef handler##_fn sym##_fn;                                                                 \
    CUresult hook_##handler SIGNATURE_WITH(enum hook_symbol sym, PARAMS(handler));
#include "driver.def"
#undef HOOK
#undef PASS

#endif
