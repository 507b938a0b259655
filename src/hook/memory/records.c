#include "hook/memory/records.h"

#include <stdatomic.h>
#include <stddef.h>

static _Atomic(struct vgpu_track *) tables[RECORD_TABLES]; /* made when first needed */

static struct vgpu_track *record_track(enum record_table table)
{
    return atomic_load_explicit(&tables[table], memory_order_acquire);
}

bool record_put(enum record_table table, uint64_t key, const struct vgpu_track_entry *entry)
{
    struct vgpu_track *track = record_track(table), *other = NULL;

    if (!track) {
        track = track_new();
        /* The loser of a race keeps its empty table, once at most: a table has no free. */
        if (track && !atomic_compare_exchange_strong(&tables[table], &other, track))
            track = other;
    }
    return track && track_put(track, key, entry) == 0;
}

bool record_get(enum record_table table, uint64_t key, struct vgpu_track_entry *ret_entry)
{
    struct vgpu_track *track = record_track(table);

    return track && track_get(track, key, ret_entry);
}

bool record_take(enum record_table table, uint64_t key, struct vgpu_track_entry *ret_entry)
{
    struct vgpu_track *track = record_track(table);

    return track && track_take(track, key, ret_entry);
}

void record_sweep(enum record_table table, uint64_t first, uint64_t last,
                  bool (*visit)(uint64_t key, struct vgpu_track_entry *entry, void *arg), void *arg)
{
    struct vgpu_track *track = record_track(table);

    if (track)
        track_sweep(track, first, last, visit, arg);
}
