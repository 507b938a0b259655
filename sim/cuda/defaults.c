/* All other symbols of the driver. Each has an address of its own and returns NOT_SUPPORTED. */
#include "sim.h"

static int unsupported(enum sim_call call)
{
    int code = sim_enter(call);

    return code ? code : CUDA_ERROR_NOT_SUPPORTED;
}

#define DEFAULT(symbol)                                                                            \
    __attribute__((weak)) SIM_EXPORT int default_##symbol(void) __asm__(#symbol);                  \
    int default_##symbol(void)                                                                     \
    {                                                                                              \
        return unsupported(CALL_##symbol);                                                         \
    }
#define HOOK(symbol, handler) DEFAULT(symbol)
#define PASS(symbol)          DEFAULT(symbol)
#include "driver.def"
