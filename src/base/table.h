/*
 * A hash table of 64-bit keys and 32-byte entries, in 64 shards with a lock each.
 *
 * Open addressing with linear probing. Removal shifts entries back, so there are no tombstones. A
 * shard grows by itself: the longest pause is the rehash of 1/64 of the entries. Memory comes from
 * mmap(), and a forked child drops it without a walk.
 */
#ifndef VGPU_BASE_TABLE_H
#define VGPU_BASE_TABLE_H

#include "base/forkwatch.h"
#include "base/mutex.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_SHARDS 64

struct table_entry {
    uint64_t key;
    uint64_t value[2];
    uint32_t vdev;
    uint32_t kind; /* TABLE_USED is set in every entry that is in use; the rest is the owner's */
};

#define TABLE_USED 0x80000000u

struct table_shard {
    struct vgpu_mutex lock;
    uint32_t count;
    uint64_t capacity; /* a power of two; 0: nothing allocated yet */
    struct table_entry *entries;
} __attribute__((aligned(64)));

struct table {
    struct fork_watch watch;
    struct table_shard shard[TABLE_SHARDS];
};

void table_init(struct table *table); /* of zeroed memory */

/* The shard of a key, locked. Its holder may call the next three functions. */
struct table_shard *table_lock(struct table *table, uint64_t key);
struct table_entry *table_find(struct table_shard *shard, uint64_t key);
/* A new entry, all zero except for its key, which must not be in the table yet. May move other
 * entries. NULL: no memory. */
struct table_entry *table_insert(struct table_shard *shard, uint64_t key);
void table_remove(struct table_shard *shard, struct table_entry *entry); /* moves other entries */

static inline void table_unlock(struct table_shard *shard)
{
    mutex_unlock(&shard->lock);
}

#endif
