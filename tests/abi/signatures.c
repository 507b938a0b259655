/* Compiled, not run: every HOOK row has the type that the real header gives to its symbol. */
#define VGPU_ABI_USE_CUDA_H
#include "hook/handlers.h"

#define SAME_TYPE(sym, type)                                                                       \
    _Static_assert(__builtin_types_compatible_p(__typeof__(sym), type), #sym)

#define HOOK(sym, group, role, body) SAME_TYPE(sym, body##_fn);
#define PASS(sym, group)
#include "driver.def"

/* What bodies call themselves: from the comments in handlers.h. */
#include "called.inc"
