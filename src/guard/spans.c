#include "guard/spans.h"

#include <stdbool.h>
#include <stddef.h>

/* Everything here is recursive: the depth is a small multiple of the logarithm of the count. */

static bool before(const struct span *a, const struct span *b)
{
    return a->first != b->first ? a->first < b->first : (uintptr_t)a < (uintptr_t)b;
}

static void update(struct span *span)
{
    span->highest = span->last;
    if (span->left && span->left->highest > span->highest)
        span->highest = span->left->highest;
    if (span->right && span->right->highest > span->highest)
        span->highest = span->right->highest;
}

static void split(struct span *tree, const struct span *at, struct span **ret_left, struct span **ret_right)
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
static struct span *join(struct span *left, struct span *right)
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

static void insert(struct span **tree, struct span *span)
{
    if (!*tree || (*tree)->priority < span->priority) {
        split(*tree, span, &span->left, &span->right);
        *tree = span;
    } else {
        insert(before(span, *tree) ? &(*tree)->left : &(*tree)->right, span);
    }
    update(*tree);
}

void spans_insert(struct span **tree, struct span *span, uint32_t random)
{
    span->priority = random;
    insert(tree, span);
}

void spans_remove(struct span **tree, struct span *span)
{
    if (*tree == span) {
        *tree = join(span->left, span->right);
        return;
    }
    spans_remove(before(span, *tree) ? &(*tree)->left : &(*tree)->right, span);
    update(*tree);
}

struct span *spans_overlap(struct span *tree, uint64_t first, uint64_t last)
{
    while (tree && (tree->first > last || tree->last < first)) {
        /* If something on the left reaches this far and yet does not overlap, then nothing on the right does. */
        tree = tree->left && tree->left->highest >= first ? tree->left : tree->right;
    }
    return tree;
}

struct span *spans_at(struct span *tree, uint64_t first)
{
    while (tree && tree->first != first)
        tree = tree->first > first ? tree->left : tree->right;
    return tree;
}

unsigned spans_count(const struct span *tree, uint64_t first, uint64_t last, unsigned most)
{
    unsigned count;

    if (!tree || tree->highest < first || most == 0)
        return 0;
    count = spans_count(tree->left, first, last, most);
    if (count < most && tree->first <= last) {
        count += tree->last >= first;
        count += spans_count(tree->right, first, last, most - count);
    }
    return count;
}
