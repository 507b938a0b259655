/* The ledger, as one process and two alternating processes see it. */
#include "unit.h"

#include "account/registration.h"
#include "account/refuse.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

static struct vgpu_region *region;
static struct vgpu_ledger *ledger;

static int with_quota(uint64_t quota_bytes)
{
    region = new_region("ledger", quota_bytes);
    return ledger_new(region, 0, &ledger);
}

static int setup(void **state)
{
    (void)state;
    return with_quota(GIB);
}

static int teardown(void **state)
{
    (void)state;
    ledger_free(ledger);
    region_close(region);
    return 0;
}

static uint64_t used(unsigned vdev)
{
    struct vgpu_snapshot snapshot;
    uint64_t bytes;

    assert_int_equal(region_snapshot(region, &snapshot), 0);
    bytes = snapshot.vdev[vdev].used_bytes;
    snapshot_done(&snapshot);
    return bytes;
}

/* reserved = busy + idle in our slot, and the total is the sum. */
static void assert_books_agree(void)
{
    for (unsigned i = 0; i < VGPU_VDEVS; i++) {
        struct slot_vdev *vdev = &registration_slot(ledger, ledger_registration(ledger))->vdev[i];
        uint64_t reserved = load_relaxed(&vdev->reserved_bytes), sum = 0;

        assert_int_equal(reserved, load_relaxed(&ledger->vdev[i].busy) +
                                       (load_relaxed(&vdev->idle) & IDLE_BYTES_MASK));
        for (unsigned s = 0; s < region_slots_high(region->layout); s++)
            if (slot_live(&region->layout->slot[s]))
                sum += load_relaxed(&region->layout->slot[s].vdev[i].reserved_bytes);
        assert_int_equal(load_relaxed(&region->layout->vdev[i].total_bytes), sum);
    }
}

TEST(exact_to_the_byte, setup, teardown)
{
    assert_int_equal(ledger_reserve(ledger, 0, GIB + 1), -ENOMEM);
    assert_int_equal(ledger_reserve(ledger, 0, UINT64_MAX), -ENOMEM);
    assert_int_equal(ledger_reserve(ledger, 0, GIB - 1), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 2), -ENOMEM);
    assert_int_equal(ledger_reserve(ledger, 0, 1), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 1), -ENOMEM);
    assert_int_equal(used(0), GIB);
    assert_int_equal(ledger_commit(ledger, 0, VGPU_KIND_DATA, GIB, GIB), 0);
    assert_int_equal(ledger_held(ledger, 0, VGPU_KIND_DATA), GIB);
    ledger_release(ledger, 0, VGPU_KIND_DATA, 1);
    assert_int_equal(ledger_reserve(ledger, 0, 1), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 1), -ENOMEM);
    assert_books_agree();
    ledger_cancel(ledger, 0, 1);
    ledger_release(ledger, 0, VGPU_KIND_DATA, GIB);
    assert_int_equal(used(0), 0);
    assert_books_agree();
    /* No quota on the others, counted all the same. */
    assert_int_equal(ledger_reserve(ledger, VGPU_VDEV_HOST, 100 * GIB), 0);
    assert_int_equal(used(VGPU_VDEV_HOST), 100 * GIB);
    assert_int_equal(ledger_reserve(ledger, VGPU_VDEVS, 1), -EINVAL);
}

TEST(commit_less_and_more, setup, teardown)
{
    assert_int_equal(ledger_reserve(ledger, 0, 100), 0);
    assert_int_equal(ledger_commit(ledger, 0, VGPU_KIND_DATA, 100, 60), 0);
    assert_int_equal(used(0), 60);
    assert_int_equal(ledger_reserve(ledger, 0, 100), 0);
    assert_int_equal(ledger_commit(ledger, 0, VGPU_KIND_POOL, 100, 150), 0);
    assert_int_equal(used(0), 210);
    assert_int_equal(ledger_held(ledger, 0, VGPU_KIND_POOL), 150);
    assert_int_equal(ledger_held(ledger, 0, VGPU_KINDS), 210);
    assert_int_equal(ledger_reserve(ledger, 0, GIB - 210), 0);
    assert_int_equal(ledger_commit(ledger, 0, VGPU_KIND_DATA, GIB - 210, GIB - 209), -ENOMEM);
    assert_int_equal(used(0), GIB); /* the reservation stands */
    ledger_cancel(ledger, 0, GIB - 210);
    assert_int_equal(used(0), 210);
    assert_books_agree();
}

TEST(never_below_zero, setup, teardown)
{
    assert_int_equal(ledger_reserve(ledger, 0, 100), 0);
    assert_int_equal(ledger_commit(ledger, 0, VGPU_KIND_DATA, 100, 100), 0);
    ledger_release(ledger, 0, VGPU_KIND_MODULE, 50);
    assert_int_equal(used(0), 100);
    ledger_release(ledger, 0, VGPU_KIND_DATA, 5000);
    assert_int_equal(used(0), 0);
    ledger_release(ledger, 0, VGPU_KIND_DATA, 1);
    ledger_settle(ledger, 0, VGPU_KIND_POOL, 0, -1000);
    ledger_settle(ledger, 0, VGPU_KIND_POOL, 0, INT64_MIN);
    assert_int_equal(used(0), 0);
    assert_int_equal(ledger_held(ledger, 0, VGPU_KINDS), 0);
    assert_int_equal(ledger_reserve(ledger, 0, GIB), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 1), -ENOMEM);
    assert_books_agree();
}

/* More in use than the quota: nothing wraps, the view says 0 free. */
TEST(over_the_quota, setup, teardown)
{
    uint64_t total = 0, available = 1;

    ledger_set(ledger, 0, VGPU_KIND_CONTEXT, 3 * GIB);
    assert_int_equal(used(0), 3 * GIB);
    ledger_view(ledger, 0, 16 * GIB, 12 * GIB, &total, &available);
    assert_int_equal(total, GIB);
    assert_int_equal(available, 0);
    assert_int_equal(ledger_reserve(ledger, 0, 1), -ENOMEM);
    /* What is given back while it is over is not ours to use again. */
    ledger_set(ledger, 0, VGPU_KIND_CONTEXT, 2 * GIB);
    assert_int_equal(ledger_reserve(ledger, 0, 1), -ENOMEM);
    ledger_set(ledger, 0, VGPU_KIND_CONTEXT, GIB - 1);
    assert_int_equal(ledger_reserve(ledger, 0, 1), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 1), -ENOMEM);
    ledger_cancel(ledger, 0, 1);
    ledger_set(ledger, 0, VGPU_KIND_CONTEXT, 0);
    assert_int_equal(used(0), 0);
    assert_books_agree();
    /* A region that says so much by itself. */
    store_relaxed(&registration_slot(ledger, ledger_registration(ledger))->vdev[0].reserved_bytes,
                  UINT64_MAX - 5);
    ledger_view(ledger, 0, 16 * GIB, 12 * GIB, &total, &available);
    assert_int_equal(available, 0);
    store_relaxed(&registration_slot(ledger, ledger_registration(ledger))->vdev[0].reserved_bytes,
                  0);
}

static uint64_t peak(unsigned vdev)
{
    struct vgpu_snapshot snapshot;
    uint64_t bytes;

    assert_int_equal(region_snapshot(region, &snapshot), 0);
    bytes = snapshot.vdev[vdev].peak_bytes;
    snapshot_done(&snapshot);
    return bytes;
}

/* In a child: holds 30 MiB more, by a reservation that was larger. */
static int hold_more(void *arg)
{
    (void)arg;
    CHECK(ledger_reserve(ledger, 0, 50 * MIB) == 0);
    CHECK(ledger_commit(ledger, 0, VGPU_KIND_DATA, 50 * MIB, 30 * MIB) == 0);
    return 0;
}

/* The most that all processes had in use at once: no reservation, nothing that was free by then,
 * none of the dead. */
TEST(peaks, setup, teardown)
{
    assert_int_equal(peak(0), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 100 * MIB), 0);
    ledger_cancel(ledger, 0, 100 * MIB);
    assert_int_equal(peak(0), 0);
    ledger_set(ledger, 0, VGPU_KIND_CONTEXT, 20 * MIB);
    assert_int_equal(peak(0), 20 * MIB);
    assert_int_equal(ledger_reserve(ledger, 0, 60 * MIB), 0);
    assert_int_equal(ledger_commit(ledger, 0, VGPU_KIND_DATA, 60 * MIB, 60 * MIB), 0);
    ledger_release(ledger, 0, VGPU_KIND_DATA, 50 * MIB);
    assert_int_equal(peak(0), 80 * MIB);
    /* 30 MiB in use here, 50 MiB idle, and 30 MiB in the child: not more than before, though 110
     * MiB are reserved. */
    assert_int_equal(finish(spawn(hold_more, NULL)), 0);
    assert_int_equal(peak(0), 80 * MIB);
    assert_int_equal(ledger_settle(ledger, 0, VGPU_KIND_POOL, 0, 51 * (int64_t)MIB), 0);
    assert_int_equal(peak(0), 81 * MIB);
    assert_int_equal(finish(spawn(hold_more, NULL)), 0);
    assert_int_equal(peak(0), 111 * MIB);
    assert_int_equal(used(0), 81 * MIB);
    assert_int_equal(peak(1), 0);
}

TEST(views, setup, teardown)
{
    uint64_t total = 0, available = 0;

    ledger_view(ledger, 0, 16 * GIB, 12 * GIB, &total, &available);
    assert_int_equal(total, GIB);
    assert_int_equal(available, GIB);
    assert_int_equal(ledger_reserve(ledger, 0, 100 * MIB), 0);
    ledger_view(ledger, 0, 16 * GIB, 12 * GIB, &total, &available);
    assert_int_equal(available, GIB - 100 * MIB);
    /* Neighbours outside the instance have taken the card. */
    ledger_view(ledger, 0, 16 * GIB, 10 * MIB, &total, &available);
    assert_int_equal(available, 10 * MIB);
    /* A card smaller than the quota. */
    ledger_view(ledger, 0, 512 * MIB, 500 * MIB, &total, &available);
    assert_int_equal(total, 512 * MIB);
    assert_int_equal(available, 412 * MIB);
    ledger_view(ledger, 1, 16 * GIB, 12 * GIB, &total, &available);
    assert_int_equal(total, 16 * GIB);
    assert_int_equal(available, 12 * GIB);
}

TEST(devices_and_percentages, setup, teardown)
{
    struct vgpu_limits limits = {.name = "percent"};
    struct vgpu_snapshot snapshot;

    limits.vdev[0].quota_percent = 40;
    limits.vdev[1].quota_bytes = 100 * GIB;
    assert_int_equal(region_set_limits(region, &limits), 0);
    /* Nothing fits into a percentage of nobody knows what; and nobody is shown a quota of 1
     * byte. */
    assert_int_equal(ledger_reserve(ledger, 0, 512), -ENOMEM);
    assert_int_equal(region_snapshot(region, &snapshot), 0);
    assert_int_equal(snapshot.vdev[0].quota_bytes, 0);
    snapshot_done(&snapshot);
    assert_int_equal(ledger_device(ledger, 0, "GPU-a", 10 * GIB), 0);
    assert_int_equal(ledger_quota(ledger, 0), 4 * GIB);
    assert_int_equal(ledger_device(ledger, 0, "GPU-a", 10 * GIB), 0);
    assert_int_equal(ledger_device(ledger, 0, "GPU-A", 10 * GIB), 0);
    assert_int_equal(ledger_device(ledger, 0, "GPU-b", 20 * GIB), -EEXIST);
    assert_int_equal(ledger_quota(ledger, 0), 4 * GIB);
    /* A quota above the card is kept, and shown as the card. */
    assert_int_equal(ledger_quota(ledger, 1), 100 * GIB);
    assert_int_equal(ledger_device(ledger, 1, "GPU-b", 80 * GIB), 0);
    assert_int_equal(ledger_quota(ledger, 1), 80 * GIB);
    region_limits(region, &limits);
    assert_int_equal(limits.vdev[1].quota_bytes, 100 * GIB);
    assert_string_equal(limits.vdev[1].uuid, "GPU-b");
    assert_int_equal(ledger_context_cost(ledger, 0), 0);
    ledger_learn_context_cost(ledger, 0, 500);
    ledger_learn_context_cost(ledger, 0, 400);
    assert_int_equal(ledger_context_cost(ledger, 0), 500);
}

TEST(quota_lowered_and_raised, setup, teardown)
{
    struct vgpu_limits limits = {.name = "lower"};

    assert_int_equal(ledger_reserve(ledger, 0, 600 * MIB), 0);
    ledger_cancel(ledger, 0, 600 * MIB); /* idle now */
    limits.vdev[0].quota_bytes = 100 * MIB;
    assert_int_equal(region_set_limits(region, &limits), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 101 * MIB), -ENOMEM);
    assert_int_equal(ledger_reserve(ledger, 0, 100 * MIB), 0);
    limits.vdev[0].quota_bytes = 200 * MIB;
    assert_int_equal(region_set_limits(region, &limits), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 100 * MIB), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 1), -ENOMEM);
}

TEST(reserve_and_settle, setup, teardown)
{
    assert_int_equal(ledger_reserve(ledger, 0, 32 * MIB), 0);
    assert_int_equal(ledger_settle(ledger, 0, VGPU_KIND_POOL, 32 * MIB, 0), 0);
    assert_int_equal(used(0), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 32 * MIB), 0);
    assert_int_equal(ledger_settle(ledger, 0, VGPU_KIND_POOL, 32 * MIB, 32 * MIB), 0);
    assert_int_equal(ledger_held(ledger, 0, VGPU_KIND_POOL), 32 * MIB);
    assert_int_equal(used(0), 32 * MIB);
    assert_int_equal(ledger_settle(ledger, 0, VGPU_KIND_POOL, 0, 32 * MIB), 0);
    assert_int_equal(used(0), 64 * MIB);
    assert_int_equal(ledger_settle(ledger, 0, VGPU_KIND_POOL, 0, -(int64_t)(64 * MIB)), 0);
    assert_int_equal(used(0), 0);
    assert_int_equal(ledger_reserve(ledger, 0, GIB + 1), -ENOMEM);
    /* What has happened is charged though it does not fit. */
    assert_int_equal(ledger_settle(ledger, 0, VGPU_KIND_POOL, 0, 2 * (int64_t)GIB), -ENOMEM);
    assert_int_equal(used(0), 2 * GIB);
    assert_int_equal(ledger_held(ledger, 0, VGPU_KIND_POOL), 2 * GIB);
    assert_books_agree();
}

TEST(refusals, setup, teardown)
{
    struct vgpu_snapshot snapshot;
    char said[2048], api[16];
    int pipes[2], err = dup(STDERR_FILENO);
    ssize_t got;

    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 512 * MIB), 0);
    dup2(pipes[1], STDERR_FILENO);
    errno = 77;
    for (int i = 0; i < 3; i++)
        ledger_refuse(ledger, 0, 700 * MIB, "cuMemAlloc_v2");
    ledger_refuse(ledger, VGPU_VDEV_HOST, GIB, "cuMemHostAlloc");
    assert_int_equal(errno, 77);
    dup2(err, STDERR_FILENO);
    close(err);
    got = read(pipes[0], said, sizeof(said) - 1);
    assert_true(got > 0);
    said[got] = '\0';
    assert_string_equal(said, "vgpu: instance unit: cuMemAlloc_v2 of 700.0 MiB refused on device "
                              "0: 512.0 MiB of 1.0 GiB in "
                              "use; raise it with --mem or free memory\n"
                              "vgpu: instance unit: cuMemHostAlloc of 1.0 GiB refused as pinned "
                              "host memory: 0 B of 0 B in "
                              "use; raise it with --host-mem or free memory\n");
    assert_int_equal(region_snapshot(region, &snapshot), 0);
    assert_int_equal(snapshot.refusal_count, 4);
    assert_int_equal(snapshot.vdev[0].refusals, 3);
    assert_string_equal(snapshot.refusals[0].api, "cuMemAlloc_v2");
    assert_int_equal(snapshot.refusals[0].size_bytes, 700 * MIB);
    assert_int_equal(snapshot.refusals[0].used_bytes, 512 * MIB);
    assert_int_equal(snapshot.refusals[0].quota_bytes, GIB);
    assert_int_equal(snapshot.refusals[0].pid, getpid());
    assert_int_equal(snapshot.refusals[3].vdev, VGPU_VDEV_HOST);
    snapshot_done(&snapshot);
    /* The ring keeps the newest, oldest first. */
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    for (int i = 0; i < 300; i++) {
        snprintf(api, sizeof(api), "api%d", i);
        ledger_refuse(ledger, 0, 1000 + (uint64_t)i, api);
    }
    assert_int_equal(region_snapshot(region, &snapshot), 0);
    assert_int_equal(snapshot.refusal_count, VGPU_REFUSALS);
    assert_int_equal(snapshot.refusals[0].size_bytes, 1300 - VGPU_REFUSALS);
    assert_int_equal(snapshot.refusals[VGPU_REFUSALS - 1].size_bytes, 1299);
    assert_int_equal(snapshot.vdev[0].refusals, 303);
    snapshot_done(&snapshot);
    close(pipes[0]);
    close(pipes[1]);
}

struct neighbour {
    uint64_t quota, hold, idle;
    atomic_int ready, leave;
};

/* Opens the region for itself, holds some, leaves some idle, and waits. */
static int be_neighbour(void *arg)
{
    struct neighbour *self = arg;
    struct vgpu_region *own;
    struct vgpu_ledger *books;

    CHECK(region_open(scratch_path("ledger"), 0, &own) == 0);
    CHECK(ledger_new(own, 0, &books) == 0);
    CHECK(ledger_reserve(books, 0, self->hold + self->idle) == 0);
    CHECK(ledger_commit(books, 0, VGPU_KIND_DATA, self->hold + self->idle, self->hold) == 0);
    atomic_store(&self->ready, 1);
    while (!atomic_load(&self->leave))
        nap_ms(1);
    CHECK(ledger_held(books, 0, VGPU_KIND_DATA) == self->hold);
    /* What was taken from our idle part is gone, and only that. */
    if (atomic_load(&self->leave) == 2)
        CHECK(ledger_reserve(books, 0, 1) == -ENOMEM);
    ledger_free(books);
    return 0;
}

static pid_t start_neighbour(struct neighbour *neighbour, uint64_t hold, uint64_t idle)
{
    pid_t pid;

    memset(neighbour, 0, sizeof(*neighbour));
    neighbour->hold = hold;
    neighbour->idle = idle;
    pid = spawn(be_neighbour, neighbour);
    while (!atomic_load(&neighbour->ready))
        nap_ms(1);
    return pid;
}

TEST(idle_is_taken_from_others, setup, teardown)
{
    struct neighbour *neighbour = shared_memory(sizeof(*neighbour));
    struct vgpu_proc_memory procs[4];
    pid_t pid = start_neighbour(neighbour, 300 * MIB, 500 * MIB);

    assert_int_equal(used(0), 300 * MIB);
    assert_int_equal(ledger_processes(ledger, 0, procs, 4), 1);
    assert_int_equal(procs[0].pid, pid);
    assert_int_equal(procs[0].bytes, 300 * MIB);
    assert_int_equal(ledger_reserve(ledger, 0, 724 * MIB + 1), -ENOMEM);
    assert_int_equal(ledger_reserve(ledger, 0, 324 * MIB), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 400 * MIB), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 1), -ENOMEM);
    assert_int_equal(used(0), GIB);
    assert_books_agree();
    atomic_store(&neighbour->leave, 2);
    assert_int_equal(finish(pid), 0);
    assert_int_equal(used(0), 724 * MIB);
}

/* A process that ends without a word gives back what it held: to a reservation, and to the view. */
TEST(the_dead_hold_nothing, setup, teardown)
{
    struct neighbour *neighbour = shared_memory(sizeof(*neighbour));
    uint64_t total, available;
    pid_t pid;

    for (int round = 0; round < 5; round++) {
        pid = start_neighbour(neighbour, 900 * MIB, 10 * MIB);
        assert_int_equal(ledger_reserve(ledger, 0, 200 * MIB), -ENOMEM);
        ledger_view(ledger, 0, 16 * GIB, 16 * GIB, &total, &available);
        assert_int_equal(available, GIB - 900 * MIB);
        kill(pid, SIGKILL);
        assert_int_equal(finish(pid), 1000 + SIGKILL);
        if (round % 2) {
            ledger_view(ledger, 0, 16 * GIB, 16 * GIB, &total, &available);
            assert_int_equal(available, GIB);
        }
        assert_int_equal(ledger_reserve(ledger, 0, GIB), 0);
        ledger_cancel(ledger, 0, GIB);
        assert_books_agree();
        /* Its slot is used again: the region does not grow with every process. */
        assert_true(region_slots_high(region->layout) <= 2);
    }
}

/* A zombie is dead, though its pid is there. */
TEST(a_zombie_holds_nothing, setup, teardown)
{
    struct neighbour *neighbour = shared_memory(sizeof(*neighbour));
    pid_t pid = start_neighbour(neighbour, 900 * MIB, 0);
    siginfo_t info;

    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(kill(pid, 0), 0);
    assert_int_equal(ledger_reserve(ledger, 0, GIB), 0);
    finish(pid);
}

/* Slots of the living do not move when others go, and are found by those who come. */
TEST(slots_stay, setup, teardown)
{
    struct neighbour *one = shared_memory(sizeof(*one)), *two = shared_memory(sizeof(*two));
    pid_t first = start_neighbour(one, 100 * MIB, 0), second = start_neighbour(two, 200 * MIB, 0);

    kill(first, SIGKILL);
    finish(first);
    assert_int_equal(used(0), 200 * MIB);
    first = start_neighbour(one, 50 * MIB, 0);
    assert_int_equal(used(0), 250 * MIB);
    atomic_store(&two->leave, 1);
    assert_int_equal(finish(second), 0);
    assert_int_equal(used(0), 50 * MIB);
    atomic_store(&one->leave, 1);
    assert_int_equal(finish(first), 0);
    assert_int_equal(used(0), 0);
}

/* The lock's holder is stopped, not dead: bounded waits; what must not wait does not. */
TEST(holder_is_stopped, setup, teardown)
{
    struct region_hold hold;
    struct vgpu_region *other;
    uint64_t start_ns;

    assert_int_equal(ledger_reserve(ledger, 0, 100), 0);
    assert_int_equal(ledger_commit(ledger, 0, VGPU_KIND_DATA, 100, 100), 0);
    assert_int_equal(region_open(scratch_path("ledger"), 0, &other), 0);
    assert_int_equal(region_lock(other, 0, NS_PER_S, &hold), 0);
    start_ns = clock_ns();
    ledger_release(ledger, 0, VGPU_KIND_DATA, 50);
    assert_int_equal(ledger_reserve(ledger, 0, 50), 0);
    ledger_cancel(ledger, 0, 50);
    assert_int_equal(ledger_reserve(ledger, 0, MIB), -ETIMEDOUT);
    assert_true(clock_ns() - start_ns >= LEDGER_LOCK_BOUND_NS);
    assert_true(clock_ns() - start_ns < PATIENCE_NS);
    /* What happened is remembered, and told as soon as the lock is to be had. */
    ledger_set(ledger, 0, VGPU_KIND_CONTEXT, 500 * MIB);
    assert_int_equal(ledger_held(ledger, 0, VGPU_KIND_CONTEXT), 500 * MIB);
    region_unlock(other, &hold);
    assert_int_equal(ledger_reserve(ledger, 0, 600 * MIB), -ENOMEM);
    assert_int_equal(used(0), 500 * MIB + 50);
    assert_books_agree();
    region_close(other);
}
