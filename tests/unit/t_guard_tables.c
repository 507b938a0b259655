/* The guard's hash table and its tree of intervals, each against an array. */
#include "unit.h"

#include "base/hash.h"
#include "guard/track/intervals.h"

static uint64_t random_state;

static uint64_t next_random(void)
{
    random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
    return random_state >> 33;
}

#define KEYS 4096

/* Keys such as a tenant might choose: all in one place for a table that takes some of the bits as
 * they are. */
static uint64_t key_of(unsigned family, unsigned i)
{
    switch (family) {
    case 0:
        return i;
    case 1:
        return (uint64_t)i << 32;
    case 2:
        return (uint64_t)i << 52;
    case 3:
        return i * 0x9e3779b97f4a7c15ULL;
    default:
        return (uint64_t)i << 32 | i;
    }
}

TEST(hash_as_an_array)
{
    static struct hash_seed seed;
    static int value[KEYS];
    struct hash hash;

    assert_int_equal(hash_seed(&seed), 0);
    for (unsigned family = 0; family < 5; family++) {
        bool in[KEYS] = {false};
        size_t count = 0;

        hash_init(&hash, &seed, sizeof(struct hash_entry));
        assert_null(hash_find(&hash, 0));
        assert_null(hash_take(&hash, 0));
        random_state = family;
        for (unsigned step = 0; step < 60000; step++) {
            unsigned i = (unsigned)(next_random() % KEYS);
            /* Phases of growing and of shrinking. */
            bool add = next_random() % 8 < (step / 15000 % 2 ? 1 : 7);

            assert_ptr_equal(hash_find(&hash, key_of(family, i)), in[i] ? &value[i] : NULL);
            if (add && !in[i])
                assert_int_equal(hash_add(&hash, key_of(family, i), &value[i]), 0);
            else if (!add)
                assert_ptr_equal(hash_take(&hash, key_of(family, i)), in[i] ? &value[i] : NULL);
            count += (size_t)add - in[i];
            in[i] = add;
            assert_int_equal(hash.count, count);
            assert_true(3 * hash.count <= 2 * hash.capacity || hash.capacity == 0);
        }
        for (unsigned i = 0; i < KEYS; i++)
            assert_ptr_equal(hash_find(&hash, key_of(family, i)), in[i] ? &value[i] : NULL);
        for (unsigned i = 0; i < KEYS; i++)
            hash_take(&hash, key_of(family, i));
        assert_int_equal(hash.count, 0);
        assert_true(hash.capacity < 1024); /* it has shrunk */
        hash_end(&hash);
    }
}

TEST(hash_reserved)
{
    static struct hash_seed seed;
    static int value;
    struct hash hash;
    size_t capacity;

    assert_int_equal(hash_seed(&seed), 0);
    hash_init(&hash, &seed, sizeof(struct hash_entry));
    assert_int_equal(hash_reserve(&hash, 1000), 0);
    capacity = hash.capacity;
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(hash_add(&hash, i, &value), 0);
    assert_int_equal(hash.capacity, capacity);
    hash_end(&hash);
    assert_null(hash_find(&hash, 1));
}

#define SPANS 512

static struct interval spans[SPANS];
static bool live[SPANS];

static bool overlaps(const struct interval *span, uint64_t first, uint64_t last)
{
    return span->first <= last && span->last >= first;
}

static unsigned height(const struct interval *tree)
{
    unsigned left, right;

    if (!tree)
        return 0;
    left = height(tree->left);
    right = height(tree->right);
    return 1 + (left > right ? left : right);
}

/* Every node knows the highest end below it, and none has more priority than the one above. */
static void check_tree(const struct interval *tree)
{
    const struct interval *children[] = {tree->left, tree->right};
    uint64_t highest = tree->last;

    for (unsigned i = 0; i < 2; i++) {
        if (!children[i])
            continue;
        check_tree(children[i]);
        assert_true(children[i]->priority <= tree->priority);
        highest = children[i]->highest > highest ? children[i]->highest : highest;
    }
    assert_int_equal(tree->highest, highest);
}

static void check_questions(struct interval *tree, uint64_t first, uint64_t last)
{
    const struct interval *found = intervals_overlap(tree, first, last),
                          *begins = intervals_at(tree, first);
    unsigned count = 0, begin = 0;

    for (unsigned i = 0; i < SPANS; i++) {
        count += live[i] && overlaps(&spans[i], first, last);
        begin += live[i] && spans[i].first == first;
    }
    assert_int_equal(found != NULL, count > 0);
    assert_int_equal(begins != NULL, begin > 0);
    if (found)
        assert_true(live[found - spans] && overlaps(found, first, last));
    if (begins)
        assert_true(live[begins - spans] && begins->first == first);
    assert_int_equal(intervals_count(tree, first, last, SPANS + 1), count);
    assert_int_equal(intervals_count(tree, first, last, 3), count < 3 ? count : 3);
    assert_int_equal(intervals_count(tree, first, last, 0), 0);
}

TEST(spans_as_an_array)
{
    struct interval *tree = NULL;

    random_state = 1;
    for (unsigned step = 0; step < 20000; step++) {
        unsigned i = (unsigned)(next_random() % SPANS);
        uint64_t first = next_random() % 1000, last = first + next_random() % (step % 3 ? 8 : 400);

        if (live[i]) {
            intervals_remove(&tree, &spans[i]);
        } else {
            /* The ends of the address space now and then. */
            spans[i].first = next_random() % 50 ? next_random() % 1000 : 0;
            spans[i].last = next_random() % 50 ? spans[i].first + next_random() % 40 : UINT64_MAX;
            intervals_insert(&tree, &spans[i], (uint32_t)next_random());
        }
        live[i] = !live[i];
        if (tree)
            check_tree(tree);
        check_questions(tree, first, last);
        check_questions(tree, 0, step % 2 ? UINT64_MAX : 0);
    }
}

/* Whatever the order that they come in, the tree is no list. */
TEST(spans_in_order)
{
    enum { MANY = 100000 };
    struct interval *many = calloc(MANY, sizeof(*many)), *tree;

    assert_non_null(many);
    random_state = 2;
    for (unsigned order = 0; order < 3; order++) {
        tree = NULL;
        for (unsigned i = 0; i < MANY; i++) {
            many[i].first = order == 0 ? i : order == 1 ? MANY - i : 7;
            many[i].last = many[i].first;
            intervals_insert(&tree, &many[i], (uint32_t)next_random());
        }
        assert_in_range(height(tree), 17, 100); /* a list has 100 000; 40 is usual */
        for (unsigned i = 0; i < MANY; i++)
            intervals_remove(&tree, &many[i]);
        assert_null(tree);
    }
    free(many);
}
