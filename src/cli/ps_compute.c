#include "base/clock.h"
#include "base/parse.h"
#include "cli/compute.h"
#include "cli/grid.h"
#include "cli/ps.h"
#include "cli/terminal.h"

#include <stdio.h>

enum {
    COLUMN_INSTANCE,
    COLUMN_DEVICE,
    COLUMN_GPU,
    COLUMN_NOW,
    COLUMN_CAP,
    COLUMN_WEIGHT,
    COLUMN_ENTITLED,
    COLUMN_GPU_TIME,
    COLUMN_TURN_WAIT,
    COLUMN_CAP_WAIT,
    COLUMNS
};

/* Whether a setting is not the default. */
static bool has_setting(const struct vgpu_limits *limits)
{
    const struct vgpu_compute *compute = &limits->compute;

    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++)
        if (limits->vdev[vdev].cap_percent)
            return true;
    return false
#define COMPUTE_LIMIT(field, type, most, initial, none, lower, json) || compute->field != (initial)
#include "limits.def"
        ;
}

static bool has_used_any(const struct vgpu_snapshot *snapshot)
{
    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++)
        if (compute_used(&snapshot->vdev[vdev].compute))
            return true;
    return false;
}

/* The columns that a narrow terminal does without. */
static void rank(struct grid *grid)
{
    for (unsigned column = COLUMN_NOW; column < COLUMNS; column++)
        grid_align_right(grid, column);
    grid_rank(grid, COLUMN_GPU, 4, 0);
    grid_rank(grid, COLUMN_CAP_WAIT, 3, 0);
    grid_rank(grid, COLUMN_TURN_WAIT, 2, 0);
    grid_rank(grid, COLUMN_WEIGHT, 1, 0);
    grid_rank(grid, COLUMN_INSTANCE, 0, 8);
}

static void put_heads(struct grid *grid)
{
    static const char *const heads[COLUMNS] = {"INSTANCE",  "DEVICE",  "GPU",      "NOW",
                                               "CAP",       "WEIGHT",  "ENTITLED", "GPU TIME",
                                               "TURN WAIT", "CAP WAIT"};

    grid_heads(grid, heads, COLUMNS);
}

static void put_settings(struct grid *grid, const struct vgpu_limits *limits, unsigned vdev)
{
    char text[CAP_TEXT_BYTES];

    grid_cell(grid, COLUMN_CAP, "%s", format_cap(limits, vdev, text, sizeof(text)));
    grid_cell(grid, COLUMN_WEIGHT, "%u", limits->compute.weight);
}

static void put_vdev(struct grid *grid, struct ps_list *list, const struct ps_instance *instance,
                     unsigned vdev, bool *any_hidden)
{
    const struct vgpu_compute_usage *usage = &instance->snapshot.vdev[vdev].compute;
    const char *uuid = instance->snapshot.vdev[vdev].uuid;
    char text[SHARE_TEXT_BYTES];
    bool complete;
    double entitlement = ps_entitlement(list, instance, vdev, &complete);

    put_settings(grid, &instance->snapshot.limits, vdev);
    grid_cell(grid, COLUMN_DEVICE, "%u", vdev);
    grid_cell(grid, COLUMN_GPU, "%.*s", PS_UUID_SHOWN, *uuid ? uuid : "-");
    grid_cell(grid, COLUMN_NOW, "%s",
              format_share(usage->last_second_ns, NS_PER_S, text, sizeof(text)));
    grid_cell(grid, COLUMN_ENTITLED, "%.1f%%%s", 100 * entitlement, complete ? "" : "*");
    *any_hidden = *any_hidden || !complete;
    grid_duration(grid, COLUMN_GPU_TIME, compute_gpu_ns(usage));
    grid_duration(grid, COLUMN_TURN_WAIT, usage->turn_wait_ns);
    grid_duration(grid, COLUMN_CAP_WAIT, usage->throttled_ns);
}

static void put_instance(struct grid *grid, struct ps_list *list,
                         const struct ps_instance *instance, bool *any_hidden)
{
    bool any = false;

    grid_row(grid);
    grid_cell(grid, COLUMN_INSTANCE, "%s", instance->name);
    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++) {
        if (!ps_vdev_shown(&instance->snapshot, vdev))
            continue;
        if (any)
            grid_row(grid);
        any = true;
        put_vdev(grid, list, instance, vdev, any_hidden);
    }
    if (!any) { /* no process has seen a device yet */
        put_settings(grid, &instance->snapshot.limits, 0);
        grid_cell(grid, COLUMN_DEVICE, "-");
        grid_cell(grid, COLUMN_GPU, "-");
    }
}

bool ps_print_compute(struct ps_list *list)
{
    bool wanted = false, any_hidden = false, printed;
    struct grid *grid;

    for (unsigned i = 0; i < list->count; i++) {
        const struct vgpu_snapshot *snapshot = &list->instances[i]->snapshot;

        wanted = wanted || has_setting(&snapshot->limits) || has_used_any(snapshot);
    }
    if (!wanted)
        return true;
    grid = grid_new(COLUMNS);
    if (!grid)
        return false;
    rank(grid);
    if (list->heads)
        put_heads(grid);
    for (unsigned i = 0; i < list->count; i++)
        put_instance(grid, list, list->instances[i], &any_hidden);
    putchar('\n');
    grid_fit(grid, (unsigned)terminal_columns(stdout));
    printed = grid_print(grid, stdout);
    if (any_hidden && list->heads)
        printf("* other users not counted: their instances use the device outside of what you may "
               "see\n");
    grid_free(grid);
    return printed;
}
