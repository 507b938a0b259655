#include "guard/nvidia/account.h"

#include "guard/notify/ratelimit.h"
#include "guard/nvidia/vdevs.h"
#include "guard/nvidia/quota.h"
#include "guard/nvidia/request.h"
#include "guard/nvidia/rm.h"

#include <errno.h>

void account_settle(struct nvidia *nvidia)
{
    struct objects_charge charge;
    struct objects_gone gone;

    while (objects_next_charge(nvidia->objects, &charge))
        process_charge(nvidia->notify, charge.owner, charge.vdev, charge.bytes);
    while (objects_next_gone(nvidia->objects, &gone)) {
        if (rm_class_is_channel(gone.class_id))
            channels_remove(nvidia->channels, gone.client, gone.handle);
        if (gone.class_id == RM_CLASS_DEVICE)
            vdevs_forget_device(nvidia, gone.client, gone.handle);
    }
}

void account_client_gone(struct nvidia *nvidia, uint32_t client)
{
    channels_remove_client(nvidia->channels, client);
    clients_remove(&nvidia->clients, client);
}

/* The driver has taken a call for a client through a file, so the client is the file's. -ENOSPC,
 * -ENOMEM: too many. */
static int note_client(struct request *request)
{
    struct nvidia *nvidia = request->nvidia;
    uint32_t client = request->call.client, owner = request->process->owner,
             file = clients_file(&nvidia->clients, client);
    int rc = 0;

    if (file && file != request->file->number) {
        /* The other client of that name is gone. */
        objects_remove(nvidia->objects, client, client);
        account_client_gone(nvidia, client);
        file = 0;
    }
    if (!file)
        rc = clients_add(&nvidia->clients, client, request->file->number, owner);
    return rc < 0 ? rc : objects_client(nvidia->objects, client, owner);
}

void account_take_back(struct request *request, uint32_t parent, uint32_t handle)
{
    uint32_t client = request->call.client;

    if (rm_free(request->file->fd, client, parent, handle) != RM_OK)
        log_ratelimited("guard: %#x of client %#x, which must not be, could not be freed", handle,
                        client);
    objects_remove(request->nvidia->objects, client, handle);
}

/* A channel that cannot be switched would ignore every cap: it must not exist. */
static int channel_made(struct request *request)
{
    const struct rm_place *place = &request->place;
    const struct channels_new_one one = {.fd = request->file->fd,
                                         .client = request->call.client,
                                         .subdevice = place->subdevice,
                                         .group = place->group,
                                         .channel = request->result.handle,
                                         .vdev = place->vdev};
    int rc = vdevs_begin_share(request->nvidia, place->vdev);

    if (rc == 0)
        rc = channels_add(request->nvidia->channels, &one);
    if (rc < 0)
        log_ratelimited("guard: a channel is refused: there is no room for more of them, or it "
                        "cannot be switched (%d)",
                        rc);
    return rc;
}

/*
 * A peer on PCIe, a network card, finds memory by the process that has made this object
 * (third_party_p2p.c). That is the supervisor, so the driver is told of the program, too.
 */
static void register_process(const struct request *request)
{
    uint32_t client = request->call.client;
    int rc = rm_control(request->file->fd, client, request->result.handle, RM_CTRL_P2P_REGISTER_PID,
                        &client, sizeof(client));

    if (rc != RM_OK)
        log_debug("guard: client %#x cannot be registered for GPUDirect RDMA: %#x", client,
                  (unsigned)rc);
}

static int add_object(struct request *request)
{
    struct objects *objects = request->nvidia->objects;
    const struct rm_call *call = &request->call;
    const struct rm_result *result = &request->result;

    if (call->charges)
        return objects_add_memory(objects, call->client, call->parent, result->handle,
                                  request->place.vdev, result->charge_bytes);
    if (call->holds)
        return objects_add_holding(objects, call->client, call->parent, result->handle,
                                   call->class_id, call->holds);
    return objects_add(objects, call->client, call->parent, result->handle, call->class_id);
}

/* What cannot be noted must not exist. */
static int object_made(struct request *request)
{
    int rc = add_object(request);

    account_settle(
        request->nvidia); /* an old channel of this handle goes before the new one comes */
    if (rc == 0 && request->call.class_id == RM_CLASS_THIRD_PARTY_P2P)
        register_process(request);
    if (rc == 0 && request->place.is_channel)
        rc = channel_made(request);
    if (rc < 0)
        account_take_back(request, request->call.parent, request->result.handle);
    return rc;
}

/* How much memory of the device an object is; 0: it is none. */
static uint64_t ask_bytes(const struct request *request, uint32_t handle)
{
    struct rm_fb_info_item items[] = {{RM_SURFACE_ADDRESS_SPACE, 0}, {RM_SURFACE_SIZE, 0}};
    struct rm_fb_info_list list = {.count = 2, .items = (uintptr_t)items};

    if (rm_control(request->file->fd, request->call.client, handle, RM_CTRL_SURFACE_INFO, &list,
                   sizeof(list)) != RM_OK ||
        items[0].value != RM_SURFACE_VIDMEM)
        return 0;
    return items[1].value * 4096ULL;
}

uint32_t account_foreign(struct request *request, uint32_t parent, uint32_t handle)
{
    struct nvidia *nvidia = request->nvidia;
    const struct rm_call *call = &request->call;
    uint64_t bytes = ask_bytes(request, handle);
    unsigned vdev;
    int rc;

    if (bytes == 0 || vdevs_find(nvidia, request->file, call->client, parent, &vdev) < 0)
        return RM_OK;
    if (nvidia->strict && !quota_leaves(nvidia, vdev, bytes)) {
        quota_refuse(nvidia, request->process, vdev, bytes,
                     call->kind == RM_KIND_DUP ? "DUP_OBJECT" : "IMPORT_OBJECT_FROM_FD");
        return RM_ERR_NO_MEMORY;
    }
    rc = nvidia->strict
             ? objects_add_memory(nvidia->objects, call->client, parent, handle, vdev, bytes)
             : objects_add_foreign(nvidia->objects, call->client, parent, handle, vdev, bytes);
    return rc < 0 ? RM_ERR_NO_MEMORY : RM_OK;
}

/* Through a duplicate of a group its channels could be scheduled unseen. */
static bool is_group(const struct request *request)
{
    struct rm_handle_info info = {.object = request->result.handle, .index = RM_HANDLE_CLASS};
    uint32_t client = request->call.client;

    return rm_control(request->file->fd, client, client, RM_CTRL_CLIENT_GET_HANDLE_INFO, &info,
                      sizeof(info)) == RM_OK &&
           info.result == RM_CLASS_CHANNEL_GROUP;
}

/* A source that is not known here is another process's, of an instance or of none, whose client has
 * allowed it. */
static int duplicated(struct request *request)
{
    struct objects *objects = request->nvidia->objects;
    const struct rm_call *call = &request->call;
    uint32_t class_id, handle = request->result.handle;
    bool foreign = objects_class(objects, call->source_client, call->source_handle, &class_id) < 0;
    int rc = objects_dup(objects, call->client, call->parent, handle, call->source_client,
                         call->source_handle);

    if (rc == 0 && foreign &&
        ((request->nvidia->shares && is_group(request)) ||
         account_foreign(request, call->parent, handle) != RM_OK))
        rc = -ENOMEM;
    if (rc < 0)
        account_take_back(request, call->parent, handle);
    return rc;
}

static void freed(struct request *request)
{
    const struct rm_call *call = &request->call;

    objects_remove(request->nvidia->objects, call->client, call->handle);
    if (call->handle == call->client)
        account_client_gone(request->nvidia, call->client);
}

int account_note(struct request *request)
{
    int noted = note_client(request), rc = 0;

    switch (request->call.kind) {
    case RM_KIND_ALLOC:
    case RM_KIND_HEAP_ALLOC:
        rc = noted = object_made(request);
        break;
    case RM_KIND_FREE:
    case RM_KIND_HEAP_FREE:
        freed(request);
        break;
    case RM_KIND_DUP:
        rc = noted = duplicated(request);
        break;
    case RM_KIND_CONTROL:
    case RM_KIND_HEAP_OTHER:
    case RM_KIND_EXPORT: /* exports.c */
    case RM_KIND_IMPORT:
    case RM_KIND_DMABUF:
        break;
    }
    if (noted < 0 && rc == 0)
        log_ratelimited(
            "guard: a call of client %#x could not be noted (%d): the audit may find a difference",
            request->call.client, noted);
    return rc;
}
