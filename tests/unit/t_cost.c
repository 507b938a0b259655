/* The cost that launches are charged: convergence, changes, stalls, how often it is measured, a
 * full table, threads. */
#include "unit.h"

#include "sched/cost.h"

#include <pthread.h>

#define US 1000ULL
#define MS 1000000ULL

static uint64_t rolling = 2024;

static bool chance(double p)
{
    return cost_random(&rolling) < p * 2147483648.0;
}

/* A program that launches one thing again and again; samples arrive `in_flight` launches late. */
struct play {
    struct cost_cell *cell;
    uint64_t (*duration)(unsigned launch);
    unsigned in_flight;
    double true_ns, charged_ns, corrected_ns; /* corrected: as cost_measured_always() says */
    unsigned samples;
};

static struct cost_cell *new_cell(void)
{
    struct cost_cell *cell = cost_find(cost_table_new(), 12345);

    assert_non_null(cell);
    return cell;
}

static void play(struct play *p, unsigned launches)
{
    enum { LATE_MAX = 256 };
    uint64_t due[LATE_MAX] = {0};

    for (unsigned i = 0; i < launches; i++) {
        uint64_t takes = p->duration(i), charge = cost_estimate(p->cell, 20 * US);
        uint64_t *late = &due[i % LATE_MAX], *now = &due[(i + LATE_MAX - p->in_flight) % LATE_MAX];

        *late = 0;
        p->true_ns += (double)takes;
        p->charged_ns += (double)charge;
        p->corrected_ns += (double)charge;
        if (cost_wants_sample(p->cell, cost_random(&rolling))) {
            if (cost_measured_always(p->cell))
                p->corrected_ns += (double)takes - (double)charge;
            *late = takes;
            p->samples++;
        }
        if (*now)
            cost_learn(p->cell, *now, false);
        *now = 0;
    }
}

static void assert_near(double value, double right, double share)
{
    if (value < right * (1 - share) || value > right * (1 + share))
        fail_msg("%f is not within %f %% of %f", value, 100 * share, right);
}

static uint64_t constant_20us(unsigned launch)
{
    (void)launch;
    return 20 * US;
}

static uint64_t alternating(unsigned launch)
{
    return launch % 2 ? MS : 10 * US;
}

static uint64_t either(unsigned launch)
{
    (void)launch;
    return chance(0.5) ? MS : 10 * US;
}

static uint64_t by_phases(unsigned launch)
{
    return launch / 500 % 2 ? MS : 10 * US;
}

static uint64_t one_in_100_is_10_times(unsigned launch)
{
    (void)launch;
    return chance(0.01) ? 200 * US : 20 * US;
}

static uint64_t one_in_100_is_100_times(unsigned launch)
{
    (void)launch;
    return chance(0.01) ? MS : 10 * US;
}

static uint64_t one_in_100_is_100ms(unsigned launch)
{
    (void)launch;
    return chance(0.01) ? 100 * MS : 10 * US;
}

static uint64_t long_and_short(unsigned launch)
{
    (void)launch;
    return chance(0.1) ? 20 * MS : 10 * US;
}

static uint64_t around_the_border(unsigned launch)
{
    (void)launch;
    return chance(0.3) ? 2 * MS : 600 * US;
}

TEST(starts_and_settles)
{
    struct cost_cell *cell = new_cell();

    assert_false(cost_known(cell));
    assert_int_equal(cost_estimate(cell, 777 * US), 777 * US);
    assert_int_equal(cost_estimate(cell, 1), COST_MIN_NS);
    /* The first one ran with cold caches. */
    cost_learn(cell, 90 * US, false);
    assert_true(cost_known(cell));
    assert_int_equal(cost_estimate(cell, 777 * US), 90 * US);
    for (unsigned i = 0; i < 10; i++) {
        cost_learn(cell, 20 * US, false);
        assert_near((double)cost_estimate(cell, 1), 20e3, 1e-6);
    }
    /* What is 0, or beyond all measure. */
    cell = new_cell();
    cost_learn(cell, 0, false);
    assert_true(cost_known(cell));
    assert_int_equal(cost_estimate(cell, 777 * US), COST_MIN_NS);
    cost_learn(cell, UINT64_MAX, false);
    cost_learn(cell, UINT64_MAX, false);
    assert_true(cost_estimate(cell, 1) <= 3601 * NS_PER_S);
}

TEST(follows_a_change)
{
    struct play p = {.cell = new_cell(), .duration = constant_20us, .in_flight = 8};

    play(&p, 20000);
    for (unsigned i = 0, launches = 0; launches < 2500; i++) {
        launches++;
        if (cost_wants_sample(p.cell, cost_random(&rolling)))
            cost_learn(p.cell, 60 * US, false);
    }
    assert_near((double)cost_estimate(p.cell, 1), 60e3, 0.05);
    for (unsigned i = 0; i < 4000; i++)
        if (cost_wants_sample(p.cell, cost_random(&rolling)))
            cost_learn(p.cell, 5 * US, false);
    assert_near((double)cost_estimate(p.cell, 1), 5e3, 0.05);
}

/* What varies is charged its mean, over many launches, whatever the mean was when samples came. */
TEST(the_mean_is_charged)
{
    static const struct {
        uint64_t (*duration)(unsigned launch);
        double within, corrected_within;
    } cases[] = {
        {constant_20us, 0.001, 0.001},
        {alternating, 0.03, 0.03},
        {either, 0.03, 0.03},
        {by_phases, 0.03, 0.03},
        {one_in_100_is_10_times, 0.03, 0.03},
        {one_in_100_is_100_times, 0.1, 0.1},
        {one_in_100_is_100ms, 1, 0.1},
        {long_and_short, 0.03, 0.01},
        {around_the_border, 0.03, 0.03},
    };
    static const unsigned in_flight[] = {0, 3, 64};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t n = 0; n < sizeof(in_flight) / sizeof(in_flight[0]); n++) {
            struct play p = {
                .cell = new_cell(), .duration = cases[i].duration, .in_flight = in_flight[n]};

            play(&p, SLOWER > 1 ? 400000 : 1000000);
            assert_near(p.charged_ns, p.true_ns, cases[i].within);
            assert_near(p.corrected_ns, p.true_ns, cases[i].corrected_within);
        }
    }
}

TEST(one_stall_counts_little)
{
    struct play p = {.cell = new_cell(), .duration = constant_20us};

    play(&p, 10000);
    cost_learn(p.cell, 2 * NS_PER_S, false);
    assert_in_range(cost_estimate(p.cell, 1), 20 * US, 40 * US);
    /* The second is believed, and the mean goes towards it, but not all the way at once. */
    cost_learn(p.cell, 2 * NS_PER_S, false);
    assert_in_range(cost_estimate(p.cell, 1), 100 * US, 800 * US);
    for (unsigned i = 0; i < 100; i++)
        cost_learn(p.cell, 2 * NS_PER_S, false);
    assert_near((double)cost_estimate(p.cell, 1), 2e9, 0.05);
}

TEST(doubtful_samples)
{
    struct cost_cell *cell = new_cell();

    cost_learn(cell, 50 * US, true);
    assert_true(cost_known(cell));
    assert_int_equal(cost_estimate(cell, 1), 50 * US);
    for (unsigned i = 0; i < 20; i++)
        cost_learn(cell, 60 * US, true);
    assert_near((double)cost_estimate(cell, 1), 60e3, 0.02);
    assert_false(cost_measured_always(cell));
    cost_learn(cell, 20 * US, false);
    assert_int_equal(cost_estimate(cell, 1), 20 * US);
    cost_learn(cell, 60 * US, true);
    assert_int_equal(cost_estimate(cell, 1), 20 * US);
}

TEST(deferred_and_doubted)
{
    struct cost_table *table = cost_table_new();
    struct cost_cell *cell = cost_find(table, 9);
    uint32_t generation;

    for (unsigned i = 0; i < 60; i++) {
        if (i < 4)
            assert_true(cost_wants_sample(cell, 1));
        cost_defer(cell);
    }
    assert_int_equal(cost_learn(cell, 90 * US, false), 0); /* the first launch: cold */
    assert_int_equal(cost_learn(cell, 20 * US, false), 60);
    assert_int_equal(cost_learn(cell, 20 * US, false), 0);
    generation = cost_generation(cell);
    cost_doubt(table, 10); /* was never there */
    assert_true(cost_trusted(cell));
    assert_int_equal(cost_generation(cell), generation);
    cost_doubt(table, 9);
    assert_int_equal(cost_estimate(cell, 1), 20 * US);
    assert_true(cost_known(cell));
    assert_false(cost_trusted(cell));
    assert_int_not_equal(cost_generation(cell), generation);
    for (unsigned i = 0; i < 4; i++)
        assert_true(cost_wants_sample(cell, 1));
    cost_learn(cell, 500 * US, false);
    assert_int_equal(cost_estimate(cell, 1), 500 * US);
}

/* One in how many launches is measured, of a cell that has learned `ns`, or `ns` and `other_ns`. */
static double rate(uint64_t ns, uint64_t other_ns, bool doubtful)
{
    enum { TRIES = 200000 };
    struct cost_cell *cell = new_cell();
    unsigned wanted = 0;

    for (unsigned i = 0; i < 4; i++)
        assert_true(cost_wants_sample(cell, 0xffffffff));
    assert_false(cost_wants_sample(cell, 0xffffffff));
    for (unsigned i = 0; i < 100; i++)
        cost_learn(cell, i % 2 ? ns : other_ns, doubtful);
    for (unsigned i = 0; i < TRIES; i++)
        wanted += cost_wants_sample(cell, cost_random(&rolling));
    return (double)TRIES / wanted;
}

TEST(how_often_it_is_measured)
{
    struct cost_cell *cell = new_cell();
    unsigned wanted = 0;

    assert_near(rate(20 * US, 20 * US + 300, false), 64, 0.1);
    assert_near(rate(200 * US, 205 * US, false), 64, 0.1);
    assert_near(rate(2 * US, 2 * US + 300, false), 64, 0.1);
    assert_near(rate(20 * US, 30 * US, false), 16, 0.1);
    assert_near(rate(2 * MS, 2 * MS, false), 4, 0.1);
    assert_near(rate(20 * MS, 20 * MS, false), 1, 0.001);
    assert_near(rate(20 * US, 20 * MS, false), 1, 0.001);
    assert_near(rate(20 * MS, 20 * MS, true), 16, 0.1);
    /* No samples arrive: not measured each time for ever. */
    for (unsigned i = 0; i < 10000; i++)
        wanted += cost_wants_sample(cell, cost_random(&rolling));
    assert_in_range(wanted, 2000, 3000);
}

/* What was long once is not measured each time for ever. */
TEST(calms_down)
{
    struct cost_cell *cell = new_cell();

    for (unsigned i = 0; i < 10; i++)
        cost_learn(cell, 20 * MS, false);
    assert_true(cost_measured_always(cell));
    for (unsigned i = 0; i < 500; i++)
        cost_learn(cell, 20 * US, false);
    assert_true(cost_measured_always(cell));
    for (unsigned i = 0; i < 2500; i++)
        cost_learn(cell, 20 * US, false);
    assert_false(cost_measured_always(cell));
    for (unsigned i = 0; i < 4; i++)
        cost_wants_sample(cell, 0);
    assert_true(cost_wants_sample(cell, 64));
    assert_false(cost_wants_sample(cell, 32));
    assert_near((double)cost_estimate(cell, 1), 20e3, 0.01);
}

TEST(keys)
{
    assert_int_not_equal(cost_key(0, 0, 0), 0);
    assert_int_not_equal(cost_key(1, 2, 3), cost_key(1, 3, 2));
    assert_int_not_equal(cost_key(1, 2, 3), cost_key(2, 2, 3));
    assert_int_not_equal(cost_key(1, 2, 3), cost_key(1, 2, 4));
}

TEST(forgets)
{
    struct cost_table *table = cost_table_new();
    uint64_t resident = cost_key(7, 7, 7);
    struct cost_cell *cell = cost_find(table, resident);
    uint32_t generation;

    cost_learn(cell, 5 * MS, false);
    cost_forget(table, cost_key(8, 8, 8)); /* was never there */
    /* Far more than the table holds, but never many at a time. */
    for (uint64_t i = 1; i < 100000; i++) {
        struct cost_cell *passing = cost_find(table, cost_key(i, 1, 1));

        assert_false(cost_known(passing));
        cost_learn(passing, 10 * US, false);
        assert_ptr_equal(cost_find(table, cost_key(i, 1, 1)), passing);
        cost_forget(table, cost_key(i, 1, 1));
        assert_false(cost_known(passing));
    }
    assert_ptr_equal(cost_find(table, resident), cell);
    assert_int_equal(cost_estimate(cell, 1), 5 * MS);
    generation = cost_generation(cell);
    cost_forget(table, resident);
    assert_int_not_equal(cost_generation(cell), generation);
    assert_false(cost_trusted(cell));
    assert_int_equal(cost_estimate(cost_find(table, resident), 1), COST_MIN_NS);
}

/* Keys that stand behind others which go. */
TEST(forgets_among_others)
{
    enum { PAIRS = 2000 };
    struct cost_table *table = cost_table_new();

    for (uint64_t i = 0; i < PAIRS; i++) {
        cost_learn(cost_find(table, cost_key(i, 6, 6)), MS, false);
        cost_learn(cost_find(table, cost_key(i, 7, 7)), (i + 1) * US, false);
    }
    for (uint64_t i = 0; i < PAIRS; i++)
        cost_forget(table, cost_key(i, 6, 6));
    for (uint64_t i = 0; i < PAIRS; i++) {
        assert_false(cost_known(cost_find(table, cost_key(i, 6, 6))));
        assert_int_equal(cost_estimate(cost_find(table, cost_key(i, 7, 7)), 1), (i + 1) * US);
    }
}

TEST(full_table)
{
    enum { MANY = 40000, LIVE = 1000 };
    struct cost_table *table = cost_table_new();
    unsigned right = 0;

    for (uint64_t i = 0; i < MANY; i++)
        cost_learn(cost_find(table, cost_key(i, 1, 1)), 100 * US, false);
    /* Those that come now drive out what is not used any more, and learn their own. */
    for (unsigned round = 0; round < 40; round++)
        for (uint64_t i = 0; i < LIVE; i++)
            cost_learn(cost_find(table, cost_key(i, 2, 2)), (i + 1) * 10 * US, false);
    for (uint64_t i = 0; i < LIVE; i++) {
        uint64_t estimate = cost_estimate(cost_find(table, cost_key(i, 2, 2)), 1);

        right += estimate > (i + 1) * 99 * US / 10 && estimate < (i + 1) * 101 * US / 10;
    }
    assert_in_range(right, LIVE * 99 / 100, LIVE);
    /* More in use than there are cells: shared or short-lived, but never without sense. */
    for (unsigned round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < MANY; i++) {
            struct cost_cell *cell = cost_find(table, cost_key(i, 3, 3));

            assert_in_range(cost_estimate(cell, 20 * US), 10 * US, 10 * MS + US);
            cost_learn(cell, i % 2 ? 20 * US : 30 * US, false);
        }
    }
}

enum { KEYS = 2000, THREADS = 4 };

struct crowd {
    struct cost_table *table;
    struct cost_cell *found[THREADS][KEYS];
    atomic_uint next;
};

static uint64_t cost_of(uint64_t i)
{
    return (i % 50 + 1) * 10 * US;
}

static void *member(void *arg)
{
    struct crowd *crowd = arg;
    unsigned self = atomic_fetch_add(&crowd->next, 1);
    uint64_t random = self;

    for (unsigned round = 0; round < 20; round++) {
        for (uint64_t n = 0; n < KEYS; n++) {
            uint64_t i = (n + self % 2 * KEYS / 2) % KEYS, passing = cost_key(n % 64, 5, 5);
            struct cost_cell *cell = cost_find(crowd->table, cost_key(i, 4, 4));

            if (round == 0)
                crowd->found[self][i] = cell;
            cost_wants_sample(cell, cost_random(&random));
            cost_learn(cell, cost_of(i), false);
            /* Others come and go beside them. */
            cost_learn(cost_find(crowd->table, passing), MS, false);
            if (n % 8 == self)
                cost_forget(crowd->table, passing);
        }
    }
    return NULL;
}

TEST(threads)
{
    static struct crowd crowd;
    pthread_t thread[THREADS];

    crowd.table = cost_table_new();
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, member, &crowd), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (uint64_t i = 0; i < KEYS; i++) {
        struct cost_cell *cell = cost_find(crowd.table, cost_key(i, 4, 4));

        /* A forgotten cell in the way may have let two threads make a key twice: the one that is
         * found counts. */
        assert_near((double)cost_estimate(cell, 1), (double)cost_of(i), 0.01);
        for (unsigned n = 0; n < THREADS; n++)
            assert_near((double)cost_estimate(crowd.found[n][i], 1), (double)cost_of(i), 0.01);
    }
}

TEST(keeps_errno)
{
    errno = 77;
    cost_learn(cost_find(cost_table_new(), 1), 5, false);
    assert_int_equal(errno, 77);
}
