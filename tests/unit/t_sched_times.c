/*
 * When a tenant gets a turn and how long it is: idle holders, newcomers, changes of weight, bursts,
 * caps, policies. In virtual time (sched_world.h).
 */
#include "sched_world.h"
#include "unit.h"

#include "sched/policy.h"

#include <stdlib.h>

static const struct program matmul = {
    .kernel_ns = 206 * US, .batch = 10, .launch_ns = 4 * US, .gap_ns = 20 * US};

/* How long the device stood still while somebody waited for it, and since when it does now. */
static uint64_t still_since_ns, still_ns[10000];
static size_t still_count;

static void watch_stillness(struct world *world)
{
    bool runs = false, waits = false;

    for (unsigned i = 0; i < world->count; i++) {
        struct context *context = &world->procs[i].contexts[0];

        for (unsigned k = 0; k < WORLD_STREAMS; k++) {
            const struct queue *queue = &context->queues[k];

            if (queue->count > 0 && queue->ops[queue->head].kind == OP_GATE)
                waits = true;
            else if (queue->count > 0)
                runs = true;
        }
    }
    if (waits && !runs && !still_since_ns)
        still_since_ns = world->now_ns;
    if (runs && still_since_ns && still_count < sizeof(still_ns) / sizeof(still_ns[0]))
        still_ns[still_count++] = world->now_ns - still_since_ns;
    if (runs || !waits)
        still_since_ns = 0;
}

static uint64_t longest_still_ns(void)
{
    uint64_t most = 0;

    for (size_t i = 0; i < still_count; i++)
        most = still_ns[i] > most ? still_ns[i] : most;
    return most;
}

/* A tenant that works for 3 ms and is idle for 7 beside one that always wants more. */
TEST(idle_gives_way)
{
    struct program pausing = {
        .kernel_ns = 300 * US, .batch = 10, .launch_ns = 4 * US, .gap_ns = 7 * MS};

    for (int marks_always = 0; marks_always < 2; marks_always++) {
        struct world *world = world_new(21, 1);

        world->marks_always = marks_always;
        world->very_late_one_in = 0;
        world_add(world, 1, 100, 0, &pausing, world->now_ns);
        world_add(world, 2, 100, 0, &matmul, world->now_ns + 50 * US);
        run_ms(world, 100);
        still_count = 0;
        world->each = watch_stillness;
        world_measure(world);
        run_ms(world, 2000);
        print_world(marks_always ? "3 ms in 10, fences always" : "3 ms in 10, matmul", world);
        print_message("%-34s the device stood still %zu times, for %.1f us at most\n", "",
                      still_count, (double)longest_still_ns() / 1e3);
        assert_between((double)still_count, 150, 10000);
        assert_between((double)longest_still_ns() / 1e3, 0, 100);
        world_free(world);
    }
}

/* Comes at a random time, to others that are busy in every way; waits for its first turn so
 * long. */
static uint64_t newcomer_wait_ns(uint64_t seed, const struct program *busy, unsigned count,
                                 bool first)
{
    struct world *world = world_new(seed, 1);
    struct program once = synced(100 * US),
                   rarely = {.kernel_ns = 10 * US, .batch = 1, .gap_ns = 50 * MS};
    struct proc *newcomer;
    uint64_t wait_ns;

    world_policy(world, VGPU_TURN_PRIORITY);
    for (unsigned i = 0; i < count; i++)
        world_add(world, i + 1, 100, 0, busy, world->now_ns + i * 50 * US);
    if (!first)
        world_add(world, count + 1, 100, 0, &rarely, world->now_ns + 60 * US);
    newcomer = world_add(world, count + 2, 100, 9, &once,
                         world->now_ns + 100 * MS + world_random(&world->random) % (50 * MS));
    run_ms(world, 400);
    assert_true(newcomer->step_count > 0);
    wait_ns = newcomer->contexts[0].longest_wait;
    world_free(world);
    return wait_ns;
}

TEST(newcomer)
{
    struct program one = synced(MS), long_one = synced(20 * MS);
    struct program deep = {
        .kernel_ns = 200 * US, .batch = 64, .launch_ns = 4 * US, .gap_ns = 5 * US};
    struct program endless = {.kernel_ns = 500 * US, .launch_ns = 4 * US};
    const struct {
        const char *what;
        const struct program *busy;
        unsigned count;
        bool first; /* the others have had the device to themselves: nothing is known of what they
                       launched */
        double within_ms;
    } cases[] = {
        {"one with 1 ms kernels", &one, 1, true, 11},
        {"three with 1 ms kernels", &one, 3, false, 5},
        {"two with 20 ms kernels", &long_one, 2, false, 41},
        {"two with 64 in flight", &deep, 2, false, 14},
        {"one that never waits", &endless, 1, true, 25},
        {"two that never wait", &endless, 2, false, 22},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t most = 0;

        for (unsigned k = 0; k < 20; k++) {
            uint64_t wait_ns =
                newcomer_wait_ns(100 * i + k, cases[i].busy, cases[i].count, cases[i].first);

            most = wait_ns > most ? wait_ns : most;
        }
        print_message("newcomer, high priority, to %-26s waits %.2f ms at most\n", cases[i].what,
                      in_ms(most));
        assert_between(in_ms(most), 0, cases[i].within_ms);
    }
}

TEST(change_of_weight)
{
    struct program one = synced(MS);
    struct world *world = world_new(31, 1);

    for (unsigned i = 0; i < 2; i++)
        world_add(world, i + 1, 100, 0, &one, world->now_ns + i * 50 * US);
    run_ms(world, 500);
    for (unsigned i = 0; i < 4; i++) {
        uint32_t weight = i % 2 ? 100 : 300;
        double share;

        world_weight(&world->procs[1], weight);
        run_ms(world, 50);
        world_measure(world);
        run_ms(world, 400);
        share = world_share(world, &world->procs[1]) / world_sum(world);
        print_message("weight %u: %.4f from 50 ms after the change\n", weight, share);
        assert_between(share, weight / (weight + 100.) - .03, weight / (weight + 100.) + .03);
    }
    world_free(world);
}

/* While it is idle and others share the device, a tenant is not owed more than CREDIT_NS. */
TEST(bursts)
{
    struct program bursts = {
        .kernel_ns = MS, .batch = 1, .gap_ns = 5 * US, .busy_ns = 300 * MS, .idle_ns = 700 * MS};
    struct program one = synced(MS);
    struct world *world = world_new(41, 1);
    double most = -1000;

    for (unsigned i = 0; i < 2; i++)
        world_add(world, i + 1, 100, 0, &one, world->now_ns + i * 30 * US);
    world_add(world, 3, 100, 0, &bursts, world->now_ns + 500 * MS);
    world_run(world, SEC + 1490 * MS);
    for (unsigned i = 0; i < 5; i++) {
        /* It wakes up about now. */
        world_measure(world);
        for (unsigned k = 0; k < 25; k++) {
            double ahead;

            run_ms(world, 10);
            ahead = (world_held(world, &world->procs[2]) - world_held(world, &world->procs[0])) *
                    in_ms(world->now_ns - world->marked_ns);
            most = ahead > most ? ahead : most;
        }
        run_ms(world, 1000 - 250);
    }
    print_message("bursts: %.1f ms more than another at most\n", most);
    assert_between(most, 0, 25);
    world_free(world);
}

TEST(lone)
{
    struct program one = synced(MS),
                   brief = {.kernel_ns = 100 * US, .batch = 1, .gap_ns = 5 * US, .limit = 2000};
    struct world *world = world_new(51, 1);
    struct proc *lone, *neighbour;
    uint64_t looks, quiet_ns = 0;

    lone = world_add(world, 1, 100, 0, &one, world->now_ns);
    neighbour = world_add(world, 2, 100, 0, &brief, world->now_ns + SEC);
    run_ms(world, 999);
    assert_int_equal(sched_client_flags(&lone->contexts[0].client), 0);
    assert_int_equal(world->looks, 0);
    assert_int_equal(lone->contexts[0].longest_wait, 0);
    while (neighbour->state != HOST_ENDED)
        run_ms(world, 1);
    while (sched_client_flags(&lone->contexts[0].client) && quiet_ns < SEC) {
        run_ms(world, 1);
        quiet_ns += MS;
    }
    print_message("lone again %.0f ms after the neighbour's last launch\n", in_ms(quiet_ns));
    assert_between(in_ms(quiet_ns), 100, 300);
    looks = world->looks;
    world_measure(world);
    run_ms(world, 5000);
    assert_int_equal(lone->contexts[0].longest_wait, 0);
    assert_between((double)(world->looks - looks), 0, 20);
    assert_between(world_share(world, lone), .995, 1);
    world_free(world);
}

TEST(caps)
{
    struct program third = {.kernel_ns = 200 * US, .batch = 4, .gap_ns = 5 * US, .cap_percent = 30};
    struct program most = {.kernel_ns = MS, .batch = 4, .gap_ns = 5 * US, .cap_percent = 60},
                   one = synced(MS);
    struct world *world = world_new(61, 1);

    world_add(world, 1, 100, 0, &third, world->now_ns);
    world_add(world, 2, 100, 0, &one, world->now_ns + 10 * US);
    run_ms(world, 300);
    world_measure(world);
    run_ms(world, 3000);
    print_world("capped 30 %, no cap", world);
    assert_between(world_share(world, &world->procs[0]), .28, .305);
    assert_between(world_share(world, &world->procs[1]), .55, .7);
    world_free(world);

    world = world_new(62, 1);
    world_add(world, 1, 100, 0, &third, world->now_ns);
    world_add(world, 2, 100, 0, &most, world->now_ns + 10 * US);
    run_ms(world, 300);
    world_measure(world);
    run_ms(world, 3000);
    print_world("capped 30 %, 60 %", world);
    assert_between(world_share(world, &world->procs[0]), .29, .31);
    assert_between(world_share(world, &world->procs[1]), .59, .61);
    world_free(world);
}

/* Every policy: everybody gets on, nothing is wasted; and what is said of it. */
TEST(policies)
{
    struct program one = synced(MS), half = synced(500 * US);
    struct program quick = {
        .kernel_ns = 300 * US, .batch = 2, .launch_ns = 4 * US, .gap_ns = 5 * MS};
    double quick_ms[VGPU_TURN_POLICIES];

    for (unsigned policy = 0; policy < VGPU_TURN_POLICIES; policy++) {
        static const char *const names[] = {"fair", "priority", "mlfq", "rr", "adaptive"};
        struct world *world = world_new(70 + policy, 1);

        world_policy(world, policy);
        world_add(world, 1, 100, 0, &one, world->now_ns);
        world_add(world, 2, 300, 0, &half, world->now_ns + 20 * US);
        world_add(world, 3, 100, 0, &quick, world->now_ns + 40 * US);
        run_ms(world, 500);
        world_measure(world);
        run_ms(world, 4000);
        print_world(names[policy], world);
        quick_ms[policy] = in_ms(world_step_ns(&world->procs[2], .9));
        print_message("%-34s short job's p50 %.2f p90 %.2f ms, turns %llu %llu %llu\n", "",
                      in_ms(world_step_ns(&world->procs[2], .5)), quick_ms[policy],
                      (unsigned long long)world->arenas[0]->layout->tenant[0].turns,
                      (unsigned long long)world->arenas[0]->layout->tenant[1].turns,
                      (unsigned long long)world->arenas[0]->layout->tenant[2].turns);
        assert_between(world_sum(world), .9, 1);
        assert_between(in_ms(longest_wait_ns(world, NULL)), 0, policy == VGPU_TURN_MLFQ ? 410 : 60);
        if (policy == VGPU_TURN_FAIR || policy == VGPU_TURN_ADAPTIVE ||
            policy == VGPU_TURN_PRIORITY)
            assert_between(world_held(world, &world->procs[1]) /
                               world_held(world, &world->procs[0]),
                           2.7, 3.3);
        else
            assert_between(world_held(world, &world->procs[1]) /
                               world_held(world, &world->procs[0]),
                           .95, 1.05);
        world_free(world);
    }
    assert_true(quick_ms[VGPU_TURN_MLFQ] < 3 && quick_ms[VGPU_TURN_MLFQ] < quick_ms[VGPU_TURN_RR]);
}

/* One that always comes last gets a turn all the same, now and then. */
TEST(starvation)
{
    struct program one = synced(MS),
                   brief = {.kernel_ns = 500 * US, .batch = 4, .launch_ns = 4 * US, .gap_ns = MS};
    enum vgpu_turn_policy policies[] = {VGPU_TURN_MLFQ, VGPU_TURN_PRIORITY};
    const double longest_ms[] = {POLICY_AGED_NS / 1e6, POLICY_STARVED_NS / 1e6};

    for (int i = 0; i < 2; i++) {
        struct world *world = world_new(80 + i, 1);

        world_policy(world, policies[i]);
        world_add(world, 1, 100, 0, &one, world->now_ns);
        for (unsigned k = 0; k < 5; k++)
            world_add(world, k + 2, 100, 5, &brief, world->now_ns + k * 100 * US);
        run_ms(world, 500);
        world_measure(world);
        run_ms(world, 8000);
        print_world(i == 0 ? "mlfq: 1 ms under five brief ones" : "priority: the same", world);
        assert_between(in_ms(world->procs[0].contexts[0].longest_wait), longest_ms[i] - 50,
                       longest_ms[i] + 20);
        assert_between(world_share(world, &world->procs[0]), .002, .3);
        for (unsigned k = 1; k < 6; k++)
            assert_between(world_share(world, &world->procs[k]), .15, .2);
        world_free(world);
    }
}
