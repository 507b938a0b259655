#include "account/track.h"

#include "base/table.h"

#include <errno.h>
#include <stdlib.h>

struct vgpu_track {
    struct table table;
};

struct vgpu_track *track_new(void)
{
    struct vgpu_track *track;

    if (posix_memalign((void **)&track, 64, sizeof(*track)) != 0)
        return NULL;
    *track = (struct vgpu_track){0};
    table_init(&track->table);
    return track;
}

static void store(struct table_entry *to, const struct vgpu_track_entry *from)
{
    to->value[0] = from->bytes;
    to->value[1] = from->extra;
    to->vdev = from->vdev;
    to->kind = from->kind | TABLE_USED;
}

static struct vgpu_track_entry load(const struct table_entry *from)
{
    return (struct vgpu_track_entry){.bytes = from->value[0],
                                     .extra = from->value[1],
                                     .vdev = from->vdev,
                                     .kind = from->kind & ~TABLE_USED};
}

int track_put(struct vgpu_track *track, uint64_t key, const struct vgpu_track_entry *entry)
{
    struct table_shard *shard = table_lock(&track->table, key);
    struct table_entry *place = table_find(shard, key);

    if (!place)
        place = table_insert(shard, key);
    if (place)
        store(place, entry);
    table_unlock(shard);
    return place ? 0 : -ENOMEM;
}

bool track_get(struct vgpu_track *track, uint64_t key, struct vgpu_track_entry *ret_entry)
{
    struct table_shard *shard = table_lock(&track->table, key);
    struct table_entry *place = table_find(shard, key);
    bool found = place != NULL;

    if (found)
        *ret_entry = load(place);
    table_unlock(shard);
    return found;
}

bool track_take(struct vgpu_track *track, uint64_t key, struct vgpu_track_entry *ret_entry)
{
    struct table_shard *shard = table_lock(&track->table, key);
    struct table_entry *place = table_find(shard, key);
    bool found = place != NULL;

    if (found) {
        *ret_entry = load(place);
        table_remove(shard, place);
    }
    table_unlock(shard);
    return found;
}

/*
 * Removal moves later entries of the same run of used places into the hole. Runs are walked from
 * their beginning, behind an unused place, so an entry that moves was not visited yet: each is
 * visited exactly once.
 */
static void sweep_shard(struct table_shard *shard, uint64_t first, uint64_t last,
                        bool (*visit)(uint64_t key, struct vgpu_track_entry *entry, void *arg),
                        void *arg)
{
    uint64_t mask = shard->hash.capacity - 1, start = 0;

    while (hash_at(&shard->hash, start)->used)
        start++;
    for (uint64_t n = 1; n <= mask;) {
        struct table_entry *place = (struct table_entry *)hash_at(&shard->hash, (start + n) & mask);
        struct vgpu_track_entry entry = load(place);

        if (!(place->kind & TABLE_USED) || place->key < first || place->key > last) {
            n++;
        } else if (visit(place->key, &entry, arg)) {
            table_remove(shard, place);
        } else {
            store(place, &entry);
            n++;
        }
    }
}

void track_sweep(struct vgpu_track *track, uint64_t first, uint64_t last,
                 bool (*visit)(uint64_t key, struct vgpu_track_entry *entry, void *arg), void *arg)
{
    fork_check();
    for (int i = 0; i < TABLE_SHARDS; i++) {
        struct table_shard *shard = &track->table.shard[i];

        mutex_lock(&shard->lock);
        if (shard->hash.count)
            sweep_shard(shard, first, last, visit, arg);
        mutex_unlock(&shard->lock);
    }
}
