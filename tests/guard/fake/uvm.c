/*
 * Calls on nvidia-uvm: address ranges, and what is mapped there. Each mapping on a GPU has a
 * reference of UVM's own on the memory, so memory that was freed as an object and is still mapped
 * stays allocated, in nobody's name.
 */
#include "fakerm.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define UVM_DEINITIALIZE     0x30000002u
#define UVM_REGISTER_VASPACE 25u
#define UVM_REGISTER_GPU     37u
#define FREE_WITHOUT_LENGTH  590u /* branches from here on */

struct hold { /* UVM's reference; the parts of a mapping that was cut share it */
    struct reference reference;
    unsigned parts;
};

struct mapping {
    struct mapping *next;
    uint64_t start, end; /* inclusive */
    unsigned gpu;
    struct hold *hold; /* NULL: memory of the host's */
};

struct range {
    uint64_t start, end;
    bool external;
    struct mapping *mappings;
};

struct uvm_space {
    void *ranges; /* a tree (search.h) */
};

/* Ranges that touch the same address are the same to the tree. */
static int compare(const void *a, const void *b)
{
    const struct range *left = a, *right = b;

    if (left->end < right->start)
        return -1;
    return left->start > right->end;
}

static struct range *find(const struct uvm_space *space, uint64_t start, uint64_t end)
{
    struct range key = {.start = start, .end = end};
    void *found = tfind(&key, &space->ranges, compare);

    return found ? *(struct range **)found : NULL;
}

static void drop(struct hold *hold)
{
    if (!hold || --hold->parts)
        return;
    memory_drop(&hold->reference);
    free(hold);
}

static void free_range(void *arg)
{
    struct range *range = arg;
    struct mapping *mapping;

    while ((mapping = range->mappings)) {
        range->mappings = mapping->next;
        drop(mapping->hold);
        free(mapping);
    }
    free(range);
}

static bool is_malformed(uint64_t base, uint64_t length)
{
    return base == 0 || length == 0 || (base | length) & 4095 || base + length < base;
}

static uint32_t create(struct uvm_space *space, uint64_t base, uint64_t length, bool external)
{
    struct range *range;

    if (is_malformed(base, length))
        return RM_ERR_INVALID_ADDRESS;
    if (find(space, base, base + length - 1))
        return RM_ERR_UVM_ADDRESS_IN_USE;
    range = calloc(1, sizeof(*range));
    if (!range)
        return RM_ERR_NO_MEMORY;
    *range = (struct range){.start = base, .end = base + length - 1, .external = external};
    if (!tsearch(range, &space->ranges, compare)) {
        free(range);
        return RM_ERR_NO_MEMORY;
    }
    return RM_OK;
}

static uint32_t remove_range(struct uvm_space *space, uint64_t base, const uint64_t *length)
{
    struct range *range = find(space, base, base);

    if (!range || range->start != base || (length && range->end != base + *length - 1))
        return RM_ERR_INVALID_ADDRESS;
    tdelete(range, &space->ranges, compare);
    free_range(range);
    return RM_OK;
}

static struct range *find_external(const struct uvm_space *space, uint64_t base, uint64_t length)
{
    struct range *range = is_malformed(base, length) ? NULL : find(space, base, base);

    return range && range->external && range->end >= base + length - 1 ? range : NULL;
}

/* Takes [start, end] out of what is mapped on a GPU. What sticks out on either side stays. */
static void cut(struct range *range, unsigned gpu, uint64_t start, uint64_t end)
{
    struct mapping **at = &range->mappings, *mapping;

    while ((mapping = *at)) {
        if (mapping->gpu != gpu || mapping->end < start || mapping->start > end) {
            at = &mapping->next;
        } else if (mapping->start < start && mapping->end > end) {
            struct mapping *rest = malloc(sizeof(*rest));

            if (!rest)
                abort();
            *rest = *mapping;
            rest->start = end + 1;
            mapping->end = start - 1;
            if (rest->hold)
                rest->hold->parts++;
            mapping->next = rest;
            at = &rest->next;
        } else if (mapping->start < start) {
            mapping->end = start - 1;
            at = &mapping->next;
        } else if (mapping->end > end) {
            mapping->start = end + 1;
            at = &mapping->next;
        } else {
            *at = mapping->next;
            drop(mapping->hold);
            free(mapping);
        }
    }
}

static void map_on(struct range *range, unsigned gpu, uint64_t start, uint64_t end,
                   struct object *memory)
{
    struct mapping *mapping = malloc(sizeof(*mapping));

    cut(range, gpu, start, end);
    if (!mapping)
        abort();
    *mapping = (struct mapping){.next = range->mappings, .start = start, .end = end, .gpu = gpu};
    if (memory->reference.memory) {
        mapping->hold = malloc(sizeof(*mapping->hold));
        if (!mapping->hold)
            abort();
        mapping->hold->parts = 1;
        memory_share(&memory->reference, 0, &mapping->hold->reference);
    }
    range->mappings = mapping;
}

static uint32_t map(struct uvm_space *space, pid_t tid, const struct uvm_map_external *map)
{
    struct range *range = find_external(space, map->base, map->length);
    struct client *client = client_find(map->client);
    struct object *memory;

    if (!range)
        return RM_ERR_INVALID_ADDRESS;
    if (map->gpu_count == 0 || map->gpu_count > UVM_GPUS_MAX)
        return RM_ERR_INVALID_ARGUMENT;
    if (!client)
        return RM_ERR_INVALID_CLIENT;
    if (!caller_is_of(tid, client->pid))
        return RM_ERR_INSUFFICIENT_PERMISSIONS;
    memory = object_find(client, map->memory);
    if (!memory || (!memory->reference.memory && !memory->system))
        return RM_ERR_OBJECT_NOT_FOUND;
    if (memory->reference.memory && (map->offset > memory->reference.memory->bytes ||
                                     map->length > memory->reference.memory->bytes - map->offset))
        return RM_ERR_INVALID_OFFSET;
    for (uint64_t i = 0; i < map->gpu_count; i++)
        if (gpu_by_uuid(map->gpu[i].uuid) < 0)
            return RM_ERR_INVALID_DEVICE;
    for (uint64_t i = 0; i < map->gpu_count; i++)
        map_on(range, (unsigned)gpu_by_uuid(map->gpu[i].uuid), map->base,
               map->base + map->length - 1, memory);
    return RM_OK;
}

static uint32_t unmap(struct uvm_space *space, const struct uvm_unmap_external *unmap)
{
    struct range *range = find_external(space, unmap->base, unmap->length);
    int gpu = gpu_by_uuid(unmap->uuid);

    if (!range)
        return RM_ERR_INVALID_ADDRESS;
    if (gpu < 0)
        return RM_ERR_INVALID_DEVICE;
    cut(range, (unsigned)gpu, unmap->base, unmap->base + unmap->length - 1);
    return RM_OK;
}

static uint32_t initialize(struct file *file)
{
    if (file->space)
        return RM_OK;
    file->space = calloc(1, sizeof(*file->space));
    return file->space ? RM_OK : RM_ERR_NO_MEMORY;
}

/* How long a call's argument is, and where its status; false: no such call. */
static bool shape(uint32_t cmd, size_t *ret_bytes, size_t *ret_status)
{
    static const struct {
        uint32_t cmd, bytes, status;
    } calls[] = {
        {UVM_INITIALIZE, 16, 8},
        {UVM_REGISTER_VASPACE, 32, 28},
        {UVM_REGISTER_GPU, 40, 36},
        {UVM_MAP_EXTERNAL_ALLOCATION, sizeof(struct uvm_map_external),
         offsetof(struct uvm_map_external, status)},
        {UVM_FREE, 24, 16},
        {UVM_UNMAP_EXTERNAL, sizeof(struct uvm_unmap_external),
         offsetof(struct uvm_unmap_external, status)},
        {UVM_ALLOC_SEMAPHORE_POOL, 9248, 9240},
        {UVM_CREATE_EXTERNAL_RANGE, 24, 16},
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        bool shorter = cmd == UVM_FREE && settings.branch >= FREE_WITHOUT_LENGTH;

        if (calls[i].cmd != cmd)
            continue;
        *ret_bytes = shorter ? 16 : calls[i].bytes;
        *ret_status = shorter ? 8 : calls[i].status;
        return true;
    }
    return false;
}

static uint32_t execute(struct call *call, const void *arg)
{
    const struct uvm_range *head = arg;
    const uint64_t *length = settings.branch >= FREE_WITHOUT_LENGTH ? NULL : &head->length;
    struct uvm_space *space = call->file->space;

    if (call->cmd == UVM_INITIALIZE) {
        book.calls[BOOK_UVM_OTHER]++;
        return initialize(call->file);
    }
    if (!space)
        return RM_ERR_INVALID_STATE;
    switch (call->cmd) {
    case UVM_MAP_EXTERNAL_ALLOCATION:
        book.calls[BOOK_UVM_MAP]++;
        return map(space, call->tid, arg);
    case UVM_UNMAP_EXTERNAL:
        book.calls[BOOK_UVM_UNMAP]++;
        return unmap(space, arg);
    case UVM_FREE:
        book.calls[BOOK_UVM_FREE]++;
        return remove_range(space, head->base, length);
    case UVM_CREATE_EXTERNAL_RANGE:
    case UVM_ALLOC_SEMAPHORE_POOL:
        book.calls[BOOK_UVM_OTHER]++;
        return create(space, head->base, head->length, call->cmd == UVM_CREATE_EXTERNAL_RANGE);
    default:
        book.calls[BOOK_UVM_OTHER]++;
        return RM_OK;
    }
}

/* The whole word is the number. The file system sees no direction in it and copies nothing. */
int uvm_ioctl(struct call *call)
{
    uint32_t status;
    size_t bytes, at;

    call->out_bytes = 0;
    if (call->cmd == UVM_DEINITIALIZE)
        return 0;
    if (!shape(call->cmd, &bytes, &at))
        return -EINVAL;
    if (caller_read(call->tid, call->arg, call->data, bytes) < 0)
        return -EFAULT;
    pthread_mutex_lock(&state_lock);
    status = execute(call, call->data);
    pthread_mutex_unlock(&state_lock);
    memcpy(call->data + at, &status, sizeof(status));
    return caller_write(call->tid, call->arg, call->data, bytes);
}

void uvm_file_closed(struct file *file)
{
    pthread_mutex_lock(&state_lock);
    if (file->space)
        tdestroy(file->space->ranges, free_range);
    free(file->space);
    file->space = NULL;
    pthread_mutex_unlock(&state_lock);
}
