/* One id per row of spec/driver.def, HOOK and PASS, in its order. (NVML: nvml_bodies.h.) */
#ifndef VGPU_HOOK_ROWS_H
#define VGPU_HOOK_ROWS_H

enum hook_row {
#define HOOK(sym, group, role, body) ROW_##sym,
#define PASS(sym, group)             ROW_##sym,
#include "driver.def"
#undef HOOK
#undef PASS
    ROW_COUNT
};

#endif
