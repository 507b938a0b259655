/*
 * A guarded instance's share of a device, by guard/share, sched/sched_preempt and sched/throttle,
 * in virtual time (share_world.h): caps, and turns with guarded and preloaded instances.
 * t_share_faults.c has what goes wrong.
 */
#include "share_world.h"
#include "unit.h"

static const struct limits none = {0};

static void print_guarded(const char *what, struct world *world, struct guarded **tenants,
                          unsigned count)
{
    print_world(what, world);
    print_message("%-34s", "");
    for (unsigned i = 0; i < count; i++)
        print_message(" %.4f (%llu offs, looks %.3f)", guarded_ran(tenants[i]),
                      (unsigned long long)guarded_offs(tenants[i]), guarded_looking(tenants[i]));
    print_message("\n");
}

/* A lone instance is not switched, hardly looked at, and stopped for that twice a second. */
TEST(lone)
{
    struct program one = synced(MS);
    struct world *world = world_new(1, 1);
    struct guarded *lone = guarded_add(world, &none, &one, world->now_ns);

    run_ms(world, 100);
    guarded_measure(world);
    run_ms(world, 5000);
    print_guarded("lone", world, &lone, 1);
    assert_int_equal(guarded_offs(lone), 0);
    print_message("%.1f of them a second stop it\n", (double)guarded_stops(lone) / 5);
    assert_between(guarded_looking(lone), 0, .006);
    assert_between((double)guarded_stops(lone) / 5, 1, 2.2);
    assert_between(guarded_ran(lone), .994, 1);
    guarded_free(world);
}

TEST(two)
{
    static const struct {
        const char *what;
        uint64_t kernel_ns[2];
        uint32_t weights[2];
        double within, sum;
    } cases[] = {
        {"two, 1 ms", {MS, MS}, {100, 100}, .01, .95},
        {"two, 100 us", {100 * US, 100 * US}, {100, 100}, .01, .9},
        {"two, 10 ms", {10 * MS, 10 * MS}, {100, 100}, .01, .95},
        {"100 us, 5 ms", {100 * US, 5 * MS}, {100, 100}, .05, .9},
        {"1 ms, 1 : 3", {MS, MS}, {100, 300}, .02, .95},
        {"100 us, 5 ms, 3 : 1", {100 * US, 5 * MS}, {300, 100}, .03, .9},
        {"1 ms, 1 : 9", {MS, MS}, {100, 900}, .02, .95},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *world = world_new(i + 1, 1);
        struct guarded *tenants[2];
        double all = cases[i].weights[0] + cases[i].weights[1];

        for (unsigned k = 0; k < 2; k++) {
            struct program program = synced(cases[i].kernel_ns[k]);
            struct limits limits = {.weight = cases[i].weights[k]};

            tenants[k] = guarded_add(world, &limits, &program, world->now_ns + k * 300 * US);
        }
        run_ms(world, 500);
        guarded_measure(world);
        run_ms(world, 6000);
        print_guarded(cases[i].what, world, tenants, 2);
        for (unsigned k = 0; k < 2; k++)
            assert_between(guarded_ran(tenants[k]) /
                               (guarded_ran(tenants[0]) + guarded_ran(tenants[1])),
                           cases[i].weights[k] / all - cases[i].within,
                           cases[i].weights[k] / all + cases[i].within);
        assert_between(guarded_ran(tenants[0]) + guarded_ran(tenants[1]), cases[i].sum, 1);
        guarded_free(world);
    }
}

/* More than two, of all lengths: by the time that each has had. Who has long kernels has the rest
 * of a time slice of the hardware after each turn, and whoever comes next the less. */
TEST(many)
{
    static const uint64_t lengths[] = {100 * US, MS, 5 * MS, 50 * MS};
    struct guarded *tenants[8];

    for (unsigned count = 4; count <= 8; count += 4) {
        struct world *world = world_new(count, 1);
        double sum = 0;

        for (unsigned i = 0; i < count; i++) {
            struct program program = synced(lengths[i % 4]);

            tenants[i] = guarded_add(world, &none, &program, world->now_ns + i * 300 * US);
        }
        run_ms(world, 1000);
        guarded_measure(world);
        run_ms(world, 8000);
        print_guarded(count == 4 ? "four, all lengths" : "eight, all lengths", world, tenants,
                      count);
        for (unsigned i = 0; i < count; i++)
            sum += guarded_ran(tenants[i]);
        for (unsigned i = 0; i < count; i++)
            assert_between(guarded_ran(tenants[i]) / sum, 1. / count - .035, 1. / count + .035);
        assert_between(sum, count == 4 ? .95 : .9, 1);
        guarded_free(world);
    }
}

/* With instances of the preload tier: the same turns. */
TEST(mixed)
{
    static const struct {
        const char *what;
        uint64_t preload_ns, guard_ns;
        uint32_t preload_weight, guard_weight;
        unsigned preloads, guards;
    } cases[] = {
        {"preload and guard, 1 ms", MS, MS, 100, 100, 1, 1},
        {"preload 100 us, guard 5 ms", 100 * US, 5 * MS, 100, 100, 1, 1},
        {"preload 5 ms, guard 100 us", 5 * MS, 100 * US, 100, 100, 1, 1},
        {"preload 300, guard 100", MS, MS, 300, 100, 1, 1},
        {"preload 100, guard 300", MS, MS, 100, 300, 1, 1},
        {"two and two", MS, MS, 100, 100, 2, 2},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *world = world_new(i + 3, 1);
        struct program preload = synced(cases[i].preload_ns), guard = synced(cases[i].guard_ns);
        struct limits limits = {.weight = cases[i].guard_weight};
        struct guarded *tenants[2];
        double all =
            cases[i].preloads * cases[i].preload_weight + cases[i].guards * cases[i].guard_weight;

        for (unsigned k = 0; k < cases[i].preloads; k++)
            world_add(world, k + 1, cases[i].preload_weight, 0, &preload,
                      world->now_ns + k * 100 * US);
        for (unsigned k = 0; k < cases[i].guards; k++)
            tenants[k] =
                guarded_add(world, &limits, &guard, world->now_ns + 50 * US + k * 100 * US);
        run_ms(world, 1000);
        guarded_measure(world);
        run_ms(world, 6000);
        print_guarded(cases[i].what, world, tenants, cases[i].guards);
        for (unsigned k = 0; k < world->count; k++) {
            double weight = k < cases[i].preloads ? cases[i].preload_weight : cases[i].guard_weight;

            assert_between(world_share(world, &world->procs[k]) / world_sum(world),
                           weight / all - .025, weight / all + .025);
        }
        assert_between(world_sum(world), .93, 1);
        guarded_free(world);
    }
}

/* Of a lone instance, in the real thing. */
TEST(caps)
{
    static const uint64_t lengths[] = {100 * US, MS, 10 * MS, 50 * MS};
    static const unsigned caps[] = {5, 25, 50, 75, 95};

    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 5; k++) {
            struct world *world = world_new(10 * i + k, 1);
            struct program program = synced(lengths[i]);
            struct limits limits = {.cap_percent = caps[k]};
            double natural;
            struct guarded *tenant = guarded_add(world, &limits, &program, world->now_ns);
            struct vgpu_compute_usage before, after;
            double mean = 0, squares = 0, counted;

            program.gap_ns = 11 * US;
            natural = (double)program.kernel_ns / (double)(program.kernel_ns + program.gap_ns);
            tenant->proc->program = program;
            run_ms(world, 2000);
            before = guarded_usage(tenant);
            for (unsigned window = 0; window < 40; window++) {
                guarded_measure(world);
                run_ms(world, 200);
                mean += guarded_ran(tenant) / 40;
                squares += guarded_ran(tenant) * guarded_ran(tenant) / 40;
            }
            after = guarded_usage(tenant);
            counted =
                (double)(after.amount[VGPU_WORK_KERNEL] - before.amount[VGPU_WORK_KERNEL]) / 8e9;
            print_message("%6.1f ms, cap %2u %%: %.4f, variance over 200 ms %.6f, counted %.4f\n",
                          in_ms(lengths[i]), caps[k], mean, squares - mean * mean, counted);
            assert_between(mean, caps[k] / 100. * (natural < caps[k] / 100. ? natural : 1) - .02,
                           caps[k] / 100. + .02);
            assert_between(squares - mean * mean, -1e-9, .03 * .03);
            assert_between(counted, mean - .02, mean + .02);
            assert_true(caps[k] == 95 || after.throttles - before.throttles > 100);
            assert_between((double)(after.throttled_ns - before.throttled_ns) / 8e9,
                           .9 - caps[k] / 100., 1.05 - caps[k] / 100.);
            guarded_free(world);
        }
}

/* Both together: caps that leave room, that don't, and one that does not matter. */
TEST(caps_and_turns)
{
    static const struct {
        const char *what;
        unsigned caps[2];
        enum vgpu_cap_policy policy;
        double low[2], high[2];
    } cases[] = {
        {"caps 30 and 60", {30, 60}, VGPU_CAP_HARD, {.27, .55}, {.31, .62}},
        {"cap 25, the other has none", {25, 0}, VGPU_CAP_HARD, {.22, .65}, {.27, .77}},
        {"cap 80, the other has none", {80, 0}, VGPU_CAP_HARD, {.45, .45}, {.52, .52}},
        {"elastic 25, the other has none", {25, 0}, VGPU_CAP_ELASTIC, {.22, .65}, {.27, .77}},
        {"cap 25, but off", {25, 0}, VGPU_CAP_OFF, {.47, .47}, {.51, .51}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *world = world_new(i + 60, 1);
        struct program program = synced(MS);
        struct guarded *tenants[2];

        for (unsigned k = 0; k < 2; k++) {
            struct limits limits = {.cap_percent = cases[i].caps[k], .cap_policy = cases[i].policy};

            tenants[k] = guarded_add(world, &limits, &program, world->now_ns + k * 300 * US);
        }
        run_ms(world, 2000);
        guarded_measure(world);
        run_ms(world, 6000);
        print_guarded(cases[i].what, world, tenants, 2);
        for (unsigned k = 0; k < 2; k++)
            assert_between(guarded_ran(tenants[k]), cases[i].low[k], cases[i].high[k]);
        guarded_free(world);
    }
}

TEST(elastic)
{
    struct limits limits = {.cap_percent = 25, .cap_policy = VGPU_CAP_ELASTIC};
    struct program program = synced(MS), other = synced(MS);
    struct world *world = world_new(70, 1);
    struct guarded *tenant = guarded_add(world, &limits, &program, world->now_ns);

    other.limit = 4000;
    run_ms(world, 500);
    guarded_measure(world);
    run_ms(world, 1000);
    assert_between(guarded_ran(tenant), .99, 1);
    world_add(world, 1, 100, 0, &other, world->now_ns);
    run_ms(world, 500);
    guarded_measure(world);
    run_ms(world, 2000);
    print_guarded("elastic 25 beside another", world, &tenant, 1);
    assert_between(guarded_ran(tenant), .22, .27);
    while (world->procs[1].state != HOST_ENDED)
        run_ms(world, 100);
    run_ms(world, 1000);
    guarded_measure(world);
    run_ms(world, 1000);
    assert_between(guarded_ran(tenant), .99, 1);
    assert_int_equal(guarded_offs(tenant), 0);
    guarded_free(world);
}

/* Who has nothing to do stays on, and others have the device; who works now and then gets what it
 * needs of it. */
TEST(idle)
{
    static const struct {
        const char *what;
        struct program program;
        double least, others;
    } cases[] = {
        {"idle", {.kernel_ns = MS, .batch = 1, .gap_ns = 100 * SEC}, 0, .98},
        {"1 ms in 100", {.kernel_ns = MS, .batch = 1, .gap_ns = 99 * MS}, .009, .9},
        {"20 ms in 200",
         {.kernel_ns = MS, .batch = 20, .launch_ns = 5 * US, .gap_ns = 180 * MS},
         .06,
         .8},
        {"10 us in 1000", {.kernel_ns = 10 * US, .batch = 1, .gap_ns = 990 * US}, .005, .45},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *world = world_new(i + 80, 1);
        struct program busy = synced(MS);
        struct guarded *tenants[2];

        tenants[0] = guarded_add(world, &none, &cases[i].program, world->now_ns);
        tenants[1] = guarded_add(world, &none, &busy, world->now_ns + 300 * US);
        run_ms(world, 500);
        guarded_measure(world);
        run_ms(world, 4000);
        print_guarded(cases[i].what, world, tenants, 2);
        assert_between(guarded_ran(tenants[0]), cases[i].least, .5);
        assert_between(guarded_ran(tenants[1]), cases[i].others, 1);
        if (i == 0) {
            assert_int_equal(guarded_offs(tenants[0]) + guarded_offs(tenants[1]), 0);
            assert_false(tenants[0]->proc->contexts[0].off);
        }
        guarded_free(world);
    }
}

/*
 * At the end of a turn what runs of an uncapped one may go on for some time; then it is stopped,
 * unless it has its next turn by then. Of a capped one it is stopped at once.
 */
TEST(ends)
{
    static const struct {
        const char *what;
        unsigned cap_percent, quantum_us;
    } cases[] = {
        {"turns end", 0, 0}, {"turns of 3 ms end", 0, 3000}, {"turns with caps end", 95, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *world = world_new(i + 200, 1);
        struct limits limits = {.cap_percent = cases[i].cap_percent};
        struct program program = synced(50 * MS);
        struct guarded *tenants[2];

        world->arenas[0]->layout->quantum_us = cases[i].quantum_us;
        for (unsigned k = 0; k < 2; k++)
            tenants[k] = guarded_add(world, &limits, &program, world->now_ns + k * 300 * US);
        run_ms(world, 500);
        guarded_measure(world);
        run_ms(world, 2000);
        print_guarded(cases[i].what, world, tenants, 2);
        for (unsigned k = 0; k < 2; k++) {
            uint64_t(*went)[3] = tenants[k]->went, endings = went[SHARE_ON][SHARE_ENDING];

            print_message("%-34s %llu ending, %llu of them off, %.2f to %.2f ms later, %llu on; "
                          "%llu off at once\n",
                          "", (unsigned long long)endings,
                          (unsigned long long)went[SHARE_ENDING][SHARE_OFF],
                          in_ms(tenants[k]->ended_least_ns), in_ms(tenants[k]->ended_most_ns),
                          (unsigned long long)went[SHARE_ENDING][SHARE_ON],
                          (unsigned long long)went[SHARE_ON][SHARE_OFF]);
            if (cases[i].cap_percent) {
                assert_true(endings == 0 && went[SHARE_ON][SHARE_OFF] > 30);
                continue;
            }
            assert_true(endings > 30 && went[SHARE_ON][SHARE_OFF] == 0);
            if (cases[i].quantum_us) {
                assert_true(went[SHARE_ENDING][SHARE_ON] > endings * 9 / 10);
            } else {
                assert_between((double)went[SHARE_ENDING][SHARE_OFF], (double)endings - 1,
                               (double)endings + 1);
                assert_between(in_ms(tenants[k]->ended_least_ns), 5, 6);
                assert_between(in_ms(tenants[k]->ended_most_ns), 5, 6);
            }
        }
        guarded_free(world);
    }
}

/* Who has the device and nothing more to do gives way before its turn is over. */
TEST(gives_way)
{
    uint64_t most_ns = 0, sum_ns = 0;
    unsigned count = 0;

    for (unsigned seed = 0; seed < 10; seed++) {
        struct world *world = world_new(seed + 220, 1);
        struct program busy = synced(MS), bursts = synced(MS);
        struct guarded *tenants[2];

        bursts.busy_ns = 53 * MS;
        bursts.idle_ns = 110 * MS;
        tenants[0] = guarded_add(world, &none, &bursts, world->now_ns);
        tenants[1] = guarded_add(world, &none, &busy, world->now_ns + 300 * US);
        run_ms(world, 500);
        for (unsigned i = 0; i < 12; i++) {
            const struct proc *proc = tenants[0]->proc;
            uint64_t from_ns;

            while (proc->host_ns == NEVER || proc->host_ns < world->now_ns + 100 * MS)
                world_run(world, world->now_ns + 50 * US);
            from_ns = proc->host_ns - bursts.idle_ns;
            if (tenants[1]->state != SHARE_ON && tenants[0]->state == SHARE_ON) {
                while (tenants[1]->proc->contexts[0].off)
                    world_run(world, world->now_ns + 50 * US);
                most_ns = world->now_ns - from_ns > most_ns ? world->now_ns - from_ns : most_ns;
                sum_ns += world->now_ns - from_ns;
                count++;
            }
            run_ms(world, 20);
        }
        guarded_free(world);
    }
    print_message("gives way %u times, after %.2f ms, %.2f at most\n", count, in_ms(sum_ns) / count,
                  in_ms(most_ns));
    assert_true(count > 20);
    assert_between(in_ms(most_ns), 0, 10);
}

/* The time from its first launch until it is switched off, for another has the device; and until it
 * gets it. */
TEST(newcomer)
{
    uint64_t most_ns = 0, wait_ns = 0;

    for (unsigned seed = 0; seed < 30; seed++) {
        struct world *world = world_new(seed + 90, 1);
        struct program busy = synced(MS), late = synced(MS);
        struct guarded *tenants[2];
        uint64_t at_ns, off_ns;

        late.busy_ns = MS;
        late.idle_ns = 500 * MS;
        tenants[0] = guarded_add(world, &none, &busy, world->now_ns);
        tenants[1] = guarded_add(world, &none, &late, world->now_ns);
        run_ms(world, 400);
        late.idle_ns = 0;
        tenants[1]->proc->program = late;
        at_ns = tenants[1]->proc->host_ns;
        world_run(world, at_ns);
        guarded_measure(world);
        while (!guarded_offs(tenants[1]))
            world_run(world, world->now_ns + 50 * US);
        off_ns = world->now_ns - at_ns;
        while (tenants[1]->proc->contexts[0].off)
            world_run(world, world->now_ns + 50 * US);
        most_ns = off_ns > most_ns ? off_ns : most_ns;
        wait_ns = world->now_ns - at_ns > wait_ns ? world->now_ns - at_ns : wait_ns;
        guarded_free(world);
    }
    print_message("newcomer: off after %.2f ms, and on again after %.2f ms at most\n",
                  in_ms(most_ns), in_ms(wait_ns));
    assert_between(in_ms(most_ns), 0, 6);
    assert_between(in_ms(wait_ns), 0, 25);
}

/* Policies of turns are the arena's. */
TEST(policies)
{
    for (int policy = 0; policy < (int)VGPU_TURN_POLICIES; policy++) {
        struct world *world = world_new((uint64_t)policy + 130, 1);
        struct program program = synced(MS);
        struct guarded *tenants[2];
        double first, second;

        world_policy(world, (enum vgpu_turn_policy)policy);
        for (unsigned k = 0; k < 2; k++) {
            struct limits limits = {.priority = k};

            tenants[k] = guarded_add(world, &limits, &program, world->now_ns + k * 300 * US);
        }
        run_ms(world, 1000);
        guarded_measure(world);
        run_ms(world, 6000);
        print_guarded("policy", world, tenants, 2);
        first = guarded_ran(tenants[0]);
        second = guarded_ran(tenants[1]);
        if (policy == VGPU_TURN_PRIORITY) {
            assert_between(second, .93, 1);
            assert_between(first, .003, .05);
            assert_between(in_ms(tenants[0]->longest_off_ns), 500, 1100);
        } else {
            assert_between(first / (first + second), .48, .52);
            assert_between(first + second, policy == VGPU_TURN_MLFQ ? .9 : .95, 1);
        }
        guarded_free(world);
    }
}

/* What the region says of turns. */
TEST(counts)
{
    struct world *world = world_new(140, 1);
    struct program program = synced(MS);
    struct guarded *tenants[2];
    struct vgpu_compute_usage usage;

    for (unsigned k = 0; k < 2; k++)
        tenants[k] = guarded_add(world, &none, &program, world->now_ns + k * 300 * US);
    run_ms(world, 4000);
    for (unsigned k = 0; k < 2; k++) {
        usage = guarded_usage(tenants[k]);
        print_message("%llu turns, waited %.1f ms, GPU time %.1f ms of %.1f\n",
                      (unsigned long long)usage.turns, in_ms(usage.turn_wait_ns),
                      in_ms(usage.amount[VGPU_WORK_KERNEL]),
                      in_ms(tenants[k]->proc->contexts[0].ran_ns));
        assert_between((double)usage.turns, 80, 120);
        assert_between(in_ms(usage.turn_wait_ns), 1800, 2200);
        /* What goes on after the end of a turn is not counted. */
        assert_between(in_ms(usage.amount[VGPU_WORK_KERNEL]), 1800, 2150);
        assert_true(share_switches(tenants[k]->share) >= 2 * usage.turns - 2);
    }
    guarded_free(world);
}
