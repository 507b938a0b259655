/* Which kernels and events are done, and when. A kernel is named by its number in the queue. */
#include "stream.h"

#include <stdlib.h>

static struct sim_event *pending; /* recorded, but not known to be done */

bool done_number(int device, uint64_t number)
{
    if (queue_remaining(device, number))
        return false;
    word_settle();
    return true;
}

void done_wait(int device, uint64_t number)
{
    while (number) {
        uint64_t now_ns = sim_now_ns();
        queue_bury_current(device);
        uint64_t left_ns = queue_remaining(device, number);
        if (!left_ns)
            break;
        if (left_ns < SIM_FOREVER_NS / 2) {
            sim_sleep_until(now_ns + left_ns);
            continue;
        }
        sim_lock(); /* a word can end the kernel at any time */
        worker_wait();
        sim_unlock();
    }
    word_settle_unlocked();
}

bool done_event(struct sim_event *event)
{
    if (event->time_ns || !event->number)
        return true;
    if (!done_number(event->device, event->number))
        return false;
    event->time_ns = queue_done_ns(event->device, event->number);
    if (!event->time_ns)
        event->time_ns = sim_now_ns();
    return true;
}

void done_sweep(void)
{
    struct sim_event **link = &pending;

    while (*link) {
        struct sim_event *event = *link;
        if (event->magic == MAGIC_EVENT && !done_event(event)) {
            link = &event->next_pending;
            continue;
        }
        event->pending = false;
        *link = event->next_pending;
    }
}

void record_drop(struct sim_record *record)
{
    if (record && !--record->references)
        free(record);
}

void done_record(struct sim_event *event, int device, uint64_t number)
{
    record_drop(event->held);
    event->held = NULL;
    event->state = EVENT_SUBMITTED;
    event->device = device;
    event->number = number;
    event->time_ns = 0;
    if (done_number(device, number)) {
        event->time_ns = sim_now_ns();
    } else if (!event->pending) {
        event->pending = true;
        event->next_pending = pending;
        pending = event;
    }
}
