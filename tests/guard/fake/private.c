/*
 * The fake's own calls: work, and the book as figures.
 */
#include "fakerm.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_KERNEL_NS 100ULL
#define WORK_MOST_NS    (1ULL << 60) /* of one call */

/* 0 for the channel: NULL. */
static uint32_t find(const struct call *call, uint32_t client_handle, uint32_t channel_handle,
                     struct client **ret_client, struct channel **ret_channel)
{
    struct client *client = client_of_file(client_handle, call->file);
    struct object *object;

    *ret_channel = NULL;
    *ret_client = client;
    if (!client)
        return RM_ERR_INVALID_CLIENT;
    if (channel_handle == 0)
        return RM_OK;
    object = object_find(client, channel_handle);
    if (!object || !object->channel)
        return RM_ERR_OBJECT_NOT_FOUND;
    *ret_channel = object->channel;
    return RM_OK;
}

/* Answers later: from wherever the work ends. */
static void wait_for(struct call *call, struct client *client, struct channel *channel,
                     const void *arg, size_t bytes, size_t status_at)
{
    struct waiter *waiter = malloc(sizeof(*waiter));

    if (!waiter)
        abort();
    for (unsigned i = 0; i < settings.gpus; i++)
        gpu_simulate(&gpus[i]);
    *waiter = (struct waiter){.unique = call->unique,
                              .client = client,
                              .channel = channel,
                              .status_at = status_at,
                              .out_bytes = call->out_bytes};
    memcpy(waiter->answer, arg, bytes);
    call->later = true;
    wait_add(waiter);
}

int private_submit(struct call *call, void *arg)
{
    struct fakerm_submit *submit = arg;
    struct client *client;
    struct channel *channel;

    if (submit->duration_ns < LEAST_KERNEL_NS)
        submit->duration_ns = LEAST_KERNEL_NS;
    pthread_mutex_lock(&state_lock);
    submit->status = find(call, submit->client, submit->channel, &client, &channel);
    if (submit->status == RM_OK &&
        (!channel || submit->count == 0 || submit->count > WORK_MOST_NS / submit->duration_ns))
        submit->status = RM_ERR_INVALID_ARGUMENT;
    if (submit->status == RM_OK) {
        gpu_submit(channel, submit->duration_ns, submit->count);
        if (submit->wait)
            wait_for(call, client, channel, submit, sizeof(*submit),
                     offsetof(struct fakerm_submit, status));
    }
    pthread_mutex_unlock(&state_lock);
    return 0;
}

int private_wait(struct call *call, void *arg)
{
    struct fakerm_wait *wait = arg;
    struct client *client;
    struct channel *channel;

    pthread_mutex_lock(&state_lock);
    wait->status = find(call, wait->client, wait->channel, &client, &channel);
    if (wait->status == RM_OK)
        wait_for(call, client, channel, wait, sizeof(*wait), offsetof(struct fakerm_wait, status));
    pthread_mutex_unlock(&state_lock);
    return 0;
}

int private_work(struct call *call, void *arg)
{
    struct fakerm_work *work = arg;
    struct client *client;
    struct channel *only;

    pthread_mutex_lock(&state_lock);
    for (unsigned i = 0; i < settings.gpus; i++)
        gpu_simulate(&gpus[i]);
    *work = (struct fakerm_work){.client = work->client, .channel = work->channel};
    work->status = find(call, work->client, work->channel, &client, &only);
    for (const struct channel *channel = client ? client->channels : NULL; channel;
         channel = channel->client_next) {
        if (work->channel && channel != only)
            continue;
        work->completed += channel->completed;
        work->pending += channel->pending;
        work->busy_ns += channel->busy_ns;
        work->disabled += channel->disabled;
        work->scheduled += channel->scheduled;
        work->wedged += channel->wedged;
    }
    pthread_mutex_unlock(&state_lock);
    return 0;
}

int private_stats(struct call *call, void *arg)
{
    struct fakerm_stats *stats = arg;
    pid_t pid = stats->pid ? (pid_t)stats->pid : caller_process(call->tid);
    unsigned index = stats->gpu;
    const struct account *account;
    const struct gpu *gpu;

    if (index >= settings.gpus) {
        stats->status = RM_ERR_INVALID_ARGUMENT;
        return 0;
    }
    pthread_mutex_lock(&state_lock);
    gpu_simulate(&gpus[index]);
    gpu = &gpus[index];
    account = book_account(pid);
    *stats = (struct fakerm_stats){
        .pid = (uint32_t)pid,
        .gpu = index,
        .pid_bytes = book_bytes(account, index),
        .pid_peak = account->gpu[index].peak,
        .private = account->gpu[index].private,
        .owned = account->gpu[index].owned,
        .duped = account->gpu[index].duped,
        .gpu_size = settings.mem_bytes,
        .gpu_used = gpu->used,
        .gpu_peak = gpu->peak,
        .nobody = book_bytes(book_account(0), index),
        .allocations = gpu->allocations,
        .refused = gpu->refused,
        .biggest = gpu->biggest,
        .pid_busy_ns = account->gpu[index].busy_ns,
        .gpu_busy_ns = gpu->busy_ns,
        .switches = gpu->switches,
        .disable_calls = book.disable_calls,
        .enable_calls = book.enable_calls,
        .last_allocation_pid = (uint32_t)book.last_allocation_pid,
        .channels = gpu->channels,
        .channels_disabled = gpu->channels_disabled,
        .clients = book.clients,
        .objects = book.objects,
        .files = book.files,
        .wedged = gpu->wedged,
        .now_ns = gpu->now_ns,
    };
    pthread_mutex_unlock(&state_lock);
    return 0;
}

int private_reset(struct call *call, void *arg)
{
    struct fakerm_reset *reset = arg;

    (void)call;
    pthread_mutex_lock(&state_lock);
    book_reset();
    pthread_mutex_unlock(&state_lock);
    reset->status = RM_OK;
    return 0;
}
