/*
 * Turns while processes die, stop, never finish, or write nonsense into the arena. The others go on
 * within a bound. In virtual time (sched_world.h); a seed chooses when things happen.
 */
#include "sched_world.h"
#include "unit.h"

#include <stdlib.h>

/* Turns of two others, and what may still be on the device at their end. */
#define QUANTUM_MOST (50 * MS)
#define BOUND_NS     (SCHED_BOUND_NS + QUANTUM_MOST)

static struct proc *holder(struct world *world)
{
    uint32_t tenant = atomic_load(&world->arenas[0]->layout->holder);

    for (unsigned i = 0; i < world->count; i++) {
        struct proc *proc = &world->procs[i];

        if (!proc->dead && proc->contexts[0].joined &&
            proc->contexts[0].client.tenant + 1 == tenant)
            return proc;
    }
    return NULL;
}

static struct proc *not_holder(struct world *world)
{
    const struct proc *not_this = holder(world);

    for (unsigned i = 0; i < world->count; i++)
        if (&world->procs[i] != not_this && world->procs[i].contexts[0].registered)
            return &world->procs[i];
    return NULL;
}

enum accident { KILL, STOP, STOP_WITH_LOCK, LEAVE, ACCIDENTS };
static const char *const accident_names[] = {"killed", "stopped", "stopped, has the lock", "left"};

static void happen(struct proc *proc, enum accident accident)
{
    uint32_t word;

    switch (accident) {
    case KILL:
        world_kill(proc);
        break;
    case STOP_WITH_LOCK:
        assert_true(
            arena_lock(proc->contexts[0].client.arena, proc->contexts[0].client.index, &word));
        world_stop(proc);
        break;
    case LEAVE:
        world_leave(proc);
        break;
    default:
        world_stop(proc);
    }
}

static const uint64_t lengths[] = {20 * US, 200 * US, MS, 5 * MS};

/* Some tenants, something random happening to one of them, and then 300 ms more. Returns the
 * longest wait after it. */
static uint64_t after_accident(uint64_t seed, enum accident accident, bool of_holder,
                               uint64_t *ret_done_ns)
{
    struct world *world = world_new(seed, 1);
    unsigned count = 2 + (unsigned)(world_random(&world->random) % 3);
    uint64_t done_ns = 0, wait_ns;
    struct proc *victim;

    world->marks_always = world_random(&world->random) % 2;
    for (unsigned i = 0; i < count; i++) {
        struct program program = synced(lengths[world_random(&world->random) % 4]);

        if (world_random(&world->random) % 2)
            program.batch = 1 + (unsigned)(world_random(&world->random) % 30);
        world_add(world, i + 1, 100, 0, &program,
                  world->now_ns + world_random(&world->random) % MS);
    }
    world_run(world, world->now_ns + 50 * MS + world_random(&world->random) % (50 * MS));
    victim = of_holder ? holder(world) : not_holder(world);
    if (!victim)
        victim = &world->procs[0];
    happen(victim, accident);
    world_measure(world);
    run_ms(world, 300);
    wait_ns = longest_wait_ns(world, victim);
    for (unsigned i = 0; i < count; i++)
        if (&world->procs[i] != victim)
            done_ns += world->procs[i].contexts[0].done_ns - world->marked_done[i];
    *ret_done_ns = done_ns;
    world_free(world);
    return wait_ns;
}

TEST(accidents)
{
    for (int of_holder = 0; of_holder < 2; of_holder++) {
        for (enum accident accident = 0; accident < ACCIDENTS; accident++) {
            unsigned runs = accident == STOP_WITH_LOCK ? 40 : 80;
            uint64_t most_ns = 0, least_ns = UINT64_MAX;

            for (unsigned i = 0; i < runs; i++) {
                uint64_t done_ns,
                    wait_ns = after_accident(1000 * accident + i, accident, of_holder, &done_ns);

                most_ns = wait_ns > most_ns ? wait_ns : most_ns;
                least_ns = done_ns < least_ns ? done_ns : least_ns;
            }
            print_message(
                "%s %-22s longest wait of the others %.1f ms, least done %.1f of 300 ms\n",
                of_holder ? "holder" : "waiter", accident_names[accident], in_ms(most_ns),
                in_ms(least_ns));
            assert_between(
                in_ms(most_ns), 0,
                in_ms(BOUND_NS + 5 * MS + (accident == STOP_WITH_LOCK ? ARENA_LOCK_STALE_NS : 0)));
            assert_between(in_ms(least_ns), 150, 300);
        }
    }
}

/* Stopped for a while, in the midst of anything; afterwards it has its share again, and the others
 * theirs. */
TEST(stop_and_go)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct world *world = world_new(500 + seed, 1);
        struct program one = synced(lengths[1 + seed % 3]);
        struct proc *victim;

        for (unsigned i = 0; i < 3; i++)
            world_add(world, i + 1, 100, 0, &one, world->now_ns + i * 30 * US);
        world_run(world, world->now_ns + 50 * MS + world_random(&world->random) % (30 * MS));
        victim = seed % 2 ? holder(world) : not_holder(world);
        happen(victim, seed % 3 == 0 ? STOP_WITH_LOCK : STOP);
        run_ms(world, 100 + seed * 100);
        world_continue(victim);
        run_ms(world, 200);
        world_measure(world);
        run_ms(world, 600);
        if (seed == 0)
            print_world("after a stop", world);
        for (unsigned i = 0; i < 3; i++)
            assert_between(world_share(world, &world->procs[i]) / world_sum(world), .31, .36);
        assert_between(in_ms(longest_wait_ns(world, NULL)), 0, 45);
        world_free(world);
    }
}

/* Several processes in an instance share its turns, whoever of them comes and goes. */
TEST(processes_of_an_instance)
{
    struct program one = synced(MS), half = synced(500 * US);
    struct world *world = world_new(600, 1);
    double first;

    for (unsigned i = 0; i < 3; i++)
        world_add(world, 1, 100, 0, &half, world->now_ns + i * 200 * US);
    world_add(world, 2, 100, 0, &one, world->now_ns + 50 * US);
    /* Two more join: the instance has the device, or does not. */
    world_add(world, 1, 100, 0, &one, world->now_ns + 105 * MS);
    world_add(world, 2, 100, 0, &half, world->now_ns + 115 * MS);
    run_ms(world, 300);
    world_measure(world);
    run_ms(world, 2000);
    print_world("two instances, 4 and 2 processes", world);
    first = world_share(world, &world->procs[0]) + world_share(world, &world->procs[1]) +
            world_share(world, &world->procs[2]) + world_share(world, &world->procs[4]);
    assert_between(first / world_sum(world), .48, .52);
    /* Within an instance, the driver switches. */
    assert_between(world_sum(world), .8, 1);
    for (unsigned i = 0; i < 3; i++)
        assert_between(world_share(world, &world->procs[i]), .05, .2);
    assert_between(in_ms(longest_wait_ns(world, NULL)), 0, 50);

    world_kill(&world->procs[0]);
    world_leave(&world->procs[4]);
    world_stop(&world->procs[1]);
    world_measure(world);
    run_ms(world, 2000);
    print_world("one killed, one left, one stopped", world);
    first = world_held(world, &world->procs[2]);
    assert_between(first / (first + world_held(world, &world->procs[3])), .48, .52);
    assert_between(in_ms(longest_wait_ns(world, &world->procs[1])), 0, in_ms(BOUND_NS));
    world_free(world);
}

static const struct program endless = {.kernel_ns = NEVER, .batch = 1, .launch_ns = 4 * US};

TEST(endless_kernel)
{
    struct program busy = {
        .kernel_ns = 206 * US, .batch = 10, .launch_ns = 4 * US, .gap_ns = 20 * US};
    struct program besides = {.kernel_ns = NEVER, .batch = 0, .launch_ns = 5 * MS, .streams = 2};

    for (int i = 0; i < 4; i++) {
        struct world *world = world_new(700 + i, 1);
        double native;

        world->native = true;
        world_add(world, 1, 100, 0, &busy, world->now_ns);
        world_add(world, 2, 100, 0, &endless, world->now_ns);
        run_ms(world, 2000);
        native = (double)world->procs[0].contexts[0].done_ns / 2e9;
        world_free(world);

        world = world_new(700 + i, 1);
        world_add(world, 1, 100, 0, &busy, world->now_ns + (i % 2 ? 200 * MS : 0));
        world_add(world, 2, 100, 0, i < 2 ? &endless : &besides,
                  world->now_ns + (i % 2 ? 0 : 200 * MS));
        run_ms(world, 200);
        run_ms(world, 150);
        assert_between(in_ms(longest_wait_ns(world, NULL)), 0, in_ms(BOUND_NS));
        world_measure(world);
        run_ms(world, 5000);
        print_message("endless kernel%s, %s: %.4f (native %.4f) beside it, longest wait %.1f ms\n",
                      i < 2 ? "" : " and more launches", i % 2 ? "first" : "second",
                      world_share(world, &world->procs[0]), native,
                      in_ms(longest_wait_ns(world, &world->procs[1])));
        assert_between(world_share(world, &world->procs[0]), .9 * native, 1);
        assert_between(in_ms(longest_wait_ns(world, &world->procs[1])), 0, in_ms(BOUND_NS));
        world_free(world);
    }
}

/* Kernels on two devices that wait for each other, as a collective operation's do. */
TEST(pairs)
{
    static const struct {
        const char *what;
        uint64_t launch_ns;
        bool second_pair, matmul;
    } cases[] = {
        {"two pairs, opposite order", 5 * US, true, false},
        {"two pairs, 1 ms between launches", MS, true, false},
        {"a pair beside a tenant", 5 * US, false, true},
        {"a pair, 1 ms between, and a tenant", MS, false, true},
        {"two pairs and a tenant", 100 * US, true, true},
    };

    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *world = world_new(800 + i / 2, 2);
        struct program pair = {.kernel_ns = MS,
                               .batch = 2,
                               .launch_ns = cases[i / 2].launch_ns,
                               .gap_ns = 20 * US,
                               .pair = true};
        struct program reversed = pair, one = synced(MS);

        world->native = i % 2;
        reversed.reversed = true;
        world_add(world, 1, 100, 0, &pair, world->now_ns);
        if (cases[i / 2].second_pair)
            world_add(world, 2, 100, 0, &reversed, world->now_ns + 10 * US);
        if (cases[i / 2].matmul)
            world_add(world, 3, 100, 0, &one, world->now_ns + 20 * US);
        run_ms(world, 500);
        world_measure(world);
        run_ms(world, 5000);
        print_world(world->native ? "the same, native" : cases[i / 2].what, world);
        for (unsigned k = 0; k < world->count && !world->native; k++)
            assert_between(world_share(world, &world->procs[k]), .1, 1);
        assert_between(in_ms(longest_wait_ns(world, NULL)), 0, 2 * in_ms(BOUND_NS));
        world_free(world);
    }
}

/* One that has queued all that the driver takes before anybody came: it is known, and shares, once
 * that has run. */
TEST(deep_queue)
{
    struct program deep = {.kernel_ns = MS, .launch_ns = 4 * US}, one = synced(MS);
    struct world *world = world_new(900, 1);

    world_add(world, 1, 100, 0, &deep, world->now_ns);
    world_add(world, 2, 100, 0, &one, world->now_ns + 1500 * MS);
    run_ms(world, 1600);
    assert_between(in_ms(world->procs[1].contexts[0].longest_wait), 0, 25);
    run_ms(world, 3400);
    assert_between(in_ms(world->procs[1].contexts[0].longest_wait), 0, 60);
    world_measure(world);
    run_ms(world, 1000);
    print_world("1024 queued before the other came", world);
    assert_between(world_sum(world), .96, 1);
    assert_between(world_share(world, &world->procs[0]), .47, .51);
    world_free(world);
}

/* Nonsense */

static void write_nonsense(struct world *world)
{
    char *bytes = (char *)world->arenas[0]->layout;
    uint64_t *random = &world->random, value = world_random(random), where;
    size_t pages = offsetof(struct arena_layout, page);

    switch (world_random(random) % 4) {
    case 0: /* where turns are decided */
        where = offsetof(struct arena_layout, lock) +
                world_random(random) %
                    (offsetof(struct arena_layout, tenant) - offsetof(struct arena_layout, lock));
        break;
    case 1:
        where = offsetof(struct arena_layout, tenant) +
                world_random(random) % (4 * sizeof(struct arena_tenant));
        break;
    default:
        where = pages + world_random(random) % world->count * ARENA_PAGE_BYTES +
                world_random(random) % (offsetof(struct arena_page, fence_completed) +
                                        sizeof(uint32_t) * WORLD_STREAMS);
    }
    switch (world_random(random) % 4) {
    case 0:
        value %= 70; /* looks like an index, a count, a flag */
        break;
    case 1:
        value = world->now_ns + value % (20 * SEC) - 10 * SEC;
        break;
    case 2:
        value = 0;
        break;
    default:
        break;
    }
    if (world_random(random) % 2)
        *(uint64_t *)(bytes + where / 8 * 8) = value;
    else
        *(uint32_t *)(bytes + where / 4 * 4) = (uint32_t)value;
}

TEST(nonsense)
{
    uint64_t most_ns = 0, least = UINT64_MAX, writes = 0;

    for (uint64_t seed = 0; seed < 60; seed++) {
        struct world *world = world_new(2000 + seed, 1);
        uint64_t end_ns = world->now_ns + 8 * SEC;

        for (unsigned i = 0; i < 3; i++) {
            struct program program = synced(lengths[(i + seed) % 4]);

            program.streams = 1 + i % 2;
            world_add(world, i + 1, 100 + 100 * i, i, &program, world->now_ns + i * 40 * US);
        }
        world_policy(world, seed % VGPU_TURN_POLICIES);
        run_ms(world, 50);
        while (world->now_ns < end_ns) {
            unsigned count = seed % 2 ? 1 + (unsigned)(world_random(&world->random) % 20) : 1;

            for (unsigned i = 0; i < count; i++, writes++)
                write_nonsense(world);
            world_run(world, world->now_ns +
                                 world_random(&world->random) % (seed % 3 ? 50 * MS : 1000 * MS));
        }
        for (unsigned i = 0; i < 3; i++)
            least = world->procs[i].contexts[0].done_ns < least
                        ? world->procs[i].contexts[0].done_ns
                        : least;
        if (longest_wait_ns(world, NULL) > most_ns)
            most_ns = longest_wait_ns(world, NULL);
        world_free(world);
    }
    print_message("nonsense: %llu writes, longest wait %.1f ms, least done %.1f of 8000 ms\n",
                  (unsigned long long)writes, in_ms(most_ns), in_ms(least));
    assert_between(in_ms(most_ns), 0, in_ms(SCHED_RESCUE_NS) + 1100);
    assert_between(in_ms(least), 5, 8000);
}
