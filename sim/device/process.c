/* The processes that share the device. Each holds memory until it ends, in whatever way. */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void state_release_locked(struct sim_state *state, int slot, int device, enum sim_kind kind,
                          uint64_t bytes)
{
    struct sim_process *process = &state->process[slot];

    if (bytes > process->held[device][kind])
        bytes = process->held[device][kind];
    process->held[device][kind] -= bytes;
    if (kind == SIM_HOST)
        return;
    process->total[device] -= bytes;
    state->device[device].used -= bytes;
    if (process->group)
        state->group[process->group - 1].total[device] -= bytes;
}

static void bury_locked(struct sim_state *state, int slot)
{
    struct sim_process *process = &state->process[slot];

    sched_leave_locked(state, slot);
    for (int index = 0; index < SIM_MAX_DEVICES; index++) {
        for (int kind = 0; kind < SIM_KINDS; kind++) {
            if (process->held[index][kind])
                state_release_locked(state, slot, index, kind, process->held[index][kind]);
        }
    }
    state_objects_forget_locked(state, slot);
    process->contexts_live = 0;
    process->life = SIM_DEAD;
    process->died = ++state->deaths;
    process->generation++;
}

int state_reap_locked(struct sim_state *state)
{
    int dead = 0;

    for (uint32_t slot = 0; slot < state->process_count; slot++) {
        if (state->process[slot].life == SIM_LIVE && !files_slot_alive((int)slot)) {
            bury_locked(state, (int)slot);
            dead++;
        }
    }
    state_objects_reap_locked(state);
    return dead;
}

static bool fits(struct sim_state *state, int device, uint64_t bytes)
{
    struct sim_device *card = &state->device[device];

    return card->used <= card->bytes && bytes <= card->bytes - card->used;
}

/* True if the bytes would set a new high-water mark. Dead processes are reaped before that: a mark
 * counts living processes only. */
static bool marks(const struct sim_state *state, const struct sim_process *process, int device,
                  uint64_t bytes)
{
    const struct sim_group *group = process->group ? &state->group[process->group - 1] : NULL;

    return state->device[device].used + bytes > state->device[device].peak ||
           (group && group->total[device] + bytes > group->peak[device]);
}

bool state_charge_locked(struct sim_state *state, int slot, int device, enum sim_kind kind,
                         uint64_t bytes)
{
    struct sim_process *process = &state->process[slot];
    struct sim_device *card = &state->device[device];

    if (kind == SIM_HOST) {
        process->held[device][kind] += bytes;
        return true;
    }
    if (!fits(state, device, bytes) || marks(state, process, device, bytes))
        state_reap_locked(state);
    if (!fits(state, device, bytes))
        return false;
    process->held[device][kind] += bytes;
    process->total[device] += bytes;
    card->used += bytes;
    if (process->total[device] > process->peak[device])
        process->peak[device] = process->total[device];
    if (card->used > card->peak)
        card->peak = card->used;
    if (process->group) {
        struct sim_group *group = &state->group[process->group - 1];
        group->total[device] += bytes;
        if (group->total[device] > group->peak[device])
            group->peak[device] = group->total[device];
    }
    return true;
}

static uint32_t group_index_locked(struct sim_state *state, const char *name)
{
    if (!name || !*name)
        return 0;
    for (uint32_t index = 0; index < SIM_MAX_GROUPS; index++) {
        struct sim_group *group = &state->group[index];
        if (!group->name[0])
            snprintf(group->name, sizeof(group->name), "%s", name);
        if (!strncmp(group->name, name, SIM_NAME - 1))
            return index + 1;
    }
    return 0;
}

/* Takes a slot that was never used, or that of the process that died first. */
static int pick_slot_locked(struct sim_state *state)
{
    int best = -1;

    if (state->process_count < SIM_MAX_PROCESSES)
        return (int)state->process_count++;
    for (int slot = 0; slot < SIM_MAX_PROCESSES; slot++) {
        struct sim_process *process = &state->process[slot];
        if (process->life == SIM_DEAD && (best < 0 || process->died < state->process[best].died))
            best = slot;
    }
    return best;
}

static uint64_t own_start_ticks(void)
{
    char text[1024];
    unsigned long long ticks = 0;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0)
        return 0;
    text[length] = 0;
    char *rest = strrchr(text, ')');
    if (rest)
        sscanf(rest + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &ticks);
    return ticks;
}

int state_register(struct sim_state *state, int *ret_slot)
{
    uint64_t ticks = own_start_ticks(), inode = sim_namespace_inode();

    state_lock(state);
    state_reap_locked(state);
    int slot = pick_slot_locked(state);
    int error = slot < 0 ? -ENOSPC : files_take_slot(slot);
    if (!error) {
        struct sim_process *process = &state->process[slot];
        uint32_t generation = process->generation;
        memset(process, 0, offsetof(struct sim_process, queue));
        for (int index = 0; index < SIM_MAX_DEVICES; index++) {
            struct sim_queue *queue = &process->queue[index];
            queue->tail = queue->head = queue->progress_ns = queue->remaining_ns = 0;
        }
        process->generation = generation + 1;
        process->pid = getpid();
        process->namespace_inode = inode;
        process->start_ticks = ticks;
        process->group = group_index_locked(state, getenv("SIMGPU_GROUP"));
        snprintf(process->name, sizeof(process->name), "%s", program_invocation_name);
        process->life = SIM_LIVE;
        *ret_slot = slot;
    }
    state_unlock(state);
    return error;
}
