/*
 * The lock between processes by itself: its word, takeover, and what a holder that lives after all
 * can still do. The region's and the arena's use of it are in t_kill.c and t_arena.c.
 */
#include "unit.h"

#include "region/shm_lock.h"

#include <errno.h>

#define ID(word)    ((word)&SHM_LOCK_ID_MASK)
#define COUNT(word) ((word) >> 11 & 0xfffffu)

static _Atomic uint32_t lock;
static unsigned asked_id, asked;

static bool never(void *file, unsigned id)
{
    (void)file;
    asked_id = id;
    asked++;
    return false;
}

static bool always(void *file, unsigned id)
{
    never(file, id);
    return true;
}

/* The holder releases the lock, and another process takes it, while a waiter asks. */
static bool too_late(void *held, unsigned id)
{
    never(held, id);
    if (asked > 1)
        return false;
    shm_lock_release(&lock, *(uint32_t *)held);
    assert_int_equal(
        shm_lock_take(&lock, &(struct shm_lock_rules){.lost = never}, NULL, 9, 0, held), 0);
    return true;
}

static struct shm_lock_rules rules(bool (*lost)(void *, unsigned))
{
    lock = 0;
    asked = 0;
    return (struct shm_lock_rules){
        .lost = lost, .ask_first_ns = NS_PER_MS, .ask_last_ns = 4 * NS_PER_MS};
}

TEST(the_word_names_its_holder)
{
    struct shm_lock_rules r = rules(never);
    uint32_t held;

    for (unsigned i = 1; i < 100; i++) {
        assert_int_equal(shm_lock_take(&lock, &r, NULL, i, NS_PER_S, &held), 0);
        assert_int_equal(ID(lock), i);
        assert_int_equal(COUNT(lock), i);
        assert_int_equal(lock, held);
        shm_lock_release(&lock, held);
        assert_int_equal(ID(lock), 0);
    }
    assert_int_equal(asked, 0);
}

TEST(a_holder_that_lives_keeps_it)
{
    struct shm_lock_rules r = rules(never);
    uint64_t start_ns = clock_ns();
    uint32_t held, other;

    assert_int_equal(shm_lock_take(&lock, &r, NULL, 7, NS_PER_S, &held), 0);
    assert_int_equal(shm_lock_take(&lock, &r, NULL, 8, 50 * NS_PER_MS, &other), -ETIMEDOUT);
    assert_true(clock_ns() - start_ns >= 50 * NS_PER_MS);
    assert_int_equal(ID(lock), 7);
    assert_int_equal(asked_id, 7);
    assert_in_range(asked, 2, 50);
    shm_lock_release(&lock, held); /* a waiter was noted meanwhile */
    assert_int_equal(ID(lock), 0);
    assert_int_equal(shm_lock_take(&lock, &r, NULL, 8, 0, &other), 0);
}

TEST(a_lost_lock_is_taken_over_once)
{
    struct shm_lock_rules r = rules(always);
    uint32_t held, other;

    assert_int_equal(shm_lock_take(&lock, &r, NULL, 7, NS_PER_S, &held), 0);
    assert_int_equal(shm_lock_take(&lock, &r, NULL, 8, NS_PER_S, &other), 1);
    assert_int_equal(ID(lock), 8);
    assert_int_equal(asked, 1);
    shm_lock_release(&lock, held); /* not its lock any more */
    assert_int_equal(ID(lock), 8);
    shm_lock_release(&lock, other);
    assert_int_equal(ID(lock), 0);
    shm_lock_release(&lock, other); /* twice does nothing */
    assert_int_equal(shm_lock_take(&lock, &r, NULL, 7, 0, &held), 0);
}

/* The same identity holds the lock again: the count tells the acquisitions apart. */
TEST(a_release_is_for_one_acquisition)
{
    struct shm_lock_rules r = rules(always);
    uint32_t first, second;

    assert_int_equal(shm_lock_take(&lock, &r, NULL, 7, NS_PER_S, &first), 0);
    assert_int_equal(shm_lock_take(&lock, &r, NULL, 7, NS_PER_S, &second), 1);
    shm_lock_release(&lock, first);
    assert_int_equal(ID(lock), 7);
    shm_lock_release(&lock, second);
    assert_int_equal(ID(lock), 0);
}

TEST(another_holder_is_not_robbed)
{
    struct shm_lock_rules r = rules(too_late);
    uint32_t held, other;

    assert_int_equal(shm_lock_take(&lock, &r, NULL, 7, NS_PER_S, &held), 0);
    assert_int_equal(shm_lock_take(&lock, &r, &held, 8, 50 * NS_PER_MS, &other), -ETIMEDOUT);
    assert_int_equal(ID(lock), 9);
    assert_true(asked > 1);
    shm_lock_release(&lock, held);
}

TEST(an_identity_inherits_its_lock)
{
    struct shm_lock_rules r = rules(never);
    uint32_t held, inherited;

    assert_false(shm_lock_inherit(&lock, 7, &inherited));
    assert_int_equal(shm_lock_take(&lock, &r, NULL, 7, NS_PER_S, &held), 0);
    assert_false(shm_lock_inherit(&lock, 8, &inherited));
    assert_true(shm_lock_inherit(&lock, 7, &inherited));
    shm_lock_release(&lock, held); /* of the former owner */
    assert_int_equal(ID(lock), 7);
    shm_lock_release(&lock, inherited);
    assert_int_equal(ID(lock), 0);
}

/* Whatever is in the word, a call ends within its bound, and a lock that is lost works again. */
TEST(damaged_words)
{
    static const uint32_t words[] = {UINT32_MAX, 0x80000000u, 0x7ff, 0x7ffff800u, 0x800007ffu, 1};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct shm_lock_rules r = rules(always);
        uint32_t held;

        lock = words[i];
        assert_true(shm_lock_take(&lock, &r, NULL, 3, NS_PER_S, &held) >= 0);
        assert_int_equal(ID(lock), 3);
        shm_lock_release(&lock, held);
        assert_int_equal(ID(lock), 0);
    }
}
