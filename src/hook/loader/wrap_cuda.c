/* The driver's entry points that the library exports: one function for each HOOK id of
 * spec/driver.def. */
#include "hook/loader/wrap.h"

#define PASS(sym)
#define HOOK(sym, handler)                                                                         \
    WRAP(CUresult, sym, handler, LIBRARY_CUDA, SYMBOL_##sym, SYMBOL_##sym,                         \
         hook_real[SYMBOL_##sym], hook_missing(SYMBOL_##sym))
#include "driver.def"
