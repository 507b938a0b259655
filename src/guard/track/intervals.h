/*
 * Intervals of addresses, which may overlap, in a search tree. It is a treap: its shape is random,
 * so a program cannot choose it. The nodes know the highest end below them. All operations take
 * logarithmic time.
 */
#ifndef VGPU_GUARD_INTERVALS_H
#define VGPU_GUARD_INTERVALS_H

#include <stdint.h>

struct interval { /* a member of the caller's structure */
    uint64_t first, last;
    uint64_t highest; /* the rest is the tree's */
    struct interval *left, *right;
    uint32_t priority;
};

/* A tree is a pointer to its root, at first NULL. `random`: a number that a program cannot foresee.
 *  */
void intervals_insert(struct interval **tree, struct interval *interval, uint32_t random);
void intervals_remove(struct interval **tree, struct interval *interval); /* must be in it */

struct interval *intervals_overlap(struct interval *tree, uint64_t first,
                                   uint64_t last); /* one that does; NULL: none */
struct interval *intervals_at(struct interval *tree,
                              uint64_t first); /* one that begins there; NULL: none */
unsigned intervals_count(const struct interval *tree, uint64_t first, uint64_t last,
                         unsigned most); /* counts no further */

#endif
