/* The JSON of docs/ps-json.md. A field has one type, or null if it has no value. A new field keeps
 * the schema's number. */
#include "cli/ps.h"

#include "base/clock.h"
#include "cli/compute.h"
#include "cli/options.h"
#include "cli/turns.h"

#define SCHEMA 2
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *number_or_null(uint64_t value)
{
    return value ? number(value) : json_null();
}

static json_t *device_or_null(unsigned vdev)
{
    return vdev == VGPU_VDEV_HOST ? json_null() : number(vdev);
}

/* Another user may have written the text of a region, so it need not be UTF-8. */
static json_t *text_of(const char *text, size_t size)
{
    size_t length = strnlen(text, size);
    json_t *value = json_stringn(text, length);

    return value ? value : json_string("?");
}

/* The usage of a device by the instance, and its current share. */
static json_t *compute_json(struct ps_list *list, const struct ps_instance *instance, unsigned vdev)
{
    const struct vgpu_compute_usage *usage = &instance->snapshot.vdev[vdev].compute;
    const struct vgpu_limits *limits = &instance->snapshot.limits;
    json_t *result = json_object(), *calls = json_object(), *gpu_ns = json_object(),
           *bytes = json_object();
    bool complete;
    double share = (double)usage->last_second_ns / (double)NS_PER_S;

    json_object_set_new(result, "last_second_share", json_real(share < 1 ? share : 1));
    json_object_set_new(result, "entitlement",
                        json_real(ps_entitlement(list, instance, vdev, &complete)));
    json_object_set_new(result, "entitlement_complete", json_boolean(complete));
    json_object_set_new(result, "cap_percent", number_or_null(limits->vdev[vdev].cap_percent));
    for (unsigned work = 0; work < VGPU_WORKS; work++) {
        json_object_set_new(calls, vgpu_work_name(work), number(usage->calls[work]));
        json_object_set_new(vgpu_work_is_time(work) ? gpu_ns : bytes, vgpu_work_name(work),
                            number(usage->amount[work]));
    }
    json_object_set_new(result, "calls", calls);
    json_object_set_new(result, "gpu_ns", number(compute_gpu_ns(usage)));
    json_object_set_new(result, "gpu_ns_by_kind", gpu_ns);
    json_object_set_new(result, "copy_bytes_by_kind", bytes);
    json_object_set_new(result, "copy_wait_ns", number(usage->copy_wait_ns));
    json_object_set_new(result, "turns", number(usage->turns));
    json_object_set_new(result, "turn_wait_ns", number(usage->turn_wait_ns));
    json_object_set_new(result, "throttles", number(usage->throttles));
    json_object_set_new(result, "throttled_ns", number(usage->throttled_ns));
    return result;
}

/* A value of a COMPUTE_LIMIT row, by the type of its option. */
static json_t *setting_json(enum cli_type type, uint64_t value)
{
    const char *word;
    unsigned count;

    if (!cli_words(type, &count))
        return type == CLI_NUMBER ? number(value) : number_or_null(value);
    word = cli_word_name(type, value);
    return word ? json_string(word) : json_null();
}

static json_t *settings_json(const struct vgpu_compute *compute)
{
    json_t *result = json_object();

#define COMPUTE_LIMIT(field, c_type, most, initial, none, lower, json_name)                        \
    json_object_set_new(result, json_name, setting_json(RUN_OPTION(field)->type, compute->field));
#include "limits.def"
    return result;
}

static json_t *vdev_json(const struct vgpu_snapshot *snapshot, unsigned vdev)
{
    const struct vgpu_vdev_usage *usage = &snapshot->vdev[vdev];
    const struct vgpu_limit *limit = &snapshot->limits.vdev[vdev];
    const char *uuid = usage->uuid[0] ? usage->uuid : limit->uuid;
    json_t *result = json_object(), *kinds = json_object();

    if (vdev != VGPU_VDEV_HOST) {
        json_object_set_new(result, "device", number(vdev));
        json_object_set_new(result, "uuid", *uuid ? text_of(uuid, VGPU_UUID_LEN) : json_null());
        json_object_set_new(result, "physical_bytes", number_or_null(usage->physical_bytes));
    }
    json_object_set_new(
        result, "quota_bytes",
        number_or_null(usage->quota_bytes ? usage->quota_bytes : limit->quota_bytes));
    json_object_set_new(result, "asked_bytes", number_or_null(limit->quota_bytes));
    json_object_set_new(result, "asked_percent", number_or_null(limit->quota_percent));
    json_object_set_new(result, "used_bytes", number(usage->used_bytes));
    json_object_set_new(
        result, "peak_bytes",
        number(usage->peak_bytes > usage->used_bytes ? usage->peak_bytes : usage->used_bytes));
    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        json_object_set_new(kinds, vgpu_kind_name(kind),
                            number(ps_vdev_held(snapshot, vdev, kind)));
    json_object_set_new(result, "used_by_kind", kinds);
    json_object_set_new(result, "refusals", number(usage->refusals));
    return result;
}

static json_t *held_json(const struct vgpu_snapshot *snapshot, const struct vgpu_proc_usage *proc,
                         unsigned vdev)
{
    json_t *result = json_object(), *kinds = json_object();

    json_object_set_new(result, "device", device_or_null(vdev));
    json_object_set_new(result, "used_bytes", number(ps_proc_held(snapshot, proc, vdev)));
    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        json_object_set_new(kinds, vgpu_kind_name(kind), number(proc->held_bytes[vdev][kind]));
    json_object_set_new(result, "used_by_kind", kinds);
    return result;
}

static json_t *process_json(const struct vgpu_snapshot *snapshot,
                            const struct vgpu_proc_usage *proc)
{
    json_t *result = json_object(), *held = json_array();

    json_object_set_new(result, "pid", proc->pid ? json_integer(proc->pid) : json_null());
    json_object_set_new(result, "own_pid", json_integer(proc->own_pid));
    json_object_set_new(result, "command", text_of(proc->command, sizeof(proc->command)));
    json_object_set_new(result, "start_ns", number(proc->start_ns));
    for (unsigned vdev = 0; vdev < VGPU_VDEVS; vdev++)
        if (ps_proc_holds(proc, vdev))
            json_array_append_new(held, held_json(snapshot, proc, vdev));
    json_object_set_new(result, "held", held);
    return result;
}

static json_t *refusal_json(const struct vgpu_refusal *refusal)
{
    json_t *result = json_object();

    json_object_set_new(result, "time_ns", number(refusal->time_ns));
    json_object_set_new(result, "api", text_of(refusal->api, VGPU_API_LEN));
    json_object_set_new(result, "device", device_or_null(refusal->vdev));
    json_object_set_new(result, "pid", json_integer(refusal->pid));
    json_object_set_new(result, "size_bytes", number(refusal->size_bytes));
    json_object_set_new(result, "used_bytes", number(refusal->used_bytes));
    json_object_set_new(result, "quota_bytes", number(refusal->quota_bytes));
    return result;
}

static json_t *refusals_json(const struct vgpu_snapshot *snapshot)
{
    json_t *result = json_object(), *recent = json_array();

    json_object_set_new(result, "count", number(ps_refusals(snapshot)));
    for (uint32_t i = 0; i < snapshot->refusal_count && i < VGPU_REFUSALS; i++)
        json_array_append_new(recent, refusal_json(&snapshot->refusals[i]));
    json_object_set_new(result, "last",
                        json_array_size(recent)
                            ? json_incref(json_array_get(recent, json_array_size(recent) - 1))
                            : json_null());
    json_object_set_new(result, "recent", recent);
    return result;
}

/* Whether one limit applies to all devices. */
static bool limits_are_uniform(const struct vgpu_limits *limits)
{
    for (unsigned vdev = 1; vdev < VGPU_DEVICES_MAX; vdev++)
        if (limits->vdev[vdev].quota_bytes != limits->vdev[0].quota_bytes ||
            limits->vdev[vdev].quota_percent != limits->vdev[0].quota_percent ||
            limits->vdev[vdev].cap_percent != limits->vdev[0].cap_percent)
            return false;
    return limits->device_count == 0;
}

/* The limits that the user gave, also for devices that no process has used yet. */
static json_t *limits_json(const struct vgpu_limits *limits)
{
    unsigned count = limits->device_count ? limits->device_count : VGPU_DEVICES_MAX;
    bool uniform = limits_are_uniform(limits);
    json_t *result = json_array();

    for (unsigned vdev = 0; vdev < (uniform ? 1 : count) && vdev < VGPU_DEVICES_MAX; vdev++) {
        const struct vgpu_limit *limit = &limits->vdev[vdev];
        json_t *row;

        if (!limit->quota_bytes && !limit->quota_percent && !limit->cap_percent &&
            !limits->device_count)
            continue;
        row = json_object();
        json_object_set_new(row, "device", uniform ? json_null() : number(vdev));
        json_object_set_new(row, "bytes", number_or_null(limit->quota_bytes));
        json_object_set_new(row, "percent", number_or_null(limit->quota_percent));
        json_object_set_new(row, "cap_percent", number_or_null(limit->cap_percent));
        json_array_append_new(result, row);
    }
    return result;
}

static json_t *device_json(struct ps_list *list, const struct ps_instance *instance, unsigned vdev)
{
    json_t *result = vdev_json(&instance->snapshot, vdev);

    json_object_set_new(result, "compute", compute_json(list, instance, vdev));
    return result;
}

static json_t *instance_json(struct ps_list *list, const struct ps_instance *instance)
{
    const struct vgpu_snapshot *snapshot = &instance->snapshot;
    json_t *result = json_object(), *devices = json_array(), *processes = json_array();
    char user[TURNS_USER_BYTES];

    json_object_set_new(result, "name", json_string(instance->name));
    json_object_set_new(result, "directory", text_of(instance->dir, sizeof(instance->dir)));
    json_object_set_new(result, "owner_uid", number(instance->owner));
    json_object_set_new(result, "user",
                        text_of(turns_user(instance->owner, user, sizeof(user)), sizeof(user)));
    json_object_set_new(result, "implicit", json_boolean(instance->implicit));
    json_object_set_new(result, "created_ns", number(snapshot->created_ns));
    json_object_set_new(result, "running", number(instance->running));
    json_object_set_new(result, "paused", json_boolean(instance->paused));
    json_object_set_new(result, "tier", json_string(vgpu_tier_name(snapshot->limits.tier)));
    json_object_set_new(result, "selects_devices", json_boolean(snapshot->limits.device_count > 0));
    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++)
        if (ps_vdev_shown(snapshot, vdev))
            json_array_append_new(devices, device_json(list, instance, vdev));
    json_object_set_new(result, "limits", limits_json(&snapshot->limits));
    json_object_set_new(result, "compute", settings_json(&snapshot->limits.compute));
    json_object_set_new(result, "devices", devices);
    json_object_set_new(result, "host", vdev_json(snapshot, VGPU_VDEV_HOST));
    for (uint32_t i = 0; i < snapshot->proc_count; i++)
        json_array_append_new(processes, process_json(snapshot, &snapshot->procs[i]));
    json_object_set_new(result, "processes", processes);
    json_object_set_new(result, "refusals", refusals_json(snapshot));
    return result;
}

bool ps_print_json(struct ps_list *list)
{
    json_t *root = json_object(), *instances = json_array();
    char *text = NULL;

    for (unsigned i = 0; i < list->count; i++)
        json_array_append_new(instances, instance_json(list, list->instances[i]));
    json_object_set_new(root, "schema", json_integer(SCHEMA));
    json_object_set_new(root, "time_ns", number(clock_real_ns()));
    if (json_object_set_new(root, "instances", instances) == 0)
        text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(root);
    if (!text)
        return false;
    printf("%s\n", text);
    free(text);
    return true;
}
