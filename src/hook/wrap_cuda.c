/* The driver's entry points that the library exports: one function for each HOOK row of spec/driver.def. */
#include "hook/wrap.h"

#define PASS(sym, group)
#define HOOK(sym, group, role, body)                                                                                   \
    WRAP(CUresult, sym, body, LIBRARY_CUDA, ROW_##sym, ROW_##sym, hook_real[ROW_##sym], hook_missing(ROW_##sym))
#include "driver.def"
