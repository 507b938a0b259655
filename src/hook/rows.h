/* One id per row of spec/driver.def, HOOK and PASS, in its order. (NVML: nvml_bodies.h.) */
#ifndef VGPU_HOOK_ROWS_H
#define VGPU_HOOK_ROWS_H

#include <stdbool.h>

enum hook_row {
#define HOOK(sym, group, role, body) ROW_##sym,
#define PASS(sym, group)             ROW_##sym,
#include "driver.def"
#undef HOOK
#undef PASS
    ROW_COUNT
};

/* Whether a row is a _ptsz or _ptds twin: to it NULL means the calling thread's own default stream. */
extern const bool hook_per_thread[ROW_COUNT];

static inline bool hook_row_per_thread(enum hook_row row)
{
    return hook_per_thread[row];
}

#endif
