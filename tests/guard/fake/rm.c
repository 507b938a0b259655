/*
 * Calls on nvidiactl. As in the driver, number and size tell a call, type and direction of the
 * ioctl are not looked at, the argument is read from the caller once it is being worked on, and
 * what is nested after that, as long as the class says. Clients belong to the open file, whoever
 * calls.
 */
#include "fakerm.h"

#include <errno.h>
#include <string.h>

#define CLASS_MEMORY_EXTENDED 0x42u
#define CLASS_VA_SPACE        0x90f1u
#define CLASS_CONFIDENTIAL    0xcb33u

#define ESC_REGISTER_FD 0xc9u

enum family {
    FAMILY_NONE,
    FAMILY_ROOT,
    FAMILY_DEVICE,
    FAMILY_SUBDEVICE,
    FAMILY_MEMORY,
    FAMILY_HOST,
    FAMILY_FABRIC,
    FAMILY_GROUP,
    FAMILY_CHANNEL,
    FAMILY_EVENT,
    FAMILY_OTHER
};

#define GROUP_ENGINE   3 /* where among the words */
#define CHANNEL_ENGINE 32

union params {
    uint32_t words[92]; /* of a channel; the others begin with an index */
    struct rm_memory_params memory;
    struct rm_fabric_params fabric;
};

static enum family family_of(uint32_t class_id)
{
    switch (class_id) {
    case RM_CLASS_ROOT:
    case RM_CLASS_ROOT_NON_PRIV:
    case RM_CLASS_ROOT_CLIENT:
        return FAMILY_ROOT;
    case RM_CLASS_DEVICE:
        return FAMILY_DEVICE;
    case RM_CLASS_SUBDEVICE:
        return FAMILY_SUBDEVICE;
    case RM_CLASS_MEMORY_LOCAL_USER:
        return FAMILY_MEMORY;
    case RM_CLASS_MEMORY_SYSTEM:
    case RM_CLASS_MEMORY_VIRTUAL:
    case CLASS_MEMORY_EXTENDED:
        return FAMILY_HOST;
    case RM_CLASS_MEMORY_FABRIC:
        return FAMILY_FABRIC;
    case RM_CLASS_CHANNEL_GROUP:
        return FAMILY_GROUP;
    case RM_CLASS_EVENT:
    case RM_CLASS_EVENT_KERNEL:
    case RM_CLASS_EVENT_OS:
    case RM_CLASS_EVENT_KERNEL_EX:
        return FAMILY_EVENT;
    case RM_CLASS_MEMORY_OS_DESCRIPTOR:
    case CLASS_VA_SPACE:
    case RM_CLASS_THIRD_PARTY_P2P:
    case CLASS_CONFIDENTIAL:
        return FAMILY_OTHER;
    }
    if (rm_class_is_channel(class_id))
        return FAMILY_CHANNEL;
    /* Engines: compute 0x..c0, copies 0x..b5, doorbells 0x..61 */
    if (class_id > 0xa000 && class_id <= 0xffff &&
        ((class_id & 0xff) == 0xc0 || (class_id & 0xff) == 0xb5 || (class_id & 0xff) == 0x61))
        return FAMILY_OTHER;
    return FAMILY_NONE;
}

static size_t params_bytes(enum family family)
{
    static const size_t bytes[] = {
        [FAMILY_ROOT] = 4,   [FAMILY_DEVICE] = 56, [FAMILY_SUBDEVICE] = 4, [FAMILY_MEMORY] = 128,
        [FAMILY_HOST] = 128, [FAMILY_FABRIC] = 48, [FAMILY_GROUP] = 20,    [FAMILY_CHANNEL] = 368,
        [FAMILY_EVENT] = 24, [FAMILY_OTHER] = 0,
    };

    return bytes[family];
}

static bool parent_fits(enum family family, const struct object *parent)
{
    switch (family) {
    case FAMILY_DEVICE:
        return !parent->parent;
    case FAMILY_SUBDEVICE:
    case FAMILY_GROUP:
        return parent->class_id == RM_CLASS_DEVICE;
    case FAMILY_FABRIC:
        return parent->class_id == RM_CLASS_SUBDEVICE;
    case FAMILY_MEMORY:
    case FAMILY_HOST:
        return parent->class_id == RM_CLASS_DEVICE || parent->class_id == RM_CLASS_SUBDEVICE;
    case FAMILY_CHANNEL:
        return parent->class_id == RM_CLASS_DEVICE || parent->class_id == RM_CLASS_CHANNEL_GROUP;
    default:
        return true;
    }
}

static uint32_t construct_memory(struct object *object, struct rm_memory_params *params)
{
    static uint64_t last_offset = 0x200000000ULL;
    uint32_t status;

    if (params->flags & RM_MEMORY_FLAG_VIRTUAL)
        return RM_OK;
    status =
        memory_new((unsigned)object->gpu, params->size, object->client->pid, &object->reference);
    if (status != RM_OK)
        return status;
    params->size = object->reference.memory->bytes;
    params->offset = last_offset;
    params->limit = params->size - 1;
    last_offset += params->size;
    return RM_OK;
}

/* An address on the fabric for memory, of which the driver takes a duplicate into a client of its
 * own (mem_fabric.c).
 */
static uint32_t construct_fabric(struct object *object, const union params *params)
{
    struct object *memory = object_find(object->client, params->fabric.memory);

    if (!memory || !memory->reference.memory)
        return RM_ERR_INVALID_ARGUMENT;
    memory_share(&memory->reference, 0, &object->reference);
    return RM_OK;
}

static uint32_t construct(struct object *object, enum family family, union params *params)
{
    switch (family) {
    case FAMILY_DEVICE:
        if (params->words[0] >= settings.gpus)
            return RM_ERR_INVALID_DEVICE;
        object->gpu = (int)params->words[0];
        return RM_OK;
    case FAMILY_SUBDEVICE:
        return params->words[0] ? RM_ERR_INVALID_ARGUMENT : RM_OK;
    case FAMILY_MEMORY:
        return construct_memory(object, &params->memory);
    case FAMILY_FABRIC:
        return construct_fabric(object, params);
    case FAMILY_HOST:
        object->system = true;
        return params->memory.size ? RM_OK : RM_ERR_INVALID_ARGUMENT;
    case FAMILY_GROUP:
        object->group =
            gpu_group_new((unsigned)object->gpu, object->client, params->words[GROUP_ENGINE]);
        return object->group ? RM_OK : RM_ERR_NO_MEMORY;
    case FAMILY_CHANNEL:
        object->channel = gpu_channel_new((unsigned)object->gpu, object->client,
                                          object->parent->group, params->words[CHANNEL_ENGINE]);
        return object->channel ? RM_OK : RM_ERR_NO_MEMORY;
    default:
        return RM_OK;
    }
}

static uint32_t alloc_locked(struct call *call, uint32_t root, uint32_t parent_handle,
                             uint32_t *handle, uint32_t class_id, union params *params)
{
    enum family family = family_of(class_id);
    struct client *client = call->file->node == NODE_CTL
                                ? client_of_file(root, call->file)
                                : client_of_process(root, caller_process(call->tid));
    struct object *parent, *object;
    uint32_t made = *handle, status;

    if (!client)
        return RM_ERR_INVALID_CLIENT;
    parent = object_find(client, parent_handle);
    if (!parent || !parent_fits(family, parent))
        return RM_ERR_INVALID_OBJECT_PARENT;
    status = object_new(client, parent, &made, class_id, &object);
    if (status != RM_OK)
        return status;
    status = construct(object, family, params);
    if (status != RM_OK) {
        object_free(object);
        return status;
    }
    if (object->reference.memory)
        book.last_allocation_pid = caller_process(call->tid);
    *handle = made;
    return RM_OK;
}

static uint32_t alloc(struct call *call, uint32_t root, uint32_t parent, uint32_t *handle,
                      uint32_t class_id, uint64_t params_address)
{
    enum family family = family_of(class_id);
    size_t bytes = params_bytes(family);
    union params params;
    uint32_t status;

    memset(&params, 0, sizeof(params));
    if (family == FAMILY_NONE)
        return RM_ERR_INVALID_CLASS;
    if (params_address == 0 && (family == FAMILY_MEMORY || family == FAMILY_HOST ||
                                family == FAMILY_FABRIC || family == FAMILY_CHANNEL))
        return RM_ERR_INVALID_ARGUMENT;
    if (params_address && caller_read(call->tid, params_address, &params, bytes) < 0)
        return RM_ERR_INVALID_ADDRESS;
    if (family == FAMILY_ROOT) {
        pid_t process = caller_process(call->tid);

        pthread_mutex_lock(&state_lock);
        book.calls[BOOK_ROOT]++;
        status = client_new(call->file, process, handle);
        pthread_mutex_unlock(&state_lock);
        params.words[0] = *handle;
    } else if (family == FAMILY_DEVICE && params.words[0] < settings.gpus &&
               !caller_has_card(call->tid, params.words[0])) {
        return RM_ERR_INSUFFICIENT_PERMISSIONS;
    } else {
        pthread_mutex_lock(&state_lock);
        book.calls[BOOK_ALLOC]++;
        status = alloc_locked(call, root, parent, handle, class_id, &params);
        pthread_mutex_unlock(&state_lock);
    }
    if (status == RM_OK && params_address)
        caller_write(call->tid, params_address, &params, bytes);
    return status;
}

static void count(enum book_call kind)
{
    pthread_mutex_lock(&state_lock);
    book.calls[kind]++;
    pthread_mutex_unlock(&state_lock);
}

/* On a card's node events are made, and nothing else. */
static bool is_made_here(const struct call *call, uint32_t class_id)
{
    if (call->file->node == NODE_CTL || family_of(class_id) == FAMILY_EVENT)
        return true;
    count(BOOK_MALFORMED);
    return false;
}

/* What is asked for there does not matter here, but the driver wants to see it. */
static bool has_rights(const struct call *call, uint64_t address)
{
    uint32_t mask;

    return address == 0 || caller_read(call->tid, address, &mask, sizeof(mask)) == 0;
}

static int alloc_ioctl(struct call *call, void *arg)
{
    struct rm_alloc *request = arg;

    if (!is_made_here(call, request->class_id))
        return -EINVAL;
    if (!has_rights(call, request->rights)) {
        request->status = RM_ERR_INVALID_ADDRESS;
        return 0;
    }
    request->status = alloc(call, request->root, request->parent, &request->handle,
                            request->class_id, request->params);
    return 0;
}

static int alloc_short_ioctl(struct call *call, void *arg)
{
    struct rm_alloc_short *request = arg;

    if (!is_made_here(call, request->class_id))
        return -EINVAL;
    request->status = alloc(call, request->root, request->parent, &request->handle,
                            request->class_id, request->params);
    return 0;
}

static int free_ioctl(struct call *call, void *arg)
{
    struct rm_free *request = arg;
    struct client *client;
    struct object *object;

    pthread_mutex_lock(&state_lock);
    book.calls[BOOK_FREE]++;
    client = client_of_file(request->root, call->file);
    object = client ? object_find(client, request->handle) : NULL;
    if (object)
        object_free(object);
    pthread_mutex_unlock(&state_lock);
    request->status = !client ? RM_ERR_INVALID_CLIENT : object ? RM_OK : RM_ERR_OBJECT_NOT_FOUND;
    return 0;
}

/* Memory, and channel groups of the same process and card. */
static bool may_be_duplicated(const struct object *source, const struct client *client,
                              const struct object *parent)
{
    if (source->group)
        return source->client->pid == client->pid && source->gpu == parent->gpu;
    return source->reference.memory || source->system;
}

/* From another client only if it is the same process's: the driver's policy, unless a client sets
 * another. */
static uint32_t dup_locked(const struct call *call, struct rm_dup_object *dup)
{
    struct client *client = client_of_file(dup->client, call->file),
                  *from = client_find(dup->source_client);
    struct object *source, *parent, *object;
    uint32_t handle = dup->handle, status;

    if (!client || !from)
        return RM_ERR_INVALID_CLIENT;
    source = object_find(from, dup->source_handle);
    if (!source)
        return RM_ERR_OBJECT_NOT_FOUND;
    if (from->pid != client->pid && from->may_dup != dup->client)
        return RM_ERR_INSUFFICIENT_PERMISSIONS;
    parent = object_find(client, dup->parent);
    if (!parent || !parent_fits(source->group ? FAMILY_GROUP : FAMILY_MEMORY, parent))
        return RM_ERR_INVALID_OBJECT_PARENT;
    if (!may_be_duplicated(source, client, parent))
        return RM_ERR_NOT_SUPPORTED;
    status = object_new(client, parent, &handle, source->class_id, &object);
    if (status != RM_OK)
        return status;
    object->system = source->system;
    object->group = source->group;
    if (source->group)
        source->group->duplicates++;
    if (source->reference.memory)
        memory_share(&source->reference, client->pid, &object->reference);
    dup->handle = handle;
    return RM_OK;
}

static int dup_ioctl(struct call *call, void *arg)
{
    struct rm_dup_object *dup = arg;

    pthread_mutex_lock(&state_lock);
    book.calls[BOOK_DUP]++;
    dup->status = dup_locked(call, dup);
    pthread_mutex_unlock(&state_lock);
    return 0;
}

/* Of what the driver has of it: a client lets another have duplicates of all that is its. */
static int share_ioctl(struct call *call, void *arg)
{
    struct rm_share *share = arg;
    struct client *client;

    pthread_mutex_lock(&state_lock);
    client = client_of_file(share->client, call->file);
    if (!client || !client_find(share->target)) {
        share->status = RM_ERR_INVALID_CLIENT;
    } else if (share->object != share->client || share->mask != RM_SHARE_DUP ||
               share->type != RM_SHARE_WITH_CLIENT || share->action != RM_SHARE_COMPOSE) {
        share->status = RM_ERR_NOT_SUPPORTED;
    } else {
        client->may_dup = share->target;
        share->status = RM_OK;
    }
    pthread_mutex_unlock(&state_lock);
    return 0;
}

/* The old call. It gives no video memory: class 0x40 makes an object of no size and tells how big
 * the heap is. */
static int alloc_memory_ioctl(struct call *call, void *arg)
{
    struct fakerm_alloc_memory *request = arg;
    struct client *client;
    struct object *parent, *object;

    pthread_mutex_lock(&state_lock);
    book.calls[BOOK_ALLOC_MEMORY]++;
    client = client_of_file(request->root, call->file);
    parent = client ? object_find(client, request->parent) : NULL;
    if (!client)
        request->status = RM_ERR_INVALID_CLIENT;
    else if (!parent || !parent_fits(FAMILY_MEMORY, parent))
        request->status = RM_ERR_INVALID_OBJECT_PARENT;
    else if (request->class_id != RM_CLASS_MEMORY_LOCAL_USER &&
             request->class_id != RM_CLASS_MEMORY_SYSTEM &&
             request->class_id != RM_CLASS_MEMORY_OS_DESCRIPTOR)
        request->status = RM_ERR_INVALID_CLASS;
    else
        request->status = object_new(client, parent, &request->handle, request->class_id, &object);
    if (request->status == RM_OK && request->class_id == RM_CLASS_MEMORY_LOCAL_USER)
        request->limit = settings.mem_bytes - 1;
    else if (request->status == RM_OK)
        object->system = true;
    pthread_mutex_unlock(&state_lock);
    return 0;
}

static const struct {
    uint32_t key;
    int (*handler)(struct call *call, void *arg);
} calls[] = {
    {RM_KEY(RM_ESC_ALLOC, sizeof(struct rm_alloc)), alloc_ioctl},
    {RM_KEY(RM_ESC_ALLOC, sizeof(struct rm_alloc_short)), alloc_short_ioctl},
    {RM_KEY(RM_ESC_FREE, sizeof(struct rm_free)), free_ioctl},
    {RM_KEY(RM_ESC_DUP_OBJECT, sizeof(struct rm_dup_object)), dup_ioctl},
    {RM_KEY(RM_ESC_SHARE, sizeof(struct rm_share)), share_ioctl},
    {RM_KEY(RM_ESC_CONTROL, sizeof(struct rm_control)), control_ioctl},
    {RM_KEY(RM_ESC_VID_HEAP_CONTROL, sizeof(struct rm_vid_heap_control)), heap_ioctl},
    {RM_KEY(RM_ESC_ALLOC_MEMORY, sizeof(struct fakerm_alloc_memory)), alloc_memory_ioctl},
    {RM_KEY(ESC_REGISTER_FD, 4), control_neutral},
    {RM_KEY(0xd2, 72), control_neutral}, /* CHECK_VERSION_STR */
    {RM_KEY(0xd6, 8), control_neutral},  /* SYS_PARAMS */
    {FAKERM_WHO & RM_KEY_MASK, private_who},
    {FAKERM_HOLD & RM_KEY_MASK, private_hold},
    {FAKERM_RESET & RM_KEY_MASK, private_reset},
    {FAKERM_WORK & RM_KEY_MASK, private_work},
    {FAKERM_WAIT & RM_KEY_MASK, private_wait},
    {FAKERM_SUBMIT & RM_KEY_MASK, private_submit},
    {FAKERM_STATS & RM_KEY_MASK, private_stats},
};

static int dispatch(struct call *call, uint32_t nr, uint32_t size, uint64_t address, void *arg)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (RM_KEY_NR(calls[i].key) != nr || RM_KEY_SIZE(calls[i].key) != size)
            continue;
        if (call->file->node != NODE_CTL && nr != RM_ESC_ALLOC && nr != ESC_REGISTER_FD)
            break;
        if (caller_read(call->tid, address, arg, size) < 0)
            return -EFAULT;
        return calls[i].handler(call, arg);
    }
    count(BOOK_MALFORMED);
    return -EINVAL;
}

/* The fake's own: they may be answered later, which XFER can not be. */
static bool is_private(uint32_t nr)
{
    return nr >= _IOC_NR(FAKERM_WHO) && nr <= _IOC_NR(FAKERM_STATS);
}

/*
 * The argument goes back to the caller in whole. The file system does that where the direction of
 * the ioctl lets it, and would otherwise overwrite what was written here with what it has copied
 * before.
 */
int rm_ioctl(struct call *call)
{
    uint32_t nr = _IOC_NR(call->cmd), size = _IOC_SIZE(call->cmd);
    struct rm_xfer xfer;
    uint8_t inner[CALL_MOST];
    int rc;

    call->out_bytes = _IOC_DIR(call->cmd) & _IOC_READ ? size : 0;
    if (call->file->node != NODE_CTL && nr == RM_ESC_EXPORT_DMABUF)
        return export_dmabuf(call, call->data);
    if (nr != RM_ESC_XFER) {
        rc = dispatch(call, nr, size, call->arg, call->data);
        if (rc == 0 && !call->later && call->out_bytes == 0)
            rc = caller_write(call->tid, call->arg, call->data, size);
        return rc;
    }
    count(BOOK_XFER);
    if (size != sizeof(xfer))
        return -EINVAL;
    if (caller_read(call->tid, call->arg, &xfer, sizeof(xfer)) < 0)
        return -EFAULT;
    memcpy(call->data, &xfer, sizeof(xfer));
    if (xfer.size > CALL_MOST || is_private(xfer.nr))
        return -EINVAL;
    rc = dispatch(call, xfer.nr, xfer.size, xfer.params, inner);
    return rc == 0 ? caller_write(call->tid, xfer.params, inner, xfer.size) : rc;
}

void rm_file_closed(struct file *file)
{
    pthread_mutex_lock(&state_lock);
    while (file->clients)
        object_free(&file->clients->object);
    export_file_closed(file);
    pthread_mutex_unlock(&state_lock);
}
