/* What calls mean for the objects, the channels and the cards of an instance. */
#include "guard/guard_internal.h"

#include "guard/tell.h"

#include <errno.h>

/*
 * A channel is about to be made. One that cannot be switched would run beside every cap: -EINVAL. libcuda chooses the
 * handles of channels and groups itself; those that the driver chooses are not known here.
 */
static int channel_seen(struct guard *guard, const struct guard_file *file, const struct rm_call *call, pid_t maker)
{
    uint32_t device, subdevice;
    unsigned slice;
    int rc;

    if (!call->handle || objects_device(guard->objects, call->client, call->parent, &device) < 0 ||
        objects_subdevice(guard->objects, call->client, device, &subdevice) < 0 ||
        card_of(guard, file, call->client, device, &slice) < 0) {
        tell_seldom("guard: a channel is refused: on which card it would be, or what its name is, cannot be told");
        return -EINVAL;
    }
    rc = channels_add(guard->channels, &(struct channels_new_one){.fd = file->fd,
                                                                  .client = call->client,
                                                                  .subdevice = subdevice,
                                                                  .group = call->parent == device ? 0 : call->parent,
                                                                  .channel = call->handle,
                                                                  .slice = slice,
                                                                  .maker = maker});
    if (rc < 0) {
        tell_seldom("guard: a channel is refused: there is no room for more of them");
        return -ENOMEM;
    }
    cards_begin_share(guard, slice);
    return 0;
}

int account_seen(struct guard *guard, const struct guard_file *file, const struct rm_call *call,
                 const struct guard_process *process, pid_t tid)
{
    int rc;

    if (call->kind != RM_KIND_ALLOC || call->is_root)
        return 0;
    rc = client_used(guard, call->client, file, process->owner, false);
    if (rc == -EPERM)
        return 0; /* the driver will say the same */
    if (rc == 0 && call->handle)
        rc = objects_add(guard->objects, call->client, call->parent, call->handle, call->class_id, OBJECTS_SEEN);
    if (rc == -ENOSPC || rc == -ENOMEM)
        return -ENOMEM;
    return rm_class_is_channel(call->class_id) && guard->config.shares ? channel_seen(guard, file, call, tid) : 0;
}

static void removed(struct guard *guard, uint32_t client, uint32_t handle)
{
    objects_remove(guard->objects, client, handle);
    if (handle == client)
        client_gone(guard, client);
}

void account_known(struct guard *guard, const struct guard_file *file, const struct rm_call *call,
                   const struct rm_result *result, const struct guard_process *process, unsigned slice)
{
    struct objects *objects = guard->objects;
    int rc = client_used(guard, call->client, file, process->owner, true);

    switch (call->kind) {
    case RM_KIND_ALLOC:
    case RM_KIND_HEAP_ALLOC:
        if (call->charges)
            rc = objects_add_memory(objects, call->client, call->parent, result->handle, slice, result->charge_bytes);
        else
            rc = objects_add(objects, call->client, call->parent, result->handle, call->class_id, OBJECTS_MADE);
        break;
    case RM_KIND_FREE:
    case RM_KIND_HEAP_FREE:
        removed(guard, call->client, call->handle);
        break;
    case RM_KIND_DUP:
        rc = objects_dup(objects, call->client, call->parent, result->handle, call->source_client, call->source_handle);
        break;
    case RM_KIND_CONTROL:
        if (call->schedules)
            channels_scheduled(guard->channels, call->client, call->handle);
        break;
    case RM_KIND_HEAP_OTHER:
    case RM_KIND_EXPORT: /* exports.c */
    case RM_KIND_IMPORT:
    case RM_KIND_DMABUF:
        break;
    }
    if (rc < 0)
        tell_seldom("guard: a call of client %#x could not be noted (%d): the audit may find a difference",
                    call->client, rc);
}

void account_removed(void *arg, uint32_t client, uint32_t handle, uint32_t class_id)
{
    struct guard *guard = arg;

    if (rm_class_is_channel(class_id))
        channels_remove(guard->channels, client, handle);
    if (class_id == RM_CLASS_DEVICE)
        cards_forget_device(guard, client, handle);
}
