/*
 * A `vgpu run` inside an instance. The command joins that one: then all that is inside keeps to its limits together,
 * however many runs there are. What was asked for beyond them is lowered to them; less could not be kept apart.
 */
#include "cli/run.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "cli/message.h"
#include "cli/path.h"
#include "core/instance.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void cleanup_region(struct vgpu_region **region)
{
    if (*region)
        region_close(*region);
}

/* Whether a limit is less than another; 0 is none. */
static bool less(uint64_t asked, uint64_t has)
{
    return asked && (!has || asked < has);
}

/* A percentage is of what the instance has: any but 100 is less. */
static bool less_quota(const struct vgpu_limit *asked, const struct vgpu_limit *has)
{
    if (asked->quota_percent && has->quota_percent)
        return asked->quota_percent < 100;
    if (asked->quota_percent)
        return asked->quota_percent < 100 || !has->quota_bytes;
    return less(asked->quota_bytes, has->quota_bytes);
}

/* The first option that asks for less than the instance has; NULL: none. What asks for more is taken out of it. */
static const char *lower(struct instance_request *request, const struct vgpu_limits *has)
{
    const struct vgpu_limits *asked = &request->limits;

    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        const struct vgpu_limit *one = instance_same_device(asked, i, has);

        if (request->has_quota && less_quota(&asked->slice[i], one))
            return "--mem";
        if (request->has_cap && less(asked->slice[i].cap_percent, one->cap_percent))
            return "--cores";
    }
    if (request->has_host_quota && less_quota(&asked->slice[VGPU_SLICE_HOST], &has->slice[VGPU_SLICE_HOST]))
        return "--host-mem";
    if (request->has_copy_rate && less(asked->compute.copy_bytes_s, has->compute.copy_bytes_s))
        return "--copy-bw";
    if (request->has_weight && asked->compute.weight < has->compute.weight)
        return "--weight";
    if (request->has_priority && asked->compute.priority < has->compute.priority)
        return "--priority";
    if (request->has_cap_policy && asked->compute.cap_policy < has->compute.cap_policy)
        return "--cores-policy";
    request->has_quota = request->has_cap = request->has_host_quota = request->has_copy_rate = false;
    request->has_weight = request->has_priority = request->has_cap_policy = false;
    return NULL;
}

/* NULL: there is none of that name any more, which was said, or the region cannot be opened, and *ret_error says why.
 */
static struct vgpu_region *open_around(const char *dir, int *ret_error)
{
    struct vgpu_region *region = NULL;
    char path[PATH_MAX], text[128];

    *ret_error = path_join(path, sizeof(path), dir, INSTANCE_REGION) ? region_open(path, 0, &region) : -ENAMETOOLONG;
    if (*ret_error == -ENOENT) {
        message_warning("VGPU_INSTANCE names %s, which is gone: this is inside no instance", dir);
        *ret_error = 0;
    } else if (*ret_error) {
        message_error(
            "run: this is inside the instance %s, which cannot be opened: %s; unset VGPU_INSTANCE to leave it", dir,
            err_text(*ret_error, text, sizeof(text)));
    }
    return region;
}

bool run_inside(const struct run_options *options, struct instance_request *request)
{
    struct vgpu_region *region CLEANUP(cleanup_region) = NULL;
    static char dir[PATH_MAX];
    struct vgpu_limits has;
    const char *option;
    int error = instance_folder(dir, sizeof(dir));

    if (error == -ENOENT) {
        if (instance_configured())
            message_warning(
                "the limits of this run replace those that CUDA_DEVICE_MEMORY_LIMIT and the variables like it "
                "set here");
        return true;
    }
    region = error ? NULL : open_around(dir, &error);
    if (!region)
        return !error;
    region_limits(region, &has);
    if (has.tier == VGPU_TIER_GUARD) /* which keeps its limits whatever runs inside */
        return true;
    if (options->guard != GUARD_OFF) {
        message_error("run: --guard: this is inside instance %s, whose limits the library keeps; start it outside",
                      has.name);
        return false;
    }
    option = lower(request, &has);
    if (option) {
        message_error(
            "run: %s is lower than that of instance %s, which this is inside of, and cannot be kept apart: leave "
            "it out, or start the command outside",
            option, has.name);
        return false;
    }
    if (!options->name || strcmp(options->name, has.name) != 0)
        message_note("this is inside instance %s: the command joins it, and its limits hold", has.name);
    memcpy(request->limits.name, has.name, sizeof(has.name));
    request->limits.tier = has.tier;
    request->dir = dir;
    return true;
}
