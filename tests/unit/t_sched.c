/*
 * The shares of a device by sched/sched_client, sched/sched and sched/policy, in virtual time
 * (sched_world.h). t_sched_faults.c has what goes wrong with processes.
 */
#include "sched_world.h"
#include "unit.h"

#include <stdlib.h>

static const struct program matmul = {
    .kernel_ns = 206 * US, .batch = 10, .launch_ns = 4 * US, .gap_ns = 20 * US};
static const struct program decode = {
    .kernel_ns = 346 * US, .batch = 10, .launch_ns = 10 * US, .gap_ns = 20 * US};
static const struct program training = {
    .kernel_ns = 3 * US, .batch = 3500, .launch_ns = 18 * US, .gap_ns = 20 * US};

/* What the program gets of a device that it has to itself. */
static double alone(const struct program *program)
{
    struct world *world = world_new(7, 1);
    struct proc *proc = world_add(world, 1, 100, 0, program, world->now_ns);
    double share;

    run_ms(world, 100);
    world_measure(world);
    run_ms(world, 1000);
    share = world_share(world, proc);
    world_free(world);
    return share;
}

static double alone_step_ns(const struct program *program, double fraction)
{
    struct world *world = world_new(7, 1);
    struct proc *proc = world_add(world, 1, 100, 0, program, world->now_ns);
    double step_ns;

    run_ms(world, 1000);
    step_ns = (double)world_step_ns(proc, fraction);
    world_free(world);
    return step_ns;
}

/* `count` tenants with the same program, measured for 4 s. */
static struct world *equal_tenants(unsigned count, const struct program *program, const char *what)
{
    struct world *world = world_new(count, 1);

    for (unsigned i = 0; i < count; i++)
        world_add(world, i + 1, 100, 0, program, world->now_ns + i * 300 * US);
    run_ms(world, 300);
    world_measure(world);
    run_ms(world, 4000);
    print_world(what, world);
    return world;
}

static void assert_equal_shares(const struct world *world, double within)
{
    for (unsigned i = 0; i < world->count; i++)
        assert_between(world_share(world, &world->procs[i]) / world_sum(world),
                       1.0 / world->count - within, 1.0 / world->count + within);
}

TEST(equal)
{
    struct program one = synced(MS), half = synced(500 * US);
    struct {
        unsigned count;
        const struct program *program;
        const char *what;
        double within, sum, wait_ms;
    } cases[] = {
        {2, &one, "two, 1 ms", .005, .97, 22},
        {4, &half, "four, .5 ms", .005, .95, 70},
        {8, &half, "eight, .5 ms", .005, .92, 85},
        {16, &half, "sixteen, .5 ms", .003, .88, 92},
        {2, &matmul, "two, 10 x 206 us", .005, .96, 25},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *world = equal_tenants(cases[i].count, cases[i].program, cases[i].what);

        assert_equal_shares(world, cases[i].within);
        assert_between(world_sum(world), cases[i].sum, 1);
        assert_between(jain(world), .999, 1.0001);
        assert_between(in_ms(longest_wait_ns(world, NULL)), 0, cases[i].wait_ms);
        world_free(world);
    }
}

TEST(native)
{
    struct program one = synced(MS), half = synced(500 * US), tenth = synced(100 * US),
                   five = synced(5 * MS);
    struct world *world;

    for (int i = 0; i < 3; i++) {
        world = world_new(1, 1);
        world->native = true;
        for (unsigned k = 0; k < (i == 1 ? 4u : 2u); k++)
            world_add(world, k + 1, 100, 0,
                      i == 1   ? &half
                      : i == 0 ? &one
                      : k == 0 ? &tenth
                               : &five,
                      world->now_ns + k);
        run_ms(world, 100);
        world_measure(world);
        run_ms(world, 2000);
        print_world(i == 0   ? "native: two, 1 ms"
                    : i == 1 ? "native: four, .5 ms"
                             : "native: 100 us, 5 ms",
                    world);
        world_free(world);
    }
}

TEST(weights)
{
    static const struct {
        unsigned count;
        uint32_t weights[4];
        uint64_t kernel_ns[4];
    } cases[] = {
        {2, {100, 300}, {MS, MS}},
        {2, {100, 300}, {200 * US, 200 * US}},
        {2, {100, 300}, {5 * MS, 100 * US}},
        {2, {300, 100}, {5 * MS, 100 * US}},
        {3, {100, 200, 500}, {MS, MS, MS}},
        {2, {1, 9}, {MS, MS}},
        {2, {100, 1000}, {MS, MS}},
        {4, {100, 100, 300, 500}, {MS, 20 * US, 3 * MS, 500 * US}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *world = world_new(i, 1);
        double all = 0;

        for (unsigned k = 0; k < cases[i].count; k++) {
            struct program program = synced(cases[i].kernel_ns[k]);

            world_add(world, k + 1, cases[i].weights[k], 0, &program, world->now_ns + k * 100 * US);
            all += cases[i].weights[k];
        }
        run_ms(world, 500);
        world_measure(world);
        run_ms(world, 6000);
        print_world("weights", world);
        for (unsigned k = 0; k < cases[i].count; k++) {
            struct program program = synced(cases[i].kernel_ns[k]);
            double held = world_share(world, &world->procs[k]) / alone(&program), sum = 0;

            for (unsigned m = 0; m < cases[i].count; m++) {
                struct program other = synced(cases[i].kernel_ns[m]);

                sum += world_share(world, &world->procs[m]) / alone(&other);
            }
            assert_between(held / sum, cases[i].weights[k] / all - .015,
                           cases[i].weights[k] / all + .015);
        }
        world_free(world);
    }
}

TEST(short_against_long)
{
    struct program tenth = synced(100 * US), five = synced(5 * MS);
    struct world *world = world_new(3, 1);

    world_add(world, 1, 100, 0, &tenth, world->now_ns);
    world_add(world, 2, 100, 0, &five, world->now_ns + 100 * US);
    run_ms(world, 300);
    world_measure(world);
    run_ms(world, 4000);
    print_world("100 us against 5 ms", world);
    for (unsigned i = 0; i < 2; i++)
        assert_between(world_share(world, &world->procs[i]), world_sum(world) / 2 - .03,
                       world_sum(world) / 2 + .03);
    assert_between(world_sum(world), .94, 1);
    world_free(world);
}

/* Kernels of very different lengths, one length a tenant; then of all lengths in each. */
static uint64_t any_length(struct proc *proc)
{
    static const uint64_t lengths[] = {5 * US, 20 * US, 200 * US, MS, 5 * MS, 50 * MS};

    return lengths[world_random(&proc->random) % 6];
}

TEST(mixtures)
{
    static const uint64_t lengths[] = {5 * US, 100 * US, MS, 10 * MS, 50 * MS};
    struct program any = {.length = any_length, .batch = 3, .launch_ns = 4 * US, .gap_ns = 5 * US};
    struct world *world = world_new(11, 1);
    double sum = 0, held[5];

    for (unsigned i = 0; i < 5; i++) {
        struct program program = synced(lengths[i]);

        world_add(world, i + 1, 100, 0, &program, world->now_ns + i * 100 * US);
    }
    run_ms(world, 1000);
    world_measure(world);
    run_ms(world, 10000);
    print_world("5 us 100 us 1 ms 10 ms 50 ms", world);
    for (unsigned i = 0; i < 5; i++)
        sum += held[i] = world_held(world, &world->procs[i]);
    for (unsigned i = 0; i < 5; i++)
        assert_between(held[i] / sum, .2 - .01, .2 + .01);
    assert_between(in_ms(longest_wait_ns(world, NULL)), 0, 300);
    world_free(world);

    world = equal_tenants(6, &any, "six, 5 us to 50 ms each");
    assert_equal_shares(world, .025);
    assert_between(in_ms(longest_wait_ns(world, NULL)), 0, 700);
    world_free(world);
}

/* What a process thinks that its kernels cost is wrong, or unknown until one has ended. Turns are
 * by the clock. */
TEST(wrong_estimates)
{
    static const double factors[] = {.1, .5, 2, 10};
    struct program one = synced(MS),
                   many = {
                       .kernel_ns = 200 * US, .batch = 64, .launch_ns = 4 * US, .gap_ns = 5 * US};
    struct program endless = {.kernel_ns = 200 * US, .launch_ns = 4 * US},
                   long_one = synced(60 * MS);
    struct {
        const char *what;
        const struct program *program;
        double sum; /* with the worst factor */
    } cases[] = {{"1 ms", &one, .96},
                 {"64 in flight", &many, .86},
                 {"never waits", &endless, .86},
                 {"60 ms", &long_one, .97}};

    for (size_t i = 0; i < 16; i++) {
        struct program wrong = *cases[i / 4].program;
        struct world *world = world_new(i, 1);
        double held;

        /* Ten times too long, with hundreds queued, is taken for work that does not end, at
         * first. */
        if (cases[i / 4].program == &endless && factors[i % 4] < .5)
            wrong.unknown = true;
        else
            wrong.wrong = factors[i % 4];
        world_add(world, 1, 100, 0, &wrong, world->now_ns);
        world_add(world, 2, 100, 0, &one, world->now_ns + 100 * US);
        world->marks_always = true;
        run_ms(world, wrong.unknown ? 2000 : 500);
        world_measure(world);
        run_ms(world, 4000);
        held = world_held(world, &world->procs[0]) /
               (world_held(world, &world->procs[0]) + world_held(world, &world->procs[1]));
        print_message("%-12s %s %4.1f: %.4f %.4f, held %.4f of both\n", cases[i / 4].what,
                      wrong.unknown ? "unknown " : "believed", wrong.wrong,
                      world_share(world, &world->procs[0]), world_share(world, &world->procs[1]),
                      held);
        assert_between(held, .48, .52);
        assert_between(world_sum(world), cases[i / 4].sum, 1.02);
        world_free(world);
    }
}

/* How the two share and how much that is of what each gets alone, native and in turns. */
struct beside {
    double alone[2], native[2], turns[2], longest_wait_ms[2];
    uint64_t p50_ns[2], p99_ns[2];
};

static struct beside beside(const struct program *one, const struct program *other,
                            enum vgpu_turn_policy policy, const char *what)
{
    struct beside result;
    const struct program *programs[] = {one, other};

    for (int i = 0; i < 2; i++) {
        struct world *world = world_new(5, 1);

        world->native = i == 0;
        world_policy(world, policy);
        result.alone[i] = alone(programs[i]);
        for (unsigned k = 0; k < 2; k++)
            world_add(world, k + 1, 100, k == 0, programs[k], world->now_ns + k * 100 * US);
        run_ms(world, 500);
        world_measure(world);
        run_ms(world, 6000);
        for (unsigned k = 0; k < 2; k++) {
            (i == 0 ? result.native : result.turns)[k] = world_share(world, &world->procs[k]);
            result.p50_ns[k] = world_step_ns(&world->procs[k], .5);
            result.p99_ns[k] = world_step_ns(&world->procs[k], .99);
            result.longest_wait_ms[k] = (double)world->procs[k].contexts[0].longest_wait / 1e6;
        }
        world_free(world);
    }
    print_message("%-34s native %.4f %.4f (%.3f + %.3f of alone)  turns %.4f %.4f (%.3f + %.3f)\n",
                  what, result.native[0], result.native[1], result.native[0] / result.alone[0],
                  result.native[1] / result.alone[1], result.turns[0], result.turns[1],
                  result.turns[0] / result.alone[0], result.turns[1] / result.alone[1]);
    print_message("%-34s step p50 %.2f %.2f p99 %.2f %.2f ms, longest waits %.1f %.1f ms\n", "",
                  (double)result.p50_ns[0] / 1e6, (double)result.p50_ns[1] / 1e6,
                  (double)result.p99_ns[0] / 1e6, (double)result.p99_ns[1] / 1e6,
                  result.longest_wait_ms[0], result.longest_wait_ms[1]);
    return result;
}

/* Who needs little of the device shares as the driver shares; whose launches pile up gets more of
 * it in turns. */
TEST(launch_bound)
{
    struct program quick = {.kernel_ns = US, .batch = 9000, .launch_ns = 8 * US, .gap_ns = 20 * US};
    const struct program *programs[] = {&training, &quick};

    for (int i = 0; i < 2; i++) {
        struct beside r = beside(programs[i], &matmul, VGPU_TURN_FAIR,
                                 i == 0 ? "training, matmul" : "quick, matmul");
        double native = r.native[0] / r.alone[0] + r.native[1] / r.alone[1];
        double turns = r.turns[0] / r.alone[0] + r.turns[1] / r.alone[1];

        assert_between(turns, i == 0 ? native + .05 : native - .005, 2);
        assert_between(r.turns[0], .95 * r.native[0], 1);
        assert_between(r.turns[1], r.native[1] - .005, 1);
    }
}

TEST(decode_beside_matmul)
{
    struct beside r = beside(&decode, &matmul, VGPU_TURN_FAIR, "decode, matmul");

    assert_between(r.turns[0] + r.turns[1], .97, 1);
    assert_between(r.turns[0] / (r.turns[0] + r.turns[1]), .48, .52);
}

TEST(priority)
{
    static const struct {
        const char *what;
        struct program high, low;
        double p99, left; /* of its step alone; of what is left */
    } cases[] = {
        {"decode over matmul",
         {.kernel_ns = 346 * US, .batch = 10, .launch_ns = 10 * US, .gap_ns = 20 * US},
         {.kernel_ns = 206 * US, .batch = 10, .launch_ns = 4 * US, .gap_ns = 20 * US},
         1.5,
         0},
        {"10 x 200 us over matmul",
         {.kernel_ns = 200 * US, .batch = 10, .launch_ns = 4 * US, .gap_ns = 20 * US},
         {.kernel_ns = 206 * US, .batch = 10, .launch_ns = 4 * US, .gap_ns = 20 * US},
         1.5,
         0},
        {"10 x 200 us and 8 ms pause",
         {.kernel_ns = 200 * US, .batch = 10, .launch_ns = 4 * US, .gap_ns = 8 * MS},
         {.kernel_ns = 206 * US, .batch = 10, .launch_ns = 4 * US, .gap_ns = 20 * US},
         1.5,
         .9},
        {"the same over 64 in flight",
         {.kernel_ns = 200 * US, .batch = 10, .launch_ns = 4 * US, .gap_ns = 8 * MS},
         {.kernel_ns = 200 * US, .batch = 64, .launch_ns = 4 * US, .gap_ns = 5 * US},
         1.5,
         .9},
        {"the same over no waiting at all",
         {.kernel_ns = 200 * US, .batch = 10, .launch_ns = 4 * US, .gap_ns = 8 * MS},
         {.kernel_ns = 200 * US, .launch_ns = 4 * US},
         1.5,
         .9},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct beside r = beside(&cases[i].high, &cases[i].low, VGPU_TURN_PRIORITY, cases[i].what);
        double step_ns = alone_step_ns(&cases[i].high, .5), used = r.turns[0] / r.alone[0];

        print_message("%-34s p99 %.2f of alone, low gets %.3f of what is left\n", "",
                      (double)r.p99_ns[0] / step_ns,
                      r.turns[1] / (cases[i].left > 0 ? 1 - r.turns[0] : 1 - used));
        assert_between((double)r.p99_ns[0] / step_ns, 1, cases[i].p99);
        /* Where the high one leaves nothing but what aging takes, that, less two switches for each
         * short turn. */
        if (cases[i].left > 0)
            assert_between(r.turns[1] / (1 - r.turns[0]), cases[i].left, 1);
        else
            assert_between(r.turns[1] / (1 - used), .4, 1);
        assert_between(r.longest_wait_ms[1], 0, 1020);
    }
}
