#include "cli/instance.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/setting.h"
#include "cli/compute.h"
#include "cli/message.h"
#include "cli/path.h"
#include "cli/options.h"
#include "account/member.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLDER_LOCK_BOUND_NS (10 * NS_PER_S)
#define FOLDER_LOCK_POLL_NS  (5 * NS_PER_MS)

static void cleanup_region(struct vgpu_region **region)
{
    if (*region)
        region_close(*region);
}

/* Locks the directory of all instances against changes by other processes, by its file .lock.
 * Returns the descriptor; -ETIMEDOUT: another process of the directory's owner holds it. */
static int lock_folder(const char *folder, uint64_t bound_ns)
{
    const struct timespec pause = {.tv_nsec = FOLDER_LOCK_POLL_NS};
    uint64_t end_ns = clock_ns() + bound_ns;
    char path[PATH_MAX];
    int fd;

    if (!path_join(path, sizeof(path), folder, ".lock"))
        return -ENAMETOOLONG;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return err_last();
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int error = err_last();

        if (error == -EINTR || (error == -EWOULDBLOCK && clock_ns() < end_ns)) {
            nanosleep(&pause, NULL);
            continue;
        }
        close(fd);
        return error == -EWOULDBLOCK ? -ETIMEDOUT : error;
    }
    return fd;
}

static bool is_in_use(const char *dir)
{
    struct vgpu_region *region CLEANUP(cleanup_region) = NULL;
    struct member_counts counts;
    char path[PATH_MAX];

    member_count(dir, 1, &counts);
    if (counts.members || counts.leaders)
        return true;
    return path_join(path, sizeof(path), dir, INSTANCE_REGION) && !region_peek(path, 0, &region) &&
           region_in_use(region);
}

/* Removes a directory that has plain files only. */
static int remove_dir(const char *dir)
{
    DIR *files = opendir(dir);
    struct dirent *file;

    if (!files)
        return err_last();
    while ((file = readdir(files)))
        if (strcmp(file->d_name, ".") && strcmp(file->d_name, ".."))
            unlinkat(dirfd(files), file->d_name, 0);
    closedir(files);
    return rmdir(dir) < 0 ? err_last() : 0;
}

/* The caller holds the folder's lock. */
static bool remove_if_unused(const char *dir)
{
    char text[128];
    int error;

    if (is_in_use(dir))
        return false;
    error = remove_dir(dir);
    if (error && error != -ENOENT)
        message_warning("cannot remove the unused instance %s: %s", dir,
                        err_text(error, text, sizeof(text)));
    return error == 0 || error == -ENOENT;
}

bool instance_in_use(const char *folder, const char *name)
{
    int lock CLEANUP_CLOSE = -1;
    char dir[PATH_MAX];

    if (!path_join(dir, sizeof(dir), folder, name))
        return false;
    if (is_in_use(dir))
        return true;
    lock = lock_folder(folder, 0);
    return lock >= 0 && !remove_if_unused(dir);
}

static const char *show_quota(const struct vgpu_limit *limit, char *buffer, size_t size)
{
    if (limit->quota_percent)
        snprintf(buffer, size, "%u%%", limit->quota_percent);
    else if (limit->quota_bytes)
        format_bytes(limit->quota_bytes, buffer, size);
    else
        snprintf(buffer, size, "none");
    return buffer;
}

static const char *show_cap(const struct vgpu_limit *limit, char *buffer, size_t size)
{
    snprintf(buffer, size, limit->cap_percent ? "%u" : "none", limit->cap_percent);
    return buffer;
}

static bool same_quota(const struct vgpu_limit *a, const struct vgpu_limit *b)
{
    return a->quota_bytes == b->quota_bytes && a->quota_percent == b->quota_percent;
}

static const char *show_devices(const struct vgpu_limits *limits, char *buffer, size_t size)
{
    size_t at = 0;

    snprintf(buffer, size, "all devices");
    for (unsigned i = 0; i < limits->device_count && i < VGPU_DEVICES_MAX && at < size; i++)
        at += (size_t)snprintf(buffer + at, size - at, "%s%s", i ? "," : "", limits->vdev[i].uuid);
    return buffer;
}

static int differs(const char *name, const struct cli_option *option, const char *has,
                   const char *given)
{
    message_error("run: instance %s is running with --%s %s, but --%s %s was given; leave --%s out "
                  "to join it, or choose another --name",
                  name, option->name, has, option->name, given, option->name);
    return -EEXIST;
}

static int compare_devices(const struct vgpu_limits *asked, const struct vgpu_limits *has)
{
    char a[VGPU_DEVICES_MAX * (VGPU_UUID_LEN + 1)], b[sizeof(a)];
    bool same = has->device_count == asked->device_count;

    for (unsigned i = 0; same && i < asked->device_count; i++)
        same = !strcmp(has->vdev[i].uuid, asked->vdev[i].uuid);
    return same ? 0
                : differs(asked->name, RUN_OPTION(gpu), show_devices(has, a, sizeof(a)),
                          show_devices(asked, b, sizeof(b)));
}

bool instance_has_device(const struct vgpu_limits *limits, const char *uuid)
{
    for (unsigned i = 0; i < limits->device_count && i < VGPU_DEVICES_MAX; i++)
        if (!strcmp(limits->vdev[i].uuid, uuid))
            return true;
    return limits->device_count == 0;
}

const struct vgpu_limit *instance_same_device(const struct vgpu_limits *asked, unsigned i,
                                              const struct vgpu_limits *has)
{
    for (unsigned k = 0; asked->vdev[i].uuid[0] && k < VGPU_DEVICES_MAX; k++)
        if (!strcmp(asked->vdev[i].uuid, has->vdev[k].uuid))
            return &has->vdev[k];
    return &has->vdev[i];
}

static int compare_vdevs(const struct instance_request *request, const struct vgpu_limits *has)
{
    const struct vgpu_limits *asked = &request->limits;
    unsigned devices = has->device_count ? has->device_count : VGPU_DEVICES_MAX;
    char text_a[48], text_b[48], a[64], b[64];

    for (unsigned i = 0; i < devices && i < VGPU_DEVICES_MAX; i++) {
        const struct vgpu_limit *one = instance_same_device(asked, i, has),
                                *other = &asked->vdev[i];

        if (request->has_quota && !same_quota(one, other)) {
            snprintf(a, sizeof(a), "%u:%s", i, show_quota(one, text_a, sizeof(text_a)));
            snprintf(b, sizeof(b), "%u:%s", i, show_quota(other, text_b, sizeof(text_b)));
            return differs(asked->name, RUN_OPTION(mem), a, b);
        }
        if (request->has_cap && one->cap_percent != other->cap_percent) {
            snprintf(a, sizeof(a), "%u:%s", i, show_cap(one, text_a, sizeof(text_a)));
            snprintf(b, sizeof(b), "%u:%s", i, show_cap(other, text_b, sizeof(text_b)));
            return differs(asked->name, RUN_OPTION(cores), a, b);
        }
    }
    return 0;
}

static int compare_compute(const struct instance_request *request, const struct vgpu_compute *has)
{
    const struct vgpu_compute *asked = &request->limits.compute;
    char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES];

#define COMPUTE_LIMIT(field, ...)                                                                  \
    if (request->has.field && has->field != asked->field)                                          \
        return differs(request->limits.name, RUN_OPTION(field),                                    \
                       compute_show(RUN_OPTION(field)->type, has->field, a, sizeof(a)),            \
                       compute_show(RUN_OPTION(field)->type, asked->field, b, sizeof(b)));
#include "limits.def"
    return 0;
}

bool instance_is_guarded(const char *dir)
{
    struct vgpu_region *region CLEANUP(cleanup_region) = NULL;
    struct vgpu_limits limits;
    char path[PATH_MAX];

    if (!path_join(path, sizeof(path), dir, INSTANCE_REGION) || region_open(path, 0, &region))
        return false;
    region_limits(region, &limits);
    return limits.tier == VGPU_TIER_GUARD;
}

/*
 * Decides who may join a guarded instance. A program under the guard starts processes under the
 * same guard, which may join without a guard of their own. Two guards of one instance would keep
 * separate accounts, and only a file that their programs can write to would add them up.
 */
static int compare_tier(const struct vgpu_limits *asked, const struct vgpu_limits *has,
                        const char *dir)
{
    const char *outer = setting_text(SETTING_INSTANCE);

    if (has->tier != VGPU_TIER_GUARD && asked->tier == has->tier)
        return 0;
    if (has->tier == VGPU_TIER_GUARD && asked->tier != VGPU_TIER_GUARD && outer &&
        !strcmp(outer, dir))
        return 0;
    if (has->tier == VGPU_TIER_GUARD)
        message_error("run: instance %s is in use under the guard of another `vgpu run`, which "
                      "keeps its accounts alone; "
                      "choose another --name",
                      asked->name);
    else
        message_error("run: instance %s is running without the guard: leave out --guard to join "
                      "it, or choose another "
                      "--name",
                      asked->name);
    return -EEXIST;
}

/* Whether the request agrees with the limits of the running instance. */
static int compare(const struct instance_request *request, const struct vgpu_limits *has,
                   const char *dir)
{
    const struct vgpu_limits *asked = &request->limits;
    char a[48], b[48];
    int error = compare_tier(asked, has, dir);

    if (!error && request->has_devices)
        error = compare_devices(asked, has);
    if (!error)
        error = compare_vdevs(request, has);
    if (!error && request->has_host_quota &&
        !same_quota(&has->vdev[VGPU_VDEV_HOST], &asked->vdev[VGPU_VDEV_HOST]))
        error = differs(asked->name, RUN_OPTION(host_mem),
                        show_quota(&has->vdev[VGPU_VDEV_HOST], a, sizeof(a)),
                        show_quota(&asked->vdev[VGPU_VDEV_HOST], b, sizeof(b)));
    return error ? error : compare_compute(request, &has->compute);
}

static int join(const struct instance_request *request, struct instance *instance)
{
    struct vgpu_region *region CLEANUP(cleanup_region) = NULL;
    struct vgpu_limits has;
    char path[PATH_MAX], text[128];
    int error;

    error = path_join(path, sizeof(path), instance->dir, INSTANCE_REGION)
                ? region_open(path, 0, &region)
                : -ENAMETOOLONG;
    if (error) {
        message_error("run: instance %s is in use, but its region %s cannot be opened: %s; choose "
                      "another --name",
                      instance->name, path,
                      error == -EPROTO ? "it was made by another version of vgpu"
                                       : err_text(error, text, sizeof(text)));
        return error;
    }
    region_limits(region, &has);
    instance->limits = has;
    error = compare(request, &has, instance->dir);
    if (error || !request->limits.compute.turn_policy)
        return error;
    if (has.tier == VGPU_TIER_GUARD) {
        message_error(
            "run: instance %s is under the guard: its --policy is its supervisor's; leave it out",
            instance->name);
        return -EPERM;
    }
    has.compute.turn_policy = request->limits.compute.turn_policy;
    error = region_set_limits(region, &has);
    if (error)
        message_error("run: instance %s: --policy %s cannot be set: %s", instance->name,
                      cli_word_name(CLI_TURN_POLICY, has.compute.turn_policy),
                      err_text(error, text, sizeof(text)));
    return error;
}

static int make(const struct instance_request *request, struct instance *instance)
{
    struct vgpu_region *region CLEANUP(cleanup_region) = NULL;
    char path[PATH_MAX], text[128];
    int error;

    if (mkdir(instance->dir, 0700) < 0) {
        error = err_last();
        message_error("run: cannot make the instance's directory %s: %s", instance->dir,
                      err_text(error, text, sizeof(text)));
        return error;
    }
    instance->created = true;
    instance->limits = request->limits;
    error = path_join(path, sizeof(path), instance->dir, INSTANCE_REGION)
                ? region_create(path, 0, &request->limits, &region, &(bool){false})
                : -ENAMETOOLONG;
    if (error) {
        message_error("run: cannot make the region %s: %s", path,
                      err_text(error, text, sizeof(text)));
        remove_dir(instance->dir);
    }
    return error;
}

/* The directory of all instances; makes it if it is missing. */
static int open_folder(char *ret_folder, size_t size)
{
    char runtime[PATH_MAX] = "", text[128];
    int error = runtime_dir_make(runtime, sizeof(runtime));

    if (!error && !path_join(ret_folder, size, runtime, "instances"))
        error = -ENAMETOOLONG;
    if (!error)
        error = file_make_folders(ret_folder, 0700);
    if (error == -EINVAL)
        message_error("run: VGPU_RUNTIME_DIR=%s is not an absolute path",
                      setting_text(SETTING_RUNTIME_DIR));
    else if (error)
        message_error("run: the runtime directory %s cannot be used: %s; set VGPU_RUNTIME_DIR to a "
                      "directory of your own",
                      runtime, err_text(error, text, sizeof(text)));
    return error;
}

static int parent_of(const char *dir, char *ret_folder, size_t size)
{
    const char *end = strrchr(dir, '/');

    return end && (size_t)snprintf(ret_folder, size, "%.*s", (int)(end - dir), dir) < size
               ? 0
               : -ENAMETOOLONG;
}

int instance_enter(const struct instance_request *request, struct instance *ret_instance)
{
    struct instance instance = {.users_fd = -1};
    char folder[PATH_MAX], text[128];
    int lock CLEANUP_CLOSE = -1;
    int error = request->dir ? parent_of(request->dir, folder, sizeof(folder))
                             : open_folder(folder, sizeof(folder));

    if (error)
        return error;
    snprintf(instance.name, sizeof(instance.name), "%s", request->limits.name);
    if (!path_join(instance.dir, sizeof(instance.dir), folder, instance.name)) {
        message_error("run: the path of the instance's directory below %s is too long; set "
                      "VGPU_RUNTIME_DIR to a shorter one",
                      folder);
        return -ENAMETOOLONG;
    }
    lock = lock_folder(folder, FOLDER_LOCK_BOUND_NS);
    if (lock < 0) {
        message_error("run: cannot lock %s/.lock: %s", folder,
                      lock == -ETIMEDOUT ? "another vgpu has held it for 10 s (is it stopped?)"
                                         : err_text(lock, text, sizeof(text)));
        return lock;
    }
    if (access(instance.dir, F_OK) == 0 && !remove_if_unused(instance.dir))
        error = join(request, &instance);
    else
        error = make(request, &instance);
    if (error)
        return error;
    instance.users_fd = member_lead(instance.dir);
    if (instance.users_fd < 0) {
        message_error("run: cannot lock %s/" MEMBER_FILE ": %s", instance.dir,
                      err_text(instance.users_fd, text, sizeof(text)));
        return instance.users_fd;
    }
    *ret_instance = instance;
    return 0;
}

void instance_leave(struct instance *instance)
{
    int lock CLEANUP_CLOSE = -1;
    char folder[PATH_MAX];

    close(instance->users_fd);
    instance->users_fd = -1;
    if (parent_of(instance->dir, folder, sizeof(folder)))
        return;
    lock = lock_folder(folder, FOLDER_LOCK_BOUND_NS);
    if (lock >= 0)
        remove_if_unused(instance->dir);
}
