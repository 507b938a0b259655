/* Whether a call may be made, and where what it makes will be. */
#include "guard/notify/ratelimit.h"
#include "guard/nvidia/vdevs.h"
#include "guard/nvidia/lifetime.h"
#include "guard/nvidia/quota.h"
#include "guard/nvidia/request.h"

/* A program that is refused again and again is not worth more. */
#define CHECK_AGAIN_NS (20 * NS_PER_MS)

/* A channel has to be switched, so its device has to be known. */
static bool place_channel(struct request *request)
{
    struct nvidia *nvidia = request->nvidia;
    const struct rm_call *call = &request->call;
    struct rm_place *place = &request->place;
    uint32_t device;

    if (call->kind != RM_KIND_ALLOC || !rm_class_is_channel(call->class_id) || !nvidia->shares)
        return true;
    if (objects_device(nvidia->objects, call->client, call->parent, &device) < 0 ||
        vdevs_find(nvidia, request->file, call->client, device, &place->vdev) < 0 ||
        vdevs_subdevice(nvidia, request->file, call->client, device, &place->subdevice) < 0) {
        log_ratelimited("guard: a channel is refused: on which GPU it would be cannot be told");
        return false;
    }
    place->is_channel = true;
    place->group = call->parent == device ? 0 : call->parent;
    return true;
}

/* The driver makes memory only beneath devices and subdevices, which calls make that the guard
 * executes. */
static bool is_memory_parent(const struct nvidia *nvidia, const struct rm_call *call)
{
    uint32_t class_id;

    return objects_class(nvidia->objects, call->client, call->parent, &class_id) == 0 &&
           (class_id == RM_CLASS_DEVICE || class_id == RM_CLASS_SUBDEVICE);
}

/* Whether there is room for what the call asks for. The lock is held until the call is noted, so no
 * other call takes it. */
static uint32_t place_memory(struct request *request)
{
    struct nvidia *nvidia = request->nvidia;
    const struct rm_call *call = &request->call;
    unsigned vdev;

    if (!is_memory_parent(nvidia, call) ||
        vdevs_find(nvidia, request->file, call->client, call->parent, &vdev) < 0)
        return RM_ERR_INSUFFICIENT_PERMISSIONS;
    request->place.vdev = vdev;
    if (quota_leaves(nvidia, vdev, call->charge_bytes))
        return RM_OK;
    /* What programs let go of without a call, by exec() or munmap(), is found by looking. */
    lifetime_check(nvidia, CHECK_AGAIN_NS);
    if (quota_leaves(nvidia, vdev, call->charge_bytes))
        return RM_OK;
    quota_refuse(nvidia, request->process, vdev, call->charge_bytes,
                 call->kind == RM_KIND_HEAP_ALLOC ? "VID_HEAP_CONTROL" : "RM_ALLOC");
    return RM_ERR_NO_MEMORY;
}

/* Its channels could be scheduled by the other name, unseen. */
static bool duplicates_group(const struct nvidia *nvidia, const struct rm_call *call)
{
    uint32_t class_id;

    return call->kind == RM_KIND_DUP && nvidia->shares &&
           objects_class(nvidia->objects, call->source_client, call->source_handle, &class_id) ==
               0 &&
           class_id == RM_CLASS_CHANNEL_GROUP;
}

static uint32_t check_free(struct request *request)
{
    struct nvidia *nvidia = request->nvidia;
    const struct rm_call *call = &request->call;

    if (vdevs_own(nvidia, call->client, call->handle)) /* the guard's own: the program has none */
        return RM_ERR_OBJECT_NOT_FOUND;
    return vdevs_let_go(nvidia, request->file, call->client, call->handle) == 0
               ? RM_OK
               : RM_ERR_INSUFFICIENT_RESOURCES;
}

uint32_t request_check(struct request *request)
{
    struct nvidia *nvidia = request->nvidia;
    const struct rm_call *call = &request->call;

    request->place = (struct rm_place){0};
    if (call->kind == RM_KIND_FREE || call->kind == RM_KIND_HEAP_FREE)
        return check_free(request);
    if (objects_reserve(nvidia->objects) < 0 || !clients_has_room(&nvidia->clients, call->client))
        return RM_ERR_NO_MEMORY;
    if (!place_channel(request) || duplicates_group(nvidia, call))
        return RM_ERR_INSUFFICIENT_PERMISSIONS;
    return call->charges ? place_memory(request) : RM_OK;
}
