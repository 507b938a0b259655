#include "guard/track/intervals.h"

#include <stdbool.h>
#include <stddef.h>

/* Everything here is recursive: the depth is a small multiple of the logarithm of the count. */

static bool before(const struct interval *a, const struct interval *b)
{
    return a->first != b->first ? a->first < b->first : (uintptr_t)a < (uintptr_t)b;
}

static void update(struct interval *interval)
{
    interval->highest = interval->last;
    if (interval->left && interval->left->highest > interval->highest)
        interval->highest = interval->left->highest;
    if (interval->right && interval->right->highest > interval->highest)
        interval->highest = interval->right->highest;
}

static void split(struct interval *tree, const struct interval *at, struct interval **ret_left,
                  struct interval **ret_right)
{
    if (!tree) {
        *ret_left = *ret_right = NULL;
    } else if (before(tree, at)) {
        split(tree->right, at, &tree->right, ret_right);
        update(tree);
        *ret_left = tree;
    } else {
        split(tree->left, at, ret_left, &tree->left);
        update(tree);
        *ret_right = tree;
    }
}

/* All of `left` is before all of `right`. */
static struct interval *join(struct interval *left, struct interval *right)
{
    if (!left || !right)
        return left ? left : right;
    if (left->priority > right->priority) {
        left->right = join(left->right, right);
        update(left);
        return left;
    }
    right->left = join(left, right->left);
    update(right);
    return right;
}

static void insert(struct interval **tree, struct interval *interval)
{
    if (!*tree || (*tree)->priority < interval->priority) {
        split(*tree, interval, &interval->left, &interval->right);
        *tree = interval;
    } else {
        insert(before(interval, *tree) ? &(*tree)->left : &(*tree)->right, interval);
    }
    update(*tree);
}

void intervals_insert(struct interval **tree, struct interval *interval, uint32_t random)
{
    interval->priority = random;
    insert(tree, interval);
}

void intervals_remove(struct interval **tree, struct interval *interval)
{
    if (*tree == interval) {
        *tree = join(interval->left, interval->right);
        return;
    }
    intervals_remove(before(interval, *tree) ? &(*tree)->left : &(*tree)->right, interval);
    update(*tree);
}

struct interval *intervals_overlap(struct interval *tree, uint64_t first, uint64_t last)
{
    while (tree && (tree->first > last || tree->last < first)) {
        /* If something on the left reaches this far and yet does not overlap, then nothing on the
         * right does. */
        tree = tree->left && tree->left->highest >= first ? tree->left : tree->right;
    }
    return tree;
}

struct interval *intervals_at(struct interval *tree, uint64_t first)
{
    while (tree && tree->first != first)
        tree = tree->first > first ? tree->left : tree->right;
    return tree;
}

unsigned intervals_count(const struct interval *tree, uint64_t first, uint64_t last, unsigned most)
{
    unsigned count;

    if (!tree || tree->highest < first || most == 0)
        return 0;
    count = intervals_count(tree->left, first, last, most);
    if (count < most && tree->first <= last) {
        count += tree->last >= first;
        count += intervals_count(tree->right, first, last, most - count);
    }
    return count;
}
