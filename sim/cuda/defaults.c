/* Every symbol of the driver that nobody else here defines: NOT_SUPPORTED, each at an address of
 * its own. */
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
