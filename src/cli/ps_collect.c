#include "cli/ps.h"

#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"
#include "cli/instance.h"
#include "cli/message.h"
#include "cli/path.h"
#include "cli/users.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDERS_MAX 256

/* Folders that have been looked at: two names may lead to one. */
struct seen {
    unsigned count;
    struct {
        dev_t device;
        ino_t inode;
    } folder[FOLDERS_MAX];
};

static bool seen_before(struct seen *seen, const struct stat *st)
{
    for (unsigned i = 0; i < seen->count; i++)
        if (seen->folder[i].device == st->st_dev && seen->folder[i].inode == st->st_ino)
            return true;
    if (seen->count == FOLDERS_MAX)
        return true;
    seen->folder[seen->count].device = st->st_dev;
    seen->folder[seen->count++].inode = st->st_ino;
    return false;
}

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

static void collect_instance(struct ps_list *list, const char *folder, const char *name, uid_t owner)
{
    static struct ps_instance instance;
    struct vgpu_region *region = NULL;
    char path[PATH_MAX], text[128];
    int error;

    memset(&instance, 0, sizeof(instance));
    instance.owner = owner;
    snprintf(instance.name, sizeof(instance.name), "%.*s", VGPU_NAME_LEN - 1, name);
    error = path_join(instance.dir, sizeof(instance.dir), folder, name) &&
                    path_join(path, sizeof(path), instance.dir, INSTANCE_REGION)
                ? region_open(path, 0, &region)
                : -ENAMETOOLONG;
    if (!error)
        error = region_snapshot(region, &instance.snapshot);
    if (region)
        region_close(region);
    if (error) {
        message_error("ps: instance %s: %s cannot be read: %s", name, path,
                      error == -EPROTO ? "it is no region of this version of vgpu"
                                       : err_text(error, text, sizeof(text)));
        list->failed = true;
        return;
    }
    instance.running = users_count(instance.dir);
    if (instance.running < instance.snapshot.proc_count)
        instance.running = instance.snapshot.proc_count;
    if (!add(list, &instance)) {
        snapshot_done(&instance.snapshot);
        list->failed = true;
    }
}

static void collect_folder(struct ps_list *list, const char *folder, uid_t owner)
{
    struct dirent **names;
    char text[128];
    int count = scandir(folder, &names, NULL, alphasort);

    if (count < 0) {
        if (errno != ENOENT) {
            message_error("ps: %s cannot be read: %s", folder, err_text(err_last(), text, sizeof(text)));
            list->failed = true;
        }
        return;
    }
    for (int i = 0; i < count; i++) {
        if (parse_name_valid(names[i]->d_name) && !instance_remove_unused(folder, names[i]->d_name))
            collect_instance(list, folder, names[i]->d_name, owner);
        free(names[i]);
    }
    free(names);
}

/*
 * What is in another user's folder is that user's: root reads it with that user's rights, so that links in it lead
 * nowhere that its owner could not go.
 */
static void collect_runtime_dir(struct ps_list *list, struct seen *seen, const char *runtime)
{
    char folder[PATH_MAX];
    struct stat st;
    uid_t self = geteuid();
    gid_t group = getegid();
    bool foreign;

    if (!path_join(folder, sizeof(folder), runtime, "instances") || lstat(runtime, &st) < 0 || !S_ISDIR(st.st_mode) ||
        seen_before(seen, &st))
        return;
    foreign = self == 0 && st.st_uid != 0;
    if (foreign && (setegid(st.st_gid) < 0 || seteuid(st.st_uid) < 0)) {
        message_error("ps: cannot take the rights of user %u to read %s: %s", st.st_uid, folder, strerror(errno));
        list->failed = true;
    } else {
        collect_folder(list, folder, st.st_uid);
    }
    if (foreign && (seteuid(self) < 0 || setegid(group) < 0))
        list->failed = true;
}

static void collect_matches(struct ps_list *list, struct seen *seen, const char *pattern)
{
    glob_t found = {0};

    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            collect_runtime_dir(list, seen, found.gl_pathv[i]);
    globfree(&found);
}

void ps_collect(struct ps_list *ret_list)
{
    const char *chosen = getenv("VGPU_RUNTIME_DIR");
    struct seen seen = {0};
    char path[PATH_MAX] = "", text[128];
    int error = runtime_dir(path, sizeof(path));

    *ret_list = (struct ps_list){0};
    if (error) {
        message_error("ps: the runtime directory %s cannot be used: %s", chosen && *chosen ? chosen : path,
                      err_text(error, text, sizeof(text)));
        ret_list->failed = true;
        return;
    }
    if (chosen && *chosen) {
        /* A folder that the user has chosen may be a link; those that we look for ourselves may not. */
        char *real = realpath(path, NULL);

        if (real)
            collect_runtime_dir(ret_list, &seen, real);
        free(real);
        return;
    }
    collect_runtime_dir(ret_list, &seen, path);
    if (geteuid() == 0) {
        collect_matches(ret_list, &seen, "/tmp/vgpu-*");
        collect_matches(ret_list, &seen, "/run/user/*/vgpu");
        return;
    }
    /* The user's sessions may differ in what they have in their environment. */
    snprintf(path, sizeof(path), "/run/user/%u/vgpu", geteuid());
    collect_runtime_dir(ret_list, &seen, path);
    snprintf(path, sizeof(path), "/tmp/vgpu-%u", geteuid());
    collect_runtime_dir(ret_list, &seen, path);
}

/* What an instance has done on a device; NULL: it has not seen it. */
static const struct vgpu_compute_usage *usage_of(const struct ps_instance *instance, const char *uuid)
{
    for (unsigned slice = 0; slice < VGPU_DEVICES_MAX; slice++)
        if (!strcasecmp(instance->snapshot.slice[slice].uuid, uuid))
            return &instance->snapshot.slice[slice].compute;
    return NULL;
}

double ps_entitlement(const struct ps_list *list, const struct ps_instance *instance, unsigned slice)
{
    const char *uuid = instance->snapshot.slice[slice].uuid;
    uint32_t own = instance->snapshot.limits.compute.weight;
    uint64_t sum = own;

    for (unsigned i = 0; *uuid && i < list->count; i++) {
        const struct ps_instance *other = list->instances[i];
        const struct vgpu_compute_usage *usage = other == instance ? NULL : usage_of(other, uuid);

        if (usage && usage->last_second_ns)
            sum += other->snapshot.limits.compute.weight;
    }
    return sum ? (double)own / (double)sum : 1;
}

void ps_done(struct ps_list *list)
{
    for (unsigned i = 0; i < list->count; i++) {
        snapshot_done(&list->instances[i]->snapshot);
        free(list->instances[i]);
    }
    free(list->instances);
    *list = (struct ps_list){0};
}
