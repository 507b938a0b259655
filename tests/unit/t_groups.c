/* Groups: runs inside an instance with limits of their own. A group's memory counts for the group
 * and for the instance. */
#include "unit.h"

#include "account/registration.h"
#include "account/refuse.h"
#include "sched/usage.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static struct vgpu_region *region;

static int setup(void **state)
{
    (void)state;
    region = new_region("groups", 3 * GIB);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    region_close(region);
    return 0;
}

/* A child that does not outlive a test that fails; its end of the pipe is not the parent's, who
 * sees its death. */
static pid_t fork_with_pipe(int *ret_fd)
{
    int ends[2];
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[pid == 0 ? 0 : 1]);
    *ret_fd = ends[pid == 0 ? 1 : 0];
    return pid;
}

static uint64_t group_of_limits(const struct vgpu_limits *limits)
{
    uint64_t id;

    assert_int_equal(region_group_new(region, limits, &id), 0);
    return id;
}

static uint64_t group_of(uint64_t quota_bytes, uint32_t quota_percent)
{
    struct vgpu_limits limits = {.compute.priority = VGPU_PRIORITY_MAX};

    limits.vdev[0].quota_bytes = quota_bytes;
    limits.vdev[0].quota_percent = quota_percent;
    return group_of_limits(&limits);
}

static struct vgpu_ledger *ledger_in(uint64_t group_id)
{
    struct vgpu_ledger *ledger;

    assert_int_equal(ledger_new(region, group_id, &ledger), 0);
    return ledger;
}

/* Every sum is that of the slots and of the shares that were left. */
static void assert_sums_agree(void)
{
    struct region_layout *layout = region->layout;

    for (unsigned vdev = 0; vdev < VGPU_VDEVS; vdev++) {
        for (unsigned group = 0; group < group_count(layout); group++) {
            uint64_t sum = shares_left(layout, group, vdev);

            for (unsigned i = 0; i < region_slots_high(layout); i++)
                if (slot_live(&layout->slot[i]) && (!group || slot_group(layout, i) == group))
                    sum += load_relaxed(&layout->slot[i].vdev[vdev].reserved_bytes);
            assert_int_equal(load_relaxed(region_total(layout, group, vdev)), sum);
        }
    }
}

TEST(both_quotas_hold, setup, teardown)
{
    struct vgpu_ledger *outer = ledger_in(0), *a = ledger_in(group_of(2 * GIB, 0)),
                       *b = ledger_in(group_of(2 * GIB, 0));

    assert_int_equal(ledger_reserve(a, 0, 2 * GIB + 1), -ENOMEM);
    assert_int_equal(ledger_reserve(a, 0, 2 * GIB), 0);
    assert_int_equal(ledger_reserve(a, 0, 1), -ENOMEM);
    assert_int_equal(ledger_reserve(b, 0, GIB + 1),
                     -ENOMEM); /* its own quota has room, the instance's has not */
    assert_int_equal(ledger_reserve(b, 0, GIB), 0);
    assert_int_equal(ledger_reserve(outer, 0, 1), -ENOMEM);
    assert_sums_agree();
    ledger_cancel(a, 0, GIB);
    assert_int_equal(ledger_reserve(b, 0, GIB + 1), -ENOMEM);
    assert_int_equal(ledger_reserve(b, 0, GIB), 0); /* out of what a has idle */
    assert_int_equal(ledger_reserve(outer, 0, 1), -ENOMEM);
    ledger_free(b);
    assert_int_equal(ledger_reserve(outer, 0, 2 * GIB), 0);
    assert_int_equal(ledger_reserve(a, 0, 1), -ENOMEM);
    assert_sums_agree();
    ledger_free(a);
    ledger_free(outer);
    assert_sums_agree();
}

/* Two processes of one group: what is idle within it makes room, what is idle elsewhere does
 * not. */
TEST(idle_within_the_group, setup, teardown)
{
    uint64_t id = group_of(GIB, 0);
    struct vgpu_ledger *outer = ledger_in(0), *a = ledger_in(id), *b = ledger_in(id);

    assert_int_equal(ledger_reserve(outer, 0, GIB), 0);
    ledger_cancel(outer, 0, GIB);
    assert_int_equal(ledger_reserve(a, 0, GIB), 0);
    assert_int_equal(ledger_reserve(b, 0, 1), -ENOMEM);
    ledger_cancel(a, 0, MIB);
    assert_int_equal(ledger_reserve(b, 0, MIB + 1), -ENOMEM);
    assert_int_equal(ledger_reserve(b, 0, MIB), 0);
    assert_int_equal(ledger_reserve(b, 0, 1), -ENOMEM);
    assert_int_equal(
        load_relaxed(&registration_slot(outer, ledger_registration(outer))->vdev[0].idle) &
            IDLE_BYTES_MASK,
        GIB);
    assert_sums_agree();
    ledger_free(a);
    ledger_free(b);
    ledger_free(outer);
}

TEST(percentages_are_of_the_instance, setup, teardown)
{
    struct vgpu_limits limits;
    uint64_t half = group_of(0, 50), more = group_of(8 * GIB, 0), id;
    struct vgpu_ledger *ledger = ledger_in(half), *other = ledger_in(more);

    assert_int_equal(ledger_quota(ledger, 0), 3 * GIB / 2);
    assert_int_equal(ledger_quota(other, 0), 3 * GIB);
    assert_int_equal(ledger_quota(ledger, 1), 0);
    assert_true(region_group_limits(region, half, &limits));
    assert_int_equal(limits.vdev[0].quota_bytes, 3 * GIB / 2);
    /* It follows the instance's, and a percentage of a percentage is one once the device is
     * known. */
    region_limits(region, &limits);
    limits.vdev[0].quota_bytes = 0;
    limits.vdev[0].quota_percent = 50;
    assert_int_equal(region_set_limits(region, &limits), 0);
    assert_int_equal(ledger_reserve(ledger, 0, 2), -ENOMEM);
    assert_int_equal(ledger_device(ledger, 0, "GPU-a", 8 * GIB), 0);
    assert_int_equal(ledger_quota(ledger, 0), 2 * GIB);
    assert_int_equal(ledger_quota(other, 0), 4 * GIB);
    ledger_free(ledger);
    ledger_free(other);
    /* Where the instance has none it is of the device, and nothing fits until that is known. */
    limits.vdev[1].quota_percent = 25;
    id = group_of_limits(&limits);
    ledger = ledger_in(id);
    assert_int_equal(ledger_reserve(ledger, 1, 2), -ENOMEM);
    assert_int_equal(ledger_device(ledger, 1, "GPU-b", 8 * GIB), 0);
    assert_int_equal(ledger_quota(ledger, 1), 2 * GIB);
    ledger_free(ledger);
}

TEST(what_a_group_sees, setup, teardown)
{
    struct vgpu_ledger *outer = ledger_in(0), *a = ledger_in(group_of(GIB, 0));
    struct vgpu_proc_memory procs[4];
    struct vgpu_snapshot snapshot;
    uint64_t total, available;

    ledger_set(outer, 0, VGPU_KIND_DATA, 2 * GIB);
    ledger_set(a, 0, VGPU_KIND_DATA, GIB / 4);
    ledger_view(a, 0, 8 * GIB, 8 * GIB, &total, &available);
    assert_int_equal(total, GIB);
    assert_int_equal(available, GIB - GIB / 4);
    ledger_view(outer, 0, 8 * GIB, 8 * GIB, &total, &available);
    assert_int_equal(total, 3 * GIB);
    assert_int_equal(available, GIB - GIB / 4);
    assert_int_equal(ledger_processes(a, 0, procs, 4), 1);
    assert_int_equal(procs[0].bytes, GIB / 4);
    assert_int_equal(ledger_processes(outer, 0, procs, 4), 2);
    ledger_refuse(a, 0, GIB, "test");
    /* Less is left of the instance's than of the group's. */
    ledger_set(outer, 0, VGPU_KIND_DATA, 3 * GIB - GIB / 2);
    ledger_view(a, 0, 8 * GIB, 8 * GIB, &total, &available);
    assert_int_equal(total, GIB);
    assert_int_equal(available, GIB / 4);
    ledger_refuse(a, 0, GIB, "test");
    assert_int_equal(region_snapshot(region, &snapshot), 0);
    assert_int_equal(snapshot.refusal_count, 2);
    assert_int_equal(snapshot.refusals[0].quota_bytes, GIB);
    assert_int_equal(snapshot.refusals[0].used_bytes, GIB / 4);
    assert_int_equal(snapshot.refusals[1].quota_bytes, 3 * GIB);
    assert_int_equal(snapshot.vdev[0].used_bytes, 3 * GIB - GIB / 4);
    snapshot_done(&snapshot);
    ledger_free(a);
    ledger_free(outer);
}

/* What was exported in a group stays the group's when its maker ends, and keeps the entry from
 * being given away. */
TEST(shares_stay_in_the_group, setup, teardown)
{
    uint64_t id = group_of(GIB, 0);
    struct vgpu_ledger *maker = ledger_in(id), *holder = ledger_in(0), *other = ledger_in(id);
    unsigned group = ledger_group(maker), slot = registration_index(ledger_registration(maker));
    struct shares_ref ref;

    ledger_set(maker, 0, VGPU_KIND_DATA, GIB);
    assert_int_equal(shares_new(region->layout, slot, 0, VGPU_KIND_DATA, GIB, &ref), 0);
    assert_true(shares_join(region->layout, ref, registration_index(ledger_registration(holder))));
    ledger_free(maker);
    assert_sums_agree();
    assert_int_equal(ledger_reserve(other, 0, 1), -ENOMEM);
    assert_true(shares_of_group(region->layout, group));
    ledger_free(holder);
    assert_false(shares_of_group(region->layout, group));
    assert_int_equal(ledger_reserve(other, 0, GIB), 0);
    assert_sums_agree();
    ledger_free(other);
}

TEST(in_no_group, setup, teardown)
{
    struct vgpu_ledger *ledger = ledger_in(12345);
    struct vgpu_limits limits;

    assert_int_equal(ledger_group(ledger), 0);
    assert_int_equal(ledger_quota(ledger, 0), 3 * GIB);
    assert_int_equal(ledger_reserve(ledger, 0, 3 * GIB + 1), -ENOMEM);
    assert_false(region_group_limits(region, 12345, &limits));
    assert_false(region_group_limits(region, 0, &limits));
    ledger_free(ledger);
}

/* In a child, which makes a group as `vgpu run` does, tells its id, and waits to be killed. */
static void make_and_wait(int to_parent)
{
    struct vgpu_limits limits = {.compute.priority = VGPU_PRIORITY_MAX};
    uint64_t id = 0;

    limits.vdev[0].quota_bytes = GIB;
    if (region_group_new(region, &limits, &id) != 0)
        id = 0;
    (void)!write(to_parent, &id, sizeof(id));
    pause();
}

/* An entry is given away once its maker is dead and nobody is in it, and no sooner. */
TEST(entries_are_used_again, setup, teardown)
{
    struct vgpu_limits limits = {.compute.priority = VGPU_PRIORITY_MAX};
    struct vgpu_ledger *in, *late;
    uint64_t first, id, mine[VGPU_GROUPS];
    unsigned group;
    int pipe_fd;
    pid_t pid;

    pid = fork_with_pipe(&pipe_fd);
    if (pid == 0) {
        make_and_wait(pipe_fd);
        _exit(0);
    }
    assert_int_equal(read(pipe_fd, &first, sizeof(first)), sizeof(first));
    assert_true(first != 0);
    in = ledger_in(first);
    group = ledger_group(in);
    assert_int_not_equal(group, 0);
    for (unsigned i = 1; i < VGPU_GROUPS - 1; i++)
        mine[i] = group_of(GIB, 0);
    assert_int_equal(region_group_new(region, &limits, &id), -EUSERS); /* its maker lives */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(region_group_new(region, &limits, &id), -EUSERS); /* a process is in it */
    assert_int_equal(ledger_reserve(in, 0, GIB + 1), -ENOMEM);
    late = ledger_in(first); /* comes after its maker's end */
    assert_int_equal(ledger_group(late), group);
    ledger_free(in);
    assert_int_equal(region_group_new(region, &limits, &id), -EUSERS);
    ledger_free(late);
    assert_int_equal(region_group_new(region, &limits, &id), 0);
    assert_true(id != first);
    late = ledger_in(first);
    assert_int_equal(ledger_group(late), 0);
    ledger_free(late);
    late = ledger_in(mine[1]);
    assert_int_not_equal(ledger_group(late), 0);
    ledger_free(late);
    close(pipe_fd);
}

/* A child of fork is in its parent's group; one that is killed leaves sums that the next one puts
 * right. */
TEST(killed_in_a_group, setup, teardown)
{
    struct vgpu_ledger *ledger = ledger_in(group_of(GIB, 0));
    int ready;
    char byte;
    pid_t pid;

    assert_int_equal(ledger_reserve(ledger, 0, GIB / 4), 0);
    for (int with_lock = 0; with_lock < 2; with_lock++) {
        pid = fork_with_pipe(&ready);
        if (pid == 0) {
            struct region_hold hold;
            int rc = ledger_reserve(ledger, 0, GIB / 2);

            if (rc == 0 && with_lock) {
                rc = region_lock(region, registration_lock_id(ledger_registration(ledger)),
                                 REGION_LOCK_BOUND_NS, &hold);
                /* Half-way through a change of the sums. */
                store_relaxed(region_total(region->layout, ledger_group(ledger), 0), 7 * GIB);
                store_relaxed(region_total(region->layout, 0, 0), 5 * GIB);
            }
            byte = (char)(rc == 0 && ledger_group(ledger) != 0);
            (void)!write(ready, &byte, 1);
            pause();
            _exit(0);
        }
        assert_int_equal(read(ready, &byte, 1), 1);
        assert_int_equal(byte, 1);
        if (!with_lock)
            assert_int_equal(ledger_reserve(ledger, 0, GIB / 2), -ENOMEM);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        assert_int_equal(ledger_reserve(ledger, 0, GIB), -ENOMEM);
        assert_int_equal(ledger_reserve(ledger, 0, GIB / 2), 0);
        assert_sums_agree();
        ledger_cancel(ledger, 0, GIB / 2);
        close(ready);
    }
    ledger_free(ledger);
    assert_sums_agree();
}

/* What everybody does at random stays within all quotas at every step. */
TEST(at_random, setup, teardown)
{
    enum { PROCS = 6, STEPS = 20000 };
    const uint64_t ids[PROCS] = {
        0, 0, group_of(2 * GIB, 0), group_of(0, 30), group_of(GIB, 0), group_of(2 * GIB, 0)};
    struct vgpu_ledger *ledger[PROCS];
    uint64_t held[PROCS] = {0}, refused = 0;
    uint32_t random = 12345;

    for (unsigned i = 0; i < PROCS; i++)
        ledger[i] = ledger_in(ids[i]);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (random = random * 1664525 + 1013904223) >> 8 & 255;
        uint64_t bytes = ((random = random * 1664525 + 1013904223) >> 8) % (GIB / 3) + 1;
        uint64_t sum = 0, quota;

        i %= PROCS;
        if (held[i] > bytes && step % 3 == 0) {
            ledger_release(ledger[i], 0, VGPU_KIND_DATA, bytes);
            held[i] -= bytes;
        } else if (step % 1000 == 999) {
            ledger_free(ledger[i]);
            held[i] = 0;
            ledger[i] = ledger_in(ids[i]);
        } else if (ledger_reserve(ledger[i], 0, bytes) == 0) {
            ledger_commit(ledger[i], 0, VGPU_KIND_DATA, bytes, bytes);
            held[i] += bytes;
        } else {
            refused++;
            quota = ledger_quota(ledger[i], 0);
            for (unsigned k = 0; k < PROCS; k++)
                sum += held[k];
            /* It was one of the two that did not fit. */
            assert_true(held[i] + bytes > quota || sum + bytes > 3 * GIB);
        }
        for (unsigned k = 0; k < PROCS; k++)
            assert_true(held[k] <= ledger_quota(ledger[k], 0));
    }
    assert_true(refused > STEPS / 100);
    assert_sums_agree();
    for (unsigned i = 0; i < PROCS; i++)
        ledger_free(ledger[i]);
    assert_sums_agree();
}

/* Turns are the instance's: at the highest that is attached. */
TEST(weights_and_priorities, setup, teardown)
{
    struct vgpu_limits limits;
    struct vgpu_ledger *low, *middle, *outer;
    uint64_t low_id, middle_id;

    region_limits(region, &limits);
    limits.compute.weight = 200;
    limits.compute.priority = 9;
    assert_int_equal(region_set_limits(region, &limits), 0);
    limits.compute.weight = 50;
    limits.compute.priority = 3;
    low_id = group_of_limits(&limits);
    limits.compute.weight = 0; /* the instance's */
    limits.compute.priority = 5;
    middle_id = group_of_limits(&limits);
    assert_int_equal(usage_settings(region).weight, 200);
    low = ledger_in(low_id);
    assert_int_equal(usage_settings(region).weight, 50);
    assert_int_equal(usage_settings(region).priority, 3);
    middle = ledger_in(middle_id);
    assert_int_equal(usage_settings(region).weight, 200);
    assert_int_equal(usage_settings(region).priority, 5);
    outer = ledger_in(0);
    assert_int_equal(usage_settings(region).priority, 9);
    ledger_free(outer);
    ledger_free(middle);
    assert_int_equal(usage_settings(region).priority, 3);
    ledger_free(low);
    assert_int_equal(usage_settings(region).priority, 9);
}
