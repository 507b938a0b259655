/*
 * IDLE_CHANNELS: whether channels have work. All of one client, as the driver wants it.
 */
#include "fakerm.h"

#define IDLE_MOST 4096u

static uint32_t idle_locked(const struct call *call, const struct rm_idle_channels *idle, const uint32_t *client_list,
                            const uint32_t *device_list, const uint32_t *channel_list, uint32_t count)
{
    struct client *client = client_of_file(idle->client, call->file);

    if (!client)
        return RM_ERR_INVALID_CLIENT;
    for (uint32_t i = 0; i < count; i++) {
        const struct object *device = object_find(client, device_list[i]);

        if (client_list[i] != idle->client)
            return RM_ERR_INSUFFICIENT_PERMISSIONS;
        if (!device || (device->class_id != RM_CLASS_DEVICE && device->class_id != RM_CLASS_SUBDEVICE))
            return RM_ERR_OBJECT_NOT_FOUND;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct object *object = object_find(client, channel_list[i]);

        if (!object || !object->channel)
            return RM_ERR_OBJECT_NOT_FOUND;
        gpu_simulate(&gpus[object->gpu]);
        if (object->channel->pending)
            return RM_ERR_TIMEOUT;
    }
    return RM_OK;
}

int idle_ioctl(struct call *call, void *arg)
{
    struct rm_idle_channels *idle = arg;
    bool single = (idle->flags & 0xf0) == RM_IDLE_SINGLE_CHANNEL;
    uint32_t lists[3][IDLE_MOST];
    size_t bytes = idle->count * sizeof(uint32_t);

    pthread_mutex_lock(&state_lock);
    book.calls[BOOK_IDLE]++;
    pthread_mutex_unlock(&state_lock);
    if ((idle->flags & 0xf) != RM_IDLE_QUERY) {
        idle->status = RM_ERR_NOT_SUPPORTED; /* the driver would wait */
        return 0;
    }
    if (!single && (idle->flags & 0xf0)) {
        idle->status = RM_ERR_INVALID_FLAGS;
        return 0;
    }
    if (single) {
        lists[0][0] = idle->client;
        lists[1][0] = idle->device;
        lists[2][0] = idle->channel;
    } else if (idle->count > IDLE_MOST) {
        idle->status = RM_ERR_INVALID_ARGUMENT;
        return 0;
    } else if (caller_read(call->tid, idle->clients, lists[0], bytes) < 0 ||
               caller_read(call->tid, idle->devices, lists[1], bytes) < 0 ||
               caller_read(call->tid, idle->channels, lists[2], bytes) < 0) {
        idle->status = RM_ERR_INVALID_ADDRESS;
        return 0;
    }
    pthread_mutex_lock(&state_lock);
    idle->status = idle_locked(call, idle, lists[0], lists[1], lists[2], single ? 1 : idle->count);
    pthread_mutex_unlock(&state_lock);
    return 0;
}
