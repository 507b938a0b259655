/* Memory that crosses processes: the region charges it once, to its maker, and to the instance
 * after the maker has let go. */
#include "unit.h"

#include "account/share.h"
#include "region/layout.h"

#include <signal.h>
#include <unistd.h>

static struct vgpu_region *region;
static struct vgpu_ledger *ledger; /* of this process, which imports */

static int set_up(void **state)
{
    (void)state;
    region = new_region("exports", GIB);
    return ledger_new(region, 0, &ledger);
}

static int tear_down(void **state)
{
    (void)state;
    ledger_free(ledger);
    region_close(region);
    return 0;
}

static bool is_key(uint64_t key, void *arg)
{
    return key == *(const uint64_t *)arg;
}

static bool found(uint64_t key, struct ledger_share_memory *ret_memory)
{
    return ledger_share_find(ledger, is_key, &key, ret_memory);
}

enum end { LETS_GO, ENDS, IS_KILLED };
static atomic_int *step;
static enum end how;

/* Exports 64 MiB under key 7, and ends in one way or another once it is told to. */
static int makes(void *arg)
{
    struct vgpu_ledger *own;
    struct ledger_share share;

    (void)arg;
    CHECK(ledger_new(region, 0, &own) == 0);
    CHECK(ledger_reserve(own, 0, 64 * MIB) == 0);
    CHECK(ledger_commit(own, 0, VGPU_KIND_DATA, 64 * MIB, 64 * MIB) == 0);
    CHECK(ledger_share(own, 0, VGPU_KIND_DATA, 64 * MIB, &share) == 0);
    CHECK(ledger_share_key(own, share, 7) == 0);
    atomic_store(step, 1);
    while (atomic_load(step) < 2)
        nap_ms(1);
    if (how == IS_KILLED)
        raise(SIGKILL);
    if (how == LETS_GO && !ledger_share_leave(own, share, 0, VGPU_KIND_DATA, 64 * MIB))
        ledger_release(own, 0, VGPU_KIND_DATA, 64 * MIB);
    return 0;
}

static pid_t maker(void)
{
    pid_t pid;

    step = shared_memory(sizeof(*step));
    pid = spawn(makes, NULL);
    while (atomic_load(step) < 1)
        nap_ms(1);
    return pid;
}

static void end_of(pid_t pid)
{
    atomic_store(step, 2);
    assert_int_equal(finish(pid), how == IS_KILLED ? 1000 + SIGKILL : 0);
}

/* However the maker ends, who has joined keeps the memory charged, and nobody has more than the
 * rest. */
TEST(stays_until_the_last_leaves, set_up, tear_down)
{
    for (how = LETS_GO; how <= IS_KILLED; how++) {
        struct ledger_share_memory memory;
        pid_t pid = maker();

        assert_true(found(7, &memory));
        assert_int_equal(memory.bytes, 64 * MIB);
        assert_int_equal(ledger_share_join(ledger, memory.share), 0);
        assert_int_equal(snapshot_used(region), 64 * MIB);
        end_of(pid);
        assert_int_equal(ledger_reserve(ledger, 0, GIB - 63 * MIB), -ENOMEM);
        assert_int_equal(ledger_reserve(ledger, 0, GIB - 64 * MIB), 0);
        ledger_cancel(ledger, 0, GIB - 64 * MIB);
        assert_int_equal(ledger_held(ledger, 0, VGPU_KINDS), 0);
        assert_true(found(7, &memory));
        assert_false(ledger_share_leave(ledger, memory.share, 0, VGPU_KIND_DATA, 0));
        assert_false(found(7, &memory));
        assert_int_equal(ledger_reserve(ledger, 0, GIB), 0);
        ledger_cancel(ledger, 0, GIB);
    }
}

/* Nobody has joined: it goes with its maker, and who comes too late is told. */
TEST(goes_with_its_maker, set_up, tear_down)
{
    for (how = LETS_GO; how <= IS_KILLED; how++) {
        struct ledger_share_memory memory, again;
        pid_t pid = maker();

        assert_true(found(7, &memory));
        end_of(pid);
        assert_int_equal(ledger_reserve(ledger, 0, GIB), 0);
        ledger_cancel(ledger, 0, GIB);
        assert_false(found(7, &again));
        assert_int_equal(ledger_share_join(ledger, memory.share), -ESTALE);
    }
}

/* The same key again takes no place; of others the newest are known. */
TEST(the_newest_keys_are_known, set_up, tear_down)
{
    struct ledger_share_memory memory;
    struct ledger_share share;

    assert_int_equal(ledger_reserve(ledger, 0, MIB), 0);
    assert_int_equal(ledger_share(ledger, 0, VGPU_KIND_DATA, MIB, &share), 0);
    for (unsigned i = 0; i < 3 * REGION_SHARE_KEYS; i++)
        assert_int_equal(ledger_share_key(ledger, share, 1 + i % REGION_SHARE_KEYS), 0);
    for (uint64_t key = 1; key <= REGION_SHARE_KEYS; key++)
        assert_true(found(key, &memory));
    assert_int_equal(ledger_share_key(ledger, share, 1000), 0);
    assert_true(found(1000, &memory));
    assert_false(found(1, &memory));
    assert_true(found(2, &memory));
    assert_false(ledger_share_leave(ledger, share, 0, VGPU_KIND_DATA, 0));
    ledger_cancel(ledger, 0, MIB);
}
