/*
 * Many processes with many threads share one quota. A separate count of what they were granted is
 * the truth.
 */
#include "unit.h"

#include "account/ledger_internal.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#define PROCESSES 8
#define THREADS   8
#define QUOTA     (64 * MIB)
#define ENOUGH    1000000 /* operations of all */
#define KILLS     (SLOWER > 1 ? 200 : 1000)

struct truth {
    atomic_int go, stop;
    atomic_llong granted;        /* by the ledger and not given back, of all processes */
    atomic_llong by[PROCESSES];  /* the same of each */
    atomic_bool dead[PROCESSES]; /* set before it is killed: what it has does not count any more */
    atomic_llong highest;
    atomic_ullong operations, refused;
};

static struct truth *truth;
static struct vgpu_region *region;
static struct vgpu_ledger *ledger;
static unsigned self;

/* What the living have by the truth. */
static long long living(void)
{
    long long sum = 0;

    for (unsigned i = 0; i < PROCESSES; i++) {
        if (!atomic_load(&truth->dead[i]))
            sum += atomic_load(&truth->by[i]);
    }
    return sum;
}

static bool count(long long bytes)
{
    long long now = atomic_fetch_add(&truth->granted, bytes) + bytes,
              highest = atomic_load(&truth->highest);

    atomic_fetch_add(&truth->by[self], bytes);
    if (bytes <= 0)
        return true;
    while (now > highest && !atomic_compare_exchange_weak(&truth->highest, &highest, now))
        ;
    return now <= (long long)QUOTA;
}

/* One allocation's life, by one of the ways there are. What is given back leaves the truth
 * first. */
static bool one_operation(unsigned *seed)
{
    uint64_t bytes = (uint64_t)(rand_r(seed) % 12 + 1) * MIB / 2 + (unsigned)(rand_r(seed) % 3);
    int way = rand_r(seed) % 4, rc;
    bool fine = true;

    rc = ledger_reserve(ledger, 0, bytes);
    atomic_fetch_add(&truth->operations, 1);
    if (rc < 0) {
        atomic_fetch_add(&truth->refused, 1);
        return rc == -ENOMEM;
    }
    fine = count((long long)bytes);
    if (rand_r(seed) % 4 == 0)
        sched_yield();
    if (way == 0) {
        count(-(long long)bytes);
        ledger_cancel(ledger, 0, bytes);
    } else if (way == 1 || way == 2) {
        uint64_t actual = way == 1 ? bytes : bytes / 2;

        count(-(long long)(bytes - actual));
        fine = ledger_commit(ledger, 0, VGPU_KIND_DATA, bytes, actual) == 0 && fine;
        count(-(long long)actual);
        ledger_release(ledger, 0, VGPU_KIND_DATA, actual);
    } else {
        uint64_t grown = bytes / 4 * 3;

        count(-(long long)(bytes - grown));
        fine = ledger_settle(ledger, 0, VGPU_KIND_POOL, bytes, (int64_t)grown) == 0 && fine;
        count(-(long long)grown);
        ledger_settle(ledger, 0, VGPU_KIND_POOL, 0, -(int64_t)grown);
    }
    return fine;
}

static void *hammer(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;

    while (!atomic_load_explicit(&truth->stop, memory_order_relaxed)) {
        if (!one_operation(&seed))
            return arg;
    }
    return NULL;
}

static int hammer_in_threads(void *arg)
{
    pthread_t thread[THREADS];
    int failed = 0;
    void *result;

    self = (unsigned)(uintptr_t)arg;
    while (!atomic_load(&truth->go))
        sched_yield();
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, hammer, (void *)(self * 100 + i + 1)) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &result);
        failed |= result != NULL;
    }
    CHECK(ledger_held(ledger, 0, VGPU_KINDS) == 0);
    CHECK(load_relaxed(&ledger->vdev[0].busy) == 0);
    return failed;
}

static void prepare(void)
{
    truth = shared_memory(sizeof(*truth));
    region = new_region("stress", QUOTA);
    assert_int_equal(ledger_new(region, 0, &ledger), 0);
}

static void finish_up(void)
{
    struct vgpu_snapshot snapshot;

    assert_int_equal(region_snapshot(region, &snapshot), 0);
    assert_int_equal(snapshot.vdev[0].used_bytes, 0);
    assert_int_equal(snapshot.proc_count, 1);
    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        assert_int_equal(snapshot.procs[0].held_bytes[0][kind], 0);
    snapshot_done(&snapshot);
    assert_int_equal(ledger_reserve(ledger, 0, QUOTA), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 1), -ENOMEM);
    ledger_free(ledger);
    region_close(region);
}

TEST(never_over)
{
    uint64_t end_ns = clock_ns() + 10 * PATIENCE_NS;
    pid_t pids[PROCESSES];

    prepare();
    for (uintptr_t i = 0; i < PROCESSES; i++)
        pids[i] = spawn(hammer_in_threads, (void *)i);
    atomic_store(&truth->go, 1);
    /* It must have been tight, or the test says nothing. */
    while (atomic_load(&truth->operations) < ENOUGH / SLOWER ||
           atomic_load(&truth->highest) <= (long long)QUOTA / 10 * 8 ||
           !atomic_load(&truth->refused)) {
        assert_true(clock_ns() < end_ns);
        nap_ms(10);
    }
    atomic_store(&truth->stop, 1);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(finish(pids[i]), 0);
    print_message("%llu operations, %llu refused, at most %lld of %llu bytes\n",
                  atomic_load(&truth->operations), atomic_load(&truth->refused),
                  atomic_load(&truth->highest), (unsigned long long)QUOTA);
    assert_int_equal(truth->granted, 0);
    assert_true(truth->highest <= (long long)QUOTA);
    finish_up();
}

static int hold_until_killed(void *arg)
{
    unsigned seed = (unsigned)getpid();
    long long held = 0;

    self = (unsigned)(uintptr_t)arg;
    for (;;) {
        uint64_t bytes = (uint64_t)(rand_r(&seed) % 8 + 1) * MIB;

        if (held > 0 && rand_r(&seed) % 2) {
            bytes = (uint64_t)held;
            atomic_fetch_sub(&truth->by[self], held);
            held = 0;
            ledger_release(ledger, 0, VGPU_KIND_DATA, bytes);
        } else if (ledger_reserve(ledger, 0, bytes) == 0) {
            atomic_fetch_add(&truth->by[self], (long long)bytes);
            CHECK(ledger_commit(ledger, 0, VGPU_KIND_DATA, bytes, bytes) == 0);
            held += (long long)bytes;
            /* The sum is not taken at one instant, so look thrice: what was really too much stays
             * too much. */
            if (living() > (long long)QUOTA && living() > (long long)QUOTA &&
                living() > (long long)QUOTA)
                atomic_fetch_add(&truth->refused, 1);
        }
        atomic_fetch_add(&truth->operations, 1);
    }
}

static unsigned slots_in_use(void)
{
    unsigned used = 0;

    for (unsigned i = 0; i < region_slots_high(region->layout); i++)
        used += atomic_load(&region->layout->slot[i].state) != SLOT_FREE;
    return used;
}

/* The living need room, and so empty the slots of the dead and take the lock from them; nobody else
 * does here. */
static void wait_for_the_living(void)
{
    uint64_t end_ns = clock_ns() + PATIENCE_NS;

    while (slots_in_use() > 2 * PROCESSES) {
        assert_true(clock_ns() < end_ns);
        nap_ms(1);
    }
}

/* Killed at random again and again, and started again: what is left is exactly what the living
 * hold. */
TEST(killed_at_random)
{
    pid_t pids[PROCESSES];
    unsigned seed = 1, kills;

    prepare();
    for (uintptr_t i = 0; i < PROCESSES; i++)
        pids[i] = spawn(hold_until_killed, (void *)i);
    for (kills = 0; kills < KILLS; kills++) {
        uintptr_t i = (uintptr_t)rand_r(&seed) % PROCESSES;

        sched_yield();
        atomic_store(&truth->dead[i], true);
        kill(pids[i], SIGKILL);
        assert_int_equal(finish(pids[i]), 1000 + SIGKILL);
        atomic_store(&truth->by[i], 0);
        atomic_store(&truth->dead[i], false);
        pids[i] = spawn(hold_until_killed, (void *)i);
        if (kills % PROCESSES == 0)
            wait_for_the_living();
    }
    for (int i = 0; i < PROCESSES; i++) {
        atomic_store(&truth->dead[i], true);
        kill(pids[i], SIGKILL);
        finish(pids[i]);
    }
    print_message("%u kills, %llu operations, %u with the lock in hand\n", kills,
                  atomic_load(&truth->operations), region->layout->recoveries);
    assert_int_equal(truth->refused, 0);
    /* Those in use when a wait was over, those that were taking a slot then, and one for each start
     * since. */
    assert_true(region_slots_high(region->layout) <= 4 * PROCESSES);
    finish_up();
}

/* Exactly one of those that want 60 % at once gets it. */
static int want_most(void *arg)
{
    (void)arg;
    while (!atomic_load(&truth->go))
        sched_yield();
    if (ledger_reserve(ledger, 0, QUOTA / 10 * 6) != 0)
        return 1;
    nap_ms(5);
    while (!atomic_load(&truth->stop))
        sched_yield();
    return 0;
}

TEST(only_one_fits)
{
    prepare();
    for (int round = 0; round < 30; round++) {
        pid_t pids[4];
        int got = 0;

        atomic_store(&truth->go, 0);
        atomic_store(&truth->stop, 0);
        for (int i = 0; i < 4; i++)
            pids[i] = spawn(want_most, NULL);
        atomic_store(&truth->go, 1);
        nap_ms(10);
        atomic_store(&truth->stop, 1);
        for (int i = 0; i < 4; i++)
            got += finish(pids[i]) == 0;
        /* One that starts late may find it free again only after the first has ended: never two at
         * a time. */
        assert_true(got >= 1);
        assert_int_equal(ledger_reserve(ledger, 0, QUOTA), 0);
        ledger_cancel(ledger, 0, QUOTA);
        if (got > 1)
            print_message("round %d: %d, one after the other\n", round, got);
    }
    finish_up();
}

#define STARTERS (SLOWER > 1 ? 60 : 300)

/* Children wait for the end of a pipe: hundreds that look again and again would be the load of the
 * test. */
static int semaphore[2];

static void open_gate(void)
{
    close(semaphore[0]);
    close(semaphore[1]);
}

static void wait_at_gate(void)
{
    char byte;

    close(semaphore[1]);
    while (read(semaphore[0], &byte, 1) < 0)
        ;
}

static int attach(void *arg)
{
    struct vgpu_region *own;
    struct vgpu_ledger *books;

    (void)arg;
    wait_at_gate();
    CHECK(region_open(scratch_path("stress"), 0, &own) == 0);
    CHECK(ledger_new(own, 0, &books) == 0);
    CHECK(ledger_reserve(books, 0, 4096) == 0);
    atomic_fetch_add(&truth->operations, 1);
    while (!atomic_load(&truth->stop))
        nap_ms(500);
    return 0;
}

TEST(three_hundred_at_once)
{
    pid_t pids[300];
    uint64_t start_ns;

    prepare();
    assert_int_equal(pipe(semaphore), 0);
    for (int i = 0; i < STARTERS; i++)
        pids[i] = spawn(attach, NULL);
    start_ns = clock_ns();
    open_gate();
    while (atomic_load(&truth->operations) < STARTERS && clock_ns() - start_ns < PATIENCE_NS)
        nap_ms(1);
    print_message("%d processes attached in %llu ms\n", STARTERS,
                  (unsigned long long)((clock_ns() - start_ns) / NS_PER_MS));
    assert_int_equal(atomic_load(&truth->operations), STARTERS);
    assert_int_equal(slots_used(region->layout, 0), STARTERS * 4096);
    atomic_store(&truth->stop, 1);
    for (int i = 0; i < STARTERS; i++)
        assert_int_equal(finish(pids[i]), 0);
    finish_up();
}

/* All places taken: one clear error, and room again when one leaves. */
TEST(all_places_taken)
{
    struct vgpu_ledger *many[VGPU_PROCS_MAX], *one;
    unsigned count_new = 0;

    prepare();
    while (count_new < VGPU_PROCS_MAX && ledger_new(region, 0, &many[count_new]) == 0)
        count_new++;
    assert_int_equal(count_new, VGPU_PROCS_MAX - 1); /* one is `ledger` */
    assert_int_equal(ledger_new(region, 0, &one), -EUSERS);
    ledger_free(many[500]);
    assert_int_equal(ledger_new(region, 0, &many[500]), 0);
    for (unsigned i = 0; i < count_new; i++)
        ledger_free(many[i]);
    finish_up();
}
