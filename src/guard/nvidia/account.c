/* What calls mean for the objects, the channels and the cards of an instance. */
#include "guard/guard_internal.h"

#include "base/log.h"
#include "guard/nvidia/rm.h"
#include "guard/notify/ratelimit.h"

#include <errno.h>

bool account_may_make(struct guard *guard, const struct guard_file *file,
                      const struct rm_call *call, struct account_place *ret_place)
{
    struct account_place place = {.is_channel = call->kind == RM_KIND_ALLOC &&
                                                rm_class_is_channel(call->class_id) &&
                                                guard->config.shares};
    uint32_t device;

    *ret_place = place;
    if (!place.is_channel)
        return true;
    if (objects_device(guard->objects, call->client, call->parent, &device) < 0 ||
        card_of(guard, file, call->client, device, &place.vdev) < 0 ||
        cards_subdevice(guard, file, call->client, device, &place.subdevice) < 0) {
        log_ratelimited("guard: a channel is refused: on which card it would be cannot be told");
        return false;
    }
    place.group = call->parent == device ? 0 : call->parent;
    *ret_place = place;
    return true;
}

void account_take_back(struct guard *guard, const struct guard_file *file, uint32_t client,
                       uint32_t parent, uint32_t handle)
{
    if (rm_free(file->fd, client, parent, handle) != RM_OK)
        log_ratelimited("guard: %#x of client %#x, which must not be, could not be freed", handle,
                        client);
    objects_remove(guard->objects, client, handle);
}

/* One that cannot be switched would run beside every cap: it must not be. */
static int channel_made(struct guard *guard, const struct guard_file *file,
                        const struct rm_call *call, const struct rm_result *result,
                        const struct account_place *place)
{
    const struct channels_new_one one = {.fd = file->fd,
                                         .client = call->client,
                                         .subdevice = place->subdevice,
                                         .group = place->group,
                                         .channel = result->handle,
                                         .vdev = place->vdev};
    int rc = cards_begin_share(guard, place->vdev);

    if (rc == 0)
        rc = channels_add(guard->channels, &one);
    if (rc < 0)
        log_ratelimited("guard: a channel is refused: there is no room for more of them, or it "
                        "cannot be switched (%d)",
                        rc);
    return rc;
}

/*
 * What a peer of PCIe, a network card, finds memory by is the process that has made this, which is
 * not the program (third_party_p2p.c): it is told of the program, too.
 */
static void register_process(const struct guard_file *file, uint32_t client, uint32_t object)
{
    int rc =
        rm_control(file->fd, client, object, RM_CTRL_P2P_REGISTER_PID, &client, sizeof(client));

    if (rc != RM_OK)
        log_debug("guard: client %#x cannot be registered for GPUDirect RDMA: %#x", client,
                  (unsigned)rc);
}

/* What cannot be noted must not be. */
static int object_made(struct guard *guard, const struct guard_file *file,
                       const struct rm_call *call, const struct rm_result *result,
                       const struct account_place *place)
{
    struct objects *objects = guard->objects;
    int rc = call->charges ? objects_add_memory(objects, call->client, call->parent, result->handle,
                                                place->vdev, result->charge_bytes)
             : call->holds
                 ? objects_add_holding(objects, call->client, call->parent, result->handle,
                                       call->class_id, call->holds)
                 : objects_add(objects, call->client, call->parent, result->handle, call->class_id);

    account_settle(guard); /* an old channel of this handle goes before the new one comes */
    if (rc == 0 && call->class_id == RM_CLASS_THIRD_PARTY_P2P)
        register_process(file, call->client, result->handle);
    if (rc == 0 && place->is_channel)
        rc = channel_made(guard, file, call, result, place);
    if (rc < 0)
        account_take_back(guard, file, call->client, call->parent, result->handle);
    return rc;
}

/* How much memory of the card an object is; 0: it is none. */
static uint64_t ask_bytes(const struct guard_file *file, uint32_t client, uint32_t handle)
{
    struct rm_fb_info_item items[] = {{RM_SURFACE_ADDRESS_SPACE, 0}, {RM_SURFACE_SIZE, 0}};
    struct rm_fb_info_list list = {.count = 2, .items = (uintptr_t)items};

    if (rm_control(file->fd, client, handle, RM_CTRL_SURFACE_INFO, &list, sizeof(list)) != RM_OK ||
        items[0].value != RM_SURFACE_VIDMEM)
        return 0;
    return items[1].value * 4096ULL;
}

uint32_t account_foreign(struct guard *guard, struct guard_process *process,
                         const struct guard_file *file, const struct rm_call *call, uint32_t parent,
                         uint32_t handle)
{
    uint64_t bytes = ask_bytes(file, call->client, handle);
    bool charges = guard->config.mode == GUARD_STRICT;
    unsigned vdev;
    int rc;

    if (bytes == 0 || card_of(guard, file, call->client, parent, &vdev) < 0)
        return RM_OK;
    if (charges && !processes_within_quota(guard, vdev, bytes)) {
        process_refuse(guard, process, vdev, bytes,
                       call->kind == RM_KIND_DUP ? "DUP_OBJECT" : "IMPORT_OBJECT_FROM_FD");
        return RM_ERR_NO_MEMORY;
    }
    rc = charges ? objects_add_memory(guard->objects, call->client, parent, handle, vdev, bytes)
                 : objects_add_foreign(guard->objects, call->client, parent, handle, vdev, bytes);
    return rc < 0 ? RM_ERR_NO_MEMORY : RM_OK;
}

/* By a duplicate of a group its channels could be scheduled unseen. */
static bool is_group(const struct guard_file *file, uint32_t client, uint32_t handle)
{
    struct rm_handle_info info = {.object = handle, .index = RM_HANDLE_CLASS};

    return rm_control(file->fd, client, client, RM_CTRL_CLIENT_GET_HANDLE_INFO, &info,
                      sizeof(info)) == RM_OK &&
           info.result == RM_CLASS_CHANNEL_GROUP;
}

/* What is not known here is another process's, of an instance or of none, whose client has allowed
 * it. */
static int duplicated(struct guard *guard, const struct guard_file *file,
                      const struct rm_call *call, const struct rm_result *result,
                      struct guard_process *process)
{
    struct objects *objects = guard->objects;
    uint32_t class_id;
    bool foreign = objects_class(objects, call->source_client, call->source_handle, &class_id) < 0;
    int rc = objects_dup(objects, call->client, call->parent, result->handle, call->source_client,
                         call->source_handle);

    if (rc == 0 && foreign &&
        ((guard->config.shares && is_group(file, call->client, result->handle)) ||
         account_foreign(guard, process, file, call, call->parent, result->handle) != RM_OK))
        rc = -ENOMEM;
    if (rc < 0)
        account_take_back(guard, file, call->client, call->parent, result->handle);
    return rc;
}

static void removed(struct guard *guard, uint32_t client, uint32_t handle)
{
    objects_remove(guard->objects, client, handle);
    if (handle == client)
        client_gone(guard, client);
}

int account_known(struct guard *guard, const struct guard_file *file, const struct rm_call *call,
                  const struct rm_result *result, struct guard_process *process,
                  const struct account_place *place)
{
    int rc = client_used(guard, call->client, file, process->owner);

    switch (call->kind) {
    case RM_KIND_ALLOC:
    case RM_KIND_HEAP_ALLOC:
        rc = object_made(guard, file, call, result, place);
        if (rc < 0)
            return rc;
        break;
    case RM_KIND_FREE:
    case RM_KIND_HEAP_FREE:
        removed(guard, call->client, call->handle);
        break;
    case RM_KIND_DUP:
        rc = duplicated(guard, file, call, result, process);
        if (rc < 0)
            return rc;
        break;
    case RM_KIND_CONTROL:
    case RM_KIND_HEAP_OTHER:
    case RM_KIND_EXPORT: /* exports.c */
    case RM_KIND_IMPORT:
    case RM_KIND_DMABUF:
        break;
    }
    if (rc < 0)
        log_ratelimited(
            "guard: a call of client %#x could not be noted (%d): the audit may find a difference",
            call->client, rc);
    return 0;
}

void account_settle(struct guard *guard)
{
    struct objects_charge charge;
    struct objects_gone gone;

    while (objects_next_charge(guard->objects, &charge))
        process_charge(guard, &charge);
    while (objects_next_gone(guard->objects, &gone)) {
        if (rm_class_is_channel(gone.class_id))
            channels_remove(guard->channels, gone.client, gone.handle);
        if (gone.class_id == RM_CLASS_DEVICE)
            cards_forget_device(guard, gone.client, gone.handle);
    }
}
