/*
 * cuGetProcAddress: the driver is asked with the program's own arguments, and the address that it
 * answers is mapped. So the ABI version and the per-thread-stream variant are the driver's choice,
 * and a name that we have never heard of comes straight from it.
 */
#include "hook/loader/dlsym.h"
#include "hook/loader/hook.h"

CUresult hook_get_proc_address(enum hook_symbol sym, const char *symbol, void **ret_address,
                               int version, cuuint64_t flags)
{
    CUresult result = REAL(sym, get_proc_address)(symbol, ret_address, version, flags);

    if (result == CUDA_SUCCESS && ret_address)
        *ret_address = dlsym_stand_in(*ret_address);
    return result;
}

CUresult hook_get_proc_address_v2(enum hook_symbol sym, const char *symbol, void **ret_address,
                                  int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *ret_status)
{
    CUresult result =
        REAL(sym, get_proc_address_v2)(symbol, ret_address, version, flags, ret_status);

    if (result == CUDA_SUCCESS && ret_address)
        *ret_address = dlsym_stand_in(*ret_address);
    return result;
}
