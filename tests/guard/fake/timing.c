/*
 * The clockwork of a simulated device. Channel groups that have something to run get slices of time
 * in turn; from one process to another the device has to switch; a kernel is stopped where its
 * slice ends and goes on in the next. Within a group channels take turns by kernel.
 *
 * A group that runs kernels has its context on the engine, until another's is put there, or it is
 * stopped from outside. How often that was, and whether a kernel had to be stopped for it, is all
 * that the driver tells of a group's work.
 *
 * A channel that is disabled for scheduling only gets no new slice; what it runs goes on to its
 * end, or until another group gets a slice.
 *
 * Time is simulated up to now whenever somebody looks or changes something. So what a process gets
 * does not depend on how late a thread of the fake wakes up.
 */
#include "fakerm.h"

#include "base/clock.h"

#include <stdlib.h>

#define LEAST_SLICE_NS  1000ULL
#define SHORT_NS        10000ULL /* the end of a kernel that ends within that is waited for */
#define PREEMPT_COST_NS 60000ULL /* until who was preempted goes on */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct group *next_ready(const struct gpu *gpu)
{
    struct group *start = gpu->running ? gpu->running->next : gpu->groups, *group = start;

    if (!start)
        return NULL;
    do {
        if (group->ready)
            return group;
        group = group->next;
    } while (group != start);
    return NULL;
}

static bool has_ending(const struct group *group)
{
    for (const struct channel *channel = group->channels; channel; channel = channel->group_next)
        if (channel->ending)
            return true;
    return false;
}

static void start(struct gpu *gpu, struct group *group)
{
    if (gpu->running && gpu->running != group && has_ending(gpu->running))
        gpu_take_off(gpu, gpu->running);
    gpu->running = group;
    gpu->slice_left_ns = group->slice_ns > LEAST_SLICE_NS ? group->slice_ns : LEAST_SLICE_NS;
    if (gpu->last_pid == group->pid)
        return;
    if (gpu->last_pid)
        gpu->switches++;
    gpu->last_pid = group->pid;
    gpu->switching_ns = settings.switch_ns;
}

void gpu_save(struct gpu *gpu)
{
    struct group *group = gpu->loaded;
    const struct channel *channel = group ? group->current : NULL;

    gpu->loaded = NULL;
    if (!group)
        return;
    if (channel && channel->ready && channel->left_ns > SHORT_NS)
        group->counts.stops++;
    else
        group->counts.idle_saves++;
}

static void load(struct gpu *gpu, struct group *group)
{
    if (!group->graphics || gpu->loaded == group)
        return;
    gpu_save(gpu);
    gpu->loaded = group;
    group->counts.restores++;
}

void gpu_preempt(struct group *group)
{
    struct gpu *gpu = &gpus[group->gpu];

    gpu_simulate(gpu);
    if (gpu->loaded != group)
        return;
    gpu_take_off(gpu, group);
    if (!group->ready)
        return;
    load(gpu, group);
    if (gpu->running != group)
        return;
    gpu->switching_ns += PREEMPT_COST_NS; /* out of its own slice */
    gpu->slice_left_ns -= least(PREEMPT_COST_NS, gpu->slice_left_ns);
    gpu_touch(group->gpu);
}

static struct channel *next_channel(const struct group *group)
{
    struct channel *channel = group->current ? group->current->group_next : NULL;

    for (;; channel = channel->group_next) {
        if (!channel)
            channel = group->channels;
        if (channel->ready)
            return channel;
    }
}

static void kernel_done(struct channel *channel)
{
    struct batch *batch = channel->first;
    struct group *group = channel->group;

    channel->completed++;
    channel->pending--;
    if (--batch->count == 0) {
        channel->first = batch->next;
        if (!channel->first)
            channel->last = NULL;
        free(batch);
    }
    channel->ending = false;
    gpu_channel_update(channel);
    if (channel->pending == 0)
        wait_drained(channel);
    if (group->ready)
        group->current = next_channel(group);
}

static void run(struct gpu *gpu, struct group *group, uint64_t room_ns)
{
    struct channel *channel =
        group->current && group->current->ready ? group->current : next_channel(group);
    uint64_t ran_ns;

    group->current = channel;
    if (channel->left_ns == 0)
        channel->left_ns = channel->first->duration_ns;
    ran_ns = least(least(channel->left_ns, gpu->slice_left_ns), room_ns);
    gpu->now_ns += ran_ns;
    gpu->slice_left_ns -= ran_ns;
    gpu->busy_ns += ran_ns;
    group->account->gpu[group->gpu].busy_ns += ran_ns;
    channel->busy_ns += ran_ns;
    channel->queued_ns -= ran_ns;
    channel->left_ns -= ran_ns;
    if (channel->left_ns == 0)
        kernel_done(channel);
    if (gpu->slice_left_ns == 0) {
        struct group *next = next_ready(gpu);

        if (next)
            start(gpu, next);
    }
}

void gpu_simulate(struct gpu *gpu)
{
    uint64_t now_ns = clock_ns();

    while (gpu->now_ns < now_ns) {
        if (!gpu->running || !gpu->running->ready) {
            struct group *next = next_ready(gpu);

            if (!next) {
                gpu->now_ns = now_ns;
                return;
            }
            start(gpu, next);
        }
        load(gpu, gpu->running);
        if (gpu->switching_ns) {
            uint64_t ns = least(gpu->switching_ns, now_ns - gpu->now_ns);

            gpu->switching_ns -= ns;
            gpu->now_ns += ns;
        } else {
            run(gpu, gpu->running, now_ns - gpu->now_ns);
        }
    }
}
