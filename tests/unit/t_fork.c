/* fork, exec, and programs that close descriptors that they did not open. */
#include "unit.h"

#include "base/proc.h"
#include "account/registration.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define QUOTA (100 * MIB)

static struct vgpu_region *region;
static struct vgpu_ledger *ledger;

static int setup(void **state)
{
    (void)state;
    region = new_region("fork", QUOTA);
    if (ledger_new(region, 0, &ledger) != 0 || ledger_reserve(ledger, 0, 30 * MIB) != 0)
        return -1;
    return ledger_commit(ledger, 0, VGPU_KIND_DATA, 30 * MIB, 30 * MIB);
}

static int teardown(void **state)
{
    (void)state;
    ledger_free(ledger);
    region_close(region);
    return 0;
}

static int use_in_child(void *arg)
{
    (void)arg;
    CHECK(ledger_held(ledger, 0, VGPU_KINDS) == 0);
    /* The parent's is not ours to give back. */
    ledger_release(ledger, 0, VGPU_KIND_DATA, 30 * MIB);
    CHECK(ledger_reserve(ledger, 0, 70 * MIB + 1) == -ENOMEM);
    CHECK(ledger_reserve(ledger, 0, 20 * MIB) == 0);
    CHECK(ledger_commit(ledger, 0, VGPU_KIND_DATA, 20 * MIB, 20 * MIB) == 0);
    CHECK(slots_used(region->layout, 0) == 50 * MIB);
    CHECK(registration_slot(ledger, ledger_registration(ledger))->pid == getpid());
    return 0;
}

TEST(child_begins_empty, setup, teardown)
{
    assert_int_equal(finish(spawn(use_in_child, NULL)), 0);
    assert_int_equal(ledger_held(ledger, 0, VGPU_KIND_DATA), 30 * MIB);
    assert_int_equal(ledger_reserve(ledger, 0, 70 * MIB), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 1), -ENOMEM);
}

static int grandchild(void *arg)
{
    CHECK(ledger_reserve(ledger, 0, 10 * MIB) == 0);
    CHECK(slots_used(region->layout, 0) == 40 * MIB + *(uint64_t *)arg);
    return 0;
}

static int child_with_child(void *arg)
{
    uint64_t own = 5 * MIB;

    (void)arg;
    CHECK(ledger_reserve(ledger, 0, own) == 0);
    CHECK(finish(spawn(grandchild, &own)) == 0);
    return 0;
}

TEST(children_of_children, setup, teardown)
{
    assert_int_equal(finish(spawn(child_with_child, NULL)), 0);
}

/* A child that does nothing with the ledger takes no place. */
static int do_nothing(void *arg)
{
    (void)arg;
    return 0;
}

TEST(idle_children_take_no_place, setup, teardown)
{
    for (int i = 0; i < 20; i++)
        assert_int_equal(finish(spawn(do_nothing, NULL)), 0);
    assert_int_equal(region_slots_high(region->layout), 1);
}

/* Threads are in every function while another one forks: no child may hang on a lock that a thread
 * has left behind. */
static atomic_bool stop;

static void *work(void *arg)
{
    while (!atomic_load(&stop)) {
        struct vgpu_snapshot snapshot;

        if (ledger_reserve(ledger, 0, MIB) == 0) {
            ledger_commit(ledger, 0, VGPU_KIND_DATA, MIB, MIB / 2);
            ledger_release(ledger, 0, VGPU_KIND_DATA, MIB / 2);
        }
        if (region_snapshot(region, &snapshot) == 0)
            snapshot_done(&snapshot);
    }
    return arg;
}

static int quick_child(void *arg)
{
    (void)arg;
    alarm(60);
    CHECK(ledger_reserve(ledger, 1, MIB) == 0);
    CHECK(ledger_commit(ledger, 1, VGPU_KIND_DATA, MIB, MIB) == 0);
    return 0;
}

TEST(fork_among_threads, setup, teardown)
{
    pthread_t thread[3];

    atomic_store(&stop, false);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, NULL), 0);
    for (int i = 0; i < 60; i++)
        assert_int_equal(finish(spawn(quick_child, NULL)), 0);
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(slots_used(region->layout, 0), 30 * MIB);
}

static void await(atomic_int *step, int value, pid_t pid)
{
    uint64_t end_ns = clock_ns() + PATIENCE_NS;

    while (atomic_load(step) != value && clock_ns() < end_ns)
        nap_ms(1);
    if (atomic_load(step) != value) {
        kill(pid, SIGKILL);
        fail_msg("step %d was not reached", value);
    }
}

static int exec_sleep(void *arg)
{
    atomic_int *step = arg;

    CHECK(ledger_reserve(ledger, 0, 60 * MIB) == 0);
    CHECK(ledger_commit(ledger, 0, VGPU_KIND_DATA, 60 * MIB, 60 * MIB) == 0);
    atomic_store(step, 1);
    while (atomic_load(step) != 2)
        nap_ms(1);
    execlp("sleep", "sleep", "infinity", NULL);
    return 1;
}

/* Exec ends what a process held, though its pid lives on. */
TEST(exec_gives_back, setup, teardown)
{
    atomic_int *step = shared_memory(sizeof(*step));
    pid_t pid = spawn(exec_sleep, step);
    uint64_t end_ns = clock_ns() + PATIENCE_NS;

    await(step, 1, pid);
    assert_int_equal(ledger_reserve(ledger, 0, 70 * MIB), -ENOMEM);
    atomic_store(step, 2);
    while (ledger_reserve(ledger, 0, 70 * MIB) != 0 && clock_ns() < end_ns)
        nap_ms(1);
    assert_int_equal(slots_used(region->layout, 0), 100 * MIB);
    kill(pid, SIGKILL);
    assert_int_equal(finish(pid), 1000 + SIGKILL); /* it lived until now */
}

/* vfork and exec, as posix_spawn does it: the parent keeps everything. */
TEST(vfork_takes_nothing, setup, teardown)
{
    pid_t pid = vfork();

    if (pid == 0) {
        execlp("true", "true", NULL);
        _exit(1);
    }
    assert_int_equal(finish(pid), 0);
    assert_int_equal(ledger_held(ledger, 0, VGPU_KIND_DATA), 30 * MIB);
    assert_int_equal(slots_used(region->layout, 0), 30 * MIB);
}

/* In a child: closes everything that it did not open itself, as daemons do; a neighbour notices; we
 * come back. */
static int close_everything(void *arg)
{
    atomic_int *step = arg;

    CHECK(ledger_reserve(ledger, 0, 40 * MIB) == 0);
    CHECK(ledger_commit(ledger, 0, VGPU_KIND_DATA, 40 * MIB, 40 * MIB) == 0);
    CHECK(ledger_reserve(ledger, 0, 5 * MIB) == 0); /* in flight */
    for (int fd = 3; fd < 1100; fd++)
        close(fd);
    /* The program uses the number that was ours. */
    for (int fd = 3; fd < 1020; fd++)
        (void)!dup2(2, fd);
    atomic_store(step, 1);
    while (atomic_load(step) != 2)
        nap_ms(1);
    CHECK(ledger_commit(ledger, 0, VGPU_KIND_DATA, 5 * MIB, 5 * MIB) == 0);
    CHECK(ledger_reserve(ledger, 0, 3 * MIB) == 0);
    CHECK(ledger_held(ledger, 0, VGPU_KIND_DATA) == 45 * MIB);
    CHECK(slots_used(region->layout, 0) == 48 * MIB + 30 * MIB);
    CHECK(fcntl(900, F_GETFD) >= 0); /* theirs was not closed */
    /* From here on we are known to be alive again. */
    atomic_store(step, 3);
    while (atomic_load(step) != 4)
        nap_ms(1);
    ledger_release(ledger, 0, VGPU_KIND_DATA, 45 * MIB);
    ledger_cancel(ledger, 0, 3 * MIB);
    CHECK(slots_used(region->layout, 0) == 30 * MIB);
    return 0;
}

TEST(descriptors_closed, setup, teardown)
{
    atomic_int *step = shared_memory(sizeof(*step));
    uint64_t total, available;
    pid_t pid = spawn(close_everything, step);

    await(step, 1, pid);
    /* It looks dead: whoever asks removes it. */
    ledger_view(ledger, 0, GIB, GIB, &total, &available);
    assert_int_equal(available, 70 * MIB);
    atomic_store(step, 2);
    await(step, 3, pid);
    ledger_view(ledger, 0, GIB, GIB, &total, &available);
    assert_int_equal(available, 22 * MIB);
    assert_int_equal(ledger_reserve(ledger, 0, 22 * MIB + 1), -ENOMEM);
    atomic_store(step, 4);
    assert_int_equal(finish(pid), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 70 * MIB), 0);
}

/* In a child: reads the region's file as any program may that looks through a folder, in ways that
 * close it again. */
static int read_the_file(void *arg)
{
    atomic_int *step = arg;
    char buffer[64];
    int fd;

    CHECK(ledger_reserve(ledger, 0, 40 * MIB) == 0);
    CHECK(ledger_commit(ledger, 0, VGPU_KIND_DATA, 40 * MIB, 40 * MIB) == 0);
    fd = open(scratch_path("fork"), O_RDONLY);
    CHECK(read(fd, buffer, sizeof(buffer)) == sizeof(buffer));
    close(fd);
    atomic_store(step, 1);
    while (atomic_load(step) != 2)
        nap_ms(1);
    CHECK(slots_used(region->layout, 0) == 70 * MIB);
    return 0;
}

static bool seen_in_a_snapshot(pid_t pid)
{
    struct vgpu_snapshot snapshot;
    bool seen = false;

    assert_int_equal(region_snapshot(region, &snapshot), 0);
    for (unsigned i = 0; i < snapshot.proc_count; i++)
        seen = seen || snapshot.procs[i].pid == pid;
    snapshot_done(&snapshot);
    return seen;
}

TEST(reader_of_the_file_stays_alive, setup, teardown)
{
    atomic_int *step = shared_memory(sizeof(*step));
    pid_t pid = spawn(read_the_file, step);

    await(step, 1, pid);
    assert_true(seen_in_a_snapshot(pid));
    assert_int_equal(ledger_reserve(ledger, 0, 30 * MIB + 1), -ENOMEM);
    atomic_store(step, 2);
    assert_int_equal(finish(pid), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 70 * MIB), 0);
}

/* Children that live on, never ask the library for anything, and have every descriptor that their
 * parent had. */
static pid_t by_fork(void)
{
    return fork();
}

static pid_t by_clone(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

struct orphan {
    pid_t (*make)(void);
    atomic_int pid, step, child_runs;
};

static int hold_and_make_a_child(void *arg)
{
    struct orphan *orphan = arg;
    struct vgpu_region *own;
    struct vgpu_ledger *mine;
    pid_t pid;

    /* Mapped by this process itself: a mapping keeps the description that it was made by, and the
     * child has it, too. */
    region_close(region);
    CHECK(region_open(scratch_path("fork"), 0, &own) == 0 && ledger_new(own, 0, &mine) == 0);
    CHECK(ledger_reserve(mine, 0, 40 * MIB) == 0);
    CHECK(ledger_commit(mine, 0, VGPU_KIND_DATA, 40 * MIB, 40 * MIB) == 0);
    pid = orphan->make();
    if (pid == 0) {
        alarm(60); /* nobody ends it where a check before has failed, nor waits for what it has open
                    */
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        atomic_store(&orphan->child_runs, 1); /* what runs in a child after fork has run */
        for (;;)
            pause();
    }
    atomic_store(&orphan->pid, pid);
    atomic_store(&orphan->step, 1);
    for (;;)
        pause();
}

/* `keeps`: the child has its parent's description, and only the pid tells that the parent is
 * dead. */
static void dead_parent_of(pid_t (*make)(void), bool keeps)
{
    struct orphan *orphan = shared_memory(sizeof(*orphan));
    pid_t pid, child;

    orphan->make = make;
    pid = spawn(hold_and_make_a_child, orphan);
    await(&orphan->step, 1, pid);
    await(&orphan->child_runs, 1, pid);
    child = atomic_load(&orphan->pid);
    assert_int_equal(ledger_reserve(ledger, 0, 30 * MIB + 1), -ENOMEM);
    kill(pid, SIGKILL);
    finish(pid);
    assert_int_equal(liveness_check(region->liveness, slot_id(1), NULL), keeps);
    assert_int_equal(ledger_reserve(ledger, 0, 70 * MIB), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
}

TEST(orphans_keep_nothing, setup, teardown)
{
    dead_parent_of(by_fork, false);
    ledger_cancel(ledger, 0, 70 * MIB);
    dead_parent_of(by_clone, true);
}

/* In a child: its first thread has ended and no lock of it is left, as when the kernel takes a
 * process apart. */
static void *outlive(void *arg)
{
    atomic_int *step = arg;

    atomic_store(step, 1);
    while (atomic_load(step) != 2)
        nap_ms(1);
    _exit(0);
}

static int end_slowly(void *arg)
{
    pthread_t thread;

    alarm(60);
    CHECK(ledger_reserve(ledger, 0, 40 * MIB) == 0);
    for (int fd = 3; fd < 1100; fd++)
        close(fd);
    CHECK(pthread_create(&thread, NULL, outlive, arg) == 0);
    syscall(SYS_exit,
            0); /* this thread's end only, and nothing is loaded for it, as pthread_exit does */
    return 1;
}

/* What a process holds is on the device until the kernel has closed its files, and that is after
 * its locks are gone. */
TEST(held_until_the_end, setup, teardown)
{
    atomic_int *step = shared_memory(sizeof(*step));
    pid_t pid = spawn(end_slowly, step);
    uint64_t end_ns = clock_ns() + PATIENCE_NS;
    int rc;

    await(step, 1, pid);
    while (!proc_is_exiting(pid) && clock_ns() < end_ns)
        nap_ms(1);
    assert_int_equal(liveness_check(region->liveness, slot_id(1), NULL), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 30 * MIB + 1), -ENOMEM);
    assert_int_equal(slots_used(region->layout, 0), 70 * MIB);
    atomic_store(step, 2);
    do
        rc = ledger_reserve(ledger, 0, 70 * MIB);
    while (rc == -ENOMEM && clock_ns() < end_ns);
    assert_int_equal(rc, 0);
    assert_int_equal(finish(pid), 0);
}

/* The region's file is gone and another one is at its place: what cannot be known is not
 * guessed. */
static int file_replaced(void *arg)
{
    (void)arg;
    CHECK(ledger_reserve(ledger, 0, MIB) == 0);
    for (int fd = 3; fd < 1100; fd++)
        close(fd);
    unlink(scratch_path("fork"));
    atomic_fetch_add(&registration_slot(ledger, ledger_registration(ledger))->generation,
                     1); /* as if a neighbour had removed us */
    CHECK(ledger_reserve(ledger, 0, MIB) == -ENOMEM);
    CHECK(ledger_reserve(ledger, 0, MIB) == -ENOMEM);
    return 0;
}

TEST(file_is_gone, setup, teardown)
{
    assert_int_equal(finish(spawn(file_replaced, NULL)), 0);
}

/* Two handles of one file in one process: closing one must not drop what the other one's locks
 * say. */
static int look_at_owner(void *arg)
{
    (void)arg;
    CHECK(region_in_use(region));
    CHECK(ledger_reserve(ledger, 0, 71 * MIB) == -ENOMEM);
    return 0;
}

TEST(second_handle, setup, teardown)
{
    struct vgpu_region *again;

    assert_int_equal(region_open(scratch_path("fork"), 0, &again), 0);
    region_close(again);
    assert_int_equal(finish(spawn(look_at_owner, NULL)), 0);
}

TEST(descriptors_are_ours_only, setup, teardown)
{
    int flags = 0, found = 0;

    for (int fd = 3; fd < 1100; fd++) {
        char link[64], path[512];
        ssize_t length;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        length = readlink(link, path, sizeof(path) - 1);
        if (length < 0)
            continue;
        path[length] = '\0';
        if (strcmp(path, scratch_path("fork")) != 0)
            continue;
        flags = fcntl(fd, F_GETFD);
        assert_true(fd >= 700);
        assert_true(flags & FD_CLOEXEC);
        found++;
    }
    assert_int_equal(found, 2); /* one to map, one for locks */
}
