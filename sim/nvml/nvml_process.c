/* NVML's views of processes and of utilisation. */
#include "nvml/nvml.h"
#include "state.h"

#define WINDOW_NS (10 * SIM_SAMPLE_NS)

struct entry {
    unsigned pid;
    uint64_t bytes;
    unsigned busy_percent;
};

/* Bytes that NVML shows for a process. */
static uint64_t shown_bytes(const struct sim_process *process, int index)
{
    uint64_t bytes = 0;

    for (int kind = 0; kind < SIM_HOST; kind++) {
        if (kind != SIM_MANAGED && kind != SIM_EXTERNAL)
            bytes += process->held[index][kind];
    }
    return bytes;
}

/* The processes with memory on the device. */
static unsigned list_processes(struct sim_state *state, int index, struct entry *entries)
{
    unsigned count = 0;
    uint64_t now_ns = sim_now_ns();

    state_lock(state);
    state_reap_locked(state);
    sched_advance_locked(state, index, now_ns);
    for (uint32_t slot = 0; slot < state->process_count; slot++) {
        struct sim_process *process = &state->process[slot];
        uint64_t bytes = shown_bytes(process, index);
        if (process->life != SIM_LIVE || !bytes)
            continue;
        uint64_t busy =
            sched_busy(process->samples[index], process->sample_at[index], now_ns, WINDOW_NS);
        entries[count++] =
            (struct entry){(unsigned)process->pid, bytes, (unsigned)(busy * 100 / WINDOW_NS)};
    }
    state_unlock(state);
    return count;
}

/* The protocol of lists: *count is the room on entry, and the number of processes on return. */
static int begin_list(const char *symbol, const char *handle, unsigned *count, const void *infos,
                      struct entry *entries)
{
    struct sim_state *state;

    int index = nvml_device(symbol, handle, &state);
    if (index < 0)
        return -index;
    if (!count || (*count && !infos))
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned room = *count;
    *count = list_processes(state, index, entries);
    return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static int list_v1(const char *symbol, const char *handle, unsigned *count,
                   nvmlProcessInfo_v1_t *infos)
{
    struct entry entries[SIM_MAX_PROCESSES];

    int code = begin_list(symbol, handle, count, infos, entries);
    for (unsigned at = 0; !code && at < *count; at++)
        infos[at] = (nvmlProcessInfo_v1_t){entries[at].pid, entries[at].bytes};
    return code;
}

static int list(const char *symbol, const char *handle, unsigned *count,
                nvmlProcessInfo_v2_t *infos)
{
    struct entry entries[SIM_MAX_PROCESSES];

    int code = begin_list(symbol, handle, count, infos, entries);
    for (unsigned at = 0; !code && at < *count; at++)
        infos[at] = (nvmlProcessInfo_v2_t){entries[at].pid, entries[at].bytes, ~0u, ~0u};
    return code;
}

/* There are no graphics processes, and there is no MPS server. */
static int list_none(const char *symbol, const char *handle, unsigned *count)
{
    struct sim_state *state;

    int index = nvml_device(symbol, handle, &state);
    if (index < 0)
        return -index;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetComputeRunningProcesses, const char *handle, unsigned *count,
     nvmlProcessInfo_v1_t *infos)
{
    return list_v1("nvmlDeviceGetComputeRunningProcesses", handle, count, infos);
}

NVML(nvmlDeviceGetComputeRunningProcesses_v2, const char *handle, unsigned *count,
     nvmlProcessInfo_v2_t *infos)
{
    return list("nvmlDeviceGetComputeRunningProcesses_v2", handle, count, infos);
}

NVML(nvmlDeviceGetComputeRunningProcesses_v3, const char *handle, unsigned *count,
     nvmlProcessInfo_v2_t *infos)
{
    return list("nvmlDeviceGetComputeRunningProcesses_v3", handle, count, infos);
}

#define NONE(symbol, type)                                                                         \
    NVML(symbol, const char *handle, unsigned *count, type *infos)                                 \
    {                                                                                              \
        (void)infos;                                                                               \
        return list_none(#symbol, handle, count);                                                  \
    }
NONE(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_v2_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_v2_t)

NVML(nvmlDeviceGetRunningProcessDetailList, const char *handle,
     nvmlProcessDetailList_v1_t *list_out)
{
    struct entry entries[SIM_MAX_PROCESSES];

    if (!list_out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (list_out->version != NVML_STRUCT_VERSION(nvmlProcessDetailList_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (list_out->mode != 0)
        return list_none("nvmlDeviceGetRunningProcessDetailList", handle,
                         &list_out->numProcArrayEntries);
    int code = begin_list("nvmlDeviceGetRunningProcessDetailList", handle,
                          &list_out->numProcArrayEntries, list_out->procArray, entries);
    for (unsigned at = 0; !code && at < list_out->numProcArrayEntries; at++)
        list_out->procArray[at] =
            (nvmlProcessDetail_v1_t){entries[at].pid, entries[at].bytes, ~0u, ~0u, 0};
    return code;
}

int nvml_load(const char *symbol, const char *handle, unsigned *ret_percent)
{
    struct sim_state *state;

    int index = nvml_device(symbol, handle, &state);
    if (index < 0)
        return -index;
    uint64_t now_ns = sim_now_ns();
    state_lock(state);
    state_reap_locked(state);
    sched_advance_locked(state, index, now_ns);
    struct sim_device *device = &state->device[index];
    *ret_percent = (unsigned)(sched_busy(device->samples, device->sample_at, now_ns, WINDOW_NS) *
                              100 / WINDOW_NS);
    state_unlock(state);
    return NVML_SUCCESS;
}

NVML(nvmlDeviceGetUtilizationRates, const char *handle, nvmlUtilization_t *ret_rates)
{
    unsigned percent;

    int code = nvml_load("nvmlDeviceGetUtilizationRates", handle, &percent);
    if (code)
        return code;
    if (!ret_rates)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_rates = (nvmlUtilization_t){percent, percent / 2};
    return NVML_SUCCESS;
}

/* One sample for each process that worked in the last window. */
NVML(nvmlDeviceGetProcessUtilization, const char *handle, nvmlProcessUtilizationSample_t *samples,
     unsigned *count, unsigned long long since_us)
{
    struct entry entries[SIM_MAX_PROCESSES];
    struct sim_state *state;

    (void)since_us;
    int index = nvml_device("nvmlDeviceGetProcessUtilization", handle, &state);
    if (index < 0)
        return -index;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned all = list_processes(state, index, entries), room = samples ? *count : 0, busy = 0;
    for (unsigned at = 0; at < all; at++) {
        if (!entries[at].busy_percent)
            continue;
        if (busy < room)
            samples[busy] = (nvmlProcessUtilizationSample_t){entries[at].pid,
                                                             sim_now_ns() / 1000,
                                                             entries[at].busy_percent,
                                                             entries[at].busy_percent / 2,
                                                             0,
                                                             0};
        busy++;
    }
    *count = busy;
    if (!busy)
        return NVML_ERROR_NOT_FOUND;
    return busy > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
