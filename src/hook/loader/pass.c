#include "hook/loader/pass.h"

#include "hook/loader/hook.h"
#include "hook/loader/symbols.h"

static CUresult not_supported(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult not_initialised(void)
{
    return CUDA_ERROR_NOT_INITIALIZED;
}

void *pass_resolve(unsigned sym)
{
    if (!symbols_resolve(LIBRARY_CUDA))
        return (void *)not_initialised;
    return hook_real[sym] ? hook_real[sym] : (void *)not_supported;
}
