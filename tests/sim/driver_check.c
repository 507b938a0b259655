/* Compiled only where a cuda.h is installed: every prototype of driver.h must be cuda.h's own. */
#define DRIVER_CUDA_H
#include "driver.h"

#define F(symbol, base, version, params)                                                           \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), CUresult(*) params), #symbol);
DRIVER_CALLS(F)
#undef F
