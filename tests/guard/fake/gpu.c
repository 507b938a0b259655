/*
 * The simulated devices: their channels, groups, and the threads that wake up when somebody waits
 * for a kernel's end.
 */
#include "fakerm.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_SLEEP_NS 20000ULL
#define ENGINE_COPY0   9u /* engines below have to do with graphics, those from there on have not */

struct gpu gpus[FAKERM_GPUS_MAX];

static void *device_thread(void *arg)
{
    struct gpu *gpu = arg;

    pthread_mutex_lock(&state_lock);
    for (;;) {
        uint64_t due_ns;

        gpu_simulate(gpu);
        due_ns = wait_due_ns((unsigned)(gpu - gpus));
        if (due_ns == UINT64_MAX) {
            pthread_cond_wait(&gpu->changed, &state_lock);
        } else {
            if (due_ns < gpu->now_ns + LEAST_SLEEP_NS)
                due_ns = gpu->now_ns + LEAST_SLEEP_NS;
            pthread_cond_timedwait(
                &gpu->changed, &state_lock,
                &(struct timespec){(time_t)(due_ns / NS_PER_S), (long)(due_ns % NS_PER_S)});
        }
    }
    return NULL;
}

int gpu_start(void)
{
    pthread_condattr_t attr;
    int rc;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    for (unsigned i = 0; i < settings.gpus; i++) {
        fakerm_uuid(i, gpus[i].uuid);
        pthread_cond_init(&gpus[i].changed, &attr);
        rc = pthread_create(&gpus[i].thread, NULL, device_thread, &gpus[i]);
        if (rc)
            return -rc;
    }
    pthread_condattr_destroy(&attr);
    return 0;
}

int gpu_by_uuid(const uint8_t uuid[16])
{
    for (unsigned i = 0; i < settings.gpus; i++)
        if (memcmp(gpus[i].uuid, uuid, 16) == 0)
            return (int)i;
    return -1;
}

void gpu_touch(unsigned gpu)
{
    pthread_cond_signal(&gpus[gpu].changed);
}

struct group *gpu_group_new(unsigned gpu, const struct client *client, uint32_t engine)
{
    struct group *group = calloc(1, sizeof(*group)), *ring = gpus[gpu].groups;

    if (!group)
        return NULL;
    group->gpu = gpu;
    group->pid = client->pid;
    group->account = book_account(client->pid);
    group->slice_ns = settings.slice_ns;
    group->graphics = engine < ENGINE_COPY0;
    if (ring) {
        group->next = ring;
        group->prev = ring->prev;
        ring->prev->next = group;
        ring->prev = group;
    } else {
        group->next = group->prev = group;
        gpus[gpu].groups = group;
    }
    return group;
}

/* Its channels are freed before, being below one of its handles in the tree. */
void gpu_group_free(struct group *group)
{
    struct gpu *gpu = &gpus[group->gpu];
    struct group *next = group->next == group ? NULL : group->next;

    if (group->duplicates) {
        group->duplicates--;
        return;
    }
    gpu_simulate(gpu);
    if (gpu->loaded == group)
        gpu->loaded = NULL;
    group->next->prev = group->prev;
    group->prev->next = group->next;
    if (gpu->running == group) {
        gpu->running = NULL; /* the turn is the next one's */
        gpu->groups = next;
    } else if (gpu->groups == group) {
        gpu->groups = next;
    }
    free(group);
}

/* Whether a channel has something to run, and may. */
void gpu_channel_update(struct channel *channel)
{
    bool ready = channel->pending && (!channel->disabled || channel->ending) &&
                 channel->scheduled && !channel->wedged;

    if (ready == channel->ready)
        return;
    channel->ready = ready;
    if (ready)
        channel->group->ready++;
    else
        channel->group->ready--;
}

struct channel *gpu_channel_new(unsigned gpu, struct client *client, struct group *group,
                                uint32_t engine)
{
    struct channel *channel = calloc(1, sizeof(*channel));

    if (!channel)
        return NULL;
    if (!group) {
        group = gpu_group_new(gpu, client, engine);
        if (!group) {
            free(channel);
            return NULL;
        }
        group->single = true;
    }
    channel->client = client;
    channel->group = group;
    channel->scheduled = group->scheduled;
    channel->client_next = client->channels;
    client->channels = channel;
    channel->group_next = group->channels;
    group->channels = channel;
    gpus[gpu].channels++;
    return channel;
}

void gpu_channel_free(struct channel *channel)
{
    struct group *group = channel->group;
    struct gpu *gpu = &gpus[group->gpu];
    struct channel **at;
    struct batch *batch;

    gpu_simulate(gpu);
    gpu->channels_disabled -= channel->disabled;
    channel->pending = 0;
    gpu_channel_update(channel);
    while ((batch = channel->first)) {
        channel->first = batch->next;
        free(batch);
    }
    for (at = &channel->client->channels; *at != channel; at = &(*at)->client_next)
        ;
    *at = channel->client_next;
    for (at = &group->channels; *at != channel; at = &(*at)->group_next)
        ;
    *at = channel->group_next;
    if (group->current == channel)
        group->current = NULL;
    gpu->channels--;
    wait_gone(channel->client, channel);
    free(channel);
    if (group->single)
        gpu_group_free(group);
    gpu_touch((unsigned)(gpu - gpus));
}

void gpu_submit(struct channel *channel, uint64_t duration_ns, uint64_t count)
{
    struct batch *batch = malloc(sizeof(*batch));

    if (!batch)
        abort();
    gpu_simulate(&gpus[channel->group->gpu]);
    *batch = (struct batch){NULL, duration_ns, count};
    if (channel->last)
        channel->last->next = batch;
    else
        channel->first = batch;
    channel->last = batch;
    channel->queued_ns += duration_ns * count;
    channel->pending += count;
    gpu_channel_update(channel);
    gpu_touch(channel->group->gpu);
}

/*
 * A context that is on the engine is taken off it first; it comes back for those of its channels
 * that still may run. What was disabled and has gone on until now is over.
 */
void gpu_take_off(struct gpu *gpu, struct group *group)
{
    if (gpu->loaded == group)
        gpu_save(gpu);
    for (struct channel *channel = group->channels; channel; channel = channel->group_next) {
        channel->ending = false;
        gpu_channel_update(channel);
    }
}

static bool runs(const struct gpu *gpu, const struct channel *channel)
{
    return gpu->running == channel->group && channel->group->current == channel && channel->ready &&
           channel->left_ns;
}

void gpu_switch(struct channel *const *channels, unsigned count, enum gpu_switch to)
{
    bool disable = to != GPU_ON;
    struct gpu *gpu = count ? &gpus[channels[0]->group->gpu] : NULL;

    if (!gpu)
        return;
    gpu_simulate(gpu);
    for (unsigned i = 0; i < count; i++) {
        struct channel *channel = channels[i];

        if (to == GPU_OFF)
            gpu_take_off(gpu, channel->group);
        if (disable)
            gpu_wedge(channel);
        gpu->channels_disabled += disable;
        gpu->channels_disabled -= channel->disabled;
        channel->ending = to == GPU_ENDING && runs(gpu, channel);
        channel->disabled = disable;
        gpu_channel_update(channel);
    }
    gpu_touch((unsigned)(gpu - gpus));
}

void gpu_wedge(struct channel *channel)
{
    if (channel->wedged || !channel->disabled)
        return;
    channel->wedged = true;
    gpus[channel->group->gpu].wedged++;
}

void gpu_schedule(struct group *group, struct channel *only, bool on)
{
    struct gpu *gpu = &gpus[group->gpu];

    gpu_simulate(gpu);
    if (!only)
        group->scheduled = on;
    for (struct channel *channel = group->channels; channel; channel = channel->group_next) {
        if (only && channel != only)
            continue;
        if (!on && channel->scheduled)
            gpu_take_off(gpu, group);
        channel->scheduled = on;
        if (on && channel->disabled) { /* the driver does that the first time only */
            channel->disabled = channel->ending = false;
            gpu->channels_disabled--;
        }
        gpu_channel_update(channel);
    }
    gpu_touch(group->gpu);
}
