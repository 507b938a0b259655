#include "guard/track/hash.h"

#include "base/cleanup.h"

#include <stdbool.h>
#include <sys/random.h>

#define FIRST_CAPACITY 64u

struct hash_entry {
    uint64_t key;
    void *value; /* NULL: free */
};

int hash_seed(struct hash_seed *ret_seed)
{
    KEEP_ERRNO;
    struct hash_seed seed;
    size_t done = 0;

    while (done < sizeof(seed)) {
        ssize_t count = getrandom((char *)&seed + done, sizeof(seed) - done, 0);

        if (count < 0 && errno != EINTR)
            return -errno;
        if (count > 0)
            done += (size_t)count;
    }
    *ret_seed = seed;
    return 0;
}

void hash_init(struct hash *hash, const struct hash_seed *seed)
{
    *hash = (struct hash){.seed = seed};
}

void hash_end(struct hash *hash)
{
    free(hash->entries);
    *hash = (struct hash){.seed = hash->seed};
}

static size_t place_of(const struct hash *hash, uint64_t key)
{
    uint64_t mixed = 0;

    for (unsigned i = 0; i < 8; i++)
        mixed ^= hash->seed->word[i][key >> 8 * i & 0xff];
    return mixed & (hash->capacity - 1);
}

/* The key's entry, or the free one where it would be. Never full, so there is one. */
static struct hash_entry *entry_of(const struct hash *hash, uint64_t key)
{
    size_t i = place_of(hash, key);

    while (hash->entries[i].value && hash->entries[i].key != key)
        i = (i + 1) & (hash->capacity - 1);
    return &hash->entries[i];
}

void *hash_find(const struct hash *hash, uint64_t key)
{
    return hash->capacity ? entry_of(hash, key)->value : NULL;
}

static bool resize(struct hash *hash, size_t capacity)
{
    KEEP_ERRNO;
    struct hash old = *hash;
    struct hash_entry *entries = calloc(capacity, sizeof(*entries));

    if (!entries)
        return false;
    hash->entries = entries;
    hash->capacity = capacity;
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.entries[i].value)
            *entry_of(hash, old.entries[i].key) = old.entries[i];
    }
    free(old.entries);
    return true;
}

int hash_reserve(struct hash *hash, size_t more)
{
    size_t capacity = hash->capacity ? hash->capacity : FIRST_CAPACITY;

    /* At most two thirds full. */
    while (3 * (hash->count + more) > 2 * capacity)
        capacity *= 2;
    if (capacity == hash->capacity || resize(hash, capacity))
        return 0;
    return -ENOMEM;
}

int hash_add(struct hash *hash, uint64_t key, void *value)
{
    int rc = hash_reserve(hash, 1);

    if (rc == 0) {
        *entry_of(hash, key) = (struct hash_entry){key, value};
        hash->count++;
    }
    return rc;
}

void *hash_take(struct hash *hash, uint64_t key)
{
    size_t mask = hash->capacity - 1, hole;
    struct hash_entry *entry;
    void *value;

    if (!hash->capacity)
        return NULL;
    entry = entry_of(hash, key);
    value = entry->value;
    if (!value)
        return NULL;
    /* Whatever could not be at its own place because of this entry moves into the hole. */
    hole = (size_t)(entry - hash->entries);
    for (size_t i = (hole + 1) & mask; hash->entries[i].value; i = (i + 1) & mask) {
        if (((i - place_of(hash, hash->entries[i].key)) & mask) >= ((i - hole) & mask)) {
            hash->entries[hole] = hash->entries[i];
            hole = i;
        }
    }
    hash->entries[hole].value = NULL;
    hash->count--;
    /* To a quarter full. It stays as it is where there is no memory for that. */
    if (hash->capacity >= 4 * FIRST_CAPACITY && 16 * hash->count < hash->capacity)
        resize(hash, hash->capacity / 4);
    return value;
}
