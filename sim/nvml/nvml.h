/* What the files of the simulated NVML share. */
#ifndef SIM_NVML_H
#define SIM_NVML_H

#define NVML_HANDLE const char *
#include "abi/nvml.h"
#include "signature.h"
#include "state.h"

/* The functions that spec/nvml.def gives a signature. */
#define HOOK(symbol, handler) SIM_EXPORT nvmlReturn_t symbol SIGNATURE(PARAMS(handler));
#include "nvml.def"
#undef HOOK

/* Defines an exported function. */
#define NVML(symbol, ...)                                                                          \
    SIM_EXPORT nvmlReturn_t symbol(__VA_ARGS__);                                                   \
    SIM_EXPORT nvmlReturn_t symbol(__VA_ARGS__)

/* The device's index, or minus an NVML code. */
int nvml_device(const char *symbol, const char *handle, struct sim_state **ret_state);

/* An NVML code; *ret_percent: how much of the last second the device worked. */
int nvml_load(const char *symbol, const char *handle, unsigned *ret_percent);

#endif
