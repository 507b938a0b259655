/*
 * A driver that does nothing, for the loader tests: every symbol of spec/driver.def answers 0 and
 * counts its calls. With TOY_OLD it is an old one, which lacks whatever came after CUDA 11.0.
 */
#include <stddef.h>
#include <string.h>

#ifdef TOY_OLD
#define ROWS                                                                                       \
    HOOK(cuInit, )                                                                                 \
    HOOK(cuDeviceGetCount, )                                                                       \
    HOOK(cuMemAlloc_v2, )                                                                          \
    HOOK(cuMemFree_v2, )                                                                           \
    PASS(cuMemAdvise)                                                                              \
    PASS(cuDriverGetVersion)
#endif

/* The two that hand out addresses are written out below. */
#define cuGetProcAddress    unused_cuGetProcAddress
#define cuGetProcAddress_v2 unused_cuGetProcAddress_v2
/* ... and so are those whose arguments are looked at. */
#define cuMemRangeGetAttributes           unused_cuMemRangeGetAttributes
#define cuMemDiscardAndPrefetchBatchAsync unused_cuMemDiscardAndPrefetchBatchAsync
#define cuParamSetf                       unused_cuParamSetf

#define HOOK(sym, handler) PASS(sym)
#define PASS(sym)                                                                                  \
    int sym(void);                                                                                 \
    static int calls_of_##sym;                                                                     \
    int sym(void)                                                                                  \
    {                                                                                              \
        calls_of_##sym++;                                                                          \
        return 0;                                                                                  \
    }
#ifdef TOY_OLD
ROWS
#else
#include "driver.def"
#endif
#undef PASS

#undef cuGetProcAddress
#undef cuGetProcAddress_v2
#undef cuMemRangeGetAttributes
#undef cuMemDiscardAndPrefetchBatchAsync
#undef cuParamSetf
    int
    cuGetProcAddress(const char *symbol, void **ret_address, int version, unsigned long long flags);
int cuGetProcAddress_v2(const char *symbol, void **ret_address, int version,
                        unsigned long long flags, int *status);
int cuMemRangeGetAttributes(long a, long b, long c, long d, long e, long f);
int cuMemDiscardAndPrefetchBatchAsync(long a, long b, long c, long d, long e, long f, long g,
                                      long h, long i);
int cuParamSetf(long a, int b, float c);

/* 0 where the arguments are 1, 2, 3 and so on. */
int cuMemRangeGetAttributes(long a, long b, long c, long d, long e, long f)
{
    return a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 ? 0 : 1;
}

int cuMemDiscardAndPrefetchBatchAsync(long a, long b, long c, long d, long e, long f, long g,
                                      long h, long i)
{
    return a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8 && i == 9
               ? 0
               : 1;
}

int cuParamSetf(long a, int b, float c)
{
    return a == 1 && b == 2 && c == 3.0f ? 0 : 1;
}

static const struct toy_symbol {
    const char *name;
    void *address;
} symbols[] = {
#define PASS(sym) {#sym, (void *)sym},
#ifdef TOY_OLD
    ROWS
#else
#include "driver.def"
#endif
#undef PASS
};

/* The driver's own address of a symbol, as no dlsym tells it. */
void *toy_address(const char *name);
void *toy_address(const char *name)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
        if (strcmp(symbols[i].name, name) == 0)
            return symbols[i].address;
    return NULL;
}

/* The address of an entry point of its own that is in no table, as a newer driver has. */
int cuToyNewInThisDriver(void);
int cuToyNewInThisDriver(void)
{
    return 77;
}

int cuGetProcAddress_v2(const char *symbol, void **ret_address, int version,
                        unsigned long long flags, int *status)
{
    void *address = strcmp(symbol, "cuToyNewInThisDriver") == 0 ? (void *)cuToyNewInThisDriver
                                                                : toy_address(symbol);

    (void)version;
    (void)flags;
    *ret_address = address;
    if (status)
        *status = address ? 0 : 1;
    return address ? 0 : 500;
}

int cuGetProcAddress(const char *symbol, void **ret_address, int version, unsigned long long flags)
{
    return cuGetProcAddress_v2(symbol, ret_address, version, flags, NULL);
}
