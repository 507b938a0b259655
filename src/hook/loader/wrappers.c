#include "hook/loader/wrappers.h"

#include <stddef.h>

void *const wrappers[ENTRY_COUNT] = {
#define HOOK(sym, handler) (void *)sym,
#define PASS(sym)          NULL,
#include "driver.def"
#include "nvml.def"
#undef HOOK
#undef PASS
};
