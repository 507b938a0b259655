/* NVML's types and codes as far as the simulator has them. */
#ifndef SIM_NVML_ABI_H
#define SIM_NVML_ABI_H

#include "state.h"

enum {
    NVML_OK = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_VERSION_MISMATCH = 25,
};

#define NVML_VERSION(type, number) ((unsigned)sizeof(type) | (unsigned)(number) << 24)

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct nvml_pci_info { /* older versions end before bus_id */
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct nvml_process_v1 {
    unsigned pid;
    unsigned long long bytes;
};

struct nvml_process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

struct nvml_process_detail {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
    unsigned long long protected_bytes;
};

struct nvml_process_list {
    unsigned version;
    unsigned mode;
    unsigned count;
    struct nvml_process_detail *processes;
};

struct nvml_utilization {
    unsigned gpu, memory;
};

struct nvml_process_sample {
    unsigned pid;
    unsigned long long time_us;
    unsigned sm, memory, encoder, decoder;
};

/* The device's index, or minus an NVML code. */
int nvml_device(const char *symbol, const char *handle, struct sim_state **ret_state);

/* An NVML code; *ret_percent: how much of the last second the device worked. */
int nvml_load(const char *symbol, const char *handle, unsigned *ret_percent);

#endif
