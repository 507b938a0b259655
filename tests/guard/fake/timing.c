/*
 * The clockwork of a simulated device. Channel groups that have something to run get slices of time in turn; from one
 * process to another the device has to switch; a kernel is stopped where its slice ends and goes on in the next. Within
 * a group channels take turns by kernel.
 *
 * Time is simulated up to now whenever somebody looks or changes something. So what a process gets does not depend on
 * how late a thread of the fake wakes up.
 */
#include "fakerm.h"

#include "base/clock.h"

#include <stdlib.h>

#define LEAST_SLICE_NS 1000ULL

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

static void start(struct gpu *gpu, struct group *group)
{
    gpu->running = group;
    gpu->slice_left_ns = group->slice_ns > LEAST_SLICE_NS ? group->slice_ns : LEAST_SLICE_NS;
    if (gpu->last_pid == group->pid)
        return;
    if (gpu->last_pid)
        gpu->switches++;
    gpu->last_pid = group->pid;
    gpu->switching_ns = settings.switch_ns;
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
    if (channel->pending == 0) {
        gpu_channel_update(channel);
        wait_drained(channel);
    }
    if (group->ready)
        group->current = next_channel(group);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void run(struct gpu *gpu, struct group *group, uint64_t room_ns)
{
    struct channel *channel = group->current && group->current->ready ? group->current : next_channel(group);
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
        if (gpu->switching_ns) {
            uint64_t ns = least(gpu->switching_ns, now_ns - gpu->now_ns);

            gpu->switching_ns -= ns;
            gpu->now_ns += ns;
        } else {
            run(gpu, gpu->running, now_ns - gpu->now_ns);
        }
    }
}
