#include "cli/ps.h"

#include "base/parse.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/help.h"
#include "cli/message.h"
#include "cli/table.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WATCH_DEFAULT_S 2
#define WATCH_MOST_S    86400

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

struct options {
    bool json, quiet;
    uint64_t watch_s; /* 0: once */
    struct ps_list list;
};

static bool take_watch(const char *text, uint64_t *ret_seconds)
{
    *ret_seconds = WATCH_DEFAULT_S;
    if (!text || parse_count(text, 1, WATCH_MOST_S, ret_seconds) == 0)
        return true;
    message_error("ps: --watch \"%s\": use a whole number of seconds, 1 to %d", text, WATCH_MOST_S);
    return false;
}

static bool take_option(const struct cli_option *option, const char *value, void *data)
{
    struct options *options = data;

    switch ((int)option->opt) {
    case OPT_JSON:
        options->json = true;
        return true;
    case OPT_QUIET:
        options->quiet = true;
        return true;
    case OPT_NO_HEADER:
        options->list.heads = false;
        return true;
    default:
        return take_watch(value, &options->watch_s);
    }
}

/* Names are moved to the front of argv, and end with NULL. False: it is over, with *ret_status. */
static bool take_options(char **argv, struct options *options, int *ret_status)
{
    unsigned count = 0;

    *options = (struct options){.list.heads = true};
    if (!command_take(argv, take_option, options, &count, ret_status))
        return false;
    options->list.names = count ? argv + 1 : NULL;
    return true;
}

/* A name that is not there is an error, as it is for other commands. */
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

static bool print(struct options *options)
{
    if (options->json)
        return ps_print_json(&options->list);
    if (!options->quiet)
        return ps_print_table(&options->list);
    print_names(&options->list);
    return true;
}

static int show(struct options *options)
{
    bool printed, failed;
    int status;

    ps_collect(&options->list);
    printed = print(options);
    failed = options->list.failed || !all_found(&options->list);
    ps_done(&options->list);
    if (!printed) {
        message_error("ps: out of memory");
        return STATUS_FAILED;
    }
    status = command_finish_output();
    return failed ? STATUS_FAILED : status;
}

int command_ps(char **argv)
{
    struct options options;
    int status;

    if (!take_options(argv, &options, &status))
        return status;
    do {
        if (options.watch_s && !options.json && isatty(STDOUT_FILENO))
            printf("\033[H\033[2J");
        status = show(&options);
    } while (options.watch_s && !ferror(stdout) && sleep((unsigned)options.watch_s) == 0);
    return status;
}
