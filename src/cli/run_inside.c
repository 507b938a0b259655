/*
 * A `vgpu run` inside an instance. The command joins that instance, so that all its programs keep
 * its limits together. Higher limits are lowered to the instance's. For lower limits the command's
 * processes are a group in the instance's region (struct region_group), which keeps both. A group
 * contains no further group.
 */
#include "cli/run.h"

#include "base/err.h"
#include "cli/message.h"
#include "cli/path.h"
#include "account/instance.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The instance around this process. The open region keeps the command's group alive. */
static struct {
    struct vgpu_region *region;
    struct vgpu_limits limits; /* of the group to make; see region_group_new() */
    bool lower;
    uint64_t group;             /* the group of this process; 0: none */
    struct vgpu_limits devices; /* the devices of --gpu; none: all of the instance's */
} around;

/* Whether a limit is lower than another; 0 is no limit. */
static bool less(uint64_t asked, uint64_t has)
{
    return asked && (!has || asked < has);
}

/* A percentage is of the instance's quota, so any but 100 is lower. */
static bool less_quota(const struct vgpu_limit *asked, const struct vgpu_limit *has)
{
    if (asked->quota_percent && has->quota_percent)
        return asked->quota_percent < 100;
    if (asked->quota_percent)
        return asked->quota_percent < 100 || !has->quota_bytes;
    return less(asked->quota_bytes, has->quota_bytes);
}

/* Returns an option with a lower value than the instance has; NULL: there is none. */
static const struct cli_option *lower_compute(const struct instance_request *request,
                                              const struct vgpu_compute *has)
{
    const struct vgpu_compute *asked = &request->limits.compute;
    struct vgpu_compute *to = &around.limits.compute;
    const struct cli_option *option = NULL;

#define COMPUTE_LIMIT(field, type, most, initial, none, lower, json)                               \
    to->field = none;                                                                              \
    if (request->has.field && lower(asked->field, has->field) != has->field) {                     \
        to->field = asked->field;                                                                  \
        option = RUN_OPTION(field);                                                                \
    }
#include "limits.def"
    /* The policy applies to the group's own cap. */
    if (request->has.cap_policy) {
        to->cap_policy = asked->cap_policy;
        if (asked->cap_policy < has->cap_policy)
            option = RUN_OPTION(cap_policy);
    }
    return option;
}

/* Makes the group's limits of all requested limits that are lower than the instance's, and drops
 * them from the request. Returns an option of one of them; NULL: there is none. */
static const struct cli_option *lower_limits(struct instance_request *request,
                                             const struct vgpu_limits *has)
{
    const struct cli_option *option = lower_compute(request, &has->compute);
    bool harder =
        request->has.cap_policy && request->limits.compute.cap_policy < has->compute.cap_policy;

    for (unsigned i = 0; i < VGPU_VDEVS; i++) {
        const struct vgpu_limit *asked = instance_same_device(has, i, &request->limits),
                                *one = &has->vdev[i];
        struct vgpu_limit *to = &around.limits.vdev[i];
        bool host = i == VGPU_VDEV_HOST;

        if ((host ? request->has_host_quota : request->has_quota) && less_quota(asked, one)) {
            to->quota_bytes = asked->quota_bytes;
            to->quota_percent = asked->quota_percent;
            option = host ? RUN_OPTION(host_mem) : RUN_OPTION(mem);
        }
        if (!host && request->has_cap && less(asked->cap_percent, one->cap_percent)) {
            to->cap_percent = asked->cap_percent;
            option = RUN_OPTION(cores);
        } else if (!host && harder) {
            to->cap_percent = one->cap_percent;
        }
    }
    request->has_quota = request->has_cap = request->has_host_quota = false;
    memset(&request->has, 0, sizeof(request->has));
    return option;
}

/* An instance without --gpu numbers its devices only when programs see them. So the limits of all
 * devices of --gpu must be the same, and apply to every device. False: they differ. */
static bool spread(struct vgpu_limits *asked)
{
    struct vgpu_limit one = asked->vdev[0];

    for (unsigned i = 1; i < asked->device_count; i++) {
        if (!vgpu_same_limit(&one, &asked->vdev[i]))
            return false;
    }
    one.uuid[0] = '\0';
    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++)
        asked->vdev[i] = one;
    return true;
}

/* --gpu chooses among the devices of the instance. */
static bool choose_devices(const struct run_options *options, struct instance_request *request,
                           const struct vgpu_limits *has)
{
    struct vgpu_limits *asked = &request->limits;

    for (unsigned i = 0; i < asked->device_count; i++) {
        if (instance_has_device(has, asked->vdev[i].uuid))
            continue;
        message_error("run: --gpu %s: this is inside instance %s, which has no device %s",
                      options->gpu, has->name, asked->vdev[i].uuid);
        return false;
    }
    around.devices = *asked;
    request->has_devices = false;
    if (has->device_count || spread(asked))
        return true;
    message_error("run: --gpu %s with another limit for each device: this is inside instance %s, "
                  "which has no --gpu; give "
                  "it one, or one limit for all",
                  options->gpu, has->name);
    return false;
}

/* Opens the region of the instance around. NULL with *ret_error 0: it is gone, and a warning was
 * written; with -errno: it cannot be opened, and a message was written. */
static struct vgpu_region *open_around(const char *dir, int *ret_error)
{
    struct vgpu_region *region = NULL;
    char path[PATH_MAX], text[128];

    *ret_error = path_join(path, sizeof(path), dir, INSTANCE_REGION) ? region_open(path, 0, &region)
                                                                     : -ENAMETOOLONG;
    if (*ret_error == -ENOENT) {
        message_warning("VGPU_INSTANCE names %s, which is gone: this is inside no instance", dir);
        *ret_error = 0;
    } else if (*ret_error) {
        message_error("run: this is inside the instance %s, which cannot be opened: %s; unset "
                      "VGPU_INSTANCE to leave it",
                      dir, err_text(*ret_error, text, sizeof(text)));
    }
    return region;
}

/* Reports which limits apply. False: they nest too deep, and a message was written. */
static bool tell(const struct run_options *options, const struct vgpu_limits *has,
                 const struct cli_option *option)
{
    if (option && around.group) {
        message_error("run: --%s is lower than that of the run this is inside of, which is inside "
                      "instance %s itself: "
                      "limits go two deep; leave it out",
                      option->name, has->name);
        return false;
    }
    if (option)
        message_note("this is inside instance %s: the command joins it, and its limits hold as "
                     "well as these",
                     has->name);
    else if (!options->name || strcmp(options->name, has->name) != 0)
        message_note("this is inside instance %s: the command joins it, and its limits hold",
                     has->name);
    return true;
}

bool run_inside(const struct run_options *options, struct instance_request *request)
{
    static char dir[PATH_MAX];
    const struct cli_option *option;
    struct vgpu_limits has;
    int error = instance_folder(dir, sizeof(dir));

    if (error == -ENOENT)
        return true;
    around.region = error ? NULL : open_around(dir, &error);
    if (!around.region)
        return !error;
    region_limits(around.region, &has);
    if (has.tier == VGPU_TIER_GUARD) { /* the guard keeps its limits for all that runs inside */
        region_close(around.region);
        around.region = NULL;
        return true;
    }
    if (options->guard != GUARD_OFF) {
        message_error("run: --guard: this is inside instance %s, whose limits the library keeps; "
                      "start it outside",
                      has.name);
        return false;
    }
    if (region_group_limits(around.region, instance_group_id(), &has))
        around.group = instance_group_id();
    if (request->has_devices && !choose_devices(options, request, &has))
        return false;
    option = lower_limits(request, &has);
    if (!tell(options, &has, option))
        return false;
    around.lower = option != NULL;
    memcpy(request->limits.name, has.name, sizeof(has.name));
    request->limits.tier = has.tier;
    request->dir = dir;
    return true;
}

bool run_inside_devices(void)
{
    return run_env_devices(&around.devices);
}

bool run_inside_group(const char *instance_name, uint64_t *ret_group)
{
    char text[128];
    int error = 0;

    if (around.lower)
        error = region_group_new(around.region, &around.limits, &around.group);
    if (error == -EUSERS)
        message_error("run: %d runs with limits of their own are inside instance %s already, the "
                      "most there may be",
                      VGPU_GROUPS - 1, instance_name);
    else if (error)
        message_error("run: no limits of its own can be made inside instance %s: %s", instance_name,
                      err_text(error, text, sizeof(text)));
    *ret_group = around.group;
    return error == 0;
}
