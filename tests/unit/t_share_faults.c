/*
 * What goes wrong with guarded instances: supervisors that stop or die, arenas full of nonsense,
 * switches that fail, probes that tell nothing. Also pauses. In virtual time (share_world.h).
 */
#include "guard/sched/share_internal.h"
#include "share_world.h"
#include "unit.h"

static const struct limits none = {0};

static struct arena_layout *arena_of(struct world *world)
{
    return world->arenas[0]->layout;
}

static struct world *two(uint64_t seed, struct guarded **tenants)
{
    struct world *world = world_new(seed, 1);
    struct program program = synced(MS);

    for (unsigned k = 0; k < 2; k++)
        tenants[k] = guarded_add(world, &none, &program, world->now_ns + k * 300 * US);
    run_ms(world, 500);
    return world;
}

/* A supervisor that is stopped while its tenant is on, or off; and goes on. */
TEST(stopped)
{
    for (unsigned seed = 0; seed < 20; seed++) {
        struct guarded *tenants[3];
        struct world *world = two(seed + 1, tenants);
        struct program program = synced(MS);
        bool off;

        tenants[2] = guarded_add(world, &none, &program, world->now_ns);
        run_ms(world, 500);
        world_run(world, world->now_ns + world_random(&world->random) % (60 * MS));
        guarded_stop(tenants[0], true);
        off = tenants[0]->proc->contexts[0].off;
        run_ms(world, 100);
        guarded_measure(world);
        run_ms(world, 2000);
        if (seed < 4)
            print_message("stopped while %s: %.4f, the others %.4f %.4f\n", off ? "off" : "on",
                          guarded_ran(tenants[0]), guarded_ran(tenants[1]),
                          guarded_ran(tenants[2]));
        /* Beside one that is on the driver divides, half each. */
        assert_between(guarded_ran(tenants[1]), off ? .45 : .2, .52);
        assert_between(guarded_ran(tenants[2]), off ? .45 : .2, .52);
        assert_between((double)tenants[1]->longest_off_ns / 1e6, 0, 100);
        guarded_stop(tenants[0], false);
        run_ms(world, 3000);
        guarded_measure(world);
        run_ms(world, 2000);
        for (unsigned k = 0; k < 3; k++)
            assert_between(guarded_ran(tenants[k]), .30, .345);
        guarded_free(world);
    }
}

TEST(killed)
{
    for (unsigned seed = 0; seed < 20; seed++) {
        struct guarded *tenants[2];
        struct world *world = two(seed + 50, tenants);

        world_run(world, world->now_ns + world_random(&world->random) % (60 * MS));
        world_kill(tenants[0]->proc);
        guarded_kill(tenants[0]);
        run_ms(world, 300);
        assert_false(tenants[1]->proc->contexts[0].off);
        guarded_measure(world);
        run_ms(world, 2000);
        assert_between(guarded_ran(tenants[1]), .99, 1);
        assert_int_equal(guarded_offs(tenants[1]), 0);
        guarded_free(world);
    }
}

/* A process of the preload tier that is stopped or killed while it has the device, beside instances
 * of the guard. */
TEST(preload_gone)
{
    for (unsigned seed = 0; seed < 20; seed++) {
        struct guarded *tenants[2];
        struct world *world = two(seed + 80, tenants);
        struct program program = synced(MS);
        struct proc *preload = world_add(world, 1, 100, 0, &program, world->now_ns);

        run_ms(world, 500);
        world_run(world, world->now_ns + world_random(&world->random) % (60 * MS));
        if (seed % 2)
            world_kill(preload);
        else
            world_stop(preload);
        run_ms(world, 300);
        guarded_measure(world);
        run_ms(world, 2000);
        for (unsigned k = 0; k < 2; k++) {
            assert_between(guarded_ran(tenants[k]), .47, .5);
            assert_between((double)tenants[k]->longest_off_ns / 1e6, 0, 200);
        }
        guarded_free(world);
    }
}

/* Anybody may write anything into the arena, all the time: nobody stays off for longer than the
 * bound. */
static struct {
    uint64_t random, every_ns, next_ns;
    bool words_only;
} writer;

static void write_nonsense(struct world *world)
{
    struct arena_layout *layout = arena_of(world);
    size_t bytes = offsetof(struct arena_layout, page) + 6 * sizeof(struct arena_page), from;
    uint64_t value = world_random(&writer.random);

    if (world->now_ns < writer.next_ns)
        return;
    writer.next_ns = world->now_ns + writer.every_ns;
    if (writer.words_only) {
        /* What keeps everybody waiting: a holder that is not there, turns that do not end. */
        atomic_store(&layout->holder, 40);
        atomic_store(&layout->end_ns, value % 2 ? UINT64_MAX : world->now_ns + 10 * MS);
        atomic_store(&layout->tenant[39].id, 5);
        layout->page[200].used = 1;
        layout->page[200].tenant = 39;
        layout->page[200].active = 1;
        layout->page[200].unfenced = 1;
        layout->page[200].busy_until_ns = world->now_ns + 10 * MS;
        atomic_store(&layout->pages_high, 256);
        for (unsigned i = 0; i < 8; i++)
            layout->page[i].granted_turn -= value % 3 == 0;
        return;
    }
    from = value % bytes / 4 * 4;
    /* What a lock is left with has a test of its own; the file's head is looked at once. */
    if (from < offsetof(struct arena_layout, policy))
        return;
    value = world_random(&writer.random);
    *(uint32_t *)((char *)layout + from) = value % 4 == 0   ? 0
                                           : value % 4 == 1 ? (uint32_t)(value >> 32) % 300
                                                            : (uint32_t)(value >> 32);
}

TEST(nonsense)
{
    for (unsigned seed = 0; seed < 12; seed++) {
        struct guarded *tenants[2];
        struct world *world = two(seed + 120, tenants);
        uint64_t longest_ns = 0;

        writer.random = seed + 77;
        writer.words_only = seed % 2;
        writer.every_ns = (seed % 3 == 0 ? 20 : seed % 3 == 1 ? 500 : 5000) * US;
        writer.next_ns = 0;
        world->each = write_nonsense;
        guarded_measure(world);
        run_ms(world, 12000);
        world->each = NULL;
        for (unsigned k = 0; k < 2; k++) {
            uint64_t now_off_ns =
                tenants[k]->proc->contexts[0].off ? world->now_ns - tenants[k]->off_since_ns : 0;

            longest_ns =
                tenants[k]->longest_off_ns > longest_ns ? tenants[k]->longest_off_ns : longest_ns;
            longest_ns = now_off_ns > longest_ns ? now_off_ns : longest_ns;
        }
        print_message("%s every %5.2f ms: off for %.1f ms at most, shares %.4f %.4f\n",
                      writer.words_only ? "a holder that is not there" : "anything",
                      in_ms(writer.every_ns), in_ms(longest_ns), guarded_ran(tenants[0]),
                      guarded_ran(tenants[1]));
        assert_between(in_ms(longest_ns), 0, in_ms(PREEMPT_OFF_MOST_NS) + 60);
        guarded_free(world);
    }
}

/* Switches at once, and nothing else switches it on. */
TEST(pause)
{
    for (unsigned seed = 0; seed < 20; seed++) {
        struct guarded *tenants[2];
        struct world *world = two(seed + 160, tenants);

        world_run(world, world->now_ns + world_random(&world->random) % (60 * MS));
        guarded_pause(tenants[0], true);
        run_ms(world, 2);
        assert_true(tenants[0]->proc->contexts[0].off);
        assert_int_equal(tenants[0]->pause_rc, 0);
        run_ms(world, 300);
        guarded_measure(world);
        run_ms(world, 3000);
        assert_between(guarded_ran(tenants[0]), 0, 0);
        assert_between(guarded_ran(tenants[1]), .99, 1);
        guarded_pause(tenants[0], false);
        run_ms(world, 500);
        guarded_measure(world);
        run_ms(world, 2000);
        for (unsigned k = 0; k < 2; k++)
            assert_between(guarded_ran(tenants[k]), .47, .51);
        /* Alone, it is back at once. */
        world_kill(tenants[1]->proc);
        guarded_kill(tenants[1]);
        run_ms(world, 1000);
        guarded_pause(tenants[0], true);
        run_ms(world, 2);
        assert_true(tenants[0]->proc->contexts[0].off);
        run_ms(world, 1000);
        guarded_pause(tenants[0], false);
        run_ms(world, 2);
        assert_false(tenants[0]->proc->contexts[0].off);
        guarded_free(world);
    }
}

/* What is ending, and would go on, is stopped by a pause. */
TEST(pause_ending)
{
    for (unsigned seed = 0; seed < 20; seed++) {
        struct guarded *tenants[2];
        struct world *world = two(seed + 230, tenants);

        for (unsigned k = 0; k < 2; k++)
            tenants[k]->proc->program.kernel_ns = 50 * MS;
        run_ms(world, 500);
        while (tenants[0]->state != SHARE_ENDING || !tenants[0]->waiting ||
               tenants[0]->share->preempt.waiting_ns == 0)
            world_run(world, world->now_ns + 50 * US);
        world_run(world, world->now_ns + world_random(&world->random) % (3 * MS));
        assert_int_equal(tenants[0]->state, SHARE_ENDING);
        guarded_measure(world);
        guarded_pause(tenants[0], true);
        run_ms(world, 2);
        assert_int_equal(tenants[0]->pause_rc, 0);
        assert_int_equal(tenants[0]->state, SHARE_OFF);
        assert_int_equal(tenants[0]->went[SHARE_ENDING][SHARE_OFF], 1);
        assert_true(tenants[0]->proc->contexts[0].off && !tenants[0]->proc->contexts[0].ending);
        run_ms(world, 300);
        guarded_measure(world);
        run_ms(world, 1000);
        assert_between(guarded_ran(tenants[0]), 0, 0);
        assert_between(guarded_ran(tenants[1]), .99, 1);
        guarded_free(world);
    }
}

/* One that cannot be switched, off or on, lets others have their turns all the same; it is tried
 * again. */
TEST(failing)
{
    for (unsigned off = 0; off < 2; off++) {
        struct guarded *tenants[2];
        struct world *world = two(200 + off, tenants);

        while (tenants[0]->proc->contexts[0].off != off || tenants[0]->switching)
            world_run(world, world->now_ns + 100 * US);
        tenants[0]->set_rc = -EIO;
        run_ms(world, 500);
        guarded_measure(world);
        run_ms(world, 2000);
        print_message("cannot be switched %s: %.4f, the other %.4f\n", off ? "on" : "off",
                      guarded_ran(tenants[0]), guarded_ran(tenants[1]));
        assert_between(in_ms(tenants[1]->longest_off_ns), 0, 60);
        assert_between(guarded_ran(tenants[1]), off ? .9 : .2, 1);
        tenants[0]->set_rc = 0;
        run_ms(world, 500);
        guarded_measure(world);
        run_ms(world, 2000);
        for (unsigned k = 0; k < 2; k++)
            assert_between(guarded_ran(tenants[k]), .47, .51);
        guarded_free(world);
    }
}

/* A pause that fails says so, and is made good as soon as it can be. */
TEST(failing_pause)
{
    struct guarded *tenants[2];
    struct world *world = two(205, tenants);

    while (tenants[0]->proc->contexts[0].off || tenants[0]->switching)
        world_run(world, world->now_ns + 100 * US);
    tenants[0]->set_rc = -EIO;
    guarded_pause(tenants[0], true);
    run_ms(world, 50);
    assert_int_equal(tenants[0]->pause_rc, -EIO);
    assert_false(tenants[0]->proc->contexts[0].off);
    tenants[0]->set_rc = 0;
    run_ms(world, 20);
    assert_true(tenants[0]->proc->contexts[0].off);
    guarded_free(world);
}

/* Where looks tell nothing, a tenant is taken for busy: it takes its turns. */
TEST(blind)
{
    struct guarded *tenants[2];
    struct world *world = two(210, tenants);

    tenants[0]->look_rc = -ENOTSUP;
    run_ms(world, 500);
    guarded_measure(world);
    run_ms(world, 2000);
    for (unsigned k = 0; k < 2; k++)
        assert_between(guarded_ran(tenants[k]), .47, .51);
    guarded_free(world);
}
