/* The bucket that enforces caps, in virtual time. */
#include "unit.h"

#include "sched/bucket.h"
#include "sched/cost.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

static uint64_t take(_Atomic uint64_t *word, uint64_t now_ns, uint64_t cost_ns, unsigned percent)
{
    struct bucket_hold none;

    return bucket_take_and_hold(word, now_ns, cost_ns, 0, percent, &none);
}

#define US    1000ULL
#define MS    1000000ULL
#define START (1000 * NS_PER_S)

static const unsigned caps[] = {10, 25, 50, 90};
static const uint64_t lengths[] = {20 * US, 200 * US, 2 * MS, 20 * MS};

static uint64_t rolling = 2024;

static uint64_t below(uint64_t bound)
{
    return cost_random(&rolling) % bound;
}

static uint64_t punctual(void)
{
    return 0;
}

/* As a loaded host: up to 0.3 ms late, once in a while 4 ms. */
static uint64_t jittered(void)
{
    return below(100) == 0 ? below(4 * MS) : below(300 * US);
}

/* Ends its sleeps so late that credit is lost. */
static uint64_t sleepy(void)
{
    return below(50 * MS);
}

/* A thread that launches as fast as the bucket and a queue of 64 launches let it. */
struct launcher {
    _Atomic uint64_t *word;
    uint64_t (*late)(void);
    uint64_t cost_ns;
    uint64_t now_ns;
    uint64_t idle_at_ns; /* the device: when it has done what is queued */
    uint64_t done_ns;    /* charged so far */
    struct launch {
        uint64_t at_ns, cost_ns;
    } * log;
    size_t logged;
};

enum { LOG_MAX = 200000, LAUNCH_NS = 4000 };

/* How long until something may start. */
static uint64_t wait_of(_Atomic uint64_t *word, uint64_t now_ns)
{
    return take(word, now_ns, 0, 100);
}

static void launch(struct launcher *l, unsigned percent)
{
    uint64_t wait_ns;

    while ((wait_ns = take(l->word, l->now_ns, l->cost_ns, percent)) != 0)
        l->now_ns += wait_ns + l->late();
    if (l->log && l->logged < LOG_MAX)
        l->log[l->logged++] = (struct launch){l->now_ns, l->cost_ns};
    l->done_ns += l->cost_ns;
    l->idle_at_ns = (l->idle_at_ns > l->now_ns ? l->idle_at_ns : l->now_ns) + l->cost_ns;
    l->now_ns += LAUNCH_NS;
    if (l->idle_at_ns > l->now_ns + 64 * l->cost_ns)
        l->now_ns = l->idle_at_ns - 64 * l->cost_ns;
}

static void assert_share(uint64_t done_ns, uint64_t elapsed_ns, double share, double within)
{
    double is = (double)done_ns / (double)elapsed_ns;

    if (is < share - within || is > share + within)
        fail_msg("a share of %f is not within %f of %f", is, within, share);
}

TEST(the_average_is_exact)
{
    static uint64_t (*const lates[])(void) = {punctual, jittered};
    _Atomic uint64_t word;

    for (size_t c = 0; c < 4; c++) {
        for (size_t n = 0; n < 4; n++) {
            for (size_t j = 0; j < 2; j++) {
                uint64_t span = lengths[n] < MS ? 10 * NS_PER_S : 200 * NS_PER_S;
                struct launcher l = {
                    .word = &word, .late = lates[j], .cost_ns = lengths[n], .now_ns = START};

                atomic_store(&word, 0);
                while (l.now_ns < START + span)
                    launch(&l, caps[c]);
                assert_share(l.done_ns, l.now_ns - START, caps[c] / 100.0, 0.001);
            }
        }
    }
}

TEST(late_beyond_the_burst_is_lost)
{
    _Atomic uint64_t word = 0;
    struct launcher l = {.word = &word, .late = sleepy, .cost_ns = 200 * US, .now_ns = START};

    while (l.now_ns < START + 20 * NS_PER_S)
        launch(&l, 25);
    assert_in_range(l.done_ns, NS_PER_S / 2, 20 * NS_PER_S / 4);
}

/* The most that starts within any window of 100 ms. */
static uint64_t worst_window(const struct launcher *l)
{
    uint64_t worst = 0, sum = 0;

    for (size_t first = 0, last = 0; last < l->logged; last++) {
        for (; l->log[first].at_ns + 100 * MS <= l->log[last].at_ns; first++)
            sum -= l->log[first].cost_ns;
        sum += l->log[last].cost_ns;
        if (sum > worst)
            worst = sum;
    }
    return worst;
}

/* What a cap lets start in 100 ms: its share, the burst, and the last launch, which is charged when
 * it starts. */
static uint64_t window_bound(unsigned percent, uint64_t cost_ns)
{
    return (100 * MS + BUCKET_BURST_NS + BUCKET_SLACK_NS) * percent / 100 + cost_ns;
}

TEST(any_window_is_within_the_cap)
{
    struct launch *log = calloc(LOG_MAX, sizeof(*log));
    _Atomic uint64_t word;

    for (size_t c = 0; c < 4; c++) {
        for (size_t n = 0; n < 4; n++) {
            struct launcher l = {.word = &word,
                                 .late = jittered,
                                 .cost_ns = lengths[n],
                                 .now_ns = START,
                                 .log = log};

            atomic_store(&word, 0);
            while (l.now_ns < START + 3 * NS_PER_S) {
                launch(&l, caps[c]);
                if (below(1000) == 0) /* the program does something else */
                    l.now_ns += below(300 * MS);
            }
            assert_true(l.logged < LOG_MAX);
            assert_in_range(worst_window(&l), 1, window_bound(caps[c], lengths[n]));
        }
    }
    free(log);
}

TEST(idleness_is_no_credit)
{
    static const uint64_t idle[] = {0, MS, 4 * MS, 100 * MS, 3600 * NS_PER_S};
    _Atomic uint64_t word = START;

    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
        uint64_t now = START + idle[i],
                 credit = idle[i] < BUCKET_BURST_NS ? idle[i] : BUCKET_BURST_NS, done = 0;

        atomic_store(&word, START);
        while (take(&word, now, 10 * US, 50) == 0)
            done += 10 * US;
        assert_in_range(done, (credit + BUCKET_SLACK_NS) / 2,
                        (credit + BUCKET_SLACK_NS) / 2 + 10 * US);
    }
}

/* Sleeps are not shorter than they are worth, and what is owed is waited for in full. */
TEST(few_waits)
{
    _Atomic uint64_t word = START;
    struct launcher l = {.word = &word, .late = punctual, .cost_ns = 5 * US, .now_ns = START};
    unsigned waits = 0, launches = 0;

    for (; l.now_ns < START + NS_PER_S; launches++) {
        uint64_t wait_ns = wait_of(&word, l.now_ns);

        assert_true(wait_ns == 0 || wait_ns > BUCKET_SLACK_NS);
        assert_true(wait_ns == 0 || l.now_ns + wait_ns == atomic_load(&word));
        waits += wait_ns > 0;
        launch(&l, 25);
    }
    assert_in_range(launches, 49500, 50500);
    assert_in_range(waits, 1, launches / 5);
}

TEST(a_lower_cap_bites)
{
    static const uint64_t shorts[] = {20 * US, 200 * US, 2 * MS};
    struct launch *log = calloc(LOG_MAX, sizeof(*log));
    _Atomic uint64_t word;

    for (size_t n = 0; n < 3; n++) {
        struct launcher l = {
            .word = &word, .late = jittered, .cost_ns = shorts[n], .now_ns = START, .log = log};

        atomic_store(&word, 0);
        while (l.now_ns < START + NS_PER_S)
            launch(&l, 90);
        l.logged = 0;
        while (l.now_ns < START + 2 * NS_PER_S)
            launch(&l, 10);
        assert_in_range(worst_window(&l), 1, window_bound(10, shorts[n]));
        /* And a higher one. */
        l.logged = 0;
        l.done_ns = 0;
        while (l.now_ns < START + 2 * NS_PER_S + 100 * MS)
            launch(&l, 90);
        assert_in_range(l.done_ns, 70 * MS, 100 * MS);
    }
    free(log);
}

TEST(debts)
{
    _Atomic uint64_t word = START;

    assert_int_equal(take(&word, START, 2 * NS_PER_S, 10), 0);
    assert_int_equal(wait_of(&word, START), 20 * NS_PER_S);
    assert_int_equal(wait_of(&word, START + 20 * NS_PER_S - BUCKET_SLACK_NS), 0);
    bucket_rescale(&word, START, 10, 50);
    assert_int_equal(wait_of(&word, START), 4 * NS_PER_S);
    bucket_rescale(&word, START, 50, 10);
    assert_int_equal(wait_of(&word, START), 20 * NS_PER_S);
    bucket_rescale(&word, START, 0, 50);
    assert_int_equal(wait_of(&word, START), 20 * NS_PER_S);
    bucket_rescale(&word, START, 10, 0);
    assert_int_equal(wait_of(&word, START), 0);
    /* Not for ever, and never so much that it is taken for nonsense. */
    for (unsigned i = 0; i < 10; i++) {
        take(&word, START + i * NS_PER_S, i % 2 ? UINT64_MAX : 20 * NS_PER_S, 1);
        bucket_correct(&word, START, INT64_MAX, 1);
        bucket_take_bytes(&word, START, UINT64_MAX, 1);
        bucket_rescale(&word, START, 99, 1);
        assert_int_equal(wait_of(&word, START), BUCKET_DEBT_MAX_NS);
    }
    /* Seen by a process whose clock was read a little earlier. */
    assert_int_equal(wait_of(&word, START - NS_PER_S), BUCKET_DEBT_MAX_NS + NS_PER_S);
    bucket_correct(&word, START - NS_PER_S, MS, 50);
    assert_int_equal(atomic_load(&word), START + BUCKET_DEBT_MAX_NS);
    atomic_store(&word, START);
    assert_int_equal(take(&word, START, UINT64_MAX, 1), 0);
    assert_int_equal(atomic_load(&word), START + BUCKET_DEBT_MAX_NS);
    atomic_store(&word, START);
    assert_int_equal(bucket_take_bytes(&word, START, UINT64_MAX, 1), 0);
    assert_int_equal(atomic_load(&word), START + BUCKET_DEBT_MAX_NS);
    /* No cap, and one of 100. */
    atomic_store(&word, START);
    assert_int_equal(take(&word, START, MS, 0), 0);
    bucket_correct(&word, START, MS, 0);
    assert_int_equal(atomic_load(&word), START);
    assert_int_equal(take(&word, START, MS, 100), 0);
    assert_int_equal(atomic_load(&word), START + MS);
    assert_int_equal(take(&word, START + MS, MS, UINT32_MAX), 0);
    assert_int_equal(atomic_load(&word), START + 2 * MS);
}

TEST(corrections)
{
    _Atomic uint64_t word = START;

    assert_int_equal(take(&word, START, MS, 25), 0);
    bucket_correct(&word, START, 2 * MS, 25);
    assert_int_equal(atomic_load(&word), START + 12 * MS);
    bucket_correct(&word, START, -(int64_t)MS, 25);
    assert_int_equal(atomic_load(&word), START + 8 * MS);
    /* Given back more than is owed: credit, but no more than idleness gives. */
    bucket_correct(&word, START, -(int64_t)NS_PER_S, 25);
    assert_int_equal(take(&word, START, MS, 25), 0);
    assert_int_equal(atomic_load(&word), START - BUCKET_BURST_NS + 4 * MS);
    bucket_correct(&word, START, INT64_MIN, 1);
    bucket_correct(&word, START, INT64_MIN, 1);
    assert_int_equal(wait_of(&word, START), 0);
    assert_true(atomic_load(&word) < START);
    /* What comes long after it was charged does not make anybody wait who would not have waited
     * then. */
    atomic_store(&word, START);
    bucket_correct(&word, START + NS_PER_S, 100 * MS, 50);
    assert_int_equal(wait_of(&word, START + NS_PER_S), 0);
    assert_int_equal(take(&word, START + NS_PER_S, 10 * MS, 50), 0);
    assert_int_equal(wait_of(&word, START + NS_PER_S), 15 * MS);
}

TEST(nonsense)
{
    static const uint64_t words[] = {UINT64_MAX, UINT64_MAX - 1, START + BUCKET_INSANE_NS + 1,
                                     2 * START};
    _Atomic uint64_t word;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        atomic_store(&word, words[i]);
        assert_int_equal(wait_of(&word, START), 0);
        assert_int_equal(atomic_load(&word), START);
        atomic_store(&word, words[i]);
        assert_int_equal(take(&word, START, MS, 50), 0);
        assert_int_equal(atomic_load(&word), START + 2 * MS);
        atomic_store(&word, words[i]);
        bucket_correct(&word, START, MS, 50);
        assert_int_equal(atomic_load(&word), START + 2 * MS);
        atomic_store(&word, words[i]);
        bucket_rescale(&word, START, 50, 10);
        assert_int_equal(atomic_load(&word), START);
    }
    atomic_store(&word, START + BUCKET_INSANE_NS);
    assert_int_equal(wait_of(&word, START), BUCKET_INSANE_NS);
    /* A clock that has just begun. */
    atomic_store(&word, 0);
    assert_int_equal(wait_of(&word, 0), 0);
    assert_int_equal(take(&word, 0, MS, 50), 0);
    assert_int_equal(atomic_load(&word), 2 * MS);
}

TEST(bytes)
{
    _Atomic uint64_t word = START;
    uint64_t now = START, sent = 0;

    assert_int_equal(bucket_take_bytes(&word, START, GIB, 0), 0);
    assert_int_equal(atomic_load(&word), START);
    while (now < START + 10 * NS_PER_S) {
        uint64_t part = below(4) ? 64 * 1024 : 64 * MIB, wait_ns;

        while ((wait_ns = bucket_take_bytes(&word, now, part, 5000000000)) > 0)
            now += wait_ns;
        sent += part;
        now += 10 * US;
    }
    assert_in_range(sent, 49700000000, 50300000000);
}

enum { MEMBERS = 4, CHARGES = 100000, ROUNDS = 20000 };

struct crowd {
    _Atomic uint64_t word, moments;
    atomic_uint ready, taken;
};

static int charges(void *arg)
{
    struct crowd *crowd = arg;
    _Atomic uint64_t *word = &crowd->word;

    atomic_fetch_add(&crowd->ready, 1);
    while (atomic_load(&crowd->ready) < 2 * MEMBERS)
        sched_yield();
    for (unsigned i = 0; i < CHARGES; i++) {
        bucket_correct(word, START, 10 * US, 50);
        bucket_correct(word, START, i % 2 ? 5000 : -5000, 50);
        wait_of(word, START);
    }
    /* Each moment is one's. */
    for (unsigned i = 1; i <= ROUNDS; i++)
        if (take(&crowd->moments, START + i * 2 * MS, MS, 50) == 0)
            atomic_fetch_add(&crowd->taken, 1);
    return 0;
}

static void *charges_in_thread(void *arg)
{
    charges(arg);
    return NULL;
}

/* Processes with threads, all on one word: nothing is lost. */
static int charges_in_threads(void *arg)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, charges_in_thread, arg) == 0);
    charges(arg);
    return pthread_join(thread, NULL);
}

TEST(many_at_once)
{
    struct crowd *crowd = shared_memory(sizeof(*crowd));
    pid_t pid[MEMBERS];

    atomic_store(&crowd->word, START);
    atomic_store(&crowd->moments, START + 2 * MS);
    for (unsigned i = 0; i < MEMBERS; i++)
        pid[i] = spawn(charges_in_threads, crowd);
    for (unsigned i = 0; i < MEMBERS; i++)
        assert_int_equal(finish(pid[i]), 0);
    assert_int_equal(atomic_load(&crowd->word), START + 2ULL * MEMBERS * CHARGES * 20 * US);
    assert_int_equal(atomic_load(&crowd->taken), ROUNDS);
    munmap(crowd, sizeof(*crowd));
}

/* Two that share one cap, one with short and one with long kernels: together they have it. */
TEST(two_share_a_cap)
{
    _Atomic uint64_t word = START;
    struct launcher l[] = {{.word = &word, .late = jittered, .cost_ns = 200 * US, .now_ns = START},
                           {.word = &word, .late = jittered, .cost_ns = 5 * MS, .now_ns = START}};

    for (;;) {
        struct launcher *first = l[0].now_ns <= l[1].now_ns ? &l[0] : &l[1];
        uint64_t wait_ns = wait_of(&word, first->now_ns);

        if (first->now_ns > START + 60 * NS_PER_S)
            break;
        if (wait_ns)
            first->now_ns += wait_ns + first->late();
        else
            launch(first, 30);
    }
    assert_share(l[0].done_ns + l[1].done_ns, 60 * NS_PER_S, 0.3, 0.001);
    assert_true(l[0].done_ns > 0 && l[1].done_ns > 0);
}

/* One launch of unknown cost: nobody starts beside it, and what it took is what it is charged. */
TEST(held_until_it_is_known)
{
    static const uint64_t took[] = {10 * US, MS, 50 * MS, 300 * MS};
    struct bucket_hold hold = {0}, second = {0};

    for (size_t i = 0; i < sizeof(took) / sizeof(took[0]); i++) {
        _Atomic uint64_t word = START;
        uint64_t now = START + took[i];

        assert_int_equal(bucket_take_and_hold(&word, START, 20 * US, 100 * MS, 25, &hold), 0);
        assert_int_equal(hold.until_ns, START + 400 * MS + 80 * US);
        assert_int_equal(take(&word, now, 1, 25), hold.until_ns - now);
        assert_int_equal(bucket_take_and_hold(&word, now, 1, 1, 25, &second), hold.until_ns - now);
        assert_int_equal(second.ns, 0);
        assert_true(bucket_settle(&word, now, (int64_t)took[i] - 20 * (int64_t)US, &hold, 25));
        assert_int_equal(atomic_load(&word), START + 4 * took[i]);
    }
}

/* A hold that was paid was paid with time in which nobody started anything: others may have started
 * on it since. */
TEST(held_for_too_long)
{
    _Atomic uint64_t word = START;
    struct bucket_hold hold = {0};
    uint64_t now = START + 400 * MS, after;

    assert_int_equal(bucket_take_and_hold(&word, START, 0, 100 * MS, 25, &hold), 0);
    assert_int_equal(take(&word, now, 50 * MS, 25), 0);
    after = atomic_load(&word);
    assert_false(bucket_settle(&word, now, 10 * US, &hold, 25));
    assert_int_equal(atomic_load(&word), after);
    assert_false(bucket_settle(&word, now, 150 * MS, &hold, 25));
    assert_int_equal(atomic_load(&word), after + 200 * MS);
}

/* What is held at one cap is given back at another, and nothing is left of it. */
TEST(held_at_another_cap)
{
    static const unsigned to[] = {1, 10, 50, 100};
    struct bucket_hold hold = {0};
    _Atomic uint64_t idle = START;

    for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
        _Atomic uint64_t word = START;
        uint64_t now = START + MS;

        assert_int_equal(bucket_take_and_hold(&word, START, 0, 100 * MS, 25, &hold), 0);
        bucket_rescale(&word, now, 25, to[i]);
        assert_true(bucket_settle(&word, now + MS, 0, &hold, to[i]));
        assert_int_equal(wait_of(&word, now + MS), 0);
    }
    assert_int_equal(bucket_take_and_hold(&idle, START, MS, MS, 0, &hold), 0);
    assert_int_equal(hold.ns, 0);
}

/* A thread that is held up between its charge and its launch: what follows comes as late. */
TEST(started_late)
{
    _Atomic uint64_t word = START;

    assert_int_equal(take(&word, START, 20 * MS, 25), 0);
    bucket_started(&word, START + 2 * MS, 20 * MS, 25);
    assert_int_equal(atomic_load(&word), START + 80 * MS);
    bucket_started(&word, START + 70 * MS, 20 * MS, 25);
    assert_int_equal(atomic_load(&word), START + 150 * MS - BUCKET_BURST_NS);
    bucket_started(&word, START + 70 * MS, 20 * MS, 0);
    assert_int_equal(atomic_load(&word), START + 150 * MS - BUCKET_BURST_NS);
}
