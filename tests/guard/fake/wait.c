/*
 * Calls that wait for the end of work. No thread waits with them: they are answered from wherever
 * the work ends.
 */
#include "fakerm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct waiter *waiters;

static void answer(struct waiter **at, int error, uint32_t status)
{
    struct waiter *waiter = *at;

    *at = waiter->next;
    memcpy(waiter->answer + waiter->status_at, &status, sizeof(status));
    fuse_answer_ioctl(waiter->unique, error, waiter->answer, waiter->out_bytes);
    free(waiter);
}

static bool is_over(const struct waiter *waiter)
{
    if (waiter->channel)
        return waiter->channel->pending == 0;
    for (struct channel *channel = waiter->client->channels; channel;
         channel = channel->client_next)
        if (channel->pending)
            return false;
    return true;
}

void wait_add(struct waiter *waiter)
{
    waiter->next = waiters;
    waiters = waiter;
    if (is_over(waiter)) {
        answer(&waiters, 0, RM_OK);
        return;
    }
    for (struct channel *channel = waiter->client->channels; channel;
         channel = channel->client_next)
        gpu_touch(channel->group->gpu);
}

void wait_drained(struct channel *channel)
{
    struct waiter **at = &waiters;

    while (*at) {
        if ((*at)->client == channel->client && is_over(*at))
            answer(at, 0, RM_OK);
        else
            at = &(*at)->next;
    }
}

void wait_gone(const struct client *client, const struct channel *channel)
{
    struct waiter **at = &waiters;

    while (*at) {
        struct waiter *waiter = *at;

        if (waiter->client != client)
            at = &waiter->next;
        else if (!channel || waiter->channel == channel)
            answer(at, 0, RM_ERR_OBJECT_NOT_FOUND);
        else if (is_over(waiter))
            answer(at, 0, RM_OK);
        else
            at = &waiter->next;
    }
}

void wait_interrupt(uint64_t unique)
{
    for (struct waiter **at = &waiters; *at; at = &(*at)->next) {
        if ((*at)->unique == unique) {
            answer(at, -EINTR, 0);
            return;
        }
    }
}

/* At the earliest: as if nothing else ran. UINT64_MAX where something has been switched off or runs
 * elsewhere. */
static uint64_t least_ns(const struct waiter *waiter, unsigned gpu)
{
    uint64_t ns = 0;

    for (struct channel *channel = waiter->client->channels; channel;
         channel = channel->client_next) {
        if (channel->pending == 0 || channel->group->gpu != gpu ||
            (waiter->channel && waiter->channel != channel))
            continue;
        if (!channel->ready)
            return UINT64_MAX;
        ns += channel->queued_ns;
    }
    return ns ? ns : UINT64_MAX;
}

uint64_t wait_due_ns(unsigned gpu)
{
    uint64_t due_ns = UINT64_MAX;

    for (struct waiter *waiter = waiters; waiter; waiter = waiter->next) {
        uint64_t ns = least_ns(waiter, gpu);

        if (ns != UINT64_MAX && gpus[gpu].now_ns + ns + gpus[gpu].switching_ns < due_ns)
            due_ns = gpus[gpu].now_ns + ns + gpus[gpu].switching_ns;
    }
    return due_ns;
}
