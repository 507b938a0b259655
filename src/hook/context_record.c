#include "hook/context_record.h"

#include "base/mutex.h"
#include "hook/admission.h"

#include <stdlib.h>

static struct vgpu_mutex lock = VGPU_MUTEX_INIT;
static struct context_record *records; /* a handful */

void context_record_forked(void)
{
    mutex_init(&lock); /* the child has no use for the records, and they may be half-linked */
    records = NULL;
}

static struct context_record **find(uint64_t key)
{
    struct context_record **at = &records;

    while (*at && (*at)->key != key)
        at = &(*at)->next;
    return at;
}

static struct context_record *make(uint64_t key, unsigned vdev)
{
    struct context_record *record = calloc(1, sizeof(*record));

    if (!record)
        return NULL;
    record->key = key;
    record->vdev = vdev;
    record->next = records;
    records = record;
    return record;
}

bool context_record_put(uint64_t key, unsigned vdev, uint64_t bytes)
{
    struct context_record *record;

    MUTEX_SCOPE(&lock);
    record = *find(key);
    if (!record)
        record = make(key, vdev);
    if (!record)
        return false;
    *record =
        (struct context_record){.key = key, .vdev = vdev, .bytes = bytes, .next = record->next};
    return true;
}

bool context_record_take(uint64_t key, struct context_record *ret_record)
{
    struct context_record **at, *record;

    MUTEX_SCOPE(&lock);
    at = find(key);
    record = *at;
    if (!record)
        return false;
    *at = record->next;
    *ret_record = *record;
    free(record);
    return true;
}

void context_record_put_back(const struct context_record *record)
{
    struct context_record *again, *next;

    MUTEX_SCOPE(&lock);
    again = make(record->key, record->vdev);
    if (!again)
        return;
    next = again->next; /* the one in `record` belongs to the list as it was */
    *again = *record;
    again->next = next;
}

uint64_t context_record_bytes(const struct context_record *record)
{
    uint64_t bytes = record->bytes;

    for (unsigned i = 0; i < CONTEXT_LIMITS; i++)
        bytes += record->limit[i].bytes;
    return bytes;
}

bool context_record_limit(uint64_t key, unsigned vdev, enum context_limit limit, uint64_t old_value,
                          uint64_t value, uint64_t unit_bytes, uint64_t *ret_target_bytes,
                          uint64_t *ret_charged_bytes)
{
    struct context_record *record;
    uint64_t beyond;

    MUTEX_SCOPE(&lock);
    record = *find(key);
    if (!record)
        record = make(key, vdev);
    if (!record)
        return false;
    if (!record->limit[limit].known) {
        record->limit[limit].known = true;
        record->limit[limit].base_value = old_value;
    }
    beyond = value > record->limit[limit].base_value ? value - record->limit[limit].base_value : 0;
    if (unit_bytes > 0 && beyond > MEM_LIMIT_BYTES / unit_bytes)
        beyond = MEM_LIMIT_BYTES / unit_bytes;
    *ret_target_bytes = beyond * unit_bytes;
    *ret_charged_bytes = record->limit[limit].bytes;
    return true;
}

void context_record_limit_set(uint64_t key, enum context_limit limit, uint64_t bytes)
{
    struct context_record *record;

    MUTEX_SCOPE(&lock);
    record = *find(key);
    if (record)
        record->limit[limit].bytes = bytes;
}
