#include "hook/memory/context_record.h"

#include "base/mutex.h"
#include "hook/memory/admission.h"

#include <stdlib.h>

static struct vgpu_mutex lock = VGPU_MUTEX_INIT; /* for what the table points to */

void context_record_forked(void)
{
    mutex_init(&lock);
}

static struct context_record *find_or_make(uint64_t key, unsigned vdev)
{
    struct vgpu_track_entry entry;
    struct context_record *record;

    if (record_get(RECORDS_CONTEXTS, key, &entry))
        return (struct context_record *)(uintptr_t)entry.extra;
    record = hook_zalloc(sizeof(*record));
    entry = (struct vgpu_track_entry){.extra = (uintptr_t)record, .kind = VGPU_KIND_CONTEXT};
    if (!record || !record_put(RECORDS_CONTEXTS, key, &entry)) {
        free(record);
        return NULL;
    }
    *record = (struct context_record){.key = key, .vdev = vdev};
    return record;
}

bool context_record_put(const struct context_record *from)
{
    struct context_record *record;

    MUTEX_SCOPE(&lock);
    record = find_or_make(from->key, from->vdev);
    if (record)
        *record = *from;
    return record != NULL;
}

bool context_record_take(uint64_t key, struct context_record *ret_record)
{
    struct vgpu_track_entry entry;
    struct context_record *record;

    MUTEX_SCOPE(&lock);
    if (!record_take(RECORDS_CONTEXTS, key, &entry))
        return false;
    record = (struct context_record *)(uintptr_t)entry.extra;
    *ret_record = *record;
    free(record);
    return true;
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
    record = find_or_make(key, vdev);
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
    struct vgpu_track_entry entry;

    MUTEX_SCOPE(&lock);
    if (record_get(RECORDS_CONTEXTS, key, &entry))
        ((struct context_record *)(uintptr_t)entry.extra)->limit[limit].bytes = bytes;
}
