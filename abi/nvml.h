/*
 * The types of NVML that the library, the simulator and the tests use: names and fields as in
 * NVIDIA's nvml.h (driver 535 to 580), and no more than is needed.
 */
#ifndef VGPU_ABI_NVML_H
#define VGPU_ABI_NVML_H

#include <stdint.h>

/* An implementation can say what a handle is to it. */
#ifndef NVML_HANDLE
#define NVML_HANDLE struct nvmlDevice_st *
#endif
typedef NVML_HANDLE nvmlDevice_t;

typedef enum nvmlReturn_enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_LIBRARY_NOT_FOUND = 12,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;

#define NVML_VALUE_NOT_AVAILABLE          (~0ULL)
#define NVML_DEVICE_UUID_V2_BUFFER_SIZE   96
#define NVML_INSTANCE_ID_NONE             UINT32_MAX /* a process that runs in no MIG instance */
#define NVML_STRUCT_VERSION(type, number) ((unsigned)(sizeof(type) | ((unsigned)(number) << 24)))

typedef struct {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
} nvmlMemory_t;

typedef struct {
    unsigned version;
    unsigned long long total;
    unsigned long long reserved; /* taken by the system; not part of used */
    unsigned long long free;
    unsigned long long used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned gpu;
    unsigned memory;
} nvmlUtilization_t;

typedef struct { /* older versions of the functions end before busId */
    char busIdLegacy[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned pciDeviceId;
    unsigned pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId;
    unsigned computeInstanceId;
} nvmlProcessInfo_v2_t; /* of the _v2 and the _v3 functions */

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId;
    unsigned computeInstanceId;
    unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct {
    unsigned version;
    unsigned mode; /* 0 compute, 1 graphics, 2 MPS */
    unsigned numProcArrayEntries;
    nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t;

typedef struct {
    unsigned pid;
    unsigned long long timeStamp;
    unsigned smUtil;
    unsigned memUtil;
    unsigned encUtil;
    unsigned decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
    unsigned long long timeStamp;
    unsigned pid;
    unsigned smUtil;
    unsigned memUtil;
    unsigned encUtil;
    unsigned decUtil;
    unsigned jpgUtil;
    unsigned ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;

typedef struct {
    unsigned version;
    unsigned processSamplesCount;
    unsigned long long lastSeenTimeStamp;
    nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_v1_t;

typedef struct {
    unsigned version;
    unsigned type;
    union {
        char str[41];
        unsigned char bytes[16];
    } value;
} nvmlUUID_v1_t;

#endif
