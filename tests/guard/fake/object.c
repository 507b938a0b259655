/*
 * The driver's objects: a tree below each client, found by client and handle.
 */
#include "fakerm.h"

#include <stdlib.h>

#define FIRST_CLIENT  0xc1d00001u
#define FIRST_HANDLE  0xcaf00001u
#define LEAST_BUCKETS 4096u

struct client *clients;

static struct object **buckets;
static size_t bucket_count, object_count;

static size_t bucket_of(uint32_t client, uint32_t handle, size_t count)
{
    uint64_t mixed = ((uint64_t)client << 32 | handle) * 0x9e3779b97f4a7c15ULL;

    return (size_t)(mixed >> 32) & (count - 1);
}

static void grow(void)
{
    size_t count = bucket_count ? bucket_count * 2 : LEAST_BUCKETS;
    struct object **bigger = calloc(count, sizeof(*bigger)), *object;

    if (!bigger) {
        if (bucket_count)
            return;
        abort();
    }
    for (size_t i = 0; i < bucket_count; i++) {
        while ((object = buckets[i])) {
            struct object **bucket =
                &bigger[bucket_of(object->client->object.handle, object->handle, count)];

            buckets[i] = object->hash_next;
            object->hash_next = *bucket;
            *bucket = object;
        }
    }
    free(buckets);
    buckets = bigger;
    bucket_count = count;
}

static struct object **find(uint32_t client, uint32_t handle)
{
    struct object **at;

    if (!bucket_count)
        grow();
    at = &buckets[bucket_of(client, handle, bucket_count)];
    while (*at && ((*at)->handle != handle || (*at)->client->object.handle != client))
        at = &(*at)->hash_next;
    return at;
}

static void insert(struct object *object)
{
    struct object **bucket;

    if (object_count >= bucket_count)
        grow();
    bucket = &buckets[bucket_of(object->client->object.handle, object->handle, bucket_count)];
    object->hash_next = *bucket;
    *bucket = object;
    object_count++;
    book.objects++;
}

struct object *object_find(const struct client *client, uint32_t handle)
{
    return *find(client->object.handle, handle);
}

struct client *client_find(uint32_t handle)
{
    return (struct client *)*find(handle, handle);
}

struct client *client_of_file(uint32_t handle, const struct file *file)
{
    struct client *client = client_find(handle);

    return client && client->file == file ? client : NULL;
}

struct client *client_of_process(uint32_t handle, pid_t process)
{
    struct client *client = client_find(handle);

    return client && client->pid == process ? client : NULL;
}

uint32_t client_new(struct file *file, pid_t pid, uint32_t *handle)
{
    static uint32_t last = FIRST_CLIENT - 1;
    struct client *client;

    if (*handle && client_find(*handle))
        return RM_ERR_INSERT_DUPLICATE_NAME;
    client = calloc(1, sizeof(*client));
    if (!client)
        return RM_ERR_NO_MEMORY;
    while (*handle == 0 || client_find(*handle))
        *handle = last = last < FIRST_CLIENT - 1 + 0xfffff ? last + 1 : FIRST_CLIENT;
    client->object =
        (struct object){.client = client, .handle = *handle, .class_id = RM_CLASS_ROOT, .gpu = -1};
    client->file = file;
    client->pid = pid;
    client->last_handle = FIRST_HANDLE - 1;
    client->next = file->clients;
    if (client->next)
        client->next->prev = client;
    file->clients = client;
    client->all_next = clients;
    if (clients)
        clients->all_prev = client;
    clients = client;
    insert(&client->object);
    book.clients++;
    book_account(pid)->clients++;
    return RM_OK;
}

uint32_t object_new(struct client *client, struct object *parent, uint32_t *handle,
                    uint32_t class_id, struct object **ret_object)
{
    struct object *object;

    if (*handle && object_find(client, *handle))
        return RM_ERR_INSERT_DUPLICATE_NAME;
    object = calloc(1, sizeof(*object));
    if (!object)
        return RM_ERR_NO_MEMORY;
    while (*handle == 0 || object_find(client, *handle))
        *handle = ++client->last_handle;
    object->client = client;
    object->handle = *handle;
    object->class_id = class_id;
    object->gpu = parent->gpu;
    object->parent = parent;
    object->next = parent->children;
    if (object->next)
        object->next->prev = object;
    parent->children = object;
    insert(object);
    *ret_object = object;
    return RM_OK;
}

static void free_client(struct client *client)
{
    if (client->prev)
        client->prev->next = client->next;
    else
        client->file->clients = client->next;
    if (client->next)
        client->next->prev = client->prev;
    if (client->all_prev)
        client->all_prev->all_next = client->all_next;
    else
        clients = client->all_next;
    if (client->all_next)
        client->all_next->all_prev = client->all_prev;
    wait_gone(client, NULL);
    book.clients--;
    book_account(client->pid)->clients--;
    free(client);
}

static void free_one(struct object *object)
{
    struct object **at = find(object->client->object.handle, object->handle);

    *at = object->hash_next;
    object_count--;
    book.objects--;
    if (object->channel)
        gpu_channel_free(object->channel);
    if (object->group)
        gpu_group_free(object->group);
    memory_drop(&object->reference);
    if (!object->parent) {
        free_client(object->client);
        return;
    }
    if (object->prev)
        object->prev->next = object->next;
    else
        object->parent->children = object->next;
    if (object->next)
        object->next->prev = object->prev;
    free(object);
}

/* From the leaves up; without recursion, for callers can nest as deep as they like. */
void object_free(struct object *object)
{
    struct object *top = object;

    for (;;) {
        while (object->children)
            object = object->children;
        if (object == top)
            break;
        struct object *parent = object->parent;

        free_one(object);
        object = parent;
    }
    free_one(top);
}
