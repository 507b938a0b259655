#include "cli/doctor.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/setting.h"
#include "sched/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define REGION_ROOM_BYTES (16U << 20) /* far more than a region needs */
#define ARENA_ROOM_BYTES  (4U << 20)  /* far more than an arena needs */

void doctor_libc(struct doctor *doctor)
{
    const char *version = gnu_get_libc_version();
    unsigned major = 0, minor = 0;

    if (sscanf(version, "%u.%u", &major, &minor) == 2 && (major > 2 || (major == 2 && minor >= 17)))
        doctor_add(doctor, DOCTOR_OK, "C library", NULL, "glibc %s (2.17 or newer is needed)",
                   version);
    else
        doctor_add(doctor, DOCTOR_FAIL, "C library", "use an image with glibc 2.17 or newer",
                   "glibc %s is older than 2.17", version);
}

void doctor_runtime_dir(struct doctor *doctor)
{
    static const char advice[] =
        "set VGPU_RUNTIME_DIR to a directory of your own on a local file system";
    char dir[PATH_MAX] = "", file[PATH_MAX + 32];
    struct statvfs fs;
    int error = runtime_dir_make(dir, sizeof(dir));

    if (!error) {
        snprintf(file, sizeof(file), "%s/.doctor-%ld", dir, (long)getpid());
        error = file_write_atomic(file, "", 0, 0600);
        unlink(file);
    }
    if (error) {
        const char *chosen = setting_text(SETTING_RUNTIME_DIR);

        doctor_add(doctor, DOCTOR_FAIL, "runtime directory", advice, "%s cannot be written to: %s",
                   *dir     ? dir
                   : chosen ? chosen
                            : "?",
                   error == -EINVAL ? "its path is not absolute" : strerror(-error));
    } else if (statvfs(dir, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < REGION_ROOM_BYTES) {
        doctor_add(doctor, DOCTOR_WARN, "runtime directory", advice, "%s is almost full", dir);
    } else {
        doctor_add(doctor, DOCTOR_OK, "runtime directory", NULL, "%s", dir);
    }
}

void doctor_arena_dir(struct doctor *doctor)
{
    static const char advice[] =
        "set VGPU_ARENA_DIR to a directory in memory (tmpfs) that you can write to";
    const char *dir = arena_folder(), *chosen = setting_text(SETTING_ARENA_DIR);
    char file[PATH_MAX + 32];
    struct statfs fs;
    int error;

    if (chosen && chosen[0] != '/') {
        doctor_add(doctor, DOCTOR_WARN, "arena directory", advice,
                   "VGPU_ARENA_DIR=%.255s is not an absolute path: %s is used", chosen, dir);
        return;
    }
    snprintf(file, sizeof(file), "%.4000s/.vgpu-doctor-%ld", dir, (long)getpid());
    error = file_write_atomic(file, "", 0, 0600);
    unlink(file);
    if (error)
        doctor_add(doctor, DOCTOR_WARN, "arena directory", advice,
                   "%s cannot be written to: %s; instances take no turns, they share a card as the "
                   "driver does",
                   dir, strerror(-error));
    else if (statfs(dir, &fs) == 0 && fs.f_type != TMPFS_MAGIC)
        doctor_add(doctor, DOCTOR_WARN, "arena directory", advice,
                   "%s is not in memory: the driver may refuse to register its files, and then "
                   "there are no turns",
                   dir);
    else if ((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize < ARENA_ROOM_BYTES)
        doctor_add(doctor, DOCTOR_WARN, "arena directory", advice, "%s is almost full", dir);
    else
        doctor_add(doctor, DOCTOR_OK, "arena directory", NULL, "%s", dir);
}

/* A list of libraries, divided by spaces, colons or line ends. */
struct preloads {
    bool any, ours, missing;
    char first_missing[256];
};

static struct preloads read_preloads(const char *list)
{
    struct preloads found = {.any = false};

    while (*list) {
        size_t length = strcspn(list, " \t:\r\n");
        char entry[PATH_MAX];

        if (length && length < sizeof(entry)) {
            memcpy(entry, list, length);
            entry[length] = '\0';
            found.any = true;
            if (strstr(entry, "libvgpu"))
                found.ours = true;
            if (strchr(entry, '/') && access(entry, R_OK) && !found.missing) {
                found.missing = true;
                snprintf(found.first_missing, sizeof(found.first_missing), "%.255s", entry);
            }
        }
        list += length;
        list += *list ? 1 : 0;
    }
    return found;
}

void doctor_preload_file(struct doctor *doctor)
{
    char list[8192] = "";
    size_t length;
    struct preloads found;

    file_read_small("/etc/ld.so.preload", list, sizeof(list), &length);
    for (char *c = strchr(list, '#'); c; c = strchr(c, '#'))
        while (*c && *c != '\n')
            *c++ = ' ';
    found = read_preloads(list);
    if (!found.any)
        doctor_add(doctor, DOCTOR_OK, "ld.so.preload", NULL,
                   "not used: only what `vgpu run` starts is bound");
    else if (found.missing)
        doctor_add(
            doctor, DOCTOR_FAIL, "ld.so.preload", "correct the path, or take the line out",
            "/etc/ld.so.preload names %s, which cannot be read: the loader goes on without it",
            found.first_missing);
    else if (found.ours)
        doctor_add(doctor, DOCTOR_OK, "ld.so.preload", NULL,
                   "names a libvgpu: every dynamically linked program gets it");
    else
        doctor_add(doctor, DOCTOR_OK, "ld.so.preload", NULL, "names other libraries only");
}

/* The accepted form of a limit of HAMi's; NULL: `text` is accepted. */
static const char *limit_advice(bool memory, const char *text)
{
    struct quota quota;
    uint32_t percent;
    int rc;

    if (!memory)
        return parse_percent(text, &percent) == -EINVAL ? "use a whole number of percent, 0 to 100"
                                                        : NULL;
    /* HAMi writes "0", with or without a unit, for no limit. */
    rc = parse_quota_loosely(text, &quota);
    return rc && rc != -PARSE_ZERO ? SIZE_FORMS : NULL;
}

/* Reports faults in the variables of one limit. Returns whether one of them is set. */
static bool check_limit(struct doctor *doctor, bool memory)
{
    enum setting each = memory ? SETTING_MEMORY_LIMIT_DEVICE : SETTING_SM_LIMIT_DEVICE;
    enum setting all = memory ? SETTING_MEMORY_LIMIT : SETTING_SM_LIMIT;
    bool any = false;

    for (unsigned i = 0; i <= VGPU_DEVICES_MAX; i++) {
        char name[SETTING_NAME_BYTES];
        const char *text = i ? setting_device_text(each, i - 1, name) : setting_text(all);
        const char *advice = text ? limit_advice(memory, text) : NULL;

        any = any || text;
        if (advice)
            doctor_add(doctor, DOCTOR_FAIL, "environment", advice,
                       "%s='%.64s' is not accepted as a %s", i ? name : setting_name(all), text,
                       memory ? "size" : "percentage");
    }
    return any;
}

void doctor_environment(struct doctor *doctor)
{
    const char *preload = setting_text(SETTING_PRELOAD), *instance = setting_text(SETTING_INSTANCE),
               *limit = NULL;
    struct preloads found = read_preloads(preload ? preload : "");

    if (check_limit(doctor, true))
        limit = setting_name(SETTING_MEMORY_LIMIT);
    if (check_limit(doctor, false) && !limit)
        limit = setting_name(SETTING_SM_LIMIT);
    if (found.missing)
        doctor_add(doctor, DOCTOR_FAIL, "environment", "correct the path, or unset LD_PRELOAD",
                   "LD_PRELOAD names %s, which cannot be read: the loader goes on without it",
                   found.first_missing);
    else if (instance && !found.ours)
        doctor_add(doctor, DOCTOR_WARN, "environment",
                   "start programs with `vgpu run`, or set LD_PRELOAD to libvgpu.so again",
                   "VGPU_INSTANCE=%.255s is set but LD_PRELOAD names no libvgpu: programs started "
                   "from here are not bound",
                   instance);
    else if (instance)
        doctor_add(doctor, DOCTOR_OK, "environment", NULL, "this is inside the instance %.255s",
                   instance);
    else if (limit && !found.ours)
        doctor_add(doctor, DOCTOR_WARN, "environment", "add LD_PRELOAD=.../libvgpu.so",
                   "%s is set but LD_PRELOAD names no libvgpu", limit);
    else
        doctor_add(doctor, DOCTOR_OK, "environment", NULL,
                   found.ours ? "LD_PRELOAD names a libvgpu" : "this is outside of any instance");
}

/* The number in a file of /proc/sys; `missing` if there is none. */
static long read_setting(const char *path, long missing)
{
    char text[64];
    size_t length;

    return file_read_small(path, text, sizeof(text), &length) || !length ? missing
                                                                         : strtol(text, NULL, 10);
}

void doctor_namespaces(struct doctor *doctor)
{
    long most = read_setting("/proc/sys/user/max_user_namespaces", 0);
    long unprivileged = read_setting("/proc/sys/kernel/unprivileged_userns_clone", 1);
    long restricted = read_setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0);

    if (most > 0 && unprivileged && !restricted)
        doctor_add(doctor, DOCTOR_WARN, "user namespaces",
                   "for users who must not get around their quota, start programs with `vgpu run "
                   "--guard`, or set "
                   "user.max_user_namespaces=0 and use /etc/ld.so.preload",
                   "any user may make one, and in it hide even /etc/ld.so.preload: a preloaded "
                   "quota is an agreement, not a "
                   "wall");
    else
        doctor_add(doctor, DOCTOR_OK, "user namespaces", NULL,
                   "not for ordinary users; even so LD_PRELOAD can be unset by a program");
}
