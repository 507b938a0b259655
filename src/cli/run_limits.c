#include "cli/run.h"

#include "base/parse.h"
#include "base/setting.h"
#include "cli/gpus.h"
#include "cli/message.h"
#include "account/instance.h"
#include "account/visible.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "<base name of the command>-<process id>", without characters that a name may not have. */
static void default_name(const char *command, char *ret_name, size_t size)
{
    const char *base = strrchr(command, '/') ? strrchr(command, '/') + 1 : command;
    char start[VGPU_NAME_LEN - 16];
    size_t length = 0;

    for (; *base && length < sizeof(start) - 1; base++)
        if (isalnum((unsigned char)*base) || (length && strchr("._-", *base)))
            start[length++] = *base;
    start[length] = '\0';
    snprintf(ret_name, size, "%s-%ld", length ? start : "vgpu", (long)getpid());
}

static void take_name(const struct run_options *options, struct vgpu_limits *limits)
{
    if (options->name)
        snprintf(limits->name, sizeof(limits->name), "%s", options->name);
    else
        default_name(options->command[0], limits->name, sizeof(limits->name));
}

/* Under the guard alone no process reads CUDA_VISIBLE_DEVICES among the instance's devices at run
 * time. So the instance gets the devices that the variable leaves, in its order. */
static bool narrow(const struct run_options *options, struct vgpu_limits *limits)
{
    const char *variable = setting_raw(SETTING_VISIBLE_DEVICES);
    static struct visible_devices devices;
    struct visible_device list[VGPU_DEVICES_MAX];
    unsigned count;

    if (!variable)
        return true;
    visible_selected(limits, &devices);
    count = visible_list(variable, &devices, list, VGPU_DEVICES_MAX);
    for (unsigned i = 0; i < count; i++)
        memcpy(limits->vdev[i].uuid, list[i].uuid, VGPU_UUID_LEN);
    for (unsigned i = count; i < limits->device_count; i++)
        memset(limits->vdev[i].uuid, 0, VGPU_UUID_LEN);
    limits->device_count = count;
    if (!count)
        message_error(
            "run: --gpu %s: %s=%.64s leaves none of these devices; it counts among them, from 0",
            options->gpu, setting_name(SETTING_VISIBLE_DEVICES), variable);
    unsetenv(setting_name(SETTING_VISIBLE_DEVICES)); /* run_env_devices() sets it anew */
    return count > 0;
}

static bool take_devices(const struct run_options *options, const char *nvml,
                         struct vgpu_limits *limits)
{
    char reason[GPUS_REASON_LEN];
    struct gpus gpus;

    if (!options->gpu)
        return true;
    if (gpus_list(nvml, &gpus, reason)) {
        message_error(
            "run: --gpu %s: the devices cannot be told apart: %s; `vgpu doctor` says more",
            options->gpu, reason);
        return false;
    }
    return gpus_select(&gpus, options->gpu, limits) == 0 &&
           (run_preloads(options) || narrow(options, limits));
}

/* The vdev of each device number of the program. */
struct numbering {
    unsigned count;
    unsigned vdev[VGPU_DEVICES_MAX];
};

/*
 * Finds the devices by the numbers that the program uses, without asking the program.
 * CUDA_VISIBLE_DEVICES, which batch systems set, chooses among the devices of --gpu, else of the
 * machine. Without --gpu this gives the vdevs to the devices in that order.
 */
static bool number_devices(const struct run_options *options, const char *nvml, const char *given,
                           struct vgpu_limits *limits, struct numbering *ret_numbering)
{
    const char *variable = setting_raw(SETTING_VISIBLE_DEVICES);
    static struct visible_devices devices;
    struct visible_device list[VGPU_DEVICES_MAX];
    char reason[GPUS_REASON_LEN] = "NVML shows none";
    static struct gpus gpus;

    *ret_numbering = (struct numbering){0};
    if (options->gpu) {
        visible_selected(limits, &devices);
    } else if (gpus_list(nvml, &gpus, reason) || !gpus.count) {
        ret_numbering->count = VGPU_DEVICES_MAX;
        for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++)
            ret_numbering->vdev[i] = i;
        if (variable)
            message_error("run: %s: %s=%.64s cannot be followed to devices: %s", given,
                          setting_name(SETTING_VISIBLE_DEVICES), variable, reason);
        return !variable;
    } else {
        devices.count = gpus.count;
        for (unsigned i = 0; i < gpus.count; i++)
            memcpy(devices.uuid[i], gpus.gpu[i].uuid, VGPU_UUID_LEN);
    }
    ret_numbering->count = visible_list(variable, &devices, list, VGPU_DEVICES_MAX);
    for (unsigned i = 0; i < ret_numbering->count; i++) {
        ret_numbering->vdev[i] = options->gpu && list[i].index != VISIBLE_MIG ? list[i].index : i;
        if (!options->gpu)
            memcpy(limits->vdev[i].uuid, list[i].uuid, VGPU_UUID_LEN);
    }
    return true;
}

/* A limit for a missing device is a mistake, and would leave another device without a limit. */
static bool devices_exist(const struct run_options *options, const char *option, const char *text,
                          const struct quota_list *list, unsigned count)
{
    const char *variable = setting_raw(SETTING_VISIBLE_DEVICES), *plural = count == 1 ? "" : "s";

    for (unsigned i = count; i < VGPU_DEVICES_MAX; i++) {
        if (!(list->given & 1U << i))
            continue;
        if (variable)
            message_error("run: %s %s names device %u, but %s=%.64s leaves the program %u "
                          "device%s, numbered from 0",
                          option, text, i, setting_name(SETTING_VISIBLE_DEVICES), variable, count,
                          plural);
        else if (options->gpu)
            message_error("run: %s %s names device %u, but --gpu %s gives the program %u device%s, "
                          "numbered from 0",
                          option, text, i, options->gpu, count, plural);
        else
            message_error("run: %s %s names device %u, but there %s %u, numbered from 0", option,
                          text, i, count == 1 ? "is only" : "are only", count);
        return false;
    }
    return true;
}

/* Renumbers the entries of a list by vdev. False: a message was written. */
static bool vdevs_of_list(const struct run_options *options, const char *nvml, const char *option,
                          const char *text, struct quota_list *list, struct vgpu_limits *limits)
{
    struct quota_list by_vdev = {.everywhere = list->everywhere};
    struct numbering numbering;

    if (!list->given)
        return true;
    if (!number_devices(options, nvml, option, limits, &numbering) ||
        !devices_exist(options, option, text, list, numbering.count))
        return false;
    for (unsigned i = 0; i < numbering.count; i++) {
        unsigned vdev = numbering.vdev[i];

        if (!(list->given & 1U << i))
            continue;
        by_vdev.given |= 1U << vdev;
        by_vdev.device[vdev] = list->device[i];
    }
    *list = by_vdev;
    return true;
}

static unsigned vdevs_limited(const struct vgpu_limits *limits)
{
    return limits->device_count ? limits->device_count : VGPU_DEVICES_MAX;
}

/* Both lists by vdev: quotas and caps. */
static bool take_lists(const struct run_options *options, const char *nvml,
                       struct vgpu_limits *limits)
{
    struct quota_list mem = options->mem.list, cores = options->cores.list;

    if (!vdevs_of_list(options, nvml, "--mem", options->mem.text, &mem, limits) ||
        !vdevs_of_list(options, nvml, "--cores", options->cores.text, &cores, limits))
        return false;
    for (unsigned i = 0; i < vdevs_limited(limits); i++) {
        struct quota quota = quota_list_device(&mem, i);
        uint32_t cap_percent = quota_list_device(&cores, i).percent;

        limits->vdev[i].quota_bytes = quota.bytes;
        limits->vdev[i].quota_percent = quota.percent;
        limits->vdev[i].cap_percent = cap_percent < 100 ? cap_percent : 0;
    }
    return true;
}

static void take_compute(const struct run_options *options, struct instance_request *request)
{
#define COMPUTE_LIMIT(limit, type, most, initial, none, lower, json)                               \
    request->has.limit = options->limit.text != NULL;                                              \
    request->limits.compute.limit = (type)options->limit.value;
#include "limits.def"
    request->has.turn_policy = false; /* it is no limit: a running instance takes it over */
}

/* Lowers a limit to `has`. A percentage is of the lower quota. */
static void lower_limit(struct vgpu_limit *asked, const struct vgpu_limit *has)
{
    asked->cap_percent = (uint32_t)vgpu_lower_limit(asked->cap_percent, has->cap_percent);
    if (has->quota_bytes) {
        asked->quota_bytes =
            vgpu_lower_limit(vgpu_limit_quota(asked, has->quota_bytes), has->quota_bytes);
        asked->quota_percent = 0;
    } else if (asked->quota_percent && has->quota_percent) {
        asked->quota_percent = (asked->quota_percent * has->quota_percent + 99) / 100;
    } else {
        asked->quota_percent = (uint32_t)vgpu_lower_limit(asked->quota_percent, has->quota_percent);
    }
}

static bool same_everywhere(const struct vgpu_limits *limits)
{
    for (unsigned i = 1; i < VGPU_DEVICES_MAX; i++) {
        if (!vgpu_same_limit(&limits->vdev[0], &limits->vdev[i]))
            return false;
    }
    return true;
}

/* Lowers the limits to those of HAMi's variables, as in a container of Kubernetes. */
static bool keep_configured(const struct run_options *options, const char *nvml,
                            struct instance_request *request)
{
    struct vgpu_limits has, *limits = &request->limits;
    struct numbering numbering = {.count = vdevs_limited(limits)};
    int rc = instance_configured_limits(&has);

    if (rc < 0)
        return rc == -ENOENT;
    for (unsigned i = 0; i < numbering.count; i++)
        numbering.vdev[i] = i;
    if (!same_everywhere(&has) &&
        !number_devices(options, nvml, "CUDA_DEVICE_MEMORY_LIMIT", limits, &numbering))
        return false;
    for (unsigned i = 0; i < numbering.count; i++) {
        struct vgpu_limit *limit = &limits->vdev[numbering.vdev[i]];

        lower_limit(limit, &has.vdev[i]);
        request->has_quota = request->has_quota || limit->quota_bytes || limit->quota_percent;
        request->has_cap = request->has_cap || limit->cap_percent;
    }
    message_note("CUDA_DEVICE_MEMORY_LIMIT or variables like it are set here: their limits hold as "
                 "well as these");
    return true;
}

bool run_limits(const struct run_options *options, const char *nvml,
                struct instance_request *ret_request)
{
    struct instance_request request = {.has_devices = options->gpu != NULL,
                                       .has_quota = options->mem.text != NULL,
                                       .has_cap = options->cores.text != NULL,
                                       .has_host_quota = options->host_mem.text != NULL};

    request.limits.tier = options->guard == GUARD_OFF ? VGPU_TIER_PRELOAD : VGPU_TIER_GUARD;
    request.limits.vdev[VGPU_VDEV_HOST].quota_bytes = options->host_mem.value;
    take_name(options, &request.limits);
    take_compute(options, &request);
    if (!take_devices(options, nvml, &request.limits) ||
        !take_lists(options, nvml, &request.limits) || !keep_configured(options, nvml, &request))
        return false;
    *ret_request = request;
    return true;
}
