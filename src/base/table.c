#include "base/table.h"

#include "base/cleanup.h"

#include <string.h>
#include <sys/mman.h>

#define FIRST_CAPACITY 128 /* 4 KiB */

/* The high bits choose the shard, the low bits the place in it. */
static uint64_t hash_of(uint64_t key)
{
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15ULL;
    key ^= key >> 29;
    key *= 0xbf58476d1ce4e5b9ULL;
    return key ^ key >> 32;
}

static void in_child(void *arg)
{
    struct table *table = arg;

    for (int i = 0; i < TABLE_SHARDS; i++) {
        struct table_shard *shard = &table->shard[i];

        /* A thread of the parent may have been between two stores when it forked. The child then
         * loses the memory. */
        if (atomic_load_explicit(&shard->lock.word, memory_order_relaxed) == 0 && shard->entries)
            munmap(shard->entries, shard->capacity * sizeof(*shard->entries));
        shard->entries = NULL;
        shard->capacity = 0;
        shard->count = 0;
        mutex_init(&shard->lock);
    }
}

void table_init(struct table *table)
{
    table->watch.child = in_child;
    table->watch.arg = table;
    fork_watch_add(&table->watch);
}

struct table_shard *table_lock(struct table *table, uint64_t key)
{
    struct table_shard *shard;

    fork_check();
    shard = &table->shard[hash_of(key) >> 58];
    mutex_lock(&shard->lock);
    return shard;
}

struct table_entry *table_find(struct table_shard *shard, uint64_t key)
{
    uint64_t mask = shard->capacity - 1;

    if (!shard->capacity)
        return NULL;
    for (uint64_t i = hash_of(key) & mask;; i = (i + 1) & mask) {
        struct table_entry *entry = &shard->entries[i];

        if (!(entry->kind & TABLE_USED))
            return NULL;
        if (entry->key == key)
            return entry;
    }
}

static struct table_entry *free_place(struct table_entry *entries, uint64_t capacity, uint64_t key)
{
    uint64_t i = hash_of(key) & (capacity - 1);

    while (entries[i].kind & TABLE_USED)
        i = (i + 1) & (capacity - 1);
    return &entries[i];
}

static bool grow(struct table_shard *shard)
{
    KEEP_ERRNO;
    uint64_t capacity = shard->capacity ? 2 * shard->capacity : FIRST_CAPACITY;
    struct table_entry *entries = mmap(NULL, capacity * sizeof(*entries), PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (entries == MAP_FAILED)
        return false;
    for (uint64_t i = 0; i < shard->capacity; i++) {
        if (shard->entries[i].kind & TABLE_USED)
            *free_place(entries, capacity, shard->entries[i].key) = shard->entries[i];
    }
    if (shard->entries)
        munmap(shard->entries, shard->capacity * sizeof(*entries));
    shard->entries = entries;
    shard->capacity = capacity;
    return true;
}

struct table_entry *table_insert(struct table_shard *shard, uint64_t key)
{
    struct table_entry *entry;

    /* At most two thirds full. */
    if (3 * ((uint64_t)shard->count + 1) > 2 * shard->capacity && !grow(shard))
        return NULL;
    entry = free_place(shard->entries, shard->capacity, key);
    *entry = (struct table_entry){.key = key, .kind = TABLE_USED};
    shard->count++;
    return entry;
}

void table_remove(struct table_shard *shard, struct table_entry *entry)
{
    uint64_t mask = shard->capacity - 1;
    uint64_t hole = (uint64_t)(entry - shard->entries);

    /* An entry that this one kept from its own place moves into the hole. */
    for (uint64_t i = (hole + 1) & mask; shard->entries[i].kind & TABLE_USED; i = (i + 1) & mask) {
        uint64_t home = hash_of(shard->entries[i].key) & mask;

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            shard->entries[hole] = shard->entries[i];
            hole = i;
        }
    }
    shard->entries[hole].kind = 0;
    shard->count--;
}
