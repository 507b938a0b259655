/*
 * The states of tenants and the transitions of src/sched/STATES.md, each by the function that makes
 * it. Nothing here has a process: an arena in memory, and a time that the test chooses.
 */
#include "unit.h"

#include "sched/sched.h"

#include <stdlib.h>

enum { A, B, COUNT };

struct two {
    struct vgpu_arena arena;
    struct arena_page *page[COUNT];
    uint64_t now_ns;
};

static struct two *two_new(void)
{
    struct two *two = calloc(1, sizeof(*two));

    assert_non_null(two);
    assert_int_equal(posix_memalign((void **)&two->arena.layout, _Alignof(struct arena_layout),
                                    sizeof(*two->arena.layout)),
                     0);
    memset(two->arena.layout, 0, sizeof(*two->arena.layout));
    assert_non_null(two->arena.layout);
    two->arena.layout->pages_high = COUNT;
    two->now_ns = 100 * NS_PER_S;
    for (unsigned i = A; i < COUNT; i++) {
        struct sched_identity identity = {.id = 7 + i, .weight = VGPU_WEIGHT_DEFAULT};

        two->page[i] = &two->arena.layout->page[i];
        two->page[i]->tenant = i;
        assert_int_equal(sched_tenant(two->arena.layout, &identity), i);
    }
    return two;
}

static void two_free(struct two *two)
{
    free(two->arena.layout);
    free(two);
}

static enum tenant_state state_of(const struct two *two, unsigned i)
{
    return tenant_state(&two->arena.layout->tenant[i], two->page[i]->active,
                        sched_holder(two->arena.layout) == (int)i, two->now_ns);
}

#define assert_states(two, a, b)                                                                   \
    do {                                                                                           \
        assert_int_equal(state_of(two, A), a);                                                     \
        assert_int_equal(state_of(two, B), b);                                                     \
    } while (0)

/* A runs and B waits. */
static struct two *contended(void)
{
    struct two *two = two_new();

    assert_states(two, TENANT_INACTIVE, TENANT_INACTIVE);
    sched_activate(&two->arena, two->page[A], A, two->now_ns);
    assert_states(two, TENANT_RUNNING, TENANT_INACTIVE); /* alone, it holds the device */
    sched_activate(&two->arena, two->page[B], B, two->now_ns);
    assert_states(two, TENANT_RUNNING, TENANT_IDLE);
    two->page[B]->pending_turn = 1;
    sched_want(&two->arena, two->page[B], B, two->now_ns);
    assert_states(two, TENANT_RUNNING, TENANT_WAITING);
    return two;
}

TEST(free_and_inactive)
{
    struct two *two = two_new();

    assert_int_equal(tenant_state(&two->arena.layout->tenant[COUNT], false, false, two->now_ns),
                     TENANT_FREE);
    assert_states(two, TENANT_INACTIVE, TENANT_INACTIVE);
    two_free(two);
}

TEST(a_turn_ends_and_the_next_begins)
{
    struct two *two = contended();

    sched_next(&two->arena, POLICY_YIELDED, false, two->now_ns + NS_PER_MS);
    assert_states(two, TENANT_IDLE, TENANT_RUNNING);
    assert_int_equal(two->page[B]->granted_turn, 1); /* its semaphore is open */
    assert_int_equal(two->page[B]->runnable, 0);
    sched_next(&two->arena, POLICY_YIELDED, false, two->now_ns + 2 * NS_PER_MS);
    assert_states(two, TENANT_IDLE, TENANT_IDLE);
    sched_want(&two->arena, two->page[A], A, two->now_ns); /* nobody has it */
    assert_states(two, TENANT_RUNNING, TENANT_IDLE);
    two_free(two);
}

TEST(a_tenant_goes_on_without_a_turn)
{
    struct two *two = contended();

    sched_defer(&two->arena, two->page[A], A, two->now_ns);
    assert_states(two, TENANT_IDLE, TENANT_RUNNING);
    sched_want(&two->arena, two->page[A], A, two->now_ns);
    assert_states(two, TENANT_WAITING, TENANT_RUNNING);
    sched_defer(&two->arena, two->page[A], A, two->now_ns);
    sched_next(&two->arena, POLICY_SPENT, true, two->now_ns + NS_PER_MS);
    assert_int_equal(state_of(two, A), TENANT_IDLE); /* it does not wait any more */
    two_free(two);
}

TEST(unscheduled_for_a_while)
{
    struct two *two = contended();

    sched_set_unscheduled(&two->arena, B, two->now_ns);
    assert_states(two, TENANT_RUNNING, TENANT_UNSCHEDULED);
    assert_int_equal(two->page[B]->granted_turn, 1); /* nothing of it waits any more */
    two->now_ns += SCHED_UNSCHEDULED_NS;
    assert_int_equal(state_of(two, B), TENANT_IDLE);
    /* Longer, the next time. */
    sched_set_unscheduled(&two->arena, B, two->now_ns);
    two->now_ns += SCHED_UNSCHEDULED_NS;
    assert_int_equal(state_of(two, B), TENANT_UNSCHEDULED);
    two->now_ns += SCHED_UNSCHEDULED_NS;
    assert_int_equal(state_of(two, B), TENANT_IDLE);
    two_free(two);
}

TEST(draining_until_its_work_is_over)
{
    struct two *two = contended();

    sched_drain(&two->arena, B, two->now_ns + SCHED_DRAIN_NS, two->now_ns);
    assert_states(two, TENANT_RUNNING, TENANT_DRAINING);
    sched_next(&two->arena, POLICY_YIELDED, false, two->now_ns);
    assert_states(two, TENANT_IDLE, TENANT_DRAINING); /* no turn for it */
    sched_drain(&two->arena, B, 0, two->now_ns);
    assert_int_equal(state_of(two, B), TENANT_WAITING);
    sched_next(&two->arena, POLICY_YIELDED, false, two->now_ns);
    assert_states(two, TENANT_IDLE, TENANT_RUNNING);
    two_free(two);
}

/* What others write into the arena does not keep a tenant away for ever. */
TEST(nonsense_is_no_state)
{
    struct two *two = contended();

    two->arena.layout->tenant[B].draining_until_ns = UINT64_MAX;
    two->arena.layout->tenant[B].unscheduled_until_ns = two->now_ns + 2 * POLICY_AWAY_MOST_NS;
    assert_states(two, TENANT_RUNNING, TENANT_WAITING);
    two->arena.layout->holder = UINT32_MAX;
    assert_states(two, TENANT_IDLE, TENANT_WAITING);
    two_free(two);
}
