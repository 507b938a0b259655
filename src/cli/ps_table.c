#include "cli/ps.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "cli/grid.h"
#include "cli/terminal.h"
#include "cli/turns.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    COLUMN_INSTANCE,
    COLUMN_USER,
    COLUMN_TIER,
    COLUMN_PROCESS,
    COLUMN_DEVICE,
    COLUMN_GPU,
    COLUMN_USED,
    COLUMN_PEAK,
    COLUMN_QUOTA,
    COLUMN_KINDS
};

struct columns {
    bool kind_shown[VGPU_KINDS];
    unsigned kind[VGPU_KINDS]; /* the column of each shown kind */
    unsigned refused;          /* the last column */
};

/* Whether a kind has a column: it counts, and processes hold some of it. */
static bool is_shown(const struct vgpu_snapshot *snapshot, unsigned vdev, enum vgpu_kind kind)
{
    return ps_kind_counts(snapshot, vdev, kind) && ps_vdev_held(snapshot, vdev, kind);
}

/* Finds the kinds to show. */
static struct columns choose_columns(const struct ps_list *list)
{
    struct columns columns = {.refused = COLUMN_KINDS};

    for (unsigned kind = 0; kind < VGPU_KINDS; kind++) {
        for (unsigned i = 0; i < list->count && !columns.kind_shown[kind]; i++)
            for (unsigned vdev = 0; vdev < VGPU_VDEVS && !columns.kind_shown[kind]; vdev++)
                columns.kind_shown[kind] = is_shown(&list->instances[i]->snapshot, vdev, kind);
        if (columns.kind_shown[kind])
            columns.kind[kind] = columns.refused++;
    }
    return columns;
}

static void put_bytes(struct grid *grid, unsigned column, uint64_t bytes)
{
    char text[SIZE_TEXT_BYTES];

    grid_cell(grid, column, "%s", format_bytes(bytes, text, sizeof(text)));
}

/* The columns that a narrow terminal does without: kinds first, then the less important ones. */
static void rank(struct grid *grid, const struct columns *columns)
{
    for (unsigned column = COLUMN_KINDS; column < columns->refused; column++)
        grid_rank(grid, column, 10 + column, 0);
    grid_rank(grid, COLUMN_GPU, 5, 0);
    grid_rank(grid, COLUMN_TIER, 4, 0);
    grid_rank(grid, columns->refused, 3, 0);
    grid_rank(grid, COLUMN_PEAK, 2, 0);
    grid_rank(grid, COLUMN_USER, 1, 0);
    grid_rank(grid, COLUMN_PROCESS, 0, 10);
    grid_rank(grid, COLUMN_INSTANCE, 0, 8);
}

static void put_heads(struct grid *grid, const struct columns *columns)
{
    static const char *const heads[] = {"INSTANCE", "USER", "TIER", "PROCESS", "DEVICE",
                                        "GPU",      "USED", "PEAK", "QUOTA"};

    grid_heads(grid, heads, COLUMN_KINDS);
    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        if (columns->kind_shown[kind]) {
            char name[32];
            size_t i;

            snprintf(name, sizeof(name), "%s", vgpu_kind_name(kind));
            for (i = 0; name[i]; i++)
                name[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
            grid_cell(grid, columns->kind[kind], "%s", name);
        }
    grid_cell(grid, columns->refused, "REFUSED");
}

static void put_device(struct grid *grid, unsigned vdev)
{
    if (vdev == VGPU_VDEV_HOST)
        grid_cell(grid, COLUMN_DEVICE, "host");
    else
        grid_cell(grid, COLUMN_DEVICE, "%u", vdev);
}

static void put_quota(struct grid *grid, const struct vgpu_snapshot *snapshot, unsigned vdev)
{
    const struct vgpu_limit *limit = &snapshot->limits.vdev[vdev];

    if (snapshot->vdev[vdev].quota_bytes)
        put_bytes(grid, COLUMN_QUOTA, snapshot->vdev[vdev].quota_bytes);
    else if (limit->quota_percent)
        grid_cell(grid, COLUMN_QUOTA, "%u%%", limit->quota_percent);
    else if (limit->quota_bytes)
        put_bytes(grid, COLUMN_QUOTA, limit->quota_bytes);
    else
        grid_cell(grid, COLUMN_QUOTA, "none");
}

static void put_vdev(struct grid *grid, const struct columns *columns,
                     const struct vgpu_snapshot *snapshot, unsigned vdev)
{
    const struct vgpu_vdev_usage *usage = &snapshot->vdev[vdev];
    const char *uuid = usage->uuid[0] ? usage->uuid : snapshot->limits.vdev[vdev].uuid;

    put_device(grid, vdev);
    grid_cell(grid, COLUMN_GPU, "%.*s", PS_UUID_SHOWN, *uuid ? uuid : "-");
    put_bytes(grid, COLUMN_USED, usage->used_bytes);
    put_bytes(grid, COLUMN_PEAK,
              usage->peak_bytes > usage->used_bytes ? usage->peak_bytes : usage->used_bytes);
    put_quota(grid, snapshot, vdev);
    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        if (columns->kind_shown[kind] && ps_kind_counts(snapshot, vdev, kind))
            put_bytes(grid, columns->kind[kind], ps_vdev_held(snapshot, vdev, kind));
    grid_cell(grid, columns->refused, "%" PRIu64, usage->refusals);
    grid_style(grid, columns->refused, usage->refusals ? TERMINAL_YELLOW : TERMINAL_PLAIN);
}

static void put_process_name(struct grid *grid, const struct vgpu_proc_usage *proc)
{
    if (proc->pid)
        grid_cell(grid, COLUMN_PROCESS, "%d %.31s", proc->pid, proc->command);
    else
        grid_cell(grid, COLUMN_PROCESS, "(%d) %.31s", proc->own_pid, proc->command);
}

/* One row for each vdev on which the process holds memory, but at least one. */
static void put_process(struct grid *grid, const struct columns *columns,
                        const struct vgpu_snapshot *snapshot, const struct vgpu_proc_usage *proc)
{
    bool any = false;

    for (unsigned vdev = 0; vdev < VGPU_VDEVS; vdev++) {
        uint64_t bytes = ps_proc_held(snapshot, proc, vdev);

        if (!bytes)
            continue;
        grid_row(grid);
        if (!any)
            put_process_name(grid, proc);
        any = true;
        put_device(grid, vdev);
        put_bytes(grid, COLUMN_USED, bytes);
        for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
            if (columns->kind_shown[kind] && ps_kind_counts(snapshot, vdev, kind) &&
                proc->held_bytes[vdev][kind])
                put_bytes(grid, columns->kind[kind], proc->held_bytes[vdev][kind]);
    }
    if (any)
        return;
    grid_row(grid);
    put_process_name(grid, proc);
    put_bytes(grid, COLUMN_USED, 0);
}

static void put_instance(struct grid *grid, const struct columns *columns,
                         const struct ps_instance *instance)
{
    const struct vgpu_snapshot *snapshot = &instance->snapshot;
    char user[TURNS_USER_BYTES];
    bool any = false;

    grid_row(grid);
    grid_cell(grid, COLUMN_INSTANCE, "%s", instance->name);
    grid_cell(grid, COLUMN_USER, "%s", turns_user(instance->owner, user, sizeof(user)));
    grid_cell(grid, COLUMN_TIER, "%s",
              instance->implicit ? "hami" : vgpu_tier_name(snapshot->limits.tier));
    grid_cell(grid, COLUMN_PROCESS, "%u running%s", instance->running,
              instance->paused ? ", paused" : "");
    grid_style(grid, COLUMN_PROCESS, instance->paused ? TERMINAL_YELLOW : TERMINAL_PLAIN);
    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++) {
        if (!ps_vdev_shown(snapshot, vdev))
            continue;
        if (any)
            grid_row(grid);
        any = true;
        put_vdev(grid, columns, snapshot, vdev);
    }
    if (!any) { /* no process has seen a device yet */
        put_quota(grid, snapshot, 0);
        put_bytes(grid, COLUMN_USED, 0);
        grid_cell(grid, COLUMN_DEVICE, "-");
        grid_cell(grid, COLUMN_GPU, "-");
        grid_cell(grid, columns->refused, "0");
    }
    if (ps_vdev_shown(snapshot, VGPU_VDEV_HOST)) {
        grid_row(grid);
        put_vdev(grid, columns, snapshot, VGPU_VDEV_HOST);
    }
    for (uint32_t i = 0; i < snapshot->proc_count; i++)
        put_process(grid, columns, snapshot, &snapshot->procs[i]);
}

static void format_age(uint64_t time_ns, char *buffer, size_t size)
{
    uint64_t now_ns = clock_real_ns();
    uint64_t age_s = now_ns > time_ns ? (now_ns - time_ns) / NS_PER_S : 0;

    if (age_s < 120)
        snprintf(buffer, size, "%" PRIu64 " s", age_s);
    else if (age_s < 7200)
        snprintf(buffer, size, "%" PRIu64 " min", age_s / 60);
    else
        snprintf(buffer, size, "%" PRIu64 " h", age_s / 3600);
}

static void print_refusals(const struct ps_instance *instance)
{
    const struct vgpu_snapshot *snapshot = &instance->snapshot;
    const struct vgpu_refusal *last;
    char size[SIZE_TEXT_BYTES], used[SIZE_TEXT_BYTES], quota[SIZE_TEXT_BYTES], age[32], device[32],
        api[VGPU_API_LEN + 1];
    uint64_t count = ps_refusals(snapshot);

    if (!count || !snapshot->refusal_count)
        return;
    last = &snapshot->refusals[snapshot->refusal_count - 1];
    snprintf(api, sizeof(api), "%.*s", VGPU_API_LEN, last->api);
    log_make_plain(api, strlen(api));
    format_age(last->time_ns, age, sizeof(age));
    if (last->vdev == VGPU_VDEV_HOST)
        snprintf(device, sizeof(device), "host memory");
    else
        snprintf(device, sizeof(device), "device %u", last->vdev);
    printf("\n%s: %" PRIu64
           " refused; the last, %s ago: %s of %s on %s by process %d, with %s of %s in use\n",
           instance->name, count, age, api, format_bytes(last->size_bytes, size, sizeof(size)),
           device, last->pid, format_bytes(last->used_bytes, used, sizeof(used)),
           format_bytes(last->quota_bytes, quota, sizeof(quota)));
}

bool ps_print_table(struct ps_list *list)
{
    struct columns columns = choose_columns(list);
    struct grid *grid;
    bool printed;

    if (!list->count) {
        if (!list->failed && list->heads && !list->names)
            printf("No instance is running. `vgpu run` starts a program in one.\n");
        return true;
    }
    grid = grid_new(columns.refused + 1);
    if (!grid)
        return false;
    rank(grid, &columns);
    for (unsigned i = COLUMN_USED; i <= columns.refused; i++)
        grid_align_right(grid, i);
    if (list->heads)
        put_heads(grid, &columns);
    for (unsigned i = 0; i < list->count; i++)
        put_instance(grid, &columns, list->instances[i]);
    grid_fit(grid, (unsigned)terminal_columns(stdout));
    printed = grid_print(grid, stdout);
    grid_free(grid);
    printed = printed && ps_print_compute(list);
    for (unsigned i = 0; printed && i < list->count; i++)
        print_refusals(list->instances[i]);
    return printed;
}
