/* Charging memory to a process, and memory that several processes hold. */
#include "state.h"

#include <string.h>

static bool fits(struct sim_state *state, int device, uint64_t bytes)
{
    struct sim_device *card = &state->device[device];

    return card->used <= card->bytes && bytes <= card->bytes - card->used;
}

/* A high-water mark is what the living held: whoever is dead goes before one is set. */
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

struct sim_object *state_object_new_locked(struct sim_state *state, int slot, int device,
                                           uint64_t bytes)
{
    for (int index = 0; index < SIM_MAX_OBJECTS; index++) {
        struct sim_object *object = &state->object[index];
        if (object->id)
            continue;
        memset(object, 0, sizeof(*object));
        object->id = state->next_id++;
        object->nonce = sim_now_ns() * 0x9e3779b97f4a7c15ULL ^ object->id;
        object->bytes = bytes;
        object->owner = slot;
        object->device = device;
        return object;
    }
    return NULL;
}

struct sim_object *state_object_find_locked(struct sim_state *state, uint64_t id, uint64_t nonce)
{
    for (int index = 0; index < SIM_MAX_OBJECTS; index++) {
        struct sim_object *object = &state->object[index];
        if (id && object->id == id && (!nonce || object->nonce == nonce))
            return object;
    }
    return NULL;
}

static bool held(const struct sim_object *object)
{
    uint64_t any = 0;

    for (int word = 0; word < SIM_MAX_PROCESSES / 64; word++)
        any |= object->holders[word];
    return any != 0 || state_descriptor_left(object->id);
}

/* Of an object that no process is charged for. */
static void end_if_unused(struct sim_state *state, struct sim_object *object)
{
    if (held(object))
        return;
    state->device[object->device].orphan -= object->bytes;
    state->device[object->device].used -= object->bytes;
    object->id = 0;
}

void state_object_hold_locked(struct sim_object *object, int slot)
{
    object->holders[slot / 64] |= 1ULL << (slot % 64);
}

void state_object_drop_locked(struct sim_state *state, struct sim_object *object, int slot)
{
    object->holders[slot / 64] &= ~(1ULL << (slot % 64));
    if (object->owner < 0)
        end_if_unused(state, object);
}

void state_objects_reap_locked(struct sim_state *state)
{
    for (int index = 0; index < SIM_MAX_OBJECTS; index++) {
        if (state->object[index].id && state->object[index].owner < 0)
            end_if_unused(state, &state->object[index]);
    }
}

void state_object_disown_locked(struct sim_state *state, struct sim_object *object)
{
    bool kept = held(object); /* makes a system call, in which the process may be killed: before
                                 anything changes */

    object->owner = -1;
    if (!kept) {
        object->id = 0;
        return;
    }
    state->device[object->device].orphan += object->bytes;
    state->device[object->device].used += object->bytes;
}

void state_objects_forget_locked(struct sim_state *state, int slot)
{
    for (int index = 0; index < SIM_MAX_OBJECTS; index++) {
        struct sim_object *object = &state->object[index];
        if (!object->id)
            continue;
        if (object->owner == slot) {
            object->holders[slot / 64] &= ~(1ULL << (slot % 64));
            state_object_disown_locked(state, object);
        } else if (object->holders[slot / 64] & 1ULL << (slot % 64)) {
            state_object_drop_locked(state, object, slot);
        }
    }
}
