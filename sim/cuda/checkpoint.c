/*
 * cuCheckpointProcess*: a process's memory leaves the device and returns. Meanwhile its calls wait.
 */
#include "sim.h"

#include <string.h>

static struct sim_process *process_of_pid(int pid)
{
    for (uint32_t slot = 0; slot < sim.state->process_count; slot++) {
        if (sim.state->process[slot].life == SIM_LIVE && sim.state->process[slot].pid == pid)
            return &sim.state->process[slot];
    }
    return NULL;
}

static int leave_locked(struct sim_process *process)
{
    int slot = (int)(process - sim.state->process);

    for (int device = 0; device < SIM_MAX_DEVICES; device++) {
        for (int kind = 0; kind < SIM_HOST; kind++) {
            process->put_away[device][kind] = process->held[device][kind];
            state_release_locked(sim.state, slot, device, kind, process->held[device][kind]);
        }
    }
    return CUDA_SUCCESS;
}

/* All of it or nothing. */
static int return_locked(struct sim_process *process)
{
    int slot = (int)(process - sim.state->process);

    for (int device = 0; device < SIM_MAX_DEVICES; device++) {
        for (int kind = 0; kind < SIM_HOST; kind++) {
            if (state_charge_locked(sim.state, slot, device, kind, process->put_away[device][kind]))
                continue;
            for (int back = 0; back < SIM_MAX_DEVICES; back++) {
                for (int other = 0; other < SIM_HOST; other++)
                    state_release_locked(sim.state, slot, back, other, process->held[back][other]);
            }
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    memset(process->put_away, 0, sizeof(process->put_away));
    return CUDA_SUCCESS;
}

static int change(int pid, uint32_t from, uint32_t to)
{
    int code = CUDA_SUCCESS;

    sim_lock_state();
    struct sim_process *process = process_of_pid(pid);
    if (!process)
        code = CUDA_ERROR_INVALID_VALUE;
    else if (process->checkpoint != from)
        code = CUDA_ERROR_ILLEGAL_STATE;
    else if (to == CU_PROCESS_STATE_CHECKPOINTED)
        code = leave_locked(process);
    else if (from == CU_PROCESS_STATE_CHECKPOINTED)
        code = return_locked(process);
    if (!code)
        process->checkpoint = to;
    state_unlock(sim.state);
    return code;
}

API_AS(cuCheckpointProcessLock, change(pid, CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED),
       int pid, const void *arguments)
API_AS(cuCheckpointProcessCheckpoint,
       change(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED), int pid,
       CUcheckpointCheckpointArgs *arguments)
API_AS(cuCheckpointProcessRestore,
       change(pid, CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED), int pid,
       CUcheckpointRestoreArgs *arguments)
API_AS(cuCheckpointProcessUnlock, change(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING),
       int pid, const void *arguments)

API(cuCheckpointProcessGetState, int pid, int *ret_state)
{
    ENTER(cuCheckpointProcessGetState);
    if (!ret_state)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock_state();
    struct sim_process *process = process_of_pid(pid);
    if (process)
        *ret_state = (int)process->checkpoint;
    state_unlock(sim.state);
    return process ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
