#include "hook/loader/symbol_ids.h"

/* The last letters of a name, as a constant: cuStreamQuery_ptsz, cuMemcpy_ptds. */
#define LETTER(name, from_end) (name)[sizeof(name) - 1 - (from_end)]
#define PER_THREAD(name)                                                                           \
    (LETTER(name, 5) == '_' && LETTER(name, 4) == 'p' && LETTER(name, 3) == 't' &&                 \
     (LETTER(name, 1) == 'z' || LETTER(name, 1) == 's'))

const bool hook_per_thread[SYMBOL_COUNT] = {
#define HOOK(sym, handler) PER_THREAD(#sym),
#define PASS(sym)          PER_THREAD(#sym),
#include "driver.def"
};
