/* The NVML entry points that the library exports: one function for each HOOK id of
 * spec/nvml.def. */
#include "hook/loader/wrap.h"

#define HOOK(sym, handler)                                                                         \
    WRAP(nvmlReturn_t, sym, handler, LIBRARY_NVML, NVML_SYMBOL_##sym,                              \
         (int)SYMBOL_COUNT + (int)NVML_SYMBOL_##sym, nvml_real[NVML_SYMBOL_##sym], nvml_missing())
#include "nvml.def"
