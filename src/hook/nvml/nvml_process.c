/*
 * NVML's lists of processes: those of the instance, with what the ledger says that each holds. The
 * program's own PID namespace numbers them, which NVML may not be able to do. No other process is
 * shown.
 */
#include "base/cleanup.h"
#include "hook/loader/nvml_driver.h"
#include "hook/nvml/nvml_view.h"

#include <errno.h>
#include <stdlib.h>

#define DRIVER_LIST_MAX 1024

/* What a process list is about: which rows it has, and what nvmlProcessDetailList_v1_t
 * calls mode. */
enum process_mode { MODE_COMPUTE, MODE_GRAPHICS, MODE_MPS };

struct process_list {
    unsigned count;
    unsigned gpu_instance, compute_instance;
    struct vgpu_proc_memory process[VGPU_PROCS_MAX];
};

static enum process_mode mode_of(enum nvml_symbol sym)
{
    switch ((int)sym) {
    case NVML_SYMBOL_nvmlDeviceGetGraphicsRunningProcesses:
    case NVML_SYMBOL_nvmlDeviceGetGraphicsRunningProcesses_v2:
    case NVML_SYMBOL_nvmlDeviceGetGraphicsRunningProcesses_v3:
        return MODE_GRAPHICS;
    case NVML_SYMBOL_nvmlDeviceGetMPSComputeRunningProcesses:
    case NVML_SYMBOL_nvmlDeviceGetMPSComputeRunningProcesses_v2:
    case NVML_SYMBOL_nvmlDeviceGetMPSComputeRunningProcesses_v3:
        return MODE_MPS;
    default:
        return MODE_COMPUTE;
    }
}

/* The processes of the instance that hold memory of a device, and that have a number in this PID
 * namespace. */
static struct process_list *instance_list(nvmlDevice_t device)
{
    struct process_list *list = calloc(1, sizeof(*list));
    unsigned vdev, count, kept = 0;

    if (!list)
        return NULL;
    nvml_driver_mig_ids(device, &list->gpu_instance, &list->compute_instance);
    if (nvml_view_vdev(device, &vdev) < 0)
        return list;
    count = ledger_processes(hook_ledger(), vdev, list->process, VGPU_PROCS_MAX);
    if (count > VGPU_PROCS_MAX)
        count = VGPU_PROCS_MAX;
    for (unsigned i = 0; i < count; i++)
        if (list->process[i].pid != 0)
            list->process[kept++] = list->process[i];
    list->count = kept;
    return list;
}

static bool listed(const struct process_list *list, unsigned pid)
{
    for (unsigned i = 0; i < list->count; i++)
        if (list->process[i].pid == pid)
            return true;
    return false;
}

static void keep_listed(struct process_list *list, const unsigned *pids, unsigned pid_count)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < list->count; i++)
        for (unsigned j = 0; j < pid_count; j++)
            if (pids[j] == list->process[i].pid) {
                list->process[kept++] = list->process[i];
                break;
            }
    list->count = kept;
}

/* Graphics and MPS: the instance's processes that the driver lists as such. */
static void narrow(struct process_list *list, enum nvml_symbol sym, nvmlDevice_t device, bool v1)
{
    CLEANUP_FREE unsigned *pids = calloc(DRIVER_LIST_MAX, sizeof(*pids));
    CLEANUP_FREE void *infos = calloc(DRIVER_LIST_MAX, sizeof(nvmlProcessInfo_v2_t));
    unsigned count = DRIVER_LIST_MAX;
    nvmlReturn_t result = NVML_ERROR_UNKNOWN;

    if (pids && infos)
        result = v1 ? NVML_REAL(sym, nvml_processes_v1)(device, &count, infos)
                    : NVML_REAL(sym, nvml_processes)(device, &count, infos);
    if (result != NVML_SUCCESS)
        count = 0;
    for (unsigned i = 0; i < count; i++)
        pids[i] =
            v1 ? ((nvmlProcessInfo_v1_t *)infos)[i].pid : ((nvmlProcessInfo_v2_t *)infos)[i].pid;
    keep_listed(list, pids, count);
}

/* The size protocol of these calls: how many there are, and whether they fit. */
static nvmlReturn_t fit(const struct process_list *list, const void *infos, unsigned *count)
{
    unsigned room = infos ? *count : 0;

    *count = list->count;
    return list->count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static bool is_answer(nvmlReturn_t result)
{
    return result == NVML_SUCCESS || result == NVML_ERROR_INSUFFICIENT_SIZE;
}

/* `old`: the version without MIG instances. The rest is what an entry has beyond that version. */
#define PROCESSES(handler, old, ...)                                                               \
    nvmlReturn_t hook_##handler SIGNATURE_WITH(enum nvml_symbol sym, PARAMS(handler))              \
    {                                                                                              \
        CLEANUP_FREE struct process_list *list = NULL;                                             \
        nvmlReturn_t result;                                                                       \
        unsigned none;                                                                             \
                                                                                                   \
        if (nvml_view_uninitialised())                                                             \
            return NVML_ERROR_UNINITIALIZED;                                                       \
        if (!count || !nvml_view_ledger())                                                         \
            return NVML_REAL(sym, handler)(device, count, infos);                                  \
        none = infos ? 0 : *count; /* the driver judges room without an array */                   \
        result = NVML_REAL(sym, handler)(device, &none, NULL);                                     \
        if (!is_answer(result))                                                                    \
            return result;                                                                         \
        list = instance_list(device);                                                              \
        if (!list)                                                                                 \
            return NVML_ERROR_UNKNOWN;                                                             \
        if (mode_of(sym) != MODE_COMPUTE)                                                          \
            narrow(list, sym, device, old);                                                        \
        result = fit(list, infos, count);                                                          \
        for (unsigned i = 0; result == NVML_SUCCESS && i < list->count; i++)                       \
            infos[i] = (__typeof__(*infos)){.pid = list->process[i].pid,                           \
                                            .usedGpuMemory = list->process[i].bytes,               \
                                            __VA_ARGS__};                                          \
        return result;                                                                             \
    }

PROCESSES(nvml_processes_v1, true)
PROCESSES(nvml_processes, false, .gpuInstanceId = list->gpu_instance,
          .computeInstanceId = list->compute_instance)

static void narrow_details(struct process_list *list, enum nvml_symbol sym, nvmlDevice_t device,
                           const nvmlProcessDetailList_v1_t *asked)
{
    CLEANUP_FREE nvmlProcessDetail_v1_t *details = calloc(DRIVER_LIST_MAX, sizeof(*details));
    CLEANUP_FREE unsigned *pids = calloc(DRIVER_LIST_MAX, sizeof(*pids));
    nvmlProcessDetailList_v1_t all = {.version = asked->version,
                                      .mode = asked->mode,
                                      .numProcArrayEntries = DRIVER_LIST_MAX,
                                      .procArray = details};
    unsigned count = 0;

    if (details && pids && NVML_REAL(sym, nvml_process_details)(device, &all) == NVML_SUCCESS)
        for (; count < all.numProcArrayEntries && count < DRIVER_LIST_MAX; count++)
            pids[count] = details[count].pid;
    keep_listed(list, pids, count);
}

nvmlReturn_t hook_nvml_process_details(enum nvml_symbol sym, nvmlDevice_t device,
                                       nvmlProcessDetailList_v1_t *asked)
{
    CLEANUP_FREE struct process_list *list = NULL;
    nvmlProcessDetailList_v1_t probe;
    nvmlReturn_t result;

    if (nvml_view_uninitialised())
        return NVML_ERROR_UNINITIALIZED;
    if (!asked || !nvml_view_ledger())
        return NVML_REAL(sym, nvml_process_details)(device, asked);
    probe = *asked;
    if (probe.procArray)
        probe = (nvmlProcessDetailList_v1_t){.version = asked->version, .mode = asked->mode};
    result = NVML_REAL(sym, nvml_process_details)(device, &probe);
    if (!is_answer(result))
        return result;
    list = instance_list(device);
    if (!list)
        return NVML_ERROR_UNKNOWN;
    if (asked->mode != MODE_COMPUTE)
        narrow_details(list, sym, device, asked);
    result = fit(list, asked->procArray, &asked->numProcArrayEntries);
    for (unsigned i = 0; result == NVML_SUCCESS && i < list->count; i++)
        asked->procArray[i] = (nvmlProcessDetail_v1_t){.pid = list->process[i].pid,
                                                       .usedGpuMemory = list->process[i].bytes,
                                                       .gpuInstanceId = list->gpu_instance,
                                                       .computeInstanceId = list->compute_instance};
    return result;
}

nvmlReturn_t hook_nvml_process_utilization(enum nvml_symbol sym, nvmlDevice_t device,
                                           nvmlProcessUtilizationSample_t *samples, unsigned *count,
                                           unsigned long long last_seen)
{
    CLEANUP_FREE struct process_list *list = NULL;
    unsigned kept = 0;
    nvmlReturn_t result;

    if (nvml_view_uninitialised())
        return NVML_ERROR_UNINITIALIZED;
    result = NVML_REAL(sym, nvml_process_utilization)(device, samples, count, last_seen);
    if (result != NVML_SUCCESS || !samples || !count || !nvml_view_ledger())
        return result;
    list = instance_list(device);
    for (unsigned i = 0; list && i < *count; i++)
        if (listed(list, samples[i].pid))
            samples[kept++] = samples[i];
    *count = kept;
    return kept > 0 ? result : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t hook_nvml_processes_utilization(enum nvml_symbol sym, nvmlDevice_t device,
                                             nvmlProcessesUtilizationInfo_v1_t *info)
{
    CLEANUP_FREE struct process_list *list = NULL;
    unsigned kept = 0;
    nvmlReturn_t result;

    if (nvml_view_uninitialised())
        return NVML_ERROR_UNINITIALIZED;
    result = NVML_REAL(sym, nvml_processes_utilization)(device, info);
    if (result != NVML_SUCCESS || !info || !info->procUtilArray || !nvml_view_ledger())
        return result;
    list = instance_list(device);
    for (unsigned i = 0; list && i < info->processSamplesCount; i++)
        if (listed(list, info->procUtilArray[i].pid))
            info->procUtilArray[kept++] = info->procUtilArray[i];
    info->processSamplesCount = kept;
    return kept > 0 ? result : NVML_ERROR_NOT_FOUND;
}
