/* NVML as the test programs call it: nvml.nvmlInit_v2(), for every row of spec/nvml.def. Always
 * reached by dlopen and dlsym, as every NVML program does it; a function that it lacks is NULL. */
#ifndef TESTS_SIM_NVML_H
#define TESTS_SIM_NVML_H

#include "abi/nvml.h"
#include "signature.h"

struct nvml {
#define HOOK(symbol, handler) nvmlReturn_t(*symbol) SIGNATURE(PARAMS(handler));
#include "nvml.def"
#undef HOOK
    nvmlReturn_t (*nvmlDeviceGetUUID)(nvmlDevice_t device, char *uuid, unsigned length);
};
extern struct nvml nvml;

void nvml_load(void); /* finds the functions; does not call nvmlInit */

#endif
