/*
 * VID_HEAP_CONTROL: the older way to video memory.
 */
#include "fakerm.h"

#define LOCATION_PCI 1u

/* Which object an allocation by heap control makes: system or virtual memory has no part in the
 * heap. */
static uint32_t class_of(uint32_t flags, uint32_t attr)
{
    if (flags & RM_MEMORY_FLAG_VIRTUAL)
        return RM_CLASS_MEMORY_VIRTUAL;
    return RM_MEMORY_ATTR_LOCATION(attr) == LOCATION_PCI ? RM_CLASS_MEMORY_SYSTEM
                                                         : RM_CLASS_MEMORY_LOCAL_USER;
}

static uint32_t alloc(struct call *call, const struct rm_vid_heap_control *heap, uint32_t *handle,
                      uint32_t flags, uint32_t attr, uint64_t *size)
{
    uint32_t class_id = class_of(flags, attr), made = *handle, status;
    struct client *client = client_of_file(heap->root, call->file);
    struct object *parent, *object;

    if (!client)
        return RM_ERR_INVALID_CLIENT;
    parent = object_find(client, heap->parent);
    if (!parent || (parent->class_id != RM_CLASS_DEVICE && parent->class_id != RM_CLASS_SUBDEVICE))
        return RM_ERR_INVALID_OBJECT_PARENT;
    status = object_new(client, parent, &made, class_id, &object);
    if (status != RM_OK)
        return status;
    object->system = class_id != RM_CLASS_MEMORY_LOCAL_USER;
    if (!object->system) {
        status = memory_new((unsigned)object->gpu, *size, client->pid, &object->reference);
        if (status != RM_OK) {
            object_free(object);
            return status;
        }
        *size = object->reference.memory->bytes;
        book.last_allocation_pid = caller_process(call->tid);
    }
    *handle = made;
    return RM_OK;
}

static uint32_t release(const struct call *call, const struct rm_vid_heap_control *heap)
{
    struct client *client = client_of_file(heap->root, call->file);
    struct object *object = client ? object_find(client, heap->u.free_.handle) : NULL;

    if (!client)
        return RM_ERR_INVALID_CLIENT;
    if (!object || (!object->reference.memory && !object->system))
        return RM_ERR_OBJECT_NOT_FOUND;
    object_free(object);
    return RM_OK;
}

static uint32_t tell(const struct call *call, struct rm_vid_heap_control *heap)
{
    struct client *client = client_of_file(heap->root, call->file);
    struct object *parent = client ? object_find(client, heap->parent) : NULL;

    if (!client)
        return RM_ERR_INVALID_CLIENT;
    if (!parent || parent->gpu < 0)
        return RM_ERR_INVALID_OBJECT_PARENT;
    heap->total = settings.mem_bytes;
    heap->free = settings.mem_bytes - gpus[parent->gpu].used;
    return RM_OK;
}

int heap_ioctl(struct call *call, void *arg)
{
    struct rm_vid_heap_control *heap = arg;

    pthread_mutex_lock(&state_lock);
    book.calls[BOOK_HEAP]++;
    switch (heap->function) {
    case RM_HEAP_ALLOC_SIZE:
        heap->status = alloc(call, heap, &heap->u.alloc.handle, heap->u.alloc.flags,
                             heap->u.alloc.attr, &heap->u.alloc.size);
        break;
    case RM_HEAP_ALLOC_TILED_PITCH:
        heap->u.tiled.size = heap->u.tiled.height * (uint64_t)(int64_t)heap->u.tiled.pitch;
        heap->status = alloc(call, heap, &heap->u.tiled.handle, heap->u.tiled.flags,
                             heap->u.tiled.attr, &heap->u.tiled.size);
        break;
    case RM_HEAP_ALLOC_SIZE_RANGE:
        heap->status = alloc(call, heap, &heap->u.range.handle, heap->u.range.flags,
                             heap->u.range.attr, &heap->u.range.size);
        break;
    case RM_HEAP_FREE:
        heap->status = release(call, heap);
        break;
    case RM_HEAP_INFO:
        heap->status = tell(call, heap);
        break;
    case RM_HEAP_GET_MEM_ALIGNMENT:
        heap->status = client_of_file(heap->root, call->file) ? RM_OK : RM_ERR_INVALID_CLIENT;
        break;
    default:
        heap->status = RM_ERR_NOT_SUPPORTED;
    }
    pthread_mutex_unlock(&state_lock);
    return 0;
}
