#include "account/instance.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/setting.h"
#include "account/hami.h"
#include "account/implicit.h"
#include "account/override.h"
#include "account/visible.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

/* Our priority for HAMi's first one; all others are 0. */
#define FIRST_PRIORITY 100

/* A limit of HAMi's: the variable for all devices, and the one for each. */
struct hami_limit {
    enum setting all, each;
    int (*parse)(const char *name, const char *text, struct vgpu_limit *ret_limit);
};

static int parse_quota_limit(const char *name, const char *text, struct vgpu_limit *ret_limit);
static int parse_cap(const char *name, const char *text, struct vgpu_limit *ret_limit);

static const struct hami_limit memory_limit = {SETTING_MEMORY_LIMIT, SETTING_MEMORY_LIMIT_DEVICE,
                                               parse_quota_limit};
static const struct hami_limit sm_limit = {SETTING_SM_LIMIT, SETTING_SM_LIMIT_DEVICE, parse_cap};

/* A line of HAMi's override file replaces the environment's `text`. */
static const char *overridden(const char *name, const char *text)
{
    const char *given = override_get(name);

    return !given ? text : *given ? given : NULL;
}

static const char *hami_text(enum setting setting)
{
    return overridden(setting_name(setting), setting_text(setting));
}

static const char *hami_device_text(enum setting setting, unsigned device,
                                    char name[SETTING_NAME_BYTES])
{
    const char *text = setting_device_text(setting, device, name);

    return overridden(name, text);
}

static bool hami_limit_set(const struct hami_limit *limit)
{
    char name[SETTING_NAME_BYTES];

    if (hami_text(limit->all))
        return true;
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        if (hami_device_text(limit->each, i, name))
            return true;
    }
    return false;
}

static bool implicit_configured(void)
{
    return setting_text(SETTING_SHARED_CACHE) || hami_limit_set(&memory_limit) ||
           hami_limit_set(&sm_limit);
}

bool instance_configured(void)
{
    return setting_text(SETTING_INSTANCE) || implicit_configured();
}

uint64_t instance_group_id(void)
{
    return setting_text(SETTING_INSTANCE) ? setting_number(SETTING_GROUP) : 0;
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

/* "<folder>/region" of an instance that is named by its folder or its name. -EINVAL: no such name
 * can be; -ENAMETOOLONG. */
static int region_path(const char *name_or_folder, char *buffer, size_t buffer_bytes)
{
    return instance_path(name_or_folder, "/region", buffer, buffer_bytes);
}

int instance_folder(char *buffer, size_t buffer_bytes)
{
    const char *name = setting_text(SETTING_INSTANCE);

    return name ? instance_path(name, "", buffer, buffer_bytes) : -ENOENT;
}

/* Says it in one line, but not again if the program tries again. */
static void complain(enum setting setting, const char *path, int rc)
{
    static const char not_a_cache[] =
        "no cache file of HAMi's or vgpu's, or one that another version of vgpu uses; end "
        "its users and remove it, or set CUDA_DEVICE_MEMORY_SHARED_CACHE to another path";
    bool named = setting == SETTING_INSTANCE;
    static atomic_int last;
    char text[64];
    const char *why = rc == -EPROTO ? (named ? "not a region of this version of vgpu" : not_a_cache)
                      : rc == -ENOLCK ? "the file system has no file locks"
                      : rc == -EUSERS ? "all places are taken by processes"
                      : rc == -ENOENT
                          ? (named ? "there is no such instance" : "there is no such folder")
                      : rc == -EACCES ? "permission denied (it belongs to another user)"
                      : rc == -ELOOP  ? "it is a symbolic link, and those are not followed"
                      : rc == -ESTALE ? "the file was replaced"
                                      : err_text(rc, text, sizeof(text));

    if (atomic_exchange(&last, rc) != rc)
        log_error("%s: cannot attach to %s: %s; CUDA is not started, because its memory could not "
                  "be limited",
                  setting_name(setting), path, why);
}

/* A region with such limits is not attached: the program would get other devices, or none, without
 * a reason that its user sees. */
static int check_region(enum setting setting, const char *path, struct vgpu_region *region)
{
    const char *damage = region_damage(region);
    static atomic_bool told;

    if (!damage)
        return 0;
    if (!atomic_exchange(&told, true))
        log_error("%s: %s is damaged (%s): end the programs that use it, and remove it; CUDA is "
                  "not started",
                  setting_name(setting), path, damage);
    region_close(region);
    return -EBADMSG;
}

static int parse_quota_limit(const char *name, const char *text, struct vgpu_limit *ret_limit)
{
    struct quota quota = {0};
    int rc = parse_quota_loosely(text, &quota);

    /* HAMi's own tools write 0m for a container without a limit. */
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

/* Reads a cap as a size without a unit, as HAMi does ("0x1e" is 30). 0, and 100 and above, are no
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

/* Each device's own variable, or else the variable for all devices. */
static int parse_variables(const struct hami_limit *limit, struct vgpu_limits *limits)
{
    const char *everywhere = hami_text(limit->all);
    int rc = 0;

    for (unsigned i = 0; i < VGPU_DEVICES_MAX && rc == 0; i++) {
        char name[SETTING_NAME_BYTES];
        const char *text = hami_device_text(limit->each, i, name);

        if (text)
            rc = limit->parse(name, text, &limits->vdev[i]);
        else if (everywhere)
            rc = limit->parse(setting_name(limit->all), everywhere, &limits->vdev[i]);
    }
    return rc;
}

static bool policy_is(const char *wanted)
{
    const char *text = hami_text(SETTING_CORE_POLICY);

    return text && strcasecmp(text, wanted) == 0;
}

static uint32_t cap_policy(void)
{
    const char *text = hami_text(SETTING_CORE_POLICY);
    static atomic_bool told;

    if (policy_is("disable"))
        return VGPU_CAP_OFF;
    if (text && !setting_accepts(SETTING_CORE_POLICY, text) && !atomic_exchange(&told, true))
        log_warning("%s '%.64s': there is no such policy, default is taken; use one of %s",
                    setting_name(SETTING_CORE_POLICY), text,
                    setting_rows[SETTING_CORE_POLICY].range);
    return VGPU_CAP_HARD;
}

static int limits_from_environment(struct vgpu_limits *ret_limits)
{
    const char *priority = hami_text(SETTING_TASK_PRIORITY);
    struct vgpu_limits limits = {.device_count = 0};
    int rc = parse_variables(&memory_limit, &limits);

    if (rc == 0)
        rc = parse_variables(&sm_limit, &limits);
    if (rc < 0)
        return rc;
    limits.compute.cap_policy = cap_policy();
    limits.compute.priority =
        setting_number_of(SETTING_TASK_PRIORITY, priority) == 0 ? FIRST_PRIORITY : 0;
    *ret_limits = limits;
    return 0;
}

int instance_configured_limits(struct vgpu_limits *ret_limits)
{
    return setting_text(SETTING_INSTANCE) || !implicit_configured()
               ? -ENOENT
               : limits_from_environment(ret_limits);
}

bool instance_limits_by_number(struct vgpu_limits *ret_limits)
{
    return !setting_text(SETTING_INSTANCE) && implicit_configured() &&
           setting_raw(SETTING_VISIBLE_DEVICES) != NULL && limits_from_environment(ret_limits) == 0;
}

static int cache_path(char *buffer, size_t buffer_bytes)
{
    /* A set-uid program makes no file at a path of its caller's. */
    const char *given = setting_secure_text(SETTING_SHARED_CACHE);
    char folder[PATH_MAX];
    int length;

    if (!given)
        given = setting_rows[SETTING_SHARED_CACHE].initial;
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
        rc = region_create(path, &hami_cache, &limits, ret_region, &created);
    if (rc < 0) {
        complain(SETTING_SHARED_CACHE, path, rc);
        return rc;
    }
    implicit_register(path);
    /* A process without limits does not change the region's. */
    if (created || !(hami_limit_set(&memory_limit) || hami_limit_set(&sm_limit)))
        return check_region(SETTING_SHARED_CACHE, path, *ret_region);
    rc = region_adopt_limits(*ret_region, &limits);
    if (rc == -EBUSY)
        log_warning(
            "%s: processes run with other limits in %s: those stay in force",
            setting_name(hami_limit_set(&memory_limit) ? SETTING_MEMORY_LIMIT : SETTING_SM_LIMIT),
            path);
    else if (rc < 0) {
        complain(SETTING_SHARED_CACHE, path, rc);
        region_close(*ret_region);
        return rc;
    }
    return check_region(SETTING_SHARED_CACHE, path, *ret_region);
}

static int open_named(const char *name, struct vgpu_region **ret_region)
{
    char path[PATH_MAX];
    int rc = region_path(name, path, sizeof(path));

    if (rc == 0)
        rc = region_open(path, 0, ret_region);
    if (rc < 0)
        complain(SETTING_INSTANCE, name, rc);
    return rc < 0 ? rc : check_region(SETTING_INSTANCE, path, *ret_region);
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

/* "4.0 GiB from device 0 on, 1.0 GiB from device 1 on": names only devices whose limit differs from
 * the one before. */
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

/* Says in one line which limits apply. */
static void announce(struct vgpu_region *region)
{
    static const char *const policies[] = {
#define CAP_POLICY(id, name, meaning) name,
#include "policies.def"
    };
    struct vgpu_limits limits;
    char quotas[512], caps[512];

    if (!log_wanted(LOG_LEVEL_INFO))
        return;
    region_limits(region, &limits);
    show_limits(&limits, show_quota, quotas, sizeof(quotas));
    show_limits(&limits, show_cap, caps, sizeof(caps));
    log_info("instance %s: process %d is attached; quota: %s; cap (%s): %s; weight %u, priority %u",
             limits.name[0] ? limits.name : "by CUDA_DEVICE_MEMORY_SHARED_CACHE", (int)getpid(),
             quotas, policies[limits.compute.cap_policy], caps, limits.compute.weight,
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
    struct hami_options options = {
        .ignore_switch = policy_is("force"),
        .record_interval_s =
            setting_number_of(SETTING_RECORD_INTERVAL, hami_text(SETTING_RECORD_INTERVAL))};

    hami_mirror(ledger, &options);
}

int instance_attach(struct vgpu_ledger **ret_ledger)
{
    KEEP_ERRNO;
    const char *name = setting_text(SETTING_INSTANCE);
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
    rc = ledger_new(region, instance_group_id(), &ledger);
    if (rc < 0) {
        region_close(region);
        complain(name ? SETTING_INSTANCE : SETTING_SHARED_CACHE, name ? name : "the cache file",
                 rc);
        return rc;
    }
    if (!name)
        mirror(ledger);
    if (instance_group_id() && !ledger_group(ledger))
        log_warning("%s=%.32s names no run inside instance %s: only the limits of that hold",
                    setting_name(SETTING_GROUP), setting_text(SETTING_GROUP), name);
    announce(region);
    *ret_ledger = ledger;
    return 1;
}
