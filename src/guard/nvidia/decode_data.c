/* What the addresses in a call lead to: parameters, exported and imported handles. */
#include "guard/nvidia/decode_internal.h"

#include <errno.h>
#include <string.h>

static void memory_params(struct rm_call *call, const void *params, size_t bytes)
{
    struct rm_memory_params memory;

    if (bytes < sizeof(memory)) {
        decode_refuse(call, RM_ERR_INVALID_ADDRESS);
        return;
    }
    memcpy(&memory, params, sizeof(memory));
    decode_charge(call, &(struct alloc_request){memory.flags, memory.attr, memory.attr2,
                                                memory.size, memory.alignment});
}

static void fabric_params(struct rm_call *call, const void *params, size_t bytes)
{
    struct rm_fabric_params fabric;

    if (bytes < sizeof(fabric)) {
        decode_refuse(call, RM_ERR_INVALID_ADDRESS);
        return;
    }
    memcpy(&fabric, params, sizeof(fabric));
    call->holds = fabric.memory;
}

static void control_params(struct rm_call *call, const void *params, size_t bytes)
{
    struct rm_fb_info_list list;
    struct rm_schedule schedule;
    struct rm_ctxsw_stats stats;

    if (bytes < call->params_bytes) {
        decode_refuse(call, RM_ERR_INVALID_ADDRESS);
        return;
    }
    switch (call->control) {
    case RM_CTRL_FB_GET_INFO:
        memcpy(&list, params, sizeof(list));
        if (list.count > RM_FB_INFO_MAX || (list.count && !list.items)) {
            decode_refuse(call, RM_ERR_INVALID_ARGUMENT);
            break;
        }
        call->list = list.items;
        call->list_bytes = list.count * (uint32_t)sizeof(struct rm_fb_info_item);
        break;
    case RM_CTRL_GROUP_SCHEDULE:
    case RM_CTRL_CHANNEL_SCHEDULE:
        memcpy(&schedule, params, sizeof(schedule.enable));
        call->schedules = schedule.enable;
        if (!schedule.enable && !call->may_unschedule)
            decode_refuse(call, RM_ERR_INSUFFICIENT_PERMISSIONS);
        break;
    case RM_CTRL_GR_GET_CTXSW_STATS: /* the guard reads the same counts */
        memcpy(&stats, params, sizeof(stats));
        if (stats.flags & RM_CTXSW_RESET)
            decode_refuse(call, RM_ERR_INSUFFICIENT_PERMISSIONS);
        break;
    }
}

void decode_bound(const struct rm_call *call, void *params, size_t bytes)
{
    struct rm_timeslice slice;

    if (call->kind != RM_KIND_CONTROL || call->control != RM_CTRL_GROUP_SET_TIMESLICE ||
        bytes < sizeof(slice))
        return;
    memcpy(&slice, params, sizeof(slice));
    if (slice.us > RM_TIMESLICE_MOST_US)
        slice.us = RM_TIMESLICE_MOST_US;
    memcpy(params, &slice, sizeof(slice));
}

int decode_params(struct rm_call *call, const void *params, size_t bytes)
{
    if (call->action != RM_EXECUTE || bytes > call->params_bytes)
        return -EINVAL;
    if (call->kind == RM_KIND_ALLOC && call->class_id == RM_CLASS_MEMORY_LOCAL_USER)
        memory_params(call, params, bytes);
    else if (call->kind == RM_KIND_ALLOC && call->class_id == RM_CLASS_MEMORY_FABRIC)
        fabric_params(call, params, bytes);
    else if (call->shows_file &&
             bytes <
                 sizeof(
                     uint64_t)) /* the missing bytes would be 0, which is one of our descriptors */
        decode_refuse(call, RM_ERR_INVALID_ADDRESS);
    else if (call->kind == RM_KIND_CONTROL)
        control_params(call, params, bytes);
    return 0;
}

/* -EINVAL: more than the driver takes. */
static int take(struct rm_transfer *transfer, uint32_t first, uint32_t count, uint32_t most,
                const void *handles)
{
    if (count > most)
        return -EINVAL;
    transfer->first = first;
    transfer->count = count;
    memcpy(transfer->handle, handles, count * sizeof(transfer->handle[0]));
    return 0;
}

/* If the driver has found nothing in a place, the handle there still is the caller's. */
static int take_imports(struct rm_transfer *transfer, const struct rm_import_objects *imports)
{
    int rc = take(transfer, imports->index, imports->count, RM_IMPORT_MAX, imports->object);

    for (unsigned i = 0; rc == 0 && i < transfer->count; i++) {
        if (imports->type[i] == RM_IMPORT_NONE)
            transfer->handle[i] = 0;
    }
    return rc;
}

static int take_dmabuf(struct rm_transfer *transfer, const struct rm_branch *branch,
                       const uint8_t *data, size_t bytes)
{
    struct rm_dmabuf head;

    if (bytes < branch->dmabuf_bytes)
        return -EINVAL;
    memcpy(&head, data, sizeof(head));
    transfer->fd = head.fd;
    return take(transfer, head.index, head.count, RM_DMABUF_MAX, data + branch->dmabuf_handles_at);
}

int decode_transfer(const struct rm_branch *branch, const struct rm_call *call, const void *data,
                    size_t bytes, struct rm_transfer *ret_transfer)
{
    union {
        struct rm_export_object export_one;
        struct rm_export_objects exports;
        struct rm_import_object import_one;
        struct rm_import_objects imports;
    } of;

    *ret_transfer = (struct rm_transfer){0};
    if (call->action != RM_EXECUTE)
        return -EINVAL;
    if (call->kind == RM_KIND_DMABUF)
        return take_dmabuf(ret_transfer, branch, data, bytes);
    if ((call->kind != RM_KIND_EXPORT && call->kind != RM_KIND_IMPORT) ||
        bytes < call->params_bytes)
        return -EINVAL;
    memcpy(&of, data, call->params_bytes);
    switch (call->control) {
    case RM_CTRL_EXPORT_OBJECT:
        ret_transfer->fd = of.export_one.fd;
        return take(ret_transfer, 0, 1, 1, &of.export_one.object);
    case RM_CTRL_EXPORT_OBJECTS:
        ret_transfer->fd = of.exports.fd;
        return take(ret_transfer, of.exports.index, of.exports.count, RM_EXPORT_MAX,
                    of.exports.object);
    case RM_CTRL_IMPORT_OBJECT:
        ret_transfer->fd = of.import_one.fd;
        ret_transfer->parent = of.import_one.parent;
        return take(ret_transfer, 0, 1, 1, &of.import_one.object);
    default:
        ret_transfer->fd = of.imports.fd;
        ret_transfer->parent = of.imports.parent;
        return take_imports(ret_transfer, &of.imports);
    }
}

void decode_set_fd(const struct rm_call *call, void *data, int fd)
{
    size_t at = call->control == RM_CTRL_EXPORT_OBJECT ? offsetof(struct rm_export_object, fd) : 0;
    int32_t number = fd;

    memcpy((char *)data + at, &number, sizeof(number));
}

_Static_assert(offsetof(struct rm_export_objects, fd) == 0 &&
                   offsetof(struct rm_import_object, fd) == 0 &&
                   offsetof(struct rm_import_objects, fd) == 0 &&
                   offsetof(struct rm_dmabuf, fd) == 0,
               "descriptors come first");
