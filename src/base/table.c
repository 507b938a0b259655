#include "base/table.h"

_Static_assert(offsetof(struct table_entry, vdev) == offsetof(struct hash_entry, used) &&
                   sizeof(struct table_entry) == 32,
               "a table's entry begins with a hash table's");

static void in_child(void *arg)
{
    struct table *table = arg;

    for (int i = 0; i < TABLE_SHARDS; i++) {
        struct table_shard *shard = &table->shard[i];

        /* A thread of the parent may have been changing it when it forked: rather lose the memory.
         */
        if (atomic_load_explicit(&shard->lock.word, memory_order_relaxed) == 0)
            hash_end(&shard->hash);
        else
            hash_init(&shard->hash, NULL, sizeof(struct table_entry));
        mutex_init(&shard->lock);
    }
}

void table_init(struct table *table)
{
    for (int i = 0; i < TABLE_SHARDS; i++)
        hash_init(&table->shard[i].hash, NULL, sizeof(struct table_entry));
    table->watch.child = in_child;
    table->watch.arg = table;
    fork_watch_add(&table->watch);
}

struct table_shard *table_lock(struct table *table, uint64_t key)
{
    struct table_shard *shard;

    fork_check();
    shard = &table->shard[hash_of(NULL, key) >> 58]; /* the low bits choose the place in it */
    mutex_lock(&shard->lock);
    return shard;
}

struct table_entry *table_find(struct table_shard *shard, uint64_t key)
{
    return (struct table_entry *)hash_entry_find(&shard->hash, key);
}

struct table_entry *table_insert(struct table_shard *shard, uint64_t key)
{
    struct table_entry *entry = (struct table_entry *)hash_entry_insert(&shard->hash, key);

    if (entry) {
        entry->vdev = 0;
        entry->kind = TABLE_USED;
    }
    return entry;
}

void table_remove(struct table_shard *shard, struct table_entry *entry)
{
    hash_entry_remove(&shard->hash, (struct hash_entry *)entry);
}
