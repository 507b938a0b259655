#include "cli/ps.h"

#include "base/err.h"
#include "base/parse.h"
#include "cli/folders.h"
#include "cli/instance.h"
#include "cli/message.h"
#include "cli/path.h"
#include "account/hami.h"
#include "account/implicit.h"
#include "account/instance.h"
#include "account/member.h"
#include "sched/usage.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool add(struct ps_list *list, const struct ps_instance *instance)
{
    struct ps_instance **larger = realloc(list->instances, (list->count + 1) * sizeof(*larger));
    struct ps_instance *copy = larger ? malloc(sizeof(*copy)) : NULL;

    if (larger)
        list->instances = larger;
    if (!copy)
        return false;
    *copy = *instance;
    list->instances[list->count++] = copy;
    return true;
}

/* The guard's slot for the process of the slot `own`; NULL: there is none. */
static struct vgpu_proc_usage *guarded_of(const struct vgpu_snapshot *snapshot,
                                          const struct vgpu_proc_usage *own)
{
    for (uint32_t i = 0; i < snapshot->proc_count; i++)
        if (snapshot->procs[i].guarded && own->pid && snapshot->procs[i].pid == own->pid)
            return &snapshot->procs[i];
    return NULL;
}

/* Merges the two slots of a process that has the library under the guard. The guard's values go
 * first. */
static void merge_slots(struct vgpu_snapshot *snapshot)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < snapshot->proc_count; i++) {
        const struct vgpu_proc_usage *own = &snapshot->procs[i];
        struct vgpu_proc_usage *guarded = own->guarded ? NULL : guarded_of(snapshot, own);

        for (unsigned vdev = 0; guarded && vdev < VGPU_VDEVS; vdev++)
            for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
                if (vdev == VGPU_VDEV_HOST || !ps_kind_counts(snapshot, vdev, kind))
                    guarded->held_bytes[vdev][kind] += own->held_bytes[vdev][kind];
        if (guarded)
            guarded->own_pid = own->own_pid;
    }
    for (uint32_t i = 0; i < snapshot->proc_count; i++)
        if (snapshot->procs[i].guarded || !guarded_of(snapshot, &snapshot->procs[i]))
            snapshot->procs[kept++] = snapshot->procs[i];
    snapshot->proc_count = kept;
}

/* The number of processes. Members without GPU use are not attached; programs under the guard
 * alone, and their leaders, are no members. */
static unsigned most_of(unsigned members, unsigned leaders, unsigned attached)
{
    unsigned most = members > leaders ? members : leaders;

    return most > attached ? most : attached;
}

static void collect_instance(struct ps_list *list, const char *folder, const char *name,
                             uid_t owner)
{
    static struct ps_instance instance;
    struct vgpu_region *region = NULL;
    struct member_counts counts;
    char path[PATH_MAX], text[128];
    int error;

    memset(&instance, 0, sizeof(instance));
    instance.owner = owner;
    snprintf(instance.name, sizeof(instance.name), "%.*s", VGPU_NAME_LEN - 1, name);
    error = path_join(instance.dir, sizeof(instance.dir), folder, name) &&
                    path_join(path, sizeof(path), instance.dir, INSTANCE_REGION)
                ? region_peek(path, 0, &region)
                : -ENAMETOOLONG;
    if (!error)
        error = region_snapshot(region, &instance.snapshot);
    member_count(instance.dir, VGPU_PROCS_MAX, &counts);
    instance.paused = !error && region_stands(region) && counts.leaders;
    if (!error)
        instance.id = usage_instance_id(region);
    if (region)
        region_close(region);
    if (error) {
        message_error("ps: instance %s: %s cannot be read: %s", name, path,
                      error == -EPROTO ? "it is no region of this version of vgpu"
                                       : err_text(error, text, sizeof(text)));
        list->failed = true;
        return;
    }
    merge_slots(&instance.snapshot);
    instance.running = most_of(counts.members, counts.leaders, instance.snapshot.proc_count);
    if (!add(list, &instance)) {
        snapshot_done(&instance.snapshot);
        list->failed = true;
    }
}

static bool wanted(const struct ps_list *list, const char *name)
{
    for (char **one = list->names; one && *one; one++)
        if (!strcmp(*one, name))
            return true;
    return !list->names;
}

static bool listed(const struct ps_list *list, const char *dir)
{
    for (unsigned i = 0; i < list->count; i++)
        if (!strcmp(list->instances[i]->dir, dir))
            return true;
    return false;
}

/* The name of the file, with question marks for control characters. */
static void name_implicit(struct ps_instance *instance, const char *cache_path)
{
    const char *slash = strrchr(cache_path, '/');

    snprintf(instance->name, sizeof(instance->name), "%.*s", VGPU_NAME_LEN - 1,
             slash ? slash + 1 : cache_path);
    for (char *at = instance->name; *at; at++)
        if (*at <= ' ' || *at > '~')
            *at = '?';
}

struct implicit_visit {
    struct ps_list *list;
    uid_t owner;
};

/* An instance of HAMi's variables has no directory to remove. It exists while a process uses it. */
static void collect_implicit(const char *cache_path, void *arg)
{
    const struct implicit_visit *visit = arg;
    static struct ps_instance instance;
    struct vgpu_region *region = NULL;

    memset(&instance, 0, sizeof(instance));
    instance.owner = visit->owner;
    instance.implicit = true;
    name_implicit(&instance, cache_path);
    if (strlen(cache_path) >= sizeof(instance.dir) || listed(visit->list, cache_path) ||
        region_peek(cache_path, hami_cache.base_offset, &region))
        return;
    if (region_in_use(region) && region_snapshot(region, &instance.snapshot) == 0) {
        strcpy(instance.dir, cache_path);
        instance.id = usage_instance_id(region);
        instance.running = instance.snapshot.proc_count;
        if (!instance.running || !wanted(visit->list, instance.name) ||
            !add(visit->list, &instance))
            snapshot_done(&instance.snapshot);
    }
    region_close(region);
}

/* A folder_visit for the directory of named instances. */
static void collect_implicit_beside(struct ps_list *list, const char *folder, uid_t owner)
{
    struct implicit_visit visit = {.list = list, .owner = owner};
    char runtime[PATH_MAX];

    snprintf(runtime, sizeof(runtime), "%.*s", (int)(strrchr(folder, '/') - folder), folder);
    implicit_each(runtime, collect_implicit, &visit);
}

static void collect_named(struct ps_list *list, const char *folder, uid_t owner)
{
    struct dirent **names;
    char text[128];
    int count = scandir(folder, &names, NULL, alphasort);

    if (count < 0) {
        if (errno != ENOENT) {
            message_error("ps: %s cannot be read: %s", folder,
                          err_text(err_last(), text, sizeof(text)));
            list->failed = true;
        }
        return;
    }
    for (int i = 0; i < count; i++) {
        if (parse_name_valid(names[i]->d_name) && wanted(list, names[i]->d_name) &&
            instance_in_use(folder, names[i]->d_name))
            collect_instance(list, folder, names[i]->d_name, owner);
        free(names[i]);
    }
    free(names);
}

static bool collect_folder(void *arg, const char *folder, uid_t owner)
{
    collect_named(arg, folder, owner);
    collect_implicit_beside(arg, folder, owner);
    return true;
}

void ps_collect(struct ps_list *list)
{
    if (!folders_visit("ps", collect_folder, list))
        list->failed = true;
}

void ps_done(struct ps_list *list)
{
    for (unsigned i = 0; i < list->count; i++) {
        snapshot_done(&list->instances[i]->snapshot);
        free(list->instances[i]);
    }
    free(list->instances);
    list->instances = NULL;
    list->count = 0;
    list->failed = false;
    ps_arenas_done(list);
}
