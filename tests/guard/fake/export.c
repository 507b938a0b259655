/*
 * What files hold: duplicates of objects, in nobody's name, until the file is closed by everybody
 * who has it.
 */
#include "fakerm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DMABUF_GREW 570u /* branches from here on */

struct slot {
    bool used, system;
    uint32_t class_id;
    struct reference reference;
};

static void clear(struct slot *slot)
{
    if (slot->used)
        memory_drop(&slot->reference);
    *slot = (struct slot){0};
}

void export_file_closed(struct file *file)
{
    for (unsigned i = 0; i < file->slot_count; i++)
        clear(&file->slots[i]);
    free(file->slots);
    file->slots = NULL;
    file->slot_count = 0;
}

static uint32_t check(const struct client *client, const uint32_t *handles, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct object *object = handles[i] ? object_find(client, handles[i]) : NULL;

        if (handles[i] && !object)
            return RM_ERR_OBJECT_NOT_FOUND;
        if (object && !object->reference.memory && !object->system)
            return RM_ERR_NOT_SUPPORTED;
    }
    return RM_OK;
}

/* Under the lock. Where the file has no slots yet it gets `room`. */
static uint32_t hold(struct file *file, const struct client *client, uint32_t room, uint32_t first,
                     const uint32_t *handles, uint32_t count)
{
    uint32_t status;

    if (!file->slots && room == 0)
        return RM_ERR_INVALID_PARAMETER;
    if ((uint64_t)first + count > (file->slots ? file->slot_count : room))
        return RM_ERR_OUT_OF_RANGE;
    status = check(client, handles, count);
    if (status != RM_OK)
        return status;
    if (!file->slots) {
        file->slots = calloc(room, sizeof(*file->slots));
        if (!file->slots)
            return RM_ERR_NO_MEMORY;
        file->slot_count = room;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct object *object = handles[i] ? object_find(client, handles[i]) : NULL;
        struct slot *slot = &file->slots[first + i];

        clear(slot);
        if (!object)
            continue;
        *slot = (struct slot){.used = true, .system = object->system, .class_id = object->class_id};
        if (object->reference.memory)
            memory_share(&object->reference, 0, &slot->reference);
    }
    return RM_OK;
}

static uint32_t make(struct client *client, struct object *parent, struct slot *slot,
                     uint32_t *handle)
{
    struct object *object;
    uint32_t status = object_new(client, parent, handle, slot->class_id, &object);

    if (status != RM_OK)
        return status;
    object->system = slot->system;
    if (slot->reference.memory)
        memory_share(&slot->reference, client->pid, &object->reference);
    return RM_OK;
}

/* Under the lock. All or none. */
static uint32_t take(const struct file *file, struct client *client, uint32_t parent_handle,
                     uint32_t first, uint32_t *handles, uint8_t *ret_types, uint32_t count)
{
    struct object *parent = object_find(client, parent_handle);

    if (!file->slots)
        return RM_ERR_INVALID_PARAMETER;
    if ((uint64_t)first + count > file->slot_count)
        return RM_ERR_OUT_OF_RANGE;
    if (!parent || (parent->class_id != RM_CLASS_DEVICE && parent->class_id != RM_CLASS_SUBDEVICE))
        return RM_ERR_INVALID_OBJECT_PARENT;
    for (uint32_t i = 0; i < count; i++) {
        struct slot *slot = &file->slots[first + i];
        uint32_t status;

        ret_types[i] = !slot->used    ? RM_IMPORT_NONE
                       : slot->system ? RM_IMPORT_SYSMEM
                                      : RM_IMPORT_VIDMEM;
        if (!slot->used)
            continue;
        status = make(client, parent, slot, &handles[i]);
        if (status == RM_OK)
            continue;
        while (i-- > 0)
            if (ret_types[i] != RM_IMPORT_NONE)
                object_free(object_find(client, handles[i]));
        return status;
    }
    return RM_OK;
}

static uint32_t control_locked(const struct rm_control *control, struct file *file,
                               struct client *client, void *params)
{
    struct rm_export_object *export_one = params;
    struct rm_export_objects *exports = params;
    struct rm_import_object *import_one = params;
    struct rm_import_objects *imports = params;
    uint8_t type;

    switch (control->cmd) {
    case RM_CTRL_EXPORT_OBJECT:
        if (export_one->type != RM_OBJECT_TYPE_RM || export_one->flags & 1)
            return RM_ERR_INVALID_PARAMETER;
        if (file->slots)
            return RM_ERR_STATE_IN_USE;
        return export_one->object ? hold(file, client, 1, 0, &export_one->object, 1)
                                  : RM_ERR_OBJECT_NOT_FOUND;
    case RM_CTRL_EXPORT_OBJECTS:
        if (exports->count > RM_EXPORT_MAX)
            return RM_ERR_INVALID_PARAMETER;
        return hold(file, client, exports->room, exports->index, exports->object, exports->count);
    case RM_CTRL_IMPORT_OBJECT:
        if (import_one->type != RM_OBJECT_TYPE_RM || !file->slots || !file->slots[0].used)
            return RM_ERR_INVALID_PARAMETER;
        return take(file, client, import_one->parent, 0, &import_one->object, &type, 1);
    default:
        if (imports->count > RM_IMPORT_MAX)
            return RM_ERR_INVALID_PARAMETER;
        return take(file, client, imports->parent, imports->index, imports->object, imports->type,
                    imports->count);
    }
}

uint32_t export_control(struct call *call, const struct rm_control *control, void *params)
{
    size_t fd_at =
        control->cmd == RM_CTRL_EXPORT_OBJECT ? offsetof(struct rm_export_object, fd) : 0;
    struct client *client;
    struct file *file;
    uint32_t status;
    int32_t fd;
    int own;

    memcpy(&fd, (char *)params + fd_at, sizeof(fd));
    file = caller_file(call->tid, fd, &own);
    pthread_mutex_lock(&state_lock);
    client = client_of_file(control->client, call->file);
    if (!client)
        status = RM_ERR_INVALID_CLIENT;
    else if (control->object != control->client)
        status =
            object_find(client, control->object) ? RM_ERR_NOT_SUPPORTED : RM_ERR_OBJECT_NOT_FOUND;
    else
        status = file ? control_locked(control, file, client, params) : RM_ERR_INVALID_PARAMETER;
    pthread_mutex_unlock(&state_lock);
    if (file)
        close(own);
    return status;
}

int private_hold(struct call *call, void *arg)
{
    struct fakerm_hold *request = arg;
    struct client *client;

    pthread_mutex_lock(&state_lock);
    client = client_find(request->client);
    if (!client)
        request->status = RM_ERR_INVALID_CLIENT;
    else if (request->count > RM_DMABUF_MAX)
        request->status = RM_ERR_INVALID_ARGUMENT;
    else
        request->status = hold(call->file, client, request->total, request->first, request->handle,
                               request->count);
    pthread_mutex_unlock(&state_lock);
    return 0;
}

int private_who(struct call *call, void *arg)
{
    struct fakerm_who *who = arg;

    who->file = (uintptr_t)call->file;
    return 0;
}

/* As a kernel without dma-bufs has it. */
int export_dmabuf(struct call *call, void *arg)
{
    const uint32_t bytes = settings.branch < DMABUF_GREW ? 2600 : 2608,
                   status = RM_ERR_NOT_SUPPORTED;

    if (_IOC_SIZE(call->cmd) != bytes)
        return -EINVAL;
    if (caller_read(call->tid, call->arg, arg, bytes) < 0)
        return -EFAULT;
    memcpy((char *)arg + bytes - 8, &status, sizeof(status));
    return call->out_bytes ? 0 : caller_write(call->tid, call->arg, arg, bytes);
}
