/* Reading a region by a copy. Nothing that its users do to the file ends or delays the reader. */
#include "region/internal.h"

#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

static int charges(void *arg)
{
    struct vgpu_region *region;
    struct vgpu_ledger *ledger;
    atomic_int *step = arg;

    CHECK(region_open(scratch_path("charged"), 0, &region) == 0);
    CHECK(ledger_new(region, 0, &ledger) == 0);
    CHECK(ledger_reserve(ledger, 0, 5 * MIB) == 0);
    atomic_store(step, 1);
    while (atomic_load(step) == 1)
        nap_ms(1);
    return 0;
}

TEST(a_copy_has_what_was_there)
{
    struct vgpu_region *region = new_region("charged", GIB), *peek;
    atomic_int *step = shared_memory(sizeof(*step));
    struct vgpu_snapshot snapshot;
    pid_t pid = spawn(charges, step);

    while (atomic_load(step) == 0)
        nap_ms(1);
    assert_int_equal(region_peek(scratch_path("charged"), 0, &peek), 0);
    assert_true(region_in_use(peek));
    assert_int_equal(region_snapshot(peek, &snapshot), 0);
    assert_int_equal(snapshot.proc_count, 1);
    assert_int_equal(snapshot.procs[0].pid, pid);
    assert_int_equal(snapshot.vdev[0].used_bytes, 5 * MIB);
    assert_int_equal(snapshot.limits.vdev[0].quota_bytes, GIB);
    snapshot_done(&snapshot);

    /* The dead are gone from the copy, and stay in the region for its users to find. */
    atomic_store(step, 2);
    assert_int_equal(finish(pid), 0);
    assert_false(region_in_use(peek));
    assert_int_equal(region_snapshot(peek, &snapshot), 0);
    assert_int_equal(snapshot.proc_count, 0);
    assert_int_equal(snapshot.vdev[0].used_bytes, 0);
    snapshot_done(&snapshot);
    assert_true(slot_live(&region->layout->slot[0]));
    region_close(peek);
    region_close(region);
}

static int holds_lock(void *arg)
{
    struct vgpu_region *region;
    struct region_hold hold;
    atomic_int *step = arg;

    CHECK(region_open(scratch_path("locked"), 0, &region) == 0);
    CHECK(region_lock(region, 0, PATIENCE_NS, &hold) == 0);
    atomic_store(step, 1);
    while (atomic_load(step) == 1)
        nap_ms(1);
    return 0;
}

TEST(a_held_lock_is_not_waited_for)
{
    struct vgpu_region *region = new_region("locked", GIB), *peek;
    atomic_int *step = shared_memory(sizeof(*step));
    struct vgpu_snapshot snapshot;
    pid_t pid = spawn(holds_lock, step);

    while (atomic_load(step) == 0)
        nap_ms(1);
    assert_int_equal(region_peek(scratch_path("locked"), 0, &peek), 0);
    assert_int_equal(region_snapshot(peek, &snapshot), 0); /* -ETIMEDOUT where it waits */
    snapshot_done(&snapshot);
    region_close(peek);
    region_close(region);
    atomic_store(step, 2);
    assert_int_equal(finish(pid), 0);
}

TEST(a_file_cut_short_is_an_error)
{
    struct vgpu_region *region = new_region("cut", GIB), *peek;
    struct vgpu_snapshot snapshot;

    assert_int_equal(region_peek(scratch_path("cut"), 0, &peek), 0);
    assert_int_equal(truncate(scratch_path("cut"), 4096), 0);
    assert_int_equal(region_snapshot(peek, &snapshot), 0);
    snapshot_done(&snapshot);
    region_close(peek);
    assert_int_equal(region_peek(scratch_path("cut"), 0, &peek), -EPROTO);
    assert_int_equal(truncate(scratch_path("cut"), 0), 0);
    assert_int_equal(region_peek(scratch_path("cut"), 0, &peek), -EPROTO);
    assert_int_equal(region_peek(scratch_path("none"), 0, &peek), -ENOENT);
    region_close(region);
}

TEST(counts_that_are_nonsense_are_bounded)
{
    struct vgpu_region *region = new_region("nonsense", GIB), *peek;
    struct vgpu_snapshot snapshot;

    atomic_store(&region->layout->slots_high, UINT32_MAX);
    atomic_store(&region->layout->shares_high, UINT32_MAX);
    assert_int_equal(region_peek(scratch_path("nonsense"), 0, &peek), 0);
    assert_int_equal(region_snapshot(peek, &snapshot), 0);
    assert_int_equal(snapshot.proc_count, 0);
    snapshot_done(&snapshot);
    region_close(peek);
    region_close(region);
}
