/* --stats: the usage of an instance between two snapshots of its region. Other runs in the same
 * instance have added to it. */
#include "cli/run.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "cli/compute.h"
#include "cli/grid.h"
#include "cli/message.h"
#include "cli/path.h"
#include "cli/ps.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    COLUMN_DEVICE,
    COLUMN_GPU,
    COLUMN_GPU_TIME,
    COLUMN_SHARE,
    COLUMN_CAP,
    COLUMN_TURNS,
    COLUMN_TURN_WAIT,
    COLUMN_THROTTLED,
    COLUMN_CAP_WAIT,
    COLUMN_COPY_WAIT,
    COLUMN_PEAK,
    COLUMNS
};

static uint64_t begun_ns;
static struct vgpu_compute_usage before[VGPU_DEVICES_MAX];

static bool look(const char *instance_dir, struct vgpu_snapshot *ret_snapshot)
{
    struct vgpu_region *region = NULL;
    char path[PATH_MAX], text[128];
    int error = path_join(path, sizeof(path), instance_dir, INSTANCE_REGION)
                    ? region_open(path, 0, &region)
                    : -ENAMETOOLONG;

    if (!error)
        error = region_snapshot(region, ret_snapshot);
    if (region)
        region_close(region);
    if (error)
        message_warning("run: --stats: %s cannot be read: %s", path,
                        err_text(error, text, sizeof(text)));
    return error == 0;
}

void run_stats_prepare(const char *instance_dir)
{
    struct vgpu_snapshot snapshot;

    if (look(instance_dir, &snapshot)) {
        for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++)
            before[vdev] = snapshot.vdev[vdev].compute;
        snapshot_done(&snapshot);
    }
    begun_ns = clock_ns();
}

static void subtract(struct vgpu_compute_usage *usage, const struct vgpu_compute_usage *earlier)
{
    for (unsigned work = 0; work < VGPU_WORKS; work++) {
        usage->calls[work] -= earlier->calls[work];
        usage->amount[work] -= earlier->amount[work];
    }
    usage->throttles -= earlier->throttles;
    usage->throttled_ns -= earlier->throttled_ns;
    usage->turns -= earlier->turns;
    usage->turn_wait_ns -= earlier->turn_wait_ns;
    usage->copy_wait_ns -= earlier->copy_wait_ns;
}

static void put_device(struct grid *grid, const struct vgpu_snapshot *snapshot, unsigned vdev,
                       uint64_t run_ns)
{
    const struct vgpu_compute_usage *usage = &snapshot->vdev[vdev].compute;
    const char *uuid = snapshot->vdev[vdev].uuid;
    char share[SHARE_TEXT_BYTES], cap[CAP_TEXT_BYTES], peak[SIZE_TEXT_BYTES];
    uint64_t gpu_ns = compute_gpu_ns(usage);

    grid_row(grid);
    grid_cell(grid, COLUMN_DEVICE, "%u", vdev);
    grid_cell(grid, COLUMN_GPU, "%.*s", PS_UUID_SHOWN, *uuid ? uuid : "-");
    grid_duration(grid, COLUMN_GPU_TIME, gpu_ns);
    grid_cell(grid, COLUMN_SHARE, "%s", format_share(gpu_ns, run_ns, share, sizeof(share)));
    grid_cell(grid, COLUMN_CAP, "%s", format_cap(&snapshot->limits, vdev, cap, sizeof(cap)));
    grid_cell(grid, COLUMN_TURNS, "%" PRIu64, usage->turns);
    grid_duration(grid, COLUMN_TURN_WAIT, usage->turn_wait_ns);
    grid_cell(grid, COLUMN_THROTTLED, "%" PRIu64, usage->throttles);
    grid_duration(grid, COLUMN_CAP_WAIT, usage->throttled_ns);
    grid_duration(grid, COLUMN_COPY_WAIT, usage->copy_wait_ns);
    grid_cell(grid, COLUMN_PEAK, "%s",
              format_bytes(snapshot->vdev[vdev].peak_bytes, peak, sizeof(peak)));
}

static void print_devices(const struct vgpu_snapshot *snapshot, uint64_t run_ns)
{
    static const char *const heads[COLUMNS] = {"DEVICE",   "GPU",       "GPU TIME",  "SHARE",
                                               "CAP",      "TURNS",     "TURN WAIT", "THROTTLED",
                                               "CAP WAIT", "COPY WAIT", "PEAK MEM"};
    struct grid *grid = grid_new(COLUMNS);

    if (!grid)
        return;
    grid_heads(grid, heads, COLUMNS);
    for (unsigned i = COLUMN_GPU_TIME; i < COLUMNS; i++)
        grid_align_right(grid, i);
    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++)
        if (ps_vdev_shown(snapshot, vdev))
            put_device(grid, snapshot, vdev, run_ns);
    grid_print(grid, stderr);
    grid_free(grid);
}

static void put_work(struct grid *grid, const struct vgpu_compute_usage *usage, enum vgpu_work work)
{
    char text[SIZE_TEXT_BYTES];

    grid_cell(grid, 1, "%s", vgpu_work_name(work));
    grid_cell(grid, 2, "%" PRIu64, usage->calls[work]);
    if (vgpu_work_is_time(work))
        grid_duration(grid, 3, usage->amount[work]);
    else
        grid_cell(grid, 3, "%s", format_bytes(usage->amount[work], text, sizeof(text)));
}

/* Kinds of work without any have no row. */
static void print_works(const struct vgpu_snapshot *snapshot)
{
    static const char *const heads[] = {"DEVICE", "WORK", "CALLS", "AMOUNT"};
    struct grid *grid = grid_new(4);

    if (!grid)
        return;
    grid_heads(grid, heads, 4);
    grid_align_right(grid, 2);
    grid_align_right(grid, 3);
    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++) {
        const struct vgpu_compute_usage *usage = &snapshot->vdev[vdev].compute;

        for (unsigned work = 0; work < VGPU_WORKS; work++)
            if (usage->calls[work] || usage->amount[work]) {
                grid_row(grid);
                grid_cell(grid, 0, "%u", vdev);
                put_work(grid, usage, work);
            }
    }
    grid_print(grid, stderr);
    grid_free(grid);
}

static void print_guard(const struct guard_report *report)
{
    message_note("guard: calls checked %" PRIu64 ", memory refused %" PRIu64 ", audits %" PRIu64
                 ", of which differed %" PRIu64 ", switches of channels %" PRIu64,
                 report->traps, report->refusals, report->audits, report->audit_differences,
                 report->channel_switches);
}

void run_stats_summary(const struct instance *instance, const struct run_guard *guard)
{
    uint64_t run_ns = clock_ns() - begun_ns;
    struct vgpu_snapshot snapshot;
    char text[DURATION_TEXT_BYTES];
    bool seen = false, used = false;

    if (guard->mode != GUARD_OFF)
        print_guard(&guard->report);
    if (!look(instance->dir, &snapshot))
        return;
    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++) {
        subtract(&snapshot.vdev[vdev].compute, &before[vdev]);
        seen = seen || ps_vdev_shown(&snapshot, vdev);
        used = used || compute_used(&snapshot.vdev[vdev].compute);
    }
    message_note("stats: instance %s, all its processes, %s%s", instance->name,
                 format_duration(run_ns, text, sizeof(text)), seen ? "" : "; no GPU was used");
    if (seen)
        print_devices(&snapshot, run_ns ? run_ns : 1);
    if (used)
        print_works(&snapshot);
    fflush(stderr);
    snapshot_done(&snapshot);
}
