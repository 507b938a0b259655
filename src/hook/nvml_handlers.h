/*
 * The handlers of spec/nvml.def: for each its parameters (SIG_), the same as arguments (ARGS_), its
 * function type and its prototype. A handler gets the row first: NVML_REAL(sym, nvml_count)(count).
 */
#ifndef VGPU_HOOK_NVML_HANDLERS_H
#define VGPU_HOOK_NVML_HANDLERS_H

#include "hook/nvml_abi.h"

/* One id per row of spec/nvml.def, in its order. */
enum nvml_symbol {
#define HOOK(sym, group, role, handler) NVML_SYMBOL_##sym,
#include "nvml.def"
#undef HOOK
    NVML_SYMBOL_COUNT
};

/* The driver's functions; NULL where this driver has none. Filled once, when libnvidia-ml is first
 * seen. */
extern void *nvml_real[NVML_SYMBOL_COUNT];
#define NVML_REAL(sym, handler) ((handler##_fn *)nvml_real[sym])

/* clang-format off */

/* system */

#define SIG_nvml_init (void)
#define ARGS_nvml_init ()
typedef nvmlReturn_t nvml_init_fn SIG_nvml_init;
nvmlReturn_t hook_nvml_init(enum nvml_symbol sym);

#define SIG_nvml_init_with_flags (unsigned flags)
#define ARGS_nvml_init_with_flags (flags)
typedef nvmlReturn_t nvml_init_with_flags_fn SIG_nvml_init_with_flags;
nvmlReturn_t hook_nvml_init_with_flags(enum nvml_symbol sym, unsigned flags);

#define SIG_nvml_shutdown (void)
#define ARGS_nvml_shutdown ()
typedef nvmlReturn_t nvml_shutdown_fn SIG_nvml_shutdown;
nvmlReturn_t hook_nvml_shutdown(enum nvml_symbol sym);

/* device */

#define SIG_nvml_count (unsigned *count)
#define ARGS_nvml_count (count)
typedef nvmlReturn_t nvml_count_fn SIG_nvml_count;
nvmlReturn_t hook_nvml_count(enum nvml_symbol sym, unsigned *count);

#define SIG_nvml_handle_by_index (unsigned index, nvmlDevice_t *device)
#define ARGS_nvml_handle_by_index (index, device)
typedef nvmlReturn_t nvml_handle_by_index_fn SIG_nvml_handle_by_index;
nvmlReturn_t hook_nvml_handle_by_index(enum nvml_symbol sym, unsigned index, nvmlDevice_t *device);

#define SIG_nvml_handle_by_text (const char *text, nvmlDevice_t *device)
#define ARGS_nvml_handle_by_text (text, device)
typedef nvmlReturn_t nvml_handle_by_text_fn SIG_nvml_handle_by_text;
nvmlReturn_t hook_nvml_handle_by_text(enum nvml_symbol sym, const char *text, nvmlDevice_t *device);

#define SIG_nvml_handle_by_uuid (const nvmlUUID_v1_t *uuid, nvmlDevice_t *device)
#define ARGS_nvml_handle_by_uuid (uuid, device)
typedef nvmlReturn_t nvml_handle_by_uuid_fn SIG_nvml_handle_by_uuid;
nvmlReturn_t hook_nvml_handle_by_uuid(enum nvml_symbol sym, const nvmlUUID_v1_t *uuid, nvmlDevice_t *device);

#define SIG_nvml_index (nvmlDevice_t device, unsigned *index)
#define ARGS_nvml_index (device, index)
typedef nvmlReturn_t nvml_index_fn SIG_nvml_index;
nvmlReturn_t hook_nvml_index(enum nvml_symbol sym, nvmlDevice_t device, unsigned *index);

#define SIG_nvml_mig_handle (nvmlDevice_t device, unsigned index, nvmlDevice_t *mig_device)
#define ARGS_nvml_mig_handle (device, index, mig_device)
typedef nvmlReturn_t nvml_mig_handle_fn SIG_nvml_mig_handle;
nvmlReturn_t hook_nvml_mig_handle(enum nvml_symbol sym, nvmlDevice_t device, unsigned index, nvmlDevice_t *mig_device);

#define SIG_nvml_nearest_gpus (nvmlDevice_t device, int level, unsigned *count, nvmlDevice_t *devices)
#define ARGS_nvml_nearest_gpus (device, level, count, devices)
typedef nvmlReturn_t nvml_nearest_gpus_fn SIG_nvml_nearest_gpus;
nvmlReturn_t hook_nvml_nearest_gpus(enum nvml_symbol sym, nvmlDevice_t device, int level, unsigned *count,
                                    nvmlDevice_t *devices);

#define SIG_nvml_gpu_set (unsigned cpu, unsigned *count, nvmlDevice_t *devices)
#define ARGS_nvml_gpu_set (cpu, count, devices)
typedef nvmlReturn_t nvml_gpu_set_fn SIG_nvml_gpu_set;
nvmlReturn_t hook_nvml_gpu_set(enum nvml_symbol sym, unsigned cpu, unsigned *count, nvmlDevice_t *devices);

/* memory */

#define SIG_nvml_memory_info (nvmlDevice_t device, nvmlMemory_t *memory)
#define ARGS_nvml_memory_info (device, memory)
typedef nvmlReturn_t nvml_memory_info_fn SIG_nvml_memory_info;
nvmlReturn_t hook_nvml_memory_info(enum nvml_symbol sym, nvmlDevice_t device, nvmlMemory_t *memory);

#define SIG_nvml_memory_info_v2 (nvmlDevice_t device, nvmlMemory_v2_t *memory)
#define ARGS_nvml_memory_info_v2 (device, memory)
typedef nvmlReturn_t nvml_memory_info_v2_fn SIG_nvml_memory_info_v2;
nvmlReturn_t hook_nvml_memory_info_v2(enum nvml_symbol sym, nvmlDevice_t device, nvmlMemory_v2_t *memory);

/* process */

#define SIG_nvml_processes_v1 (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos)
#define ARGS_nvml_processes_v1 (device, count, infos)
typedef nvmlReturn_t nvml_processes_v1_fn SIG_nvml_processes_v1;
nvmlReturn_t hook_nvml_processes_v1(enum nvml_symbol sym, nvmlDevice_t device, unsigned *count,
                                    nvmlProcessInfo_v1_t *infos);

#define SIG_nvml_processes (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos)
#define ARGS_nvml_processes (device, count, infos)
typedef nvmlReturn_t nvml_processes_fn SIG_nvml_processes;
nvmlReturn_t hook_nvml_processes(enum nvml_symbol sym, nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos);

#define SIG_nvml_process_details (nvmlDevice_t device, nvmlProcessDetailList_v1_t *list)
#define ARGS_nvml_process_details (device, list)
typedef nvmlReturn_t nvml_process_details_fn SIG_nvml_process_details;
nvmlReturn_t hook_nvml_process_details(enum nvml_symbol sym, nvmlDevice_t device, nvmlProcessDetailList_v1_t *list);

#define SIG_nvml_process_utilization                                                                                   \
    (nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, unsigned *count,                                    \
     unsigned long long last_seen)
#define ARGS_nvml_process_utilization (device, samples, count, last_seen)
typedef nvmlReturn_t nvml_process_utilization_fn SIG_nvml_process_utilization;
nvmlReturn_t hook_nvml_process_utilization(enum nvml_symbol sym, nvmlDevice_t device,
                                           nvmlProcessUtilizationSample_t *samples, unsigned *count,
                                           unsigned long long last_seen);

#define SIG_nvml_processes_utilization (nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t *info)
#define ARGS_nvml_processes_utilization (device, info)
typedef nvmlReturn_t nvml_processes_utilization_fn SIG_nvml_processes_utilization;
nvmlReturn_t hook_nvml_processes_utilization(enum nvml_symbol sym, nvmlDevice_t device,
                                             nvmlProcessesUtilizationInfo_v1_t *info);

/* clang-format on */

#endif
