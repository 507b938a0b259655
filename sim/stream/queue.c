/* This process's queues of kernels in the shared state, one a device: see device/sched.c. */
#include "stream.h"

uint64_t queue_submit(int device, uint64_t duration_ns)
{
    sim_lock_state();
    uint64_t number = sched_submit_locked(sim.state, device, sim.slot, duration_ns, sim_now_ns());
    state_unlock(sim.state);
    return number;
}

void queue_finish(int device, uint64_t number)
{
    sim_lock_state();
    sched_finish_locked(sim.state, device, sim.slot, number, sim_now_ns());
    state_unlock(sim.state);
}

uint64_t queue_head(struct queue_heads *heads, int device)
{
    if (!heads->known[device]) {
        sim_lock_state();
        sched_advance_locked(sim.state, device, sim_now_ns());
        heads->head[device] = sim.self->queue[device].head;
        state_unlock(sim.state);
        heads->known[device] = true;
    }
    return heads->head[device];
}

uint64_t queue_remaining(int device, uint64_t number)
{
    if (!number)
        return 0;
    sim_lock_state();
    uint64_t left_ns = sched_remaining_locked(sim.state, device, sim.slot, number, sim_now_ns());
    state_unlock(sim.state);
    return left_ns;
}

/* Reaps the process that the device runs if it is dead, so that no process waits for it. */
void queue_bury_current(int device)
{
    sim_lock_state();
    int current = sim.state->device[device].current;
    if (current >= 0 && current != sim.slot && !files_slot_alive(current))
        state_reap_locked(sim.state);
    state_unlock(sim.state);
}

/* The time at which a kernel was done. 0: it is not done, or the queue has forgotten it. */
uint64_t queue_done_ns(int device, uint64_t number)
{
    if (!number)
        return 0;
    sim_lock_state();
    const struct sim_queue *queue = &sim.self->queue[device];
    uint64_t time_ns =
        queue->tail - number < SIM_RING ? queue->ring[(number - 1) % SIM_RING].done_ns : 0;
    state_unlock(sim.state);
    return time_ns;
}
