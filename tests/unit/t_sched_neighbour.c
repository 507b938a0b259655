/*
 * An interactive program waits for its results every few milliseconds, and a neighbour starts. The
 * test measures how long the program's steps take in the first 5 s, by policy, in virtual time
 * (sched_world.h). A step is a tenth of a batch, as in a decoder that waits after ten tokens.
 */
#include "sched_world.h"
#include "unit.h"

#include <stdlib.h>

#define STEP_NS 335000ULL
#define STEPS   10

struct outcome {
    double p50, p99, most; /* of a step, in what it takes alone */
    double decode, other, sum;
};

static struct outcome neighbour_starts(enum vgpu_turn_policy policy, uint64_t gap_ns,
                                       const struct program *other)
{
    struct program decode = {
        .kernel_ns = STEP_NS, .batch = STEPS, .launch_ns = 3 * US, .gap_ns = gap_ns};
    struct world *world = world_new(700 + policy, 1);
    struct proc *proc;
    struct outcome result;

    world_policy(world, policy);
    proc = world_add(world, 1, 100, 200, &decode, world->now_ns);
    world_add(world, 2, 100, 0, other, world->now_ns + SEC);
    run_ms(world, 999);
    world_measure(world);
    run_ms(world, 5000);
    result = (struct outcome){
        .p50 = (double)world_step_ns(proc, .5) / (STEPS * STEP_NS),
        .p99 = (double)world_step_ns(proc, .99) / (STEPS * STEP_NS),
        .most = (double)world_step_ns(proc, 1) / (STEPS * STEP_NS),
        .decode = world_share(world, proc),
        .other = world_share(world, &world->procs[1]),
        .sum = world_sum(world),
    };
    world_free(world);
    return result;
}

static const uint64_t gaps_ns[] = {30 * US, 60 * US, 100 * US};

static void for_each_gap(enum vgpu_turn_policy policy, const struct program *other,
                         const char *what, void (*check)(const struct outcome *))
{
    for (size_t i = 0; i < sizeof(gaps_ns) / sizeof(gaps_ns[0]); i++) {
        struct outcome result = neighbour_starts(policy, gaps_ns[i], other);

        print_message(
            "%-22s gaps of %3.0f us: step p50 %.2f p99 %.2f at most %.2f; %.3f + %.3f = %.3f\n",
            what, (double)gaps_ns[i] / 1e3, result.p50, result.p99, result.most, result.decode,
            result.other, result.sum);
        check(&result);
    }
}

static const struct program matmul = {
    .kernel_ns = 200 * US, .batch = 10, .launch_ns = 8 * US, .gap_ns = 30 * US, .unknown = true};
static const struct program never_waits = {
    .kernel_ns = 200 * US, .launch_ns = 8 * US, .unknown = true};

static void check_priority(const struct outcome *result)
{
    assert_between(result->p99, 1, 1.1);
    assert_between(result->other, .0005, .01);
    assert_between(result->sum, .96, 1);
}

TEST(priority)
{
    for_each_gap(VGPU_TURN_PRIORITY, &matmul, "priority, matmul", check_priority);
    for_each_gap(VGPU_TURN_PRIORITY, &never_waits, "priority, never waits", check_priority);
}

/* Bursts of the two alternate. */
static void check_fair(const struct outcome *result)
{
    assert_between(result->p50, 1.5, 1.75);
    assert_between(result->p99, 1.5, 2.1);
    assert_between(result->decode, .55, .62);
    assert_between(result->sum, .93, 1);
}

/* One that never waits for results gets short turns, and its share. */
static void check_fair_to_busy(const struct outcome *result)
{
    assert_between(result->p99, 1.5, 2.8);
    assert_between(result->decode, .37, .5);
    assert_between(result->sum, .95, 1);
}

TEST(fair)
{
    for_each_gap(VGPU_TURN_FAIR, &matmul, "fair, matmul", check_fair);
    for_each_gap(VGPU_TURN_ADAPTIVE, &matmul, "adaptive, matmul", check_fair);
    for_each_gap(VGPU_TURN_FAIR, &never_waits, "fair, never waits", check_fair_to_busy);
    for_each_gap(VGPU_TURN_ADAPTIVE, &never_waits, "adaptive, never waits", check_fair_to_busy);
}

/* Weights count for who gets on in bursts as well: its share is what the weight says, or what its
 * bursts leave. */
TEST(weights)
{
    struct program decode = {
        .kernel_ns = STEP_NS, .batch = STEPS, .launch_ns = 3 * US, .gap_ns = 60 * US};
    double shares[2];

    for (unsigned i = 0; i < 2; i++) {
        struct world *world = world_new(720 + i, 1);

        world_add(world, 1, 300, 0, &decode, world->now_ns);
        world_add(world, 2, 100, 0, i == 0 ? &matmul : &never_waits, world->now_ns + 50 * US);
        run_ms(world, 500);
        world_measure(world);
        run_ms(world, 4000);
        print_world("decode of weight 300", world);
        shares[i] = world_share(world, &world->procs[0]) / world_sum(world);
        world_free(world);
    }
    assert_between(shares[0], .68, .82);
    assert_between(shares[1], .6, .82);
}
