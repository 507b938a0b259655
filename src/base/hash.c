#include "base/hash.h"

#include "base/cleanup.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#define FIRST_BYTES 4096u

uint64_t hash_of(const struct hash_seed *seed, uint64_t key)
{
    uint64_t mixed = 0;

    if (seed) {
        for (unsigned i = 0; i < 8; i++)
            mixed ^= seed->word[i][key >> 8 * i & 0xff];
        return mixed;
    }
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15ULL;
    key ^= key >> 29;
    key *= 0xbf58476d1ce4e5b9ULL;
    return key ^ key >> 32;
}

void hash_init(struct hash *hash, const struct hash_seed *seed, size_t entry_bytes)
{
    *hash = (struct hash){.seed = seed, .entry_bytes = entry_bytes};
}

void hash_end(struct hash *hash)
{
    if (hash->entries)
        munmap(hash->entries, hash->capacity * hash->entry_bytes);
    hash_init(hash, hash->seed, hash->entry_bytes);
}

/* The key's entry, or the free one where it would be. Never full, so there is one. */
static struct hash_entry *place_of(const struct hash *hash, uint64_t key)
{
    size_t mask = hash->capacity - 1, i = hash_of(hash->seed, key) & mask;

    while (hash_at(hash, i)->used && hash_at(hash, i)->key != key)
        i = (i + 1) & mask;
    return hash_at(hash, i);
}

struct hash_entry *hash_entry_find(const struct hash *hash, uint64_t key)
{
    struct hash_entry *entry = hash->capacity ? place_of(hash, key) : NULL;

    return entry && entry->used ? entry : NULL;
}

static int resize(struct hash *hash, size_t capacity)
{
    KEEP_ERRNO;
    struct hash old = *hash;
    char *entries = mmap(NULL, capacity * hash->entry_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (entries == MAP_FAILED)
        return -ENOMEM;
    hash->entries = entries;
    hash->capacity = capacity;
    for (size_t i = 0; i < old.capacity; i++) {
        const struct hash_entry *entry = hash_at(&old, i);

        if (entry->used)
            memcpy(place_of(hash, entry->key), entry, hash->entry_bytes);
    }
    if (old.entries)
        munmap(old.entries, old.capacity * old.entry_bytes);
    return 0;
}

int hash_reserve(struct hash *hash, size_t more)
{
    size_t capacity = hash->capacity;

    if (!capacity)
        for (capacity = 64; capacity * hash->entry_bytes < FIRST_BYTES;)
            capacity *= 2;
    while (3 * (hash->count + more) > 2 * capacity)
        capacity *= 2;
    return capacity == hash->capacity ? 0 : resize(hash, capacity);
}

struct hash_entry *hash_entry_insert(struct hash *hash, uint64_t key)
{
    struct hash_entry *entry;

    if (hash_reserve(hash, 1) < 0)
        return NULL;
    entry = place_of(hash, key);
    memset(entry, 0, hash->entry_bytes);
    *entry = (struct hash_entry){.key = key, .used = 1};
    hash->count++;
    return entry;
}

void hash_entry_remove(struct hash *hash, struct hash_entry *entry)
{
    size_t mask = hash->capacity - 1;
    size_t hole = (size_t)((char *)entry - hash->entries) / hash->entry_bytes;

    /* An entry that could not be at its own place because of this one moves into the hole. */
    for (size_t i = (hole + 1) & mask; hash_at(hash, i)->used; i = (i + 1) & mask) {
        size_t home = hash_of(hash->seed, hash_at(hash, i)->key) & mask;

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            memcpy(hash_at(hash, hole), hash_at(hash, i), hash->entry_bytes);
            hole = i;
        }
    }
    hash_at(hash, hole)->used = 0;
    hash->count--;
}

void hash_shrink(struct hash *hash)
{
    /* To a quarter full. It stays as it is where there is no memory for that. */
    if (hash->capacity * hash->entry_bytes >= 4 * FIRST_BYTES && 16 * hash->count < hash->capacity)
        resize(hash, hash->capacity / 4);
}
