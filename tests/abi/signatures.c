/* Compiled, not run: every HOOK and CALL row has the type that the real header gives to its
 * symbol. */
#define VGPU_ABI_USE_CUDA_H
#include "abi/entry_points.h"

#define SAME_TYPE(sym)                                                                             \
    _Static_assert(__builtin_types_compatible_p(__typeof__(sym), sym##_fn), #sym);
#define HOOK(sym, handler) SAME_TYPE(sym)
#define CALL(sym, ...)     SAME_TYPE(sym)
#define PASS(sym)
#include "driver.def"
