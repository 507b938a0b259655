/*
 * How a device divides its time. Each process has a queue of kernels. Processes with work take
 * turns of SIM_SLICE_NS, round robin, and are pre-empted in the middle of a kernel. A switch costs
 * switch_ns, as part of the slice. It costs three quarters of that if the process that leaves runs
 * nothing, as there is no state to save. A process alone pays nothing. Every look at a device first
 * brings it up to the present.
 */
#include "state.h"

#include <string.h>

#define NOTICE_NS 1000 /* the time in which a polling kernel notices and ends */

static bool waits(const struct sim_device *device, int slot)
{
    return device->waiting[slot / 64] >> (slot % 64) & 1;
}

/* The next slot with work after the given one, round robin; -1: none. */
static int next_slot(const struct sim_device *device, int after)
{
    int words = SIM_MAX_PROCESSES / 64, start = after + 1;

    for (int step = 0; step <= words; step++) {
        int word = (start / 64 + step) % words;
        uint64_t bits = device->waiting[word];
        if (step == 0)
            bits &= ~0ULL << (start % 64);
        else if (step == words)
            bits &= ~(~0ULL << (start % 64));
        if (bits)
            return word * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

static void add_sample(uint64_t *samples, uint64_t *sample_at, uint64_t from_ns, uint64_t until_ns)
{
    while (from_ns < until_ns) {
        uint64_t bucket = from_ns / SIM_SAMPLE_NS, end = (bucket + 1) * SIM_SAMPLE_NS;
        uint64_t part = (until_ns < end ? until_ns : end) - from_ns;
        int index = (int)(bucket % SIM_SAMPLES);
        if (sample_at[index] != bucket) {
            sample_at[index] = bucket;
            samples[index] = 0;
        }
        samples[index] += part;
        from_ns += part;
    }
}

uint64_t sched_busy(const uint64_t *samples, const uint64_t *sample_at, uint64_t now_ns,
                    uint64_t window_ns)
{
    uint64_t last = now_ns / SIM_SAMPLE_NS, first = (now_ns - window_ns) / SIM_SAMPLE_NS, busy = 0;

    for (uint64_t bucket = first; bucket < last; bucket++) {
        int index = (int)(bucket % SIM_SAMPLES);
        if (sample_at[index] == bucket)
            busy += samples[index];
    }
    return busy;
}

static void switch_to(struct sim_state *state, struct sim_device *device, int slot, bool preempts,
                      uint64_t time_ns)
{
    uint64_t cost = 0;

    if (device->last >= 0 && device->last != slot &&
        state->process[device->last].life == SIM_LIVE) {
        cost = preempts ? state->switch_ns : state->switch_ns * 3 / 4;
        device->switches++;
    }
    device->current = device->last = slot;
    device->switch_end_ns = time_ns + cost;
    device->slice_end_ns = time_ns + SIM_SLICE_NS;
}

/* Runs the current process's first kernel until until_ns at most. Returns the time reached. */
static uint64_t run_kernel(struct sim_state *state, int index, uint64_t time_ns, uint64_t until_ns)
{
    struct sim_device *device = &state->device[index];
    struct sim_process *process = &state->process[device->current];
    struct sim_queue *queue = &process->queue[index];
    struct sim_work *work = &queue->ring[queue->head % SIM_RING];
    uint64_t left = work->duration_ns - queue->progress_ns;
    uint64_t part = left < until_ns - time_ns ? left : until_ns - time_ns;

    queue->progress_ns += part;
    queue->remaining_ns -= part;
    process->busy_ns[index] += part;
    if (process->group)
        state->group[process->group - 1].busy_ns[index] += part;
    device->busy_ns += part;
    add_sample(device->samples, device->sample_at, time_ns, time_ns + part);
    add_sample(process->samples[index], process->sample_at[index], time_ns, time_ns + part);
    time_ns += part;
    if (part == left) {
        work->done_ns = time_ns;
        queue->progress_ns = 0;
        queue->head++;
        if (queue->head == queue->tail) {
            device->waiting[device->current / 64] &= ~(1ULL << (device->current % 64));
            device->current = -1;
        }
    }
    return time_ns;
}

void sched_advance_locked(struct sim_state *state, int index, uint64_t now_ns)
{
    struct sim_device *device = &state->device[index];
    uint64_t time_ns = device->clock_ns;

    while (time_ns < now_ns) {
        if (device->current < 0 || !waits(device, device->current)) {
            int slot = next_slot(device, device->last);
            if (slot < 0)
                break;
            /* the same process coming back within its slice goes on with it */
            if (slot == device->last && time_ns < device->slice_end_ns)
                device->current = slot;
            else
                switch_to(state, device, slot, false, time_ns);
        }
        if (time_ns < device->switch_end_ns) {
            time_ns = device->switch_end_ns < now_ns ? device->switch_end_ns : now_ns;
            continue;
        }
        if (time_ns >= device->slice_end_ns) {
            int slot = next_slot(device, device->current);
            if (slot != device->current) {
                switch_to(state, device, slot, true, time_ns);
                continue;
            }
            device->slice_end_ns = time_ns + SIM_SLICE_NS;
        }
        time_ns = run_kernel(state, index, time_ns,
                             device->slice_end_ns < now_ns ? device->slice_end_ns : now_ns);
    }
    if (device->clock_ns < now_ns)
        device->clock_ns = now_ns;
}

uint64_t sched_submit_locked(struct sim_state *state, int index, int slot, uint64_t duration_ns,
                             uint64_t now_ns)
{
    struct sim_device *device = &state->device[index];
    struct sim_queue *queue = &state->process[slot].queue[index];

    sched_advance_locked(state, index, now_ns);
    if (queue->tail - queue->head >= SIM_QUEUE_DEPTH)
        return 0;
    struct sim_work *work = &queue->ring[queue->tail % SIM_RING];
    if (duration_ns > SIM_FOREVER_NS)
        duration_ns = SIM_FOREVER_NS;
    work->duration_ns = duration_ns;
    work->done_ns = 0;
    queue->remaining_ns += duration_ns;
    queue->tail++;
    device->waiting[slot / 64] |= 1ULL << (slot % 64);
    return queue->tail;
}

void sched_finish_locked(struct sim_state *state, int index, int slot, uint64_t number,
                         uint64_t now_ns)
{
    struct sim_queue *queue = &state->process[slot].queue[index];

    sched_advance_locked(state, index, now_ns);
    if (queue->head >= number || number > queue->tail)
        return;
    struct sim_work *work = &queue->ring[(number - 1) % SIM_RING];
    uint64_t done_ns = number == queue->head + 1 ? queue->progress_ns : 0;
    if (work->duration_ns <= done_ns + NOTICE_NS)
        return;
    queue->remaining_ns -= work->duration_ns - done_ns - NOTICE_NS;
    work->duration_ns = done_ns + NOTICE_NS;
}

uint64_t sched_remaining_locked(struct sim_state *state, int index, int slot, uint64_t number,
                                uint64_t now_ns)
{
    struct sim_device *device = &state->device[index];
    struct sim_queue *queue = &state->process[slot].queue[index];

    sched_advance_locked(state, index, now_ns);
    if (queue->head >= number)
        return 0;
    if (device->current != slot && device->current >= 0) {
        uint64_t slice = device->slice_end_ns > now_ns ? device->slice_end_ns - now_ns : 1;
        uint64_t work = state->process[device->current].queue[index].remaining_ns;
        return (slice < work ? slice : work) + 1;
    }
    uint64_t sum = queue->remaining_ns;
    if (number != queue->tail) {
        sum = 0;
        for (uint64_t item = queue->head; item < number; item++)
            sum += queue->ring[item % SIM_RING].duration_ns;
        sum -= queue->progress_ns;
    }
    if (device->switch_end_ns > now_ns)
        sum += device->switch_end_ns - now_ns;
    return sum + 1;
}

void sched_leave_locked(struct sim_state *state, int slot)
{
    for (uint32_t index = 0; index < state->device_count; index++) {
        struct sim_device *device = &state->device[index];
        struct sim_queue *queue = &state->process[slot].queue[index];
        if (!queue->tail)
            continue;
        if (device->clock_ns)
            sched_advance_locked(state, (int)index, sim_now_ns());
        queue->head = queue->tail;
        queue->progress_ns = queue->remaining_ns = 0;
        device->waiting[slot / 64] &= ~(1ULL << (slot % 64));
        if (device->current == slot)
            device->current = -1;
        if (device->last == slot)
            device->last = -1;
    }
}
