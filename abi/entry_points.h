/*
 * The driver's functions: for each HOOK and CALL row of spec/driver.def, <symbol>_fn, its type.
 */
#ifndef VGPU_ABI_ENTRY_POINTS_H
#define VGPU_ABI_ENTRY_POINTS_H

#include "abi/cuda.h"
#include "signature.h"

#define PASS(symbol)
#define CALL(symbol, ...)     typedef CUresult symbol##_fn SIGNATURE(__VA_ARGS__);
#define HOOK(symbol, handler) typedef CUresult symbol##_fn SIGNATURE(PARAMS(handler));
#include "driver.def"
#undef CALL
#undef HOOK
#undef PASS

#endif
