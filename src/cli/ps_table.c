#include "cli/ps.h"

#include "base/clock.h"
#include "base/parse.h"
#include "cli/grid.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    COLUMN_INSTANCE,
    COLUMN_TIER,
    COLUMN_PROCESS,
    COLUMN_DEVICE,
    COLUMN_GPU,
    COLUMN_USED,
    COLUMN_QUOTA,
    COLUMN_KINDS
};

struct columns {
    bool kind_shown[VGPU_KINDS];
    unsigned kind[VGPU_KINDS]; /* the column of each kind that is shown */
    unsigned refused;          /* the last column */
};

/* Whether there is something to show: it counts, and is held. */
static bool is_shown(const struct vgpu_snapshot *snapshot, unsigned slice, enum vgpu_kind kind)
{
    return ps_kind_counts(snapshot, slice, kind) && ps_slice_held(snapshot, slice, kind);
}

/* Kinds that nobody holds anything of have no column. */
static struct columns choose_columns(const struct ps_list *list)
{
    struct columns columns = {.refused = COLUMN_KINDS};

    for (unsigned kind = 0; kind < VGPU_KINDS; kind++) {
        for (unsigned i = 0; i < list->count && !columns.kind_shown[kind]; i++)
            for (unsigned slice = 0; slice < VGPU_SLICES && !columns.kind_shown[kind]; slice++)
                columns.kind_shown[kind] = is_shown(&list->instances[i]->snapshot, slice, kind);
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

static void put_heads(struct grid *grid, const struct columns *columns)
{
    static const char *const heads[] = {"INSTANCE", "TIER", "PROCESS", "DEVICE", "GPU", "USED", "QUOTA"};

    grid_row(grid);
    for (unsigned i = 0; i < COLUMN_KINDS; i++)
        grid_cell(grid, i, "%s", heads[i]);
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
    for (unsigned i = COLUMN_USED; i <= columns->refused; i++)
        grid_align_right(grid, i);
}

static void put_device(struct grid *grid, unsigned slice)
{
    if (slice == VGPU_SLICE_HOST)
        grid_cell(grid, COLUMN_DEVICE, "host");
    else
        grid_cell(grid, COLUMN_DEVICE, "%u", slice);
}

static void put_quota(struct grid *grid, const struct vgpu_snapshot *snapshot, unsigned slice)
{
    const struct vgpu_limit *limit = &snapshot->limits.slice[slice];

    if (snapshot->slice[slice].quota_bytes)
        put_bytes(grid, COLUMN_QUOTA, snapshot->slice[slice].quota_bytes);
    else if (limit->quota_percent)
        grid_cell(grid, COLUMN_QUOTA, "%u%%", limit->quota_percent);
    else if (limit->quota_bytes)
        put_bytes(grid, COLUMN_QUOTA, limit->quota_bytes);
    else
        grid_cell(grid, COLUMN_QUOTA, "none");
}

static void put_slice(struct grid *grid, const struct columns *columns, const struct vgpu_snapshot *snapshot,
                      unsigned slice)
{
    const struct vgpu_slice_usage *usage = &snapshot->slice[slice];
    const char *uuid = usage->uuid[0] ? usage->uuid : snapshot->limits.slice[slice].uuid;

    put_device(grid, slice);
    grid_cell(grid, COLUMN_GPU, "%.*s", PS_UUID_SHOWN, *uuid ? uuid : "-");
    put_bytes(grid, COLUMN_USED, usage->used_bytes);
    put_quota(grid, snapshot, slice);
    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        if (columns->kind_shown[kind] && ps_kind_counts(snapshot, slice, kind))
            put_bytes(grid, columns->kind[kind], ps_slice_held(snapshot, slice, kind));
    grid_cell(grid, columns->refused, "%" PRIu64, usage->refusals);
}

static void put_process_name(struct grid *grid, const struct vgpu_proc_usage *proc)
{
    if (proc->pid)
        grid_cell(grid, COLUMN_PROCESS, "%d %.31s", proc->pid, proc->command);
    else
        grid_cell(grid, COLUMN_PROCESS, "(%d) %.31s", proc->own_pid, proc->command);
}

/* One row for each slice that the process holds something on; at least one. */
static void put_process(struct grid *grid, const struct columns *columns, const struct vgpu_snapshot *snapshot,
                        const struct vgpu_proc_usage *proc)
{
    bool any = false;

    for (unsigned slice = 0; slice < VGPU_SLICES; slice++) {
        uint64_t bytes = ps_proc_held(snapshot, proc, slice);

        if (!bytes)
            continue;
        grid_row(grid);
        if (!any)
            put_process_name(grid, proc);
        any = true;
        put_device(grid, slice);
        put_bytes(grid, COLUMN_USED, bytes);
        for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
            if (columns->kind_shown[kind] && ps_kind_counts(snapshot, slice, kind) && proc->held_bytes[slice][kind])
                put_bytes(grid, columns->kind[kind], proc->held_bytes[slice][kind]);
    }
    if (any)
        return;
    grid_row(grid);
    put_process_name(grid, proc);
    put_bytes(grid, COLUMN_USED, 0);
}

const char *ps_instance_name(const struct ps_instance *instance, char *buffer, size_t size)
{
    const struct passwd *owner = instance->owner == geteuid() ? NULL : getpwuid(instance->owner);

    if (instance->owner == geteuid())
        snprintf(buffer, size, "%s", instance->name);
    else if (owner)
        snprintf(buffer, size, "%s (%s)", instance->name, owner->pw_name);
    else
        snprintf(buffer, size, "%s (%u)", instance->name, instance->owner);
    return buffer;
}

static void put_instance(struct grid *grid, const struct columns *columns, const struct ps_instance *instance)
{
    const struct vgpu_snapshot *snapshot = &instance->snapshot;
    char name[PS_NAME_TEXT_BYTES];
    bool any = false;

    grid_row(grid);
    grid_cell(grid, COLUMN_INSTANCE, "%s", ps_instance_name(instance, name, sizeof(name)));
    grid_cell(grid, COLUMN_TIER, "%s", vgpu_tier_name(snapshot->limits.tier));
    grid_cell(grid, COLUMN_PROCESS, "%u running%s", instance->running, instance->paused ? ", paused" : "");
    for (unsigned slice = 0; slice < VGPU_DEVICES_MAX; slice++) {
        if (!ps_slice_shown(snapshot, slice))
            continue;
        if (any)
            grid_row(grid);
        any = true;
        put_slice(grid, columns, snapshot, slice);
    }
    if (!any) { /* nobody has seen a device yet */
        put_quota(grid, snapshot, 0);
        put_bytes(grid, COLUMN_USED, 0);
        grid_cell(grid, COLUMN_DEVICE, "-");
        grid_cell(grid, COLUMN_GPU, "-");
        grid_cell(grid, columns->refused, "0");
    }
    if (ps_slice_shown(snapshot, VGPU_SLICE_HOST)) {
        grid_row(grid);
        put_slice(grid, columns, snapshot, VGPU_SLICE_HOST);
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
    char size[SIZE_TEXT_BYTES], used[SIZE_TEXT_BYTES], quota[SIZE_TEXT_BYTES], age[32], device[32];
    uint64_t count = ps_refusals(snapshot);

    if (!count || !snapshot->refusal_count)
        return;
    last = &snapshot->refusals[snapshot->refusal_count - 1];
    format_age(last->time_ns, age, sizeof(age));
    if (last->slice == VGPU_SLICE_HOST)
        snprintf(device, sizeof(device), "host memory");
    else
        snprintf(device, sizeof(device), "device %u", last->slice);
    printf("\n%s: %" PRIu64 " refused; the last, %s ago: %.*s of %s on %s by process %d, with %s of %s in use\n",
           instance->name, count, age, VGPU_API_LEN, last->api, format_bytes(last->size_bytes, size, sizeof(size)),
           device, last->pid, format_bytes(last->used_bytes, used, sizeof(used)),
           format_bytes(last->quota_bytes, quota, sizeof(quota)));
}

bool ps_print_table(const struct ps_list *list)
{
    struct columns columns = choose_columns(list);
    struct grid *grid;
    bool printed;

    if (!list->count) {
        if (!list->failed)
            printf("No instance is running. `vgpu run` starts a program in one.\n");
        return true;
    }
    grid = grid_new(columns.refused + 1);
    if (!grid)
        return false;
    put_heads(grid, &columns);
    for (unsigned i = 0; i < list->count; i++)
        put_instance(grid, &columns, list->instances[i]);
    printed = grid_print(grid, stdout);
    grid_free(grid);
    printed = printed && ps_print_compute(list);
    for (unsigned i = 0; printed && i < list->count; i++)
        print_refusals(list->instances[i]);
    return printed;
}
