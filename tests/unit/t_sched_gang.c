/*
 * Jobs on two devices, whose ranks run a kernel together in each step, as in an all-reduce. The
 * turns on both devices come at the same time. In virtual time (sched_world.h), compared with the
 * driver alone.
 */
#include "sched_world.h"
#include "unit.h"

#define STEP_ALONE_NS (5 * 170 * US + 400 * US)

struct job {
    unsigned weight;
    uint64_t gap_ns; /* between a step and the next */
};

struct outcome {
    double steps_s[3]; /* of each job */
    double sum, longest_ms;
};

/* Skewed: the ranks of a job begin at different times, each first on another device. */
static struct outcome run(const struct job *jobs, unsigned count, uint64_t skew_ns, bool native)
{
    struct world *world = world_new(900 + skew_ns / MS, 2);
    struct outcome outcome = {.sum = 0};

    world->native = native;
    for (unsigned i = 0; i < count; i++)
        for (unsigned rank = 0; rank < 2; rank++) {
            struct program program = {
                .kernel_ns = 170 * US, .batch = 6, .launch_ns = 10 * US, .joint_ns = 400 * US};

            program.job = i + 1;
            program.rank = rank;
            program.gap_ns = jobs[i].gap_ns;
            world_add(world, i + 1, jobs[i].weight, 0, &program,
                      world->now_ns + i * 700 * US + ((rank ^ i) & 1) * skew_ns);
        }
    run_ms(world, 500);
    world_measure(world);
    run_ms(world, 5000);
    for (unsigned i = 0; i < count; i++) {
        struct proc *rank = &world->procs[2 * i];
        double longest_ms = in_ms(world_step_ns(rank, 1));

        outcome.steps_s[i] = (double)rank->step_count / 5;
        outcome.sum += outcome.steps_s[i];
        outcome.longest_ms = longest_ms > outcome.longest_ms ? longest_ms : outcome.longest_ms;
    }
    print_message("%u jobs, skew %4.1f ms, %-6s:", count, in_ms(skew_ns),
                  native ? "native" : "turns");
    for (unsigned i = 0; i < count; i++)
        print_message(" %.0f", outcome.steps_s[i]);
    print_message(" = %.0f steps/s, the longest %.1f ms\n", outcome.sum, outcome.longest_ms);
    world_free(world);
    return outcome;
}

static const uint64_t skews_ns[] = {10 * US, 3700 * US, 7400 * US, 11 * MS};

TEST(two_jobs)
{
    static const struct job jobs[] = {{100, 40 * US}, {100, 40 * US}};

    for (size_t i = 0; i < sizeof(skews_ns) / sizeof(skews_ns[0]); i++) {
        struct outcome native = run(jobs, 2, skews_ns[i], true),
                       turns = run(jobs, 2, skews_ns[i], false);

        assert_between(turns.sum, native.sum, 1e9 / STEP_ALONE_NS);
        assert_between(turns.steps_s[0] / turns.sum, .48, .52);
        assert_between(turns.longest_ms, 0, 15);
    }
}

TEST(three_jobs)
{
    static const struct job jobs[] = {{100, 40 * US}, {100, 40 * US}, {100, 40 * US}};

    for (size_t i = 0; i < sizeof(skews_ns) / sizeof(skews_ns[0]); i++) {
        struct outcome native = run(jobs, 3, skews_ns[i], true),
                       turns = run(jobs, 3, skews_ns[i], false);

        assert_between(turns.sum, native.sum, 1e9 / STEP_ALONE_NS);
        for (unsigned k = 0; k < 3; k++)
            assert_between(turns.steps_s[k] / turns.sum, .31, .36);
        assert_between(turns.longest_ms, 0, 25);
    }
}

TEST(weights)
{
    static const struct job jobs[] = {{300, 40 * US}, {100, 40 * US}};

    for (size_t i = 0; i < sizeof(skews_ns) / sizeof(skews_ns[0]); i++) {
        struct outcome turns = run(jobs, 2, skews_ns[i], false);

        assert_between(turns.steps_s[0] / turns.sum, .72, .78);
    }
}

/* A slot whose owner does nothing on any device is the other's. */
TEST(idle_owner)
{
    static const struct job jobs[] = {{100, 40 * US}, {100, 60 * MS}};

    for (size_t i = 0; i < sizeof(skews_ns) / sizeof(skews_ns[0]); i++) {
        struct outcome turns = run(jobs, 2, skews_ns[i], false);

        assert_between(turns.steps_s[0], .75 * 1e9 / STEP_ALONE_NS, 1e9 / STEP_ALONE_NS);
        assert_between(turns.steps_s[1], 12, 17);
    }
}
