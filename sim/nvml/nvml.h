/* What the files of the simulated NVML share. */
#ifndef SIM_NVML_H
#define SIM_NVML_H

#include "abi/nvml.h"
#include "state.h"

/* The device's index, or minus an NVML code. */
int nvml_device(const char *symbol, const char *handle, struct sim_state **ret_state);

/* An NVML code; *ret_percent: how much of the last second the device worked. */
int nvml_load(const char *symbol, const char *handle, unsigned *ret_percent);

#endif
