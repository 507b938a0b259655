/* The tree of a client's objects. */
#include "guard/track/objects_internal.h"

#include "base/cleanup.h"

#define CONTAINER(pointer, type, member)                                                           \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/*
 * The whole.
 */

int objects_new(const struct objects_classes *classes, unsigned limit, struct objects **ret_objects)
{
    KEEP_ERRNO;
    struct objects *objects CLEANUP_FREE = calloc(1, sizeof(*objects));
    int rc;

    if (!objects)
        return -ENOMEM;
    rc = hash_seed(&objects->seed);
    if (rc)
        return rc;
    objects->classes = *classes;
    objects->limit = limit;
    objects->random = objects->seed.word[0][0] | 1;
    hash_init(&objects->objects, &objects->seed, sizeof(struct hash_entry));
    hash_init(&objects->spaces, &objects->seed, sizeof(struct hash_entry));
    hash_init(&objects->owners, &objects->seed, sizeof(struct hash_entry));
    hash_init(&objects->files, &objects->seed, sizeof(struct hash_entry));
    hash_init(&objects->places, &objects->seed, sizeof(struct hash_entry));
    for (unsigned i = 0; i < HOLDER_KINDS; i++)
        hash_init(&objects->uses[i], &objects->seed, sizeof(struct hash_entry));
    *ret_objects = objects;
    objects = NULL;
    return 0;
}

int objects_reserve(struct objects *objects)
{
    /* Of a client and of an object. */
    static const enum item items[] = {ITEM_CLIENT, ITEM_OWNER, ITEM_USE, ITEM_OBJECT,
                                      ITEM_ALLOCATION};
    const unsigned count = sizeof(items) / sizeof(items[0]);
    int rc = 0;

    if (objects->count + count > objects->limit)
        return -ENOSPC;
    for (unsigned i = 0; i < count && rc == 0; i++)
        rc = item_reserve(objects, items[i]);
    if (rc == 0)
        rc = hash_reserve(&objects->objects, 2);
    if (rc == 0)
        rc = hash_reserve(&objects->uses[HOLDER_CLIENT], 1);
    if (rc == 0)
        rc = hash_reserve(&objects->owners, 1);
    return rc;
}

/*
 * The tree.
 */

static struct object *find(const struct objects *objects, uint32_t client, uint32_t handle)
{
    return hash_find(&objects->objects, pair(client, handle));
}

static struct client *find_client(const struct objects *objects, uint32_t client)
{
    return (struct client *)find(objects, client, client); /* its first member */
}

static bool is_client(const struct object *object)
{
    return object->handle == object->client;
}

/* `front`: before all other children. */
static void link_child(struct object *parent, struct object *object, bool front)
{

    object->parent = parent;
    object->next = front ? parent->first : NULL;
    object->previous = front ? NULL : parent->last;
    if (object->next)
        object->next->previous = object;
    else
        parent->last = object;
    if (object->previous)
        object->previous->next = object;
    else
        parent->first = object;
}

static void unlink_child(struct object *object)
{
    if (object->previous)
        object->previous->next = object->next;
    else
        object->parent->first = object->next;
    if (object->next)
        object->next->previous = object->previous;
    else
        object->parent->last = object->previous;
}

/* The object has no children any more. */
static void end(struct objects *objects, struct object *object)
{
    hash_take(&objects->objects, pair(object->client, object->handle));
    if (is_client(object)) {
        struct client *client = (struct client *)object;

        holder_end(objects, &client->holder);
        item_free(objects, ITEM_CLIENT, client);
        return;
    }
    unlink_child(object);
    if (object->reference.allocation) {
        reference_drop(objects, &object->reference);
        item_free(objects, ITEM_OBJECT, object);
        return;
    }
    object->next = NULL;
    if (objects->last_gone)
        objects->last_gone->next = object;
    else
        objects->first_gone = object;
    objects->last_gone = object;
}

/* Without recursion: the program chooses how deep the tree is. */
static void end_tree(struct objects *objects, struct object *top)
{
    struct object *object = top, *parent;

    for (;;) {
        bool is_top;

        while (object->first)
            object = object->first;
        is_top = object == top;
        parent = object->parent;
        end(objects, object);
        if (is_top)
            return;
        object = parent;
    }
}

bool objects_next_gone(struct objects *objects, struct objects_gone *ret_gone)
{
    struct object *object = objects->first_gone;

    if (!object)
        return false;
    *ret_gone = (struct objects_gone){
        .client = object->client, .handle = object->handle, .class_id = object->class_id};
    objects->first_gone = object->next;
    if (!object->next)
        objects->last_gone = NULL;
    item_free(objects, ITEM_OBJECT, object);
    return true;
}

int objects_client(struct objects *objects, uint32_t number, uint32_t owner)
{
    struct client *client = find_client(objects, number);
    int rc;

    if (number == 0)
        return -EINVAL;
    if (client)
        return holder_use(objects, &client->holder, owner);
    rc = item_new(objects, ITEM_CLIENT, &client);
    if (rc)
        return rc;
    client->object =
        (struct object){.client = number, .handle = number, .class_id = objects->classes.root};
    client->holder = (struct holder){.number = number};
    rc = hash_add(&objects->objects, pair(number, number), client);
    if (rc == 0) {
        rc = holder_use(objects, &client->holder, owner);
        if (rc)
            hash_take(&objects->objects, pair(number, number));
    }
    if (rc)
        item_free(objects, ITEM_CLIENT, client);
    return rc;
}

/* Puts a new object with client and handle in its place; what had the handle is gone. There is
 * room. */
static void put(struct objects *objects, struct client *client, struct object *object,
                uint32_t parent_handle)
{
    struct object *old = find(objects, object->client, object->handle), *parent;

    if (old)
        end_tree(objects, old);
    /* Only now: it may have been below the old one. */
    parent = find(objects, object->client, parent_handle);
    if (!parent)
        parent = &client->object;
    object->device = object->class_id == objects->classes.device ? object->handle : parent->device;
    link_child(parent, object, object->class_id == objects->classes.subdevice);
    hash_add(&objects->objects, pair(object->client, object->handle), object);
}

/* A new object that is not in its place yet, with room for it there. */
static int new_object(struct objects *objects, uint32_t client_number, uint32_t handle,
                      struct client **ret_client, struct object **ret_object)
{
    struct client *client = find_client(objects, client_number);
    struct object *object;
    int rc;

    if (!client)
        return -ENOENT;
    if (handle == 0 || handle == client_number)
        return -EINVAL;
    rc = hash_reserve(&objects->objects, 1);
    if (rc == 0)
        rc = item_new(objects, ITEM_OBJECT, &object);
    if (rc)
        return rc;
    object->client = client_number;
    object->handle = handle;
    *ret_client = client;
    *ret_object = object;
    return 0;
}

int objects_add(struct objects *objects, uint32_t client_number, uint32_t parent, uint32_t handle,
                uint32_t class_id)
{
    struct client *client;
    struct object *object;
    int rc = new_object(objects, client_number, handle, &client, &object);

    if (rc)
        return rc;
    object->class_id = class_id;
    put(objects, client, object, parent);
    return 0;
}

static int add_memory(struct objects *objects, uint32_t client_number, uint32_t parent,
                      uint32_t handle, unsigned vdev, uint64_t bytes, uint64_t charged_bytes)
{
    struct allocation *allocation;
    struct client *client;
    struct object *object;
    int rc;

    if (vdev >= VGPU_DEVICES_MAX || bytes > INT64_MAX)
        return -EINVAL;
    rc = new_object(objects, client_number, handle, &client, &object);
    if (rc)
        return rc;
    rc = item_new(objects, ITEM_ALLOCATION, &allocation);
    if (rc) {
        item_free(objects, ITEM_OBJECT, object);
        return rc;
    }
    allocation->vdev = vdev;
    allocation->bytes = bytes;
    allocation->charged_bytes = charged_bytes;
    object->class_id = objects->classes.memory;
    reference_add(objects, &object->reference, &client->holder, allocation);
    put(objects, client, object, parent);
    return 0;
}

int objects_add_memory(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                       unsigned vdev, uint64_t bytes)
{
    return add_memory(objects, client, parent, handle, vdev, bytes, bytes);
}

int objects_add_foreign(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                        unsigned vdev, uint64_t bytes)
{
    return add_memory(objects, client, parent, handle, vdev, bytes, 0);
}

static int duplicate(struct objects *objects, uint32_t client_number, uint32_t parent,
                     uint32_t handle, struct allocation *allocation, uint32_t class_id)
{
    struct client *client;
    struct object *object;
    int rc;

    rc = new_object(objects, client_number, handle, &client, &object);
    if (rc)
        return rc;
    /* Before the old object of that handle goes: the source may go with it. */
    object->reference.unnamed = class_id == objects->classes.unnamed;
    if (allocation)
        reference_add(objects, &object->reference, &client->holder, allocation);
    object->class_id = class_id;
    put(objects, client, object, parent);
    return 0;
}

int objects_dup(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                uint32_t source_client, uint32_t source_handle)
{
    struct object *source = find(objects, source_client, source_handle);

    return duplicate(objects, client, parent, handle, source ? source->reference.allocation : NULL,
                     source ? source->class_id : 0);
}

int objects_add_holding(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                        uint32_t class_id, uint32_t memory)
{
    struct object *source = find(objects, client, memory);

    return duplicate(objects, client, parent, handle, source ? source->reference.allocation : NULL,
                     class_id);
}

int objects_dup_held(struct objects *objects, uint32_t client, uint32_t parent, uint32_t handle,
                     uint32_t file, uint32_t place)
{
    struct allocation *allocation = held_in(objects, file, place);

    return duplicate(objects, client, parent, handle, allocation,
                     allocation ? objects->classes.memory : 0);
}

int objects_remove(struct objects *objects, uint32_t client, uint32_t handle)
{
    struct object *object = find(objects, client, handle);

    if (!object)
        return -ENOENT;
    end_tree(objects, object);
    return 0;
}

/*
 * Ends.
 */

void objects_owner_gone(struct objects *objects, uint32_t number)
{
    struct owner *owner = hash_find(&objects->owners, number);
    struct use *next;

    /* With the last use the owner may be gone. */
    for (struct use *use = owner ? owner->uses : NULL; use; use = next) {
        next = use->next;
        if (use->older || use->newer)
            holder_leave(objects, use);
        else if (use->holder->kind == HOLDER_SPACE)
            space_end(objects, CONTAINER(use->holder, struct space, holder));
        else if (use->holder->kind == HOLDER_FILE)
            file_end(objects, CONTAINER(use->holder, struct file, holder));
        else
            end_tree(objects, &CONTAINER(use->holder, struct client, holder)->object);
    }
}

void objects_free(struct objects *objects)
{
    struct objects_charge charge;
    struct objects_gone gone;

    if (!objects)
        return;
    for (struct owner *owner = objects->first_owner, *next; owner; owner = next) {
        next = owner->next;
        objects_owner_gone(objects, owner->number);
    }
    while (objects_next_charge(objects, &charge) || objects_next_gone(objects, &gone))
        continue;
    for (enum item item = 0; item < ITEMS; item++)
        free(objects->spare[item]);
    hash_end(&objects->objects);
    hash_end(&objects->spaces);
    hash_end(&objects->owners);
    hash_end(&objects->files);
    hash_end(&objects->places);
    for (unsigned i = 0; i < HOLDER_KINDS; i++)
        hash_end(&objects->uses[i]);
    free(objects);
}

/*
 * Questions.
 */

int objects_device(const struct objects *objects, uint32_t client, uint32_t handle,
                   uint32_t *ret_device)
{
    const struct object *object = find(objects, client, handle);

    if (!object || !object->device)
        return -ENOENT;
    *ret_device = object->device;
    return 0;
}

int objects_subdevice(const struct objects *objects, uint32_t client, uint32_t device,
                      uint32_t *ret_subdevice)
{
    const struct object *object = find(objects, client, device);

    if (!object || !object->first || object->first->class_id != objects->classes.subdevice)
        return -ENOENT;
    *ret_subdevice = object->first->handle;
    return 0;
}

int objects_parent(const struct objects *objects, uint32_t client, uint32_t handle,
                   uint32_t *ret_parent)
{
    const struct object *object = find(objects, client, handle);

    if (!object || !object->parent)
        return -ENOENT;
    *ret_parent = object->parent->handle;
    return 0;
}

int objects_class(const struct objects *objects, uint32_t client, uint32_t handle,
                  uint32_t *ret_class)
{
    const struct object *object = find(objects, client, handle);

    if (!object)
        return -ENOENT;
    *ret_class = object->class_id;
    return 0;
}

int objects_memory(const struct objects *objects, uint32_t client, uint32_t handle,
                   unsigned *ret_vdev, uint64_t *ret_bytes)
{
    const struct object *object = find(objects, client, handle);

    if (!object || !object->reference.allocation)
        return -ENOENT;
    *ret_vdev = object->reference.allocation->vdev;
    *ret_bytes = object->reference.allocation->bytes;
    return 0;
}
