/* Ledgers that a guard keeps for other processes, and what those processes write themselves. */
#include "unit.h"

#include "account/ledger_internal.h"

#include <stdlib.h>

#define SOMEBODY 4242

static struct vgpu_region *region;
static struct vgpu_ledger *own, *supervised;

static int setup(void **state)
{
    struct vgpu_limits limits;

    (void)state;
    region = new_region("supervised", GIB);
    region_limits(region, &limits);
    limits.tier = VGPU_TIER_GUARD;
    if (region_set_limits(region, &limits) < 0 || ledger_new(region, 0, &own) < 0)
        return -1;
    return ledger_new_supervised(region, SOMEBODY, "trainer", &supervised);
}

static int teardown(void **state)
{
    (void)state;
    ledger_free(supervised);
    ledger_free(own);
    region_close(region);
    return 0;
}

TEST(the_guard_is_held_to_the_quota, setup, teardown)
{
    assert_int_equal(ledger_reserve(supervised, 0, GIB + 1), -ENOMEM);
    assert_int_equal(ledger_reserve(supervised, 0, GIB), 0);
    assert_int_equal(ledger_commit(supervised, 0, VGPU_KIND_DRIVER, GIB, GIB), 0);
    assert_int_equal(ledger_reserve(supervised, 0, 1), -ENOMEM);
    assert_int_equal(snapshot_used(region), GIB);
    ledger_release(supervised, 0, VGPU_KIND_DRIVER, GIB);
    assert_int_equal(snapshot_used(region), 0);
}

TEST(what_a_process_says_counts_for_nothing, setup, teardown)
{
    uint64_t total, available;

    assert_int_equal(ledger_reserve(own, 0, 4 * GIB), 0);
    assert_int_equal(ledger_commit(own, 0, VGPU_KIND_DATA, 4 * GIB, 4 * GIB), 0);
    assert_int_equal(ledger_held(own, 0, VGPU_KIND_DATA), 4 * GIB);
    assert_int_equal(snapshot_used(region), 0);
    assert_int_equal(ledger_reserve(supervised, 0, GIB / 4), 0);
    ledger_view(own, 0, 8 * GIB, 8 * GIB, &total, &available);
    assert_int_equal(total, GIB);
    assert_int_equal(available, GIB - GIB / 4);
    ledger_release(own, 0, VGPU_KIND_DATA, 4 * GIB);
    ledger_set(own, 0, VGPU_KIND_CONTEXT, 2 * GIB);
    ledger_set(own, 0, VGPU_KIND_CONTEXT, 0);
    assert_int_equal(snapshot_used(region), GIB / 4);
    ledger_cancel(supervised, 0, GIB / 4);
    assert_int_equal(snapshot_used(region), 0);
    assert_int_equal(ledger_reserve(supervised, 0, GIB), 0);
    ledger_cancel(supervised, 0, GIB);
}

TEST(host_memory_is_the_processes_own_matter, setup, teardown)
{
    struct vgpu_limits limits;

    region_limits(region, &limits);
    limits.vdev[VGPU_VDEV_HOST].quota_bytes = MIB;
    assert_int_equal(region_set_limits(region, &limits), 0);
    assert_int_equal(ledger_reserve(own, VGPU_VDEV_HOST, MIB + 1), -ENOMEM);
    assert_int_equal(ledger_reserve(own, VGPU_VDEV_HOST, MIB), 0);
    assert_int_equal(ledger_reserve(own, VGPU_VDEV_HOST, 1), -ENOMEM);
    ledger_cancel(own, VGPU_VDEV_HOST, MIB);
}

TEST(shows_the_process_it_is_for, setup, teardown)
{
    struct vgpu_proc_memory procs[4];
    struct vgpu_snapshot snapshot;
    bool found = false;

    ledger_set(own, 0, VGPU_KIND_DATA, 3);
    ledger_set(supervised, 0, VGPU_KIND_DRIVER, 7);
    assert_int_equal(region_snapshot(region, &snapshot), 0);
    assert_int_equal(snapshot.limits.tier, VGPU_TIER_GUARD);
    assert_int_equal(snapshot.proc_count, 2);
    for (unsigned i = 0; i < snapshot.proc_count; i++) {
        const struct vgpu_proc_usage *proc = &snapshot.procs[i];

        if (!proc->guarded) {
            assert_int_equal(proc->held_bytes[0][VGPU_KIND_DATA], 3);
            continue;
        }
        found = true;
        assert_int_equal(proc->pid, SOMEBODY);
        assert_string_equal(proc->command, "trainer");
        assert_int_equal(proc->held_bytes[0][VGPU_KIND_DRIVER], 7);
    }
    snapshot_done(&snapshot);
    assert_true(found);
    /* Who asks for the instance's processes is told the guard's figures, once each. */
    assert_int_equal(ledger_processes(own, 0, procs, 4), 1);
    assert_int_equal(procs[0].pid, SOMEBODY);
    assert_int_equal(procs[0].bytes, 7);
}

TEST(the_tier_belongs_to_the_limits, setup, teardown)
{
    struct vgpu_limits limits;

    region_limits(region, &limits);
    assert_int_equal(limits.tier, VGPU_TIER_GUARD);
    assert_string_equal(vgpu_tier_name(VGPU_TIER_GUARD), "guard");
    assert_string_equal(vgpu_tier_name(VGPU_TIER_PRELOAD), "preload");
    assert_string_equal(vgpu_tier_name(VGPU_TIERS), "?");
    limits.tier = 77;
    assert_int_equal(region_set_limits(region, &limits), 0);
    region_limits(region, &limits);
    assert_in_range(limits.tier, 0, VGPU_TIERS - 1);
}
