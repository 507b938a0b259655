#include "core/instance.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "core/hami.h"
#include "core/implicit.h"
#include "core/override.h"
#include "core/visible.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#define ENV_MEMORY    "CUDA_DEVICE_MEMORY_LIMIT"
#define ENV_SM        "CUDA_DEVICE_SM_LIMIT"
#define ENV_CACHE     "CUDA_DEVICE_MEMORY_SHARED_CACHE"
#define ENV_POLICY    "GPU_CORE_UTILIZATION_POLICY"
#define ENV_PRIORITY  "CUDA_TASK_PRIORITY"
#define ENV_INTERVAL  "RECORD_KERNEL_INTERVAL"
#define ENV_NAME_SIZE 64

/* What HAMi's first priority is among ours, where all others are 0. */
#define FIRST_PRIORITY 100

static const char env_instance[] = INSTANCE_VARIABLE;

/* A variable that is set and not empty. */
static const char *variable(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

/* One of HAMi's: what its file says stands for the environment. */
static const char *setting(const char *name)
{
    const char *text = override_get(name);

    return text ? (*text ? text : NULL) : variable(name);
}

/* "<name>_<index>" */
static const char *indexed_variable(const char *name, unsigned index, char *buffer)
{
    snprintf(buffer, ENV_NAME_SIZE, "%s_%u", name, index);
    return setting(buffer);
}

static bool any_variable(const char *name)
{
    char buffer[ENV_NAME_SIZE];

    if (setting(name))
        return true;
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        if (indexed_variable(name, i, buffer))
            return true;
    }
    return false;
}

static bool implicit_configured(void)
{
    return variable(ENV_CACHE) || any_variable(ENV_MEMORY) || any_variable(ENV_SM);
}

bool instance_configured(void)
{
    return variable(env_instance) || implicit_configured();
}

uint64_t instance_group_id(void)
{
    const char *text = variable(env_instance) ? variable(INSTANCE_GROUP_VARIABLE) : NULL;
    uint64_t id = 0;

    return text && parse_count(text, 1, UINT64_MAX, &id) == 0 ? id : 0;
}

/* Appends to "<folder>" of the instance. */
static int instance_path(const char *name_or_folder, const char *file, char *buffer,
                         size_t buffer_bytes)
{
    char runtime[PATH_MAX];
    int length, rc;

    if (name_or_folder[0] == '/') {
        length = snprintf(buffer, buffer_bytes, "%s%s", name_or_folder, file);
    } else {
        if (!parse_name_valid(name_or_folder))
            return -EINVAL;
        rc = runtime_dir(runtime, sizeof(runtime));
        if (rc < 0)
            return rc;
        length = snprintf(buffer, buffer_bytes, "%s/instances/%s%s", runtime, name_or_folder, file);
    }
    return length < 0 || (size_t)length >= buffer_bytes ? -ENAMETOOLONG : 0;
}

int instance_region_path(const char *name_or_folder, char *buffer, size_t buffer_bytes)
{
    return instance_path(name_or_folder, "/region", buffer, buffer_bytes);
}

int instance_folder(char *buffer, size_t buffer_bytes)
{
    const char *name = variable(env_instance);

    return name ? instance_path(name, "", buffer, buffer_bytes) : -ENOENT;
}

/* One line, and not the same one again when the program tries again. */
static void complain(const char *what, const char *path, int rc)
{
    static const char not_a_cache[] =
        "no cache file of HAMi's or vgpu's, or one that another version of vgpu uses; end "
        "its users and remove it, or set " ENV_CACHE " to another path";
    static atomic_int last;
    char text[64];
    const char *why =
        rc == -EPROTO
            ? (what == env_instance ? "not a region of this version of vgpu" : not_a_cache)
        : rc == -ENOLCK ? "the file system has no file locks"
        : rc == -EUSERS ? "all places are taken by processes"
        : rc == -ENOENT
            ? (what == env_instance ? "there is no such instance" : "there is no such folder")
        : rc == -EACCES ? "permission denied (it belongs to another user)"
        : rc == -ELOOP  ? "it is a symbolic link, and those are not followed"
        : rc == -ESTALE ? "the file was replaced"
                        : err_text(rc, text, sizeof(text));

    if (atomic_exchange(&last, rc) != rc)
        log_error("%s: cannot attach to %s: %s; CUDA is not started, because its memory could not "
                  "be limited",
                  what, path, why);
}

/* Not attached: by such limits a program would get other devices, or none, and nobody would know
 * why. */
static int check_region(const char *what, const char *path, struct vgpu_region *region)
{
    const char *damage = region_damage(region);
    static atomic_bool told;

    if (!damage)
        return 0;
    if (!atomic_exchange(&told, true))
        log_error("%s: %s is damaged (%s): end the programs that use it, and remove it; CUDA is "
                  "not started",
                  what, path, damage);
    region_close(region);
    return -EBADMSG;
}

static int parse_quota_limit(const char *name, const char *text, struct vgpu_limit *ret_limit)
{
    struct quota quota = {0};
    int rc = parse_quota_loosely(text, &quota);

    /* HAMi's own tools write 0m where a container has no limit. */
    if (rc < 0 && rc != -PARSE_ZERO) {
        static atomic_bool told;

        if (!atomic_exchange(&told, true))
            log_error("%s \"%.64s\": %s; CUDA is not started", name, text, parse_fault_text(rc));
        return -EINVAL;
    }
    ret_limit->quota_bytes = quota.bytes;
    ret_limit->quota_percent = quota.percent;
    return 0;
}

/* Read as a size, for so does HAMi ("0x1e" is 30), but without a unit. 0, and 100 and above, are no
 * cap. */
static int parse_cap(const char *name, const char *text, struct vgpu_limit *ret_limit)
{
    struct quota quota = {0};
    int rc = parse_quota_loosely(text, &quota);
    uint64_t percent = quota.percent ? quota.percent : quota.bytes;

    if (strpbrk(text, ".kKmMgGtT") ||
        (rc < 0 && rc != -PARSE_ZERO && rc != -PARSE_LARGE && rc != -PARSE_PERCENT)) {
        static atomic_bool told;

        if (!atomic_exchange(&told, true))
            log_error("%s \"%.64s\": use a whole number of percent, 0 to 100 (0 and 100: no cap); "
                      "CUDA is not started",
                      name, text);
        return -EINVAL;
    }
    ret_limit->cap_percent = percent < 100 ? (uint32_t)percent : 0;
    return 0;
}

/* Each device's own variable, else the one for all. */
static int parse_variables(const char *name,
                           int (*parse)(const char *, const char *, struct vgpu_limit *),
                           struct vgpu_limits *limits)
{
    const char *everywhere = setting(name);
    int rc = 0;

    for (unsigned i = 0; i < VGPU_DEVICES_MAX && rc == 0; i++) {
        char indexed[ENV_NAME_SIZE];
        const char *text = indexed_variable(name, i, indexed);

        if (text)
            rc = parse(indexed, text, &limits->vdev[i]);
        else if (everywhere)
            rc = parse(name, everywhere, &limits->vdev[i]);
    }
    return rc;
}

static bool policy_is(const char *wanted)
{
    const char *text = setting(ENV_POLICY);

    return text && strcasecmp(text, wanted) == 0;
}

static uint32_t cap_policy(void)
{
    if (policy_is("disable"))
        return VGPU_CAP_OFF;
    if (setting(ENV_POLICY) && !policy_is("force") && !policy_is("default")) {
        static atomic_bool told;

        if (!atomic_exchange(&told, true))
            log_warning(ENV_POLICY " '%.64s': there is no such policy, default is taken; use "
                                   "force, default or disable",
                        setting(ENV_POLICY));
    }
    return VGPU_CAP_HARD;
}

static int limits_from_environment(struct vgpu_limits *ret_limits)
{
    const char *priority = setting(ENV_PRIORITY);
    struct vgpu_limits limits = {.device_count = 0};
    int rc = parse_variables(ENV_MEMORY, parse_quota_limit, &limits);

    if (rc == 0)
        rc = parse_variables(ENV_SM, parse_cap, &limits);
    if (rc < 0)
        return rc;
    limits.compute.cap_policy = cap_policy();
    limits.compute.priority = priority && strcmp(priority, "0") == 0 ? FIRST_PRIORITY : 0;
    *ret_limits = limits;
    return 0;
}

int instance_configured_limits(struct vgpu_limits *ret_limits)
{
    return variable(env_instance) || !implicit_configured() ? -ENOENT
                                                            : limits_from_environment(ret_limits);
}

bool instance_limits_by_number(struct vgpu_limits *ret_limits)
{
    return !variable(env_instance) && implicit_configured() && getenv(VISIBLE_VARIABLE) != NULL &&
           limits_from_environment(ret_limits) == 0;
}

static int cache_path(char *buffer, size_t buffer_bytes)
{
    /* A set-uid program makes no file where its caller says. */
    const char *given = secure_getenv(ENV_CACHE);
    char folder[PATH_MAX];
    int length;

    if (!given || !*given)
        given = INSTANCE_CACHE_DEFAULT;
    /* The program may change its folder, and the file may have to be opened again. */
    if (given[0] == '/')
        length = snprintf(buffer, buffer_bytes, "%s", given);
    else if (getcwd(folder, sizeof(folder)))
        length = snprintf(buffer, buffer_bytes, "%s/%s", folder, given);
    else
        return err_last();
    return length < 0 || (size_t)length >= buffer_bytes ? -ENAMETOOLONG : 0;
}

static int open_implicit(struct vgpu_region **ret_region)
{
    struct vgpu_limits limits;
    char path[PATH_MAX];
    bool created;
    int rc = limits_from_environment(&limits);

    if (rc < 0)
        return rc;
    rc = cache_path(path, sizeof(path));
    if (rc == 0)
        rc = region_create(path, INSTANCE_CACHE_OFFSET, &limits, ret_region, &created);
    if (rc < 0) {
        complain(ENV_CACHE, path, rc);
        return rc;
    }
    implicit_register(path);
    /* Whoever brings no limits does not change those that are there. */
    if (created || !(any_variable(ENV_MEMORY) || any_variable(ENV_SM)))
        return check_region(ENV_CACHE, path, *ret_region);
    rc = region_adopt_limits(*ret_region, &limits);
    if (rc == -EBUSY)
        log_warning("%s: processes run with other limits in %s: those stay in force",
                    any_variable(ENV_MEMORY) ? ENV_MEMORY : ENV_SM, path);
    else if (rc < 0) {
        complain(ENV_CACHE, path, rc);
        region_close(*ret_region);
        return rc;
    }
    return check_region(ENV_CACHE, path, *ret_region);
}

static int open_named(const char *name, struct vgpu_region **ret_region)
{
    char path[PATH_MAX];
    int rc = instance_region_path(name, path, sizeof(path));

    if (rc == 0)
        rc = region_open(path, 0, ret_region);
    if (rc < 0)
        complain(env_instance, name, rc);
    return rc < 0 ? rc : check_region(env_instance, path, *ret_region);
}

static void show_quota(const struct vgpu_limit *limit, char *buffer, size_t buffer_bytes)
{
    if (limit->quota_percent)
        snprintf(buffer, buffer_bytes, "%u%%", limit->quota_percent);
    else if (limit->quota_bytes)
        format_bytes(limit->quota_bytes, buffer, buffer_bytes);
    else
        snprintf(buffer, buffer_bytes, "none");
}

static void show_cap(const struct vgpu_limit *limit, char *buffer, size_t buffer_bytes)
{
    if (limit->cap_percent)
        snprintf(buffer, buffer_bytes, "%u%%", limit->cap_percent);
    else
        snprintf(buffer, buffer_bytes, "none");
}

/* "4.0 GiB from device 0 on, 1.0 GiB from device 1 on": devices with the limit of the one before
 * are not named. */
static void show_limits(const struct vgpu_limits *limits,
                        void (*show)(const struct vgpu_limit *, char *, size_t), char *buffer,
                        size_t buffer_bytes)
{
    char text[SIZE_TEXT_BYTES], before[SIZE_TEXT_BYTES] = "";
    size_t used = 0;

    buffer[0] = '\0';
    for (unsigned i = 0; i < VGPU_DEVICES_MAX && used < buffer_bytes; i++) {
        show(&limits->vdev[i], text, sizeof(text));
        if (strcmp(text, before) == 0)
            continue;
        used += (size_t)snprintf(buffer + used, buffer_bytes - used, "%s%s from device %u on",
                                 i ? ", " : "", text, i);
        memcpy(before, text, sizeof(before));
    }
}

/* What is in force, one line. */
static void announce(struct vgpu_region *region)
{
    static const char *const policies[] = {
#define X(id, name) name,
        VGPU_CAP_POLICY_LIST(X)
#undef X
    };
    struct vgpu_limits limits;
    char quotas[512], caps[512];

    if (!log_wanted(LOG_LEVEL_INFO))
        return;
    region_limits(region, &limits);
    show_limits(&limits, show_quota, quotas, sizeof(quotas));
    show_limits(&limits, show_cap, caps, sizeof(caps));
    log_info("instance %s: process %d is attached; quota: %s; cap (%s): %s; weight %u, priority %u",
             limits.name[0] ? limits.name : "by " ENV_CACHE, (int)getpid(), quotas,
             policies[limits.compute.cap_policy], caps, limits.compute.weight,
             limits.compute.priority);
}

bool instance_lost(struct vgpu_region *region)
{
    const char *path = region_unlinked(region);

    if (path)
        log_warning("%s was removed while programs use it: who starts now has the limits once "
                    "more; end all and start "
                    "them again",
                    path);
    return path != NULL;
}

static void mirror(struct vgpu_ledger *ledger)
{
    struct hami_options options = {.ignore_switch = policy_is("force")};
    const char *interval = setting(ENV_INTERVAL);

    /* As HAMi takes it: what is no number is as if it were not there. */
    if (interval)
        (void)parse_count(interval, 1, UINT32_MAX, &options.record_interval_s);
    hami_mirror(ledger, &options);
}

int instance_attach(struct vgpu_ledger **ret_ledger)
{
    KEEP_ERRNO;
    const char *name = variable(env_instance);
    struct vgpu_region *region;
    struct vgpu_ledger *ledger;
    int rc;

    if (name)
        rc = open_named(name, &region);
    else if (implicit_configured()) {
        override_read(OVERRIDE_FILE);
        rc = open_implicit(&region);
    } else
        return 0;
    if (rc < 0)
        return rc;
    rc = ledger_new_in(region, instance_group_id(), &ledger);
    if (rc < 0) {
        region_close(region);
        complain(name ? env_instance : ENV_CACHE, name ? name : "the cache file", rc);
        return rc;
    }
    if (!name)
        mirror(ledger);
    if (instance_group_id() && !ledger_group(ledger))
        log_warning(INSTANCE_GROUP_VARIABLE
                    "=%.32s names no run inside instance %s: only the limits of that hold",
                    variable(INSTANCE_GROUP_VARIABLE), name);
    announce(region);
    *ret_ledger = ledger;
    return 1;
}
