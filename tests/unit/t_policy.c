/*
 * What holds for every scheduling policy: each row of the list, whatever it is.
 */
#include "unit.h"

#include "sched/policy.h"

#include <stdlib.h>

#define NOW_NS (100 * NS_PER_S)

enum { LOW, HIGH };

static const char *const names[] = {
#define TURN_POLICY(id, name, meaning) name,
#include "policies.def"
};

/* Two tenants of equal weight, the second with the higher priority. */
static struct arena_layout *with_policy(uint32_t policy)
{
    struct arena_layout *layout = NULL;

    assert_int_equal(
        posix_memalign((void **)&layout, _Alignof(struct arena_layout), sizeof(*layout)), 0);
    memset(layout, 0, sizeof(*layout));
    layout->policy = policy;
    for (unsigned i = LOW; i <= HIGH; i++) {
        layout->tenant[i].id = i + 1;
        layout->tenant[i].active = 1;
        layout->tenant[i].weight = VGPU_WEIGHT_DEFAULT;
        layout->tenant[i].priority = i;
        layout->tenant[i].level = POLICY_LEVELS - 1;
    }
    return layout;
}

static void waits(struct arena_layout *layout, unsigned tenant, uint64_t for_ns)
{
    layout->tenant[tenant].wanted_ns = NOW_NS - for_ns;
}

static void holds(struct arena_layout *layout, unsigned tenant)
{
    layout->holder = tenant + 1;
    layout->start_ns = NOW_NS - POLICY_CUT_NS / 2;
    layout->end_ns = NOW_NS + POLICY_MAX_NS;
}

TEST(names_differ)
{
    for (unsigned i = 0; i < VGPU_TURN_POLICIES; i++)
        for (unsigned j = 0; j <= i; j++)
            assert_true((strcmp(names[i], names[j]) == 0) == (i == j) && *names[i]);
}

TEST(only_a_tenant_that_waits_is_picked)
{
    for (uint32_t policy = 0; policy < VGPU_TURN_POLICIES; policy++) {
        struct arena_layout *layout CLEANUP_FREE = with_policy(policy);

        assert_int_equal(policy_pick(layout, -1, NOW_NS), -1);
        for (int i = LOW; i <= HIGH; i++) {
            waits(layout, (unsigned)i, NS_PER_MS);
            assert_int_equal(policy_pick(layout, -1, NOW_NS), i);
            assert_int_equal(policy_pick(layout, i, NOW_NS), i); /* rather than nobody */
            layout->tenant[i].draining_until_ns = NOW_NS + NS_PER_S;
            assert_int_equal(policy_pick(layout, -1, NOW_NS), -1);
            layout->tenant[i].draining_until_ns = 0;
            layout->tenant[i].wanted_ns = 0;
        }
        waits(layout, LOW, NS_PER_MS);
        waits(layout, HIGH, NS_PER_MS);
        assert_int_equal(policy_pick(layout, LOW, NOW_NS), HIGH);
        assert_int_equal(policy_pick(layout, HIGH, NOW_NS), LOW);
    }
}

TEST(a_starved_tenant_goes_first_for_a_short_turn)
{
    for (uint32_t policy = 0; policy < VGPU_TURN_POLICIES; policy++) {
        struct arena_layout *layout CLEANUP_FREE = with_policy(policy);
        uint64_t whole_ns;

        /* Everything else speaks for the other. */
        layout->tenant[LOW].virtual_ns = NS_PER_S;
        layout->tenant[HIGH].level = 0;
        waits(layout, HIGH, 2 * NS_PER_MS);
        waits(layout, LOW, NS_PER_MS);
        assert_int_equal(policy_pick(layout, -1, NOW_NS), HIGH);
        assert_false(policy_starved(layout, LOW, NOW_NS));
        whole_ns = policy_quantum_ns(layout, LOW, NOW_NS);
        waits(layout, LOW, POLICY_STARVED_NS);
        assert_true(policy_starved(layout, LOW, NOW_NS));
        assert_int_equal(policy_pick(layout, -1, NOW_NS), LOW);
        assert_in_range(policy_quantum_ns(layout, LOW, NOW_NS), POLICY_MIN_NS,
                        whole_ns > POLICY_AGED_TURN_NS ? whole_ns : POLICY_AGED_TURN_NS);
    }
}

TEST(a_turn_keeps_its_bounds)
{
    for (uint32_t policy = 0; policy < VGPU_TURN_POLICIES; policy++) {
        struct arena_layout *layout CLEANUP_FREE = with_policy(policy);

        waits(layout, HIGH, NS_PER_MS);
        holds(layout, LOW);
        for (uint32_t level = 0; level <= 2 * POLICY_LEVELS; level++)
            for (unsigned i = LOW; i <= HIGH; i++) {
                layout->tenant[i].level = level;
                assert_in_range(policy_quantum_ns(layout, i, NOW_NS), POLICY_MIN_NS, POLICY_MAX_NS);
                assert_in_range(policy_ahead_ns(layout, i), 1, POLICY_AHEAD_NS);
                assert_in_range(policy_grace_ns(layout, i, 0), POLICY_GRACE_NS,
                                POLICY_GRACE_MOST_NS);
            }
    }
}

/* A policy that lets a higher priority end a turn at once also keeps launches of lower ones short
 * and in turns; any other policy does not know priorities. */
TEST(priority_counts_everywhere_or_nowhere)
{
    unsigned count = 0;

    for (uint32_t policy = 0; policy < VGPU_TURN_POLICIES; policy++) {
        struct arena_layout *layout CLEANUP_FREE = with_policy(policy);
        bool counts;

        holds(layout, LOW);
        waits(layout, HIGH, NS_PER_MS);
        counts = policy_preempts_ns(layout, HIGH, LOW, NOW_NS) == NOW_NS;
        assert_true(counts || policy_preempts_ns(layout, HIGH, LOW, NOW_NS) == UINT64_MAX);
        assert_true(counts == !policy_lets_beside(layout, LOW));
        assert_true(policy_lets_beside(layout, HIGH));
        assert_true(counts == (policy_ahead_ns(layout, LOW) == POLICY_AHEAD_LOW_PRIORITY_NS));
        assert_int_equal(policy_grace_ns(layout, LOW, POLICY_BURST_NS), POLICY_QUICK_NS);
        layout->tenant[HIGH].wanted_ns = 0;
        holds(layout, HIGH);
        waits(layout, LOW, NS_PER_MS);
        assert_true(policy_preempts_ns(layout, LOW, HIGH, NOW_NS) == UINT64_MAX);
        assert_true(counts == (policy_grace_ns(layout, HIGH, POLICY_BURST_NS) > POLICY_QUICK_NS));
        count += counts;
    }
    assert_int_equal(count, 1);
}

TEST(a_turn_is_charged)
{
    for (uint32_t policy = 0; policy < VGPU_TURN_POLICIES; policy++) {
        struct arena_layout *layout CLEANUP_FREE = with_policy(policy);
        const struct arena_tenant *tenant = &layout->tenant[LOW];

        holds(layout, LOW);
        layout->tenant[LOW].level = 1;
        policy_held(layout, LOW, 10 * NS_PER_MS, POLICY_SPENT);
        assert_int_equal(tenant->held_ns, 10 * NS_PER_MS);
        assert_int_equal(tenant->virtual_ns, 10 * NS_PER_MS);
        assert_int_equal(tenant->level, 2);
        policy_held(layout, LOW, NS_PER_MS, POLICY_YIELDED);
        assert_int_equal(tenant->held_ns, 11 * NS_PER_MS);
        assert_int_equal(tenant->level, 1);
        assert_true(policy_due_again(layout, LOW, NS_PER_MS, NOW_NS)); /* nobody waits */
        assert_int_equal(tenant->level, 1);                            /* it only asked */
        assert_int_equal(tenant->wanted_ns, 0);
    }
}

TEST(a_number_beyond_the_list_is_fair)
{
    struct arena_layout *fair CLEANUP_FREE = with_policy(VGPU_TURN_FAIR);
    struct arena_layout *unknown CLEANUP_FREE = with_policy(UINT32_MAX);

    waits(fair, HIGH, NS_PER_MS);
    waits(unknown, HIGH, NS_PER_MS);
    assert_int_equal(policy_quantum_ns(unknown, LOW, NOW_NS), policy_quantum_ns(fair, LOW, NOW_NS));
    assert_int_equal(policy_pick(unknown, -1, NOW_NS), policy_pick(fair, -1, NOW_NS));
    assert_int_equal(policy_ahead_ns(unknown, LOW), policy_ahead_ns(fair, LOW));
}
