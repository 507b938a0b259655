/* Declares every symbol that spec/driver.def and spec/nvml.def have as HOOK, with its type. */
#ifndef VGPU_HOOK_WRAPPERS_H
#define VGPU_HOOK_WRAPPERS_H

#include "hook/bodies.h"
#include "hook/nvml_bodies.h"

#define PASS(sym, group)
#define HOOK(sym, group, role, body) body##_fn sym;
#include "driver.def"
#include "nvml.def"
#undef HOOK
#undef PASS

#endif
