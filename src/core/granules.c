#include "core/table.h"
#include "core/track.h"

#include <errno.h>
#include <stdlib.h>

#define SLICE_SHIFT 56 /* no address has these bits */

struct vgpu_granules {
    struct table table; /* of blocks that are shared: value[0] is how many allocations touch it, kind who is charged */
    uint64_t granule_bytes;
};

struct vgpu_granules *granules_new(uint64_t granule_bytes)
{
    struct vgpu_granules *granules;

    if (granule_bytes == 0 || posix_memalign((void **)&granules, 64, sizeof(*granules)) != 0)
        return NULL;
    *granules = (struct vgpu_granules){.granule_bytes = granule_bytes};
    table_init(&granules->table);
    return granules;
}

/*
 * An allocation as blocks: those that it fills are its own and need no counting; at most two, at its ends, may be
 * shared with others.
 */
struct span {
    uint64_t whole_bytes;
    uint64_t shared[2];
    unsigned shared_count;
};

static struct span span_of(const struct vgpu_granules *granules, unsigned slice, uint64_t address, uint64_t bytes)
{
    uint64_t size = granules->granule_bytes, tag = (uint64_t)slice << SLICE_SHIFT;
    uint64_t end = address + bytes;
    uint64_t first = address / size, last = (end - 1) / size; /* blocks touched */
    uint64_t whole_from = (address + size - 1) / size, whole_to = end / size;
    struct span span = {0};

    if (bytes == 0)
        return span;
    if (whole_to > whole_from)
        span.whole_bytes = (whole_to - whole_from) * size;
    if (first < whole_from)
        span.shared[span.shared_count++] = first | tag;
    if (last >= whole_to && (last != first || span.shared_count == 0))
        span.shared[span.shared_count++] = last | tag;
    return span;
}

/* 1: the block is new, 0: it is not, -ENOMEM. */
static int count_up(struct vgpu_granules *granules, uint64_t key, uint32_t kind)
{
    struct table_shard *shard = table_lock(&granules->table, key);
    struct table_entry *entry = table_find(shard, key);
    int new = entry == NULL;

    if (new) {
        entry = table_insert(shard, key);
        if (entry)
            entry->kind |= kind;
    }
    if (entry)
        entry->value[0]++;
    table_unlock(shard);
    return entry ? new : -ENOMEM;
}

/* Whether the block is empty now; then *ret_kind is whom it was charged to. */
static bool count_down(struct vgpu_granules *granules, uint64_t key, uint32_t *ret_kind)
{
    struct table_shard *shard = table_lock(&granules->table, key);
    struct table_entry *entry = table_find(shard, key);
    bool empty = entry && --entry->value[0] == 0;

    if (empty) {
        *ret_kind = entry->kind & ~TABLE_USED;
        table_remove(shard, entry);
    }
    table_unlock(shard);
    return empty;
}

int granule_add(struct vgpu_granules *granules, unsigned slice, uint32_t kind, uint64_t address, uint64_t bytes,
                uint64_t *ret_new_bytes)
{
    struct span span = span_of(granules, slice, address, bytes);
    uint64_t new_bytes = span.whole_bytes;
    uint32_t charged;

    for (unsigned i = 0; i < span.shared_count; i++) {
        int rc = count_up(granules, span.shared[i], kind);

        if (rc < 0) {
            while (i-- > 0)
                count_down(granules, span.shared[i], &charged);
            return rc;
        }
        if (rc > 0)
            new_bytes += granules->granule_bytes;
    }
    *ret_new_bytes = new_bytes;
    return 0;
}

void granule_drop(struct vgpu_granules *granules, unsigned slice, uint32_t kind, uint64_t address, uint64_t bytes,
                  struct granule_share ret_left[GRANULE_SHARES])
{
    struct span span = span_of(granules, slice, address, bytes);

    for (unsigned i = 0; i < GRANULE_SHARES; i++)
        ret_left[i] = (struct granule_share){.kind = kind};
    ret_left[0].bytes = span.whole_bytes;
    for (unsigned i = 0; i < span.shared_count; i++) {
        uint32_t charged;

        if (!count_down(granules, span.shared[i], &charged))
            continue;
        if (charged == kind)
            ret_left[0].bytes += granules->granule_bytes;
        else
            ret_left[1 + i] = (struct granule_share){.kind = charged, .bytes = granules->granule_bytes};
    }
}
