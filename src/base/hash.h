/*
 * A hash table from 64-bit keys to entries of one size, in one block of memory.
 *
 * Open addressing with linear probing, at most two thirds full. Removal shifts entries back, so
 * nothing gets slower with time. Not thread-safe: the owner has a lock. Memory comes from mmap, so
 * that a forked child drops it without walking it.
 *
 * A table whose keys a hostile program chooses gets a seed: under simple tabulation hashing with
 * random words, linear probing takes constant time for any keys.
 */
#ifndef VGPU_BASE_HASH_H
#define VGPU_BASE_HASH_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

struct hash_seed {
    uint64_t word[8][256];
};

/* An entry begins with this; what follows it is the owner's. */
struct hash_entry {
    uint64_t key;
    uint64_t used; /* not 0 while the entry is in the table; else free for the owner */
};

struct hash {
    const struct hash_seed *seed; /* serves any number of tables, and outlives them; may be NULL */
    char *entries;
    size_t entry_bytes; /* a multiple of 8 */
    size_t capacity;    /* a power of two; 0: no memory yet */
    size_t count;
};

int hash_seed(struct hash_seed *ret_seed); /* 0 or -errno: no random numbers */
uint64_t hash_of(const struct hash_seed *seed, uint64_t key);

void hash_init(struct hash *hash, const struct hash_seed *seed, size_t entry_bytes);
void hash_end(struct hash *hash);

static inline struct hash_entry *hash_at(const struct hash *hash, size_t i)
{
    return (struct hash_entry *)(hash->entries + i * hash->entry_bytes);
}

struct hash_entry *hash_entry_find(const struct hash *hash, uint64_t key); /* NULL: not there */
/* Room for so many more: after 0, as many hash_entry_insert() succeed. -ENOMEM. May move entries.
 */
int hash_reserve(struct hash *hash, size_t more);
/*
 * A new entry with `used` 1, all else behind the key zero. The key must not be there. NULL: no
 * memory; never where another key was taken out just before. May move other entries.
 */
struct hash_entry *hash_entry_insert(struct hash *hash, uint64_t key);
void hash_entry_remove(struct hash *hash, struct hash_entry *entry); /* may move other entries */
/* Gives memory back where a sixteenth or less is used. Moves entries. */
void hash_shrink(struct hash *hash);

/*
 * A table from keys to pointers, none of them NULL: its entries are struct hash_entry alone.
 * hash_add() returns -ENOMEM as hash_entry_insert() does.
 */
static inline void *hash_find(const struct hash *hash, uint64_t key)
{
    struct hash_entry *entry = hash_entry_find(hash, key);

    return entry ? (void *)(uintptr_t)entry->used : NULL;
}

static inline int hash_add(struct hash *hash, uint64_t key, void *value)
{
    struct hash_entry *entry = hash_entry_insert(hash, key);

    if (!entry)
        return -ENOMEM;
    entry->used = (uintptr_t)value;
    return 0;
}

/* Takes the key out. NULL: it was not there. */
static inline void *hash_take(struct hash *hash, uint64_t key)
{
    struct hash_entry *entry = hash_entry_find(hash, key);
    void *value = entry ? (void *)(uintptr_t)entry->used : NULL;

    if (entry) {
        hash_entry_remove(hash, entry);
        hash_shrink(hash);
    }
    return value;
}

#endif
