/* The NVML entry points that the library exports: one function for each HOOK row of spec/nvml.def. */
#include "hook/wrap.h"

#define HOOK(sym, group, role, body)                                                                                   \
    WRAP(nvmlReturn_t, sym, body, LIBRARY_NVML, NVML_ROW_##sym, (int)ROW_COUNT + (int)NVML_ROW_##sym,                  \
         nvml_real[NVML_ROW_##sym], nvml_missing(), true)
#include "nvml.def"
