/*
 * Hash tables under track.c and granules.c: 64-bit keys, 32-byte entries, 64 shards with a lock
 * each. A forked child starts with empty ones. A shard grows by itself: the longest pause is the
 * rehash of 1/64 of the entries.
 */
#ifndef VGPU_BASE_TABLE_H
#define VGPU_BASE_TABLE_H

#include "base/forkwatch.h"
#include "base/hash.h"
#include "base/mutex.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_SHARDS 64

struct table_entry { /* struct hash_entry, and what is behind it */
    uint64_t key;
    uint32_t vdev;
    uint32_t kind; /* TABLE_USED is set in every entry that is in use; the rest is the owner's */
    uint64_t value[2];
};

#define TABLE_USED 0x80000000u

struct table_shard {
    struct vgpu_mutex lock;
    struct hash hash;
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
