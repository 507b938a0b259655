#include "hook/pass.h"

#include "hook/hook.h"
#include "hook/symbols.h"

static CUresult not_supported(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult not_initialised(void)
{
    return CUDA_ERROR_NOT_INITIALIZED;
}

void *pass_resolve(unsigned row)
{
    if (!symbols_resolve(LIBRARY_CUDA))
        return (void *)not_initialised;
    return hook_real[row] ? hook_real[row] : (void *)not_supported;
}
