/*
 * A hash table from numbers to pointers, for keys that somebody hostile chooses: simple tabulation
 * hashing with a random seed, under which linear probing takes constant time whatever the keys are.
 *
 * Open addressing; removal shifts back, so nothing gets slower with time. It grows and shrinks with
 * what is in it.
 */
#ifndef VGPU_GUARD_HASH_H
#define VGPU_GUARD_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_seed {
    uint64_t word[8][256];
};

struct hash {
    const struct hash_seed *seed; /* may serve several tables; has to outlive them */
    struct hash_entry *entries;
    size_t capacity, count;
};

int hash_seed(struct hash_seed *ret_seed); /* 0 or -errno: no random numbers */

void hash_init(struct hash *hash, const struct hash_seed *seed);
void hash_end(struct hash *hash);

void *hash_find(const struct hash *hash, uint64_t key); /* NULL: not there */
/* Room for so many more: after 0, as many hash_add() succeed. -ENOMEM. */
int hash_reserve(struct hash *hash, size_t more);
/* The key must not be there, the value not be NULL. -ENOMEM; never where another key was taken out
 * just before. */
int hash_add(struct hash *hash, uint64_t key, void *value);
void *hash_take(struct hash *hash, uint64_t key); /* takes it out. NULL: was not there */

#endif
