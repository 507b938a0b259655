#include "cli/ps.h"

#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/message.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint64_t ps_vdev_held(const struct vgpu_snapshot *snapshot, unsigned vdev, enum vgpu_kind kind)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < snapshot->proc_count; i++)
        bytes += snapshot->procs[i].held_bytes[vdev][kind];
    return bytes;
}

bool ps_kind_counts(const struct vgpu_snapshot *snapshot, unsigned vdev, enum vgpu_kind kind)
{
    return vdev == VGPU_VDEV_HOST || snapshot->limits.tier != VGPU_TIER_GUARD ||
           kind == VGPU_KIND_DRIVER || kind == VGPU_KIND_MANAGED;
}

uint64_t ps_proc_held(const struct vgpu_snapshot *snapshot, const struct vgpu_proc_usage *proc,
                      unsigned vdev)
{
    uint64_t bytes = 0;

    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        bytes += ps_kind_counts(snapshot, vdev, kind) ? proc->held_bytes[vdev][kind] : 0;
    return bytes;
}

bool ps_proc_holds(const struct vgpu_proc_usage *proc, unsigned vdev)
{
    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        if (proc->held_bytes[vdev][kind])
            return true;
    return false;
}

bool ps_vdev_shown(const struct vgpu_snapshot *snapshot, unsigned vdev)
{
    const struct vgpu_vdev_usage *usage = &snapshot->vdev[vdev];

    if (usage->used_bytes || usage->refusals || compute_used(&usage->compute))
        return true;
    if (vdev == VGPU_VDEV_HOST)
        return usage->quota_bytes || snapshot->limits.vdev[vdev].quota_bytes;
    return vdev < snapshot->limits.device_count || usage->uuid[0] || usage->physical_bytes;
}

uint64_t ps_refusals(const struct vgpu_snapshot *snapshot)
{
    uint64_t count = 0;

    for (unsigned vdev = 0; vdev < VGPU_VDEVS; vdev++)
        count += snapshot->vdev[vdev].refusals;
    return count;
}

/* A missing name is an error, as it is for other commands. */
static bool all_found(const struct ps_list *list)
{
    bool all = true;

    for (char **name = list->names; name && *name; name++) {
        bool found = false;

        for (unsigned i = 0; i < list->count && !found; i++)
            found = !strcmp(list->instances[i]->name, *name);
        if (!found)
            message_error("ps: no instance %s is running", *name);
        all = all && found;
    }
    return all;
}

static void print_names(const struct ps_list *list)
{
    for (unsigned i = 0; i < list->count; i++)
        printf("%s\n", list->instances[i]->name);
}

static bool print(const struct ps_options *options, struct ps_list *list)
{
    if (options->json)
        return ps_print_json(list);
    if (!options->quiet)
        return ps_print_table(list);
    print_names(list);
    return true;
}

static int show(const struct ps_options *options, struct ps_list *list)
{
    bool printed, failed;
    int status;

    ps_collect(list);
    printed = print(options, list);
    failed = list->failed || !all_found(list);
    ps_done(list);
    if (!printed) {
        message_error("ps: out of memory");
        return STATUS_FAILED;
    }
    status = command_finish_output();
    return failed ? STATUS_FAILED : status;
}

int command_ps(char **argv)
{
    struct ps_options options = {.json = false};
    struct ps_list list = {.count = 0};
    char **names;
    int status;

    if (!options_parse("ps", argv, &options, &names, &status))
        return status;
    list.heads = !options.no_header;
    list.names = *names ? names : NULL;
    do {
        if (options.watch.value && !options.json && isatty(STDOUT_FILENO))
            printf("\033[H\033[2J");
        status = show(&options, &list);
    } while (options.watch.value && !ferror(stdout) && sleep((unsigned)options.watch.value) == 0);
    return status;
}
