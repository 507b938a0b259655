/* One id for each row of spec/driver.def, in its order. nvml_handlers.h has those of NVML. */
#ifndef VGPU_HOOK_LOADER_SYMBOL_IDS_H
#define VGPU_HOOK_LOADER_SYMBOL_IDS_H

#include <stdbool.h>

enum hook_symbol {
#define HOOK(sym, handler) SYMBOL_##sym,
#define PASS(sym)          SYMBOL_##sym,
#include "driver.def"
#undef HOOK
#undef PASS
    SYMBOL_COUNT
};

/* Whether a row is a _ptsz or _ptds twin. Such a function takes NULL for the calling thread's own
 * default stream. */
extern const bool hook_per_thread[SYMBOL_COUNT];

static inline bool hook_symbol_per_thread(enum hook_symbol sym)
{
    return hook_per_thread[sym];
}

#endif
