/* simctl: reads and resets the simulated devices. */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[SIM_KINDS] = {"context", "module", "data", "managed",  "pool",
                                                  "graph",   "array",  "vmm",  "external", "host"};

static const char *const call_names[SIM_CALLS] = {
#define HOOK(symbol, handler) #symbol,
#define PASS(symbol)          #symbol,
#include "driver.def"
#undef HOOK
#undef PASS
};

static bool used_by(const struct sim_process *process, uint32_t device)
{
    return process->total[device] || process->peak[device] || process->held[device][SIM_HOST] ||
           process->busy_ns[device];
}

static void json_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        if ((unsigned char)*text >= 0x20)
            putchar(*text);
    }
    putchar('"');
}

static void json_process(const struct sim_state *state, const struct sim_process *process,
                         uint32_t device)
{
    printf("{\"pid\":%d,\"alive\":%s,\"name\":", process->pid,
           process->life == SIM_LIVE ? "true" : "false");
    json_text(process->name);
    printf(",\"group\":");
    json_text(process->group ? state->group[process->group - 1].name : "");
    printf(",\"total\":%llu,\"peak\":%llu,\"busy_ns\":%llu,\"to_device\":%llu,\"to_host\":%llu,"
           "\"held\":{",
           (unsigned long long)process->total[device], (unsigned long long)process->peak[device],
           (unsigned long long)process->busy_ns[device],
           (unsigned long long)process->copied[device][SIM_TO_DEVICE],
           (unsigned long long)process->copied[device][SIM_TO_HOST]);
    for (int kind = 0; kind < SIM_KINDS; kind++)
        printf("%s\"%s\":%llu", kind ? "," : "", kind_names[kind],
               (unsigned long long)process->held[device][kind]);
    printf("}}");
}

static void json_device(const struct sim_state *state, uint32_t index)
{
    const struct sim_device *device = &state->device[index];
    const char *comma = "";

    printf("{\"device\":%u,\"bytes\":%llu,\"used\":%llu,\"peak\":%llu,\"orphan\":%llu,\"busy_ns\":%"
           "llu,\"switches\":%llu,"
           "\"processes\":[",
           index, (unsigned long long)device->bytes, (unsigned long long)device->used,
           (unsigned long long)device->peak, (unsigned long long)device->orphan,
           (unsigned long long)device->busy_ns, (unsigned long long)device->switches);
    for (uint32_t slot = 0; slot < state->process_count; slot++) {
        const struct sim_process *process = &state->process[slot];
        if (process->life == SIM_FREE || !used_by(process, index))
            continue;
        printf("%s", comma);
        json_process(state, process, index);
        comma = ",";
    }
    printf("],\"groups\":[");
    comma = "";
    for (int group = 0; group < SIM_MAX_GROUPS && state->group[group].name[0]; group++) {
        printf("%s{\"name\":", comma);
        json_text(state->group[group].name);
        printf(
            ",\"total\":%llu,\"peak\":%llu,\"busy_ns\":%llu,\"to_device\":%llu,\"to_host\":%llu}",
            (unsigned long long)state->group[group].total[index],
            (unsigned long long)state->group[group].peak[index],
            (unsigned long long)state->group[group].busy_ns[index],
            (unsigned long long)state->group[group].copied[index][SIM_TO_DEVICE],
            (unsigned long long)state->group[group].copied[index][SIM_TO_HOST]);
        comma = ",";
    }
    printf("]}");
}

static void print_json(const struct sim_state *state)
{
    printf("{\"devices\":[");
    for (uint32_t index = 0; index < state->device_count; index++) {
        if (index)
            putchar(',');
        json_device(state, index);
    }
    printf("]}\n");
}

/* One record a line: words, then pairs of key=value, in bytes. */
static void print_text(const struct sim_state *state)
{
    for (uint32_t index = 0; index < state->device_count; index++) {
        const struct sim_device *device = &state->device[index];
        printf("device %u bytes=%llu used=%llu peak=%llu orphan=%llu busy_ns=%llu switches=%llu\n",
               index, (unsigned long long)device->bytes, (unsigned long long)device->used,
               (unsigned long long)device->peak, (unsigned long long)device->orphan,
               (unsigned long long)device->busy_ns, (unsigned long long)device->switches);
        for (uint32_t slot = 0; slot < state->process_count; slot++) {
            const struct sim_process *process = &state->process[slot];
            if (process->life == SIM_FREE || !used_by(process, index))
                continue;
            printf("process %d device=%u alive=%d group=%s total=%llu peak=%llu busy_ns=%llu",
                   process->pid, index, process->life == SIM_LIVE,
                   process->group ? state->group[process->group - 1].name : "-",
                   (unsigned long long)process->total[index],
                   (unsigned long long)process->peak[index],
                   (unsigned long long)process->busy_ns[index]);
            for (int kind = 0; kind < SIM_KINDS; kind++)
                printf(" %s=%llu", kind_names[kind],
                       (unsigned long long)process->held[index][kind]);
            printf(" to_device=%llu to_host=%llu\n",
                   (unsigned long long)process->copied[index][SIM_TO_DEVICE],
                   (unsigned long long)process->copied[index][SIM_TO_HOST]);
        }
        for (int group = 0; group < SIM_MAX_GROUPS && state->group[group].name[0]; group++)
            printf("group %s device=%u total=%llu busy_ns=%llu to_device=%llu to_host=%llu "
                   "peak=%llu\n",
                   state->group[group].name, index,
                   (unsigned long long)state->group[group].total[index],
                   (unsigned long long)state->group[group].busy_ns[index],
                   (unsigned long long)state->group[group].copied[index][SIM_TO_DEVICE],
                   (unsigned long long)state->group[group].copied[index][SIM_TO_HOST],
                   (unsigned long long)state->group[group].peak[index]);
    }
}

static void print_contexts(const struct sim_state *state)
{
    for (uint32_t slot = 0; slot < state->process_count; slot++) {
        const struct sim_process *process = &state->process[slot];
        if (process->life != SIM_FREE)
            printf("process %d alive=%d created=%llu live=%llu\n", process->pid,
                   process->life == SIM_LIVE, (unsigned long long)process->contexts_created,
                   (unsigned long long)process->contexts_live);
    }
}

static void print_calls(const struct sim_state *state, int pid)
{
    for (uint32_t slot = 0; slot < state->process_count; slot++) {
        const struct sim_process *process = &state->process[slot];
        if (process->life == SIM_FREE || (pid && process->pid != pid))
            continue;
        for (int call = 0; call < SIM_CALLS; call++) {
            if (process->calls[call])
                printf("process %d %s=%llu\n", process->pid, call_names[call],
                       (unsigned long long)process->calls[call]);
        }
    }
}

static void reset_peaks_locked(struct sim_state *state)
{
    for (uint32_t index = 0; index < SIM_MAX_DEVICES; index++) {
        state->device[index].peak = state->device[index].used;
        for (uint32_t slot = 0; slot < state->process_count; slot++)
            state->process[slot].peak[index] = state->process[slot].total[index];
        for (int group = 0; group < SIM_MAX_GROUPS; group++)
            state->group[group].peak[index] = state->group[group].total[index];
    }
}

static int usage(FILE *out, int code)
{
    fprintf(out, "usage: simctl ledger [--json]   what the simulated driver holds, and device "
                 "time, by process and group\n"
                 "       simctl contexts          contexts ever created, by process\n"
                 "       simctl calls [PID]       driver calls, by process and symbol\n"
                 "       simctl reset-peak        high-water marks start again from now\n"
                 "       simctl reset             everything as new, sizes by the environment\n"
                 "The state file is named by SIMGPU_STATE.\n");
    return code;
}

int main(int argc, char **argv)
{
    struct sim_state *state;
    const char *command = argc > 1 ? argv[1] : "";

    if (!strcmp(command, "--help") || !strcmp(command, "-h"))
        return usage(stdout, 0);
    bool reset = !strcmp(command, "reset");
    int error = reset ? state_open(&state) : state_open_existing(&state);
    if (error) {
        fprintf(stderr, "simctl: no simulated device yet: %s\n", strerror(-error));
        return 1;
    }
    state_lock(state);
    state_reap_locked(state);
    for (uint32_t index = 0; index < state->device_count; index++)
        sched_advance_locked(state, (int)index, sim_now_ns());
    int code = 0;
    if (reset)
        state_reset_locked(state);
    else if (!strcmp(command, "reset-peak"))
        reset_peaks_locked(state);
    else if (!strcmp(command, "contexts"))
        print_contexts(state);
    else if (!strcmp(command, "calls"))
        print_calls(state, argc > 2 ? atoi(argv[2]) : 0);
    else if (strcmp(command, "ledger"))
        code = usage(stderr, 2);
    else if (argc > 2 && !strcmp(argv[2], "--json"))
        print_json(state);
    else
        print_text(state);
    state_unlock(state);
    return code;
}
