/* The part of NVML that the tests call; always reached by dlopen and dlsym, as every NVML program
 * does it. */
#ifndef TESTS_SIM_NVML_H
#define TESTS_SIM_NVML_H

#include <stddef.h>
#include <stdint.h>

typedef int nvmlReturn_t;
typedef void *nvmlDevice_t;

#define NVML_SUCCESS                 0
#define NVML_ERROR_UNINITIALIZED     1
#define NVML_ERROR_INVALID_ARGUMENT  2
#define NVML_ERROR_NOT_FOUND         6
#define NVML_ERROR_INSUFFICIENT_SIZE 7
#define NVML_ERROR_UNKNOWN           999

struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_memory_v2 {
    unsigned int version;
    unsigned long long total, reserved, free, used;
};
#define NVML_MEMORY_V2 (sizeof(struct nvml_memory_v2) | (2U << 24))

struct nvml_process_v1 {
    unsigned int pid;
    unsigned long long used;
};
struct nvml_process_v2 { /* v3 is the same */
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
};

#define NVML_CALLS(F)                                                                              \
    F(nvmlInit_v2, (void))                                                                         \
    F(nvmlShutdown, (void))                                                                        \
    F(nvmlDeviceGetCount_v2, (unsigned int *count))                                                \
    F(nvmlDeviceGetHandleByIndex_v2, (unsigned int index, nvmlDevice_t *device))                   \
    F(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device))                         \
    F(nvmlDeviceGetHandleByPciBusId_v2, (const char *id, nvmlDevice_t *device))                    \
    F(nvmlDeviceGetIndex, (nvmlDevice_t device, unsigned int *index))                              \
    F(nvmlDeviceGetUUID, (nvmlDevice_t device, char *uuid, unsigned int length))                   \
    F(nvmlDeviceGetName, (nvmlDevice_t device, char *name, unsigned int length))                   \
    F(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, struct nvml_memory * memory))                 \
    F(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, struct nvml_memory_v2 * memory))           \
    F(nvmlDeviceGetComputeRunningProcesses,                                                        \
      (nvmlDevice_t device, unsigned int *count, struct nvml_process_v1 *processes))               \
    F(nvmlDeviceGetComputeRunningProcesses_v2,                                                     \
      (nvmlDevice_t device, unsigned int *count, struct nvml_process_v2 *processes))               \
    F(nvmlDeviceGetComputeRunningProcesses_v3,                                                     \
      (nvmlDevice_t device, unsigned int *count, struct nvml_process_v2 *processes))               \
    F(nvmlDeviceGetGraphicsRunningProcesses_v3,                                                    \
      (nvmlDevice_t device, unsigned int *count, struct nvml_process_v2 *processes))               \
    F(nvmlDeviceGetMPSComputeRunningProcesses_v3,                                                  \
      (nvmlDevice_t device, unsigned int *count, struct nvml_process_v2 *processes))

struct nvml {
#define F(symbol, params) nvmlReturn_t(*symbol) params;
    NVML_CALLS(F)
#undef F
};
extern struct nvml nvml;

void nvml_load(void); /* finds the functions; does not call nvmlInit */

#endif
