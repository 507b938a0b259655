/* Every entry point of the driver that noopcuda.c does not write out: success, and nothing else. */
#define DEFAULT(symbol)                                                                            \
    __attribute__((visibility("default"), weak)) int symbol(void);                                 \
    int symbol(void)                                                                               \
    {                                                                                              \
        return 0;                                                                                  \
    }
#define HOOK(symbol, handler) DEFAULT(symbol)
#define PASS(symbol)          DEFAULT(symbol)
#include "driver.def"
#undef HOOK
#undef PASS
