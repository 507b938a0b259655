/*
 * A process is killed at any instruction of any operation on the region. No other process waits for
 * long, and no byte is lost or gained.
 *
 * The child stops itself. The parent steps it by ptrace for n instructions and kills it. The parent
 * holds memory and has idle bytes meanwhile. Then it checks its books and reserves all of the rest.
 */
#include "unit.h"

#include "account/registration.h"
#include "account/refuse.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>

#define QUOTA     (100 * MIB)
#define OWN_HELD  (10 * MIB)
#define OWN_IDLE  (40 * MIB)
#define MAX_STEPS 400000

static struct vgpu_region *region;
static struct vgpu_ledger *ledger;

/* What the child does; `before` runs unobserved. Its own ledger is the parent's, which the child
 * finds empty. */
struct operation {
    const char *name;
    void (*before)(void);
    void (*now)(void);
    unsigned points; /* at how many places to kill it, */
    unsigned ms;     /* and for how long at most */
};

static void nothing(void)
{
}

static void hold_some(void)
{
    if (ledger_reserve(ledger, 0, 20 * MIB) != 0 ||
        ledger_commit(ledger, 0, VGPU_KIND_DATA, 20 * MIB, 15 * MIB) != 0)
        _exit(3);
}

static void reserve_some(void)
{
    if (ledger_reserve(ledger, 0, 10 * MIB) != 0)
        _exit(3);
}

/* More than is free: takes from the parent's idle part. */
static void reserve_much(void)
{
    if (ledger_reserve(ledger, 0, 65 * MIB) != 0)
        _exit(3);
}

static void reserve_too_much(void)
{
    if (ledger_reserve(ledger, 0, QUOTA - OWN_HELD + 1) != -ENOMEM)
        _exit(3);
}

static void release_some(void)
{
    ledger_release(ledger, 0, VGPU_KIND_DATA, 15 * MIB);
}

static void set_more(void)
{
    ledger_set(ledger, 0, VGPU_KIND_CONTEXT, 30 * MIB);
}

static void leave(void)
{
    ledger_free(ledger);
}

static void refuse(void)
{
    ledger_refuse(ledger, 0, GIB, "cuMemAlloc_v2");
}

static const struct operation operations[] = {
    {"attach and reserve", nothing, reserve_some, 60, 700},
    {"reserve", hold_some, reserve_some, 150, 1000},
    {"reserve from others' idle", hold_some, reserve_much, 300, 3000},
    {"refused", hold_some, reserve_too_much, 150, 1000},
    {"release", hold_some, release_some, 100, 500},
    {"charge by force", hold_some, set_more, 150, 1000},
    {"leave", hold_some, leave, 100, 700},
    {"record a refusal", hold_some, refuse, 100, 500},
};

static int victim(void *arg)
{
    const struct operation *operation = arg;

    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    operation->before();
    raise(SIGSTOP);
    operation->now();
    raise(SIGSTOP);
    return 0;
}

/* Steps the stopped child at most `steps` times. Returns how many it made before it was through. */
static unsigned step(pid_t pid, unsigned steps)
{
    int status;

    for (unsigned n = 0; n < steps; n++) {
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0 || waitpid(pid, &status, 0) != pid)
            return n;
        if (WIFEXITED(status))
            fail_msg("the operation failed with %d", WEXITSTATUS(status));
        if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP)
            return n;
    }
    return steps;
}

static unsigned run_and_kill(const struct operation *operation, unsigned steps)
{
    pid_t pid = spawn(victim, (void *)operation);
    unsigned made;
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    made = step(pid, steps);
    kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) == pid && !WIFSIGNALED(status))
        ;
    return made;
}

static void assert_books_agree(void)
{
    struct slot_vdev *vdev = &registration_slot(ledger, ledger_registration(ledger))->vdev[0];
    uint64_t idle = load_relaxed(&vdev->idle) & IDLE_BYTES_MASK;

    assert_int_equal(load_relaxed(&vdev->reserved_bytes),
                     load_relaxed(&ledger->vdev[0].busy) + idle);
}

/* Everything that is not the parent's is free again, at once and to the byte. */
static void assert_recovered(void)
{
    assert_int_equal(ledger_reserve(ledger, 0, QUOTA - OWN_HELD + 1), -ENOMEM);
    assert_int_equal(ledger_reserve(ledger, 0, QUOTA - OWN_HELD), 0);
    assert_books_agree();
    for (unsigned group = 0; group < group_count(region->layout); group++)
        assert_int_equal(load_relaxed(region_total(region->layout, group, 0)), QUOTA);
    assert_int_equal(slots_used(region->layout, 0), QUOTA);
    /* Back to: some held, some idle, the rest nobody's. */
    ledger_cancel(ledger, 0, QUOTA - OWN_HELD);
    assert_int_equal(ledger_reserve(ledger, 0, QUOTA - OWN_HELD + 1),
                     -ENOMEM); /* gives the idle part up */
    assert_int_equal(ledger_reserve(ledger, 0, OWN_IDLE), 0);
    ledger_cancel(ledger, 0, OWN_IDLE);
    assert_books_agree();
}

/* In a group: that has the quota, and the instance more. Its child is in it, too. */
static void prepare(bool in_group)
{
    struct vgpu_limits limits = {.compute.priority = VGPU_PRIORITY_MAX};
    uint64_t group = 0;

    region = new_region("kill", in_group ? 2 * QUOTA : QUOTA);
    limits.vdev[0].quota_bytes = QUOTA;
    if (in_group)
        assert_int_equal(region_group_new(region, &limits, &group), 0);
    assert_int_equal(ledger_new(region, group, &ledger), 0);
    assert_int_equal(ledger_reserve(ledger, 0, OWN_HELD + OWN_IDLE), 0);
    assert_int_equal(ledger_commit(ledger, 0, VGPU_KIND_DATA, OWN_HELD + OWN_IDLE, OWN_HELD), 0);
    assert_books_agree();
}

#define POINTS_LEAST 50 /* on however slow a machine */

static void kill_everywhere(bool in_group, unsigned part)
{
    static char reason[64];

    /* Instrumented code is thousands of steps long, and no sanitizer looks into a process that is
     * killed. */
    if (SLOWER > 1)
        SKIP("a build without sanitizers");
    prepare(in_group);
    for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++) {
        const struct operation *operation = &operations[i];
        uint64_t end_ns = clock_ns() + operation->ms / part * NS_PER_MS;
        unsigned length = run_and_kill(operation, MAX_STEPS), points = 0;
        uint32_t recoveries = region->layout->recoveries;

        assert_true(length > 10);
        assert_recovered();
        /* Places spread evenly, in an order that covers all of the operation even if time runs
         * out. */
        for (unsigned n = 0;
             n < operation->points && (n < POINTS_LEAST / part || clock_ns() < end_ns);
             n++, points++) {
            run_and_kill(operation, (unsigned)((uint64_t)(n * 61 % operation->points) * length /
                                               operation->points));
            assert_recovered();
        }
        snprintf(reason, sizeof(reason), "%s", operation->name);
        print_message("%s: %u instructions, killed at %u of them, %u times with the lock in hand\n",
                      reason, length, points, region->layout->recoveries - recoveries);
    }
    assert_true(region->layout->recoveries > 5);
    ledger_free(ledger);
    region_close(region);
}

SLOW_TEST(killed_everywhere)
{
    kill_everywhere(false, 1);
}

/* Two sums change then, the group's and the instance's. */
TEST(killed_everywhere_in_a_group)
{
    kill_everywhere(true, 2);
}

/* The few instructions during which another process's bytes change hands: each of them. */
TEST(killed_while_stealing)
{
    const struct operation *operation = &operations[2];
    unsigned inside = 0, after = 0;
    bool over = false;

    if (SLOWER > 1)
        SKIP("a build without sanitizers");
    prepare(false);
    for (; !over; after++) {
        pid_t pid = spawn(victim, (void *)operation);
        int status;

        assert_int_equal(waitpid(pid, &status, 0), pid);
        while (!atomic_load(&region->layout->steal.active))
            assert_int_equal(step(pid, 1), 1);
        for (unsigned n = 0; n < after; n++)
            assert_int_equal(step(pid, 1), 1);
        over = !atomic_load(&region->layout->steal.active);
        inside += !over;
        kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) == pid && !WIFSIGNALED(status))
            ;
        assert_recovered();
    }
    print_message("killed at %u instructions of a theft\n", inside);
    assert_true(inside >= 3);
    ledger_free(ledger);
    region_close(region);
}

static int hold_the_lock(void *arg)
{
    atomic_int *ready = arg;
    struct region_hold hold;

    if (ledger_reserve(ledger, 0, MIB) != 0)
        return 1;
    if (region_lock(region, registration_lock_id(ledger_registration(ledger)), NS_PER_S, &hold) !=
        0)
        return 1;
    atomic_store(ready, 1);
    for (;;)
        nap_ms(1000);
}

static int want_the_lock(void *arg)
{
    (void)arg;
    CHECK(ledger_reserve(ledger, 1, MIB) == 0); /* not -ETIMEDOUT */
    return 0;
}

/* Many wait for a lock whose holder is killed: all get it before they give up. */
TEST(many_waiters)
{
    enum { WAITERS = 12 };
    atomic_int *ready = shared_memory(sizeof(*ready));
    pid_t holder, waiter[WAITERS];

    prepare(false);
    for (int round = 0; round < 5; round++) {
        atomic_store(ready, 0);
        holder = spawn(hold_the_lock, ready);
        while (!atomic_load(ready))
            nap_ms(1);
        for (int i = 0; i < WAITERS; i++)
            waiter[i] = spawn(want_the_lock, NULL);
        nap_ms(30);
        kill(holder, SIGKILL);
        for (int i = 0; i < WAITERS; i++)
            assert_int_equal(finish(waiter[i]), 0);
        finish(holder);
    }
    ledger_free(ledger);
    region_close(region);
}

/* The identity of a holder that died goes to a new process before anybody has noticed: it must not
 * count as alive. */
TEST(identity_of_a_dead_holder)
{
    atomic_int *ready = shared_memory(sizeof(*ready));
    struct region_hold hold;
    pid_t holder;

    prepare(false);
    holder = spawn(hold_the_lock, ready);
    while (!atomic_load(ready))
        nap_ms(1);
    kill(holder, SIGKILL);
    finish(holder);
    assert_int_equal(region->layout->lock & 0x7ff, 2);
    assert_int_equal(region_claim(region, 2), 0);
    assert_int_equal(region->layout->lock & 0x7ff, 0); /* nobody has to find out */
    assert_int_equal(region_lock(region, 1, NS_PER_S, &hold), 0);
    region_unlock(region, &hold);
    liveness_drop(region->liveness, 2);
    assert_recovered();
    ledger_free(ledger);
    region_close(region);
}

/* A child in a PID namespace of its own, so that both are process 1 there. */
static int in_namespace(void *arg)
{
    (void)arg;
    CHECK(getpid() == 1);
    CHECK(ledger_reserve(ledger, 0, 20 * MIB) == 0);
    CHECK(ledger_commit(ledger, 0, VGPU_KIND_DATA, 20 * MIB, 20 * MIB) == 0);
    for (;;)
        nap_ms(1000);
}

static int namespace_parent(void *arg)
{
    pid_t *inner = arg;
    char path[64], text[256], *line;
    FILE *file;

    if (unshare(CLONE_NEWPID) < 0)
        return 77;
    *inner = 0;
    spawn(in_namespace, NULL);
    /* The child's number as the test sees it. */
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    file = fopen(path, "r");
    line = file ? fgets(text, sizeof(text), file) : NULL;
    *inner = line ? atoi(line) : -1;
    for (;;)
        nap_ms(1000);
}

/* Two processes with the same pid in two namespaces: one dies, the other one is not taken for
 * it. */
ROOT_TEST(equal_pids_in_namespaces)
{
    pid_t *inner = shared_memory(2 * sizeof(*inner)), outer[2];
    struct vgpu_snapshot snapshot;

    prepare(false);
    for (int i = 0; i < 2; i++)
        outer[i] = spawn(namespace_parent, &inner[i]);
    for (int i = 0; i < 2; i++) {
        while (*(volatile pid_t *)&inner[i] == 0)
            nap_ms(1);
    }
    if (inner[0] <= 0 || inner[1] <= 0)
        SKIP("the right to make a PID namespace");
    do {
        nap_ms(2);
    } while (slots_used(region->layout, 0) != OWN_HELD + 40 * MIB);
    assert_int_equal(region_snapshot(region, &snapshot), 0);
    assert_int_equal(snapshot.proc_count, 3);
    for (unsigned i = 0; i < 3; i++) {
        if (snapshot.procs[i].pid == getpid())
            continue;
        assert_int_equal(snapshot.procs[i].own_pid, 1);
        assert_true(snapshot.procs[i].pid == inner[0] || snapshot.procs[i].pid == inner[1]);
    }
    snapshot_done(&snapshot);
    kill(inner[0], SIGKILL);
    while (slots_used(region->layout, 0) != OWN_HELD + 20 * MIB) {
        uint64_t total, available;

        ledger_view(ledger, 0, GIB, GIB, &total, &available);
        nap_ms(2);
    }
    nap_ms(20);
    assert_int_equal(ledger_reserve(ledger, 0, QUOTA - OWN_HELD - 20 * MIB + 1), -ENOMEM);
    kill(inner[1], SIGKILL);
    for (int i = 0; i < 2; i++) {
        kill(outer[i], SIGKILL);
        finish(outer[i]);
    }
    nap_ms(50);
    assert_int_equal(ledger_reserve(ledger, 0, QUOTA - OWN_HELD), 0);
    ledger_free(ledger);
    region_close(region);
}
