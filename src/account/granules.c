#include "base/table.h"
#include "account/track.h"

#include <errno.h>
#include <stdlib.h>

#define VDEV_SHIFT 56 /* no address has these bits */

struct vgpu_granules {
    /*
     * Blocks that are shared: value[0] is the number of allocations in it, kind the kind that is
     * charged. Blocks with a note as well, which is value[1]: one that an allocation fills has a
     * count of 0.
     */
    struct table table;
    _Atomic uint64_t notes;
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
 * An allocation as blocks. The blocks that it fills are its own and need no count. At most two, at
 * its ends, may be shared.
 */
struct span {
    uint64_t whole_bytes;
    uint64_t shared[2];
    unsigned shared_count;
};

static struct span span_of(const struct vgpu_granules *granules, unsigned vdev, uint64_t address,
                           uint64_t bytes)
{
    uint64_t size = granules->granule_bytes, tag = (uint64_t)vdev << VDEV_SHIFT;
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

/* Counts an allocation in a block. 1: the block is new; 0: it is not; -ENOMEM. */
static int count_up(struct vgpu_granules *granules, uint64_t key, uint32_t kind)
{
    struct table_shard *shard = table_lock(&granules->table, key);
    struct table_entry *entry = table_find(shard, key);
    int new = entry == NULL || entry->value[0] == 0;

    if (entry == NULL)
        entry = table_insert(shard, key);
    if (entry && new)
        entry->kind = TABLE_USED | kind;
    if (entry)
        entry->value[0]++;
    table_unlock(shard);
    return entry ? new : -ENOMEM;
}

/* Under the shard's lock. */
static void *take_note(struct vgpu_granules *granules, struct table_entry *entry)
{
    void *note = (void *)(uintptr_t)entry->value[1];

    entry->value[1] = 0;
    if (note)
        atomic_fetch_sub_explicit(&granules->notes, 1, memory_order_relaxed);
    return note;
}

/* Whether the block is empty now. *ret_left: the kind that it was charged to. */
static bool count_down(struct vgpu_granules *granules, uint64_t key, struct granule_share *ret_left)
{
    struct table_shard *shard = table_lock(&granules->table, key);
    struct table_entry *entry = table_find(shard, key);
    bool empty = entry && entry->value[0] > 0 && --entry->value[0] == 0;

    if (empty) {
        *ret_left = (struct granule_share){.kind = entry->kind & ~TABLE_USED,
                                           .bytes = granules->granule_bytes,
                                           .note = take_note(granules, entry)};
        table_remove(shard, entry);
    }
    table_unlock(shard);
    return empty;
}

static uint64_t key_of(const struct vgpu_granules *granules, unsigned vdev, uint64_t address)
{
    return address / granules->granule_bytes | (uint64_t)vdev << VDEV_SHIFT;
}

/* Takes the note of a block that an allocation fills. */
static void *leave_whole(struct vgpu_granules *granules, uint64_t key)
{
    struct table_shard *shard;
    struct table_entry *entry;
    void *note = NULL;

    if (atomic_load_explicit(&granules->notes, memory_order_relaxed) == 0)
        return NULL;
    shard = table_lock(&granules->table, key);
    entry = table_find(shard, key);
    if (entry) {
        note = take_note(granules, entry);
        if (entry->value[0] == 0)
            table_remove(shard, entry);
    }
    table_unlock(shard);
    return note;
}

void *granule_note(struct vgpu_granules *granules, unsigned vdev, uint32_t kind, uint64_t address,
                   void *note)
{
    uint64_t key = key_of(granules, vdev, address);
    struct table_shard *shard = table_lock(&granules->table, key);
    struct table_entry *entry = table_find(shard, key);
    void *there = entry ? (void *)(uintptr_t)entry->value[1] : NULL;

    if (!there && note && (entry || (entry = table_insert(shard, key)) != NULL)) {
        if (entry->value[0] == 0)
            entry->kind = TABLE_USED | kind;
        entry->value[1] = (uintptr_t)note;
        atomic_fetch_add_explicit(&granules->notes, 1, memory_order_relaxed);
        there = note;
    }
    table_unlock(shard);
    return there;
}

int granule_add(struct vgpu_granules *granules, unsigned vdev, uint32_t kind, uint64_t address,
                uint64_t bytes, uint64_t *ret_new_bytes)
{
    struct span span = span_of(granules, vdev, address, bytes);
    uint64_t new_bytes = span.whole_bytes;
    struct granule_share left;

    for (unsigned i = 0; i < span.shared_count; i++) {
        int rc = count_up(granules, span.shared[i], kind);

        if (rc < 0) {
            while (i-- > 0)
                count_down(granules, span.shared[i], &left);
            return rc;
        }
        if (rc > 0)
            new_bytes += granules->granule_bytes;
    }
    *ret_new_bytes = new_bytes;
    return 0;
}

void granule_drop(struct vgpu_granules *granules, unsigned vdev, uint32_t kind, uint64_t address,
                  uint64_t bytes, struct granule_share ret_left[GRANULE_SHARES])
{
    struct span span = span_of(granules, vdev, address, bytes);

    for (unsigned i = 0; i < GRANULE_SHARES; i++)
        ret_left[i] = (struct granule_share){.kind = kind};
    ret_left[0].bytes = span.whole_bytes;
    if (span.whole_bytes > 0 && address % granules->granule_bytes == 0)
        ret_left[0].note = leave_whole(granules, key_of(granules, vdev, address));
    for (unsigned i = 0; i < span.shared_count; i++) {
        struct granule_share left;

        if (!count_down(granules, span.shared[i], &left))
            continue;
        if (left.kind == kind && (!left.note || !ret_left[0].note)) {
            ret_left[0].bytes += left.bytes;
            ret_left[0].note = left.note ? left.note : ret_left[0].note;
        } else {
            ret_left[1 + i] = left;
        }
    }
}
