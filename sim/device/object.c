/* Memory that several processes hold: exported handles, IPC memory, pools. */
#include "state.h"

#include <string.h>

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
    return any != 0 || files_descriptor_left(object->id);
}

/* Frees an object that no process is charged for, unless something still holds it. */
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
    bool kept = held(
        object); /* a system call, in which the process may be killed: it comes before any change */

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
