/*
 * Intervals of addresses, which may overlap, in a search tree: a treap (its shape is random, not the tenant's choice)
 * whose nodes know the highest end below them. All operations take logarithmic time.
 */
#ifndef VGPU_GUARD_SPANS_H
#define VGPU_GUARD_SPANS_H

#include <stdint.h>

struct span { /* within a structure of the caller's */
    uint64_t first, last;
    uint64_t highest; /* the rest is the tree's */
    struct span *left, *right;
    uint32_t priority;
};

/* A tree is a pointer to its root, at first NULL. `random`: a number that nobody can foresee. */
void spans_insert(struct span **tree, struct span *span, uint32_t random);
void spans_remove(struct span **tree, struct span *span); /* must be in it */

struct span *spans_overlap(struct span *tree, uint64_t first, uint64_t last); /* one that does; NULL: none */
struct span *spans_at(struct span *tree, uint64_t first);                     /* one that begins there; NULL: none */
unsigned spans_count(const struct span *tree, uint64_t first, uint64_t last, unsigned most); /* counts no further */

#endif
