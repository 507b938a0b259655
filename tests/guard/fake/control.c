/*
 * RM_CONTROL: what can be asked of and done to objects.
 */
#include "fakerm.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CTRL_ATTACHED_IDS 0x201u
#define CTRL_REGISTER_PID 0x503c0104u
#define CTXSW_RESET       0x1u
#define PREEMPT_MOST_US   1000000u
#define FB_INDEX_MOST     0x3bu
#define PIDS_MOST         950u
#define PID_INFOS_MOST    200u

struct pids {
    uint32_t type, id, count, pid[PIDS_MOST];
};

struct pid_info {
    uint32_t pid, index, result, pad;
    uint64_t private, owned, duped, of_protected[3];
    uint32_t compute_instance, gpu_instance;
};

struct pid_infos {
    uint32_t count, pad;
    struct pid_info info[PID_INFOS_MOST];
};

_Static_assert(sizeof(struct pids) == 3812 && sizeof(struct pid_infos) == 14408,
               "GET_PIDS, GET_PID_INFO");

union control_params {
    struct rm_gid_info gid;
    struct rm_disable_channels disable;
    struct rm_fb_info fb;
    struct rm_fb_info_list fb_list;
    struct pids pids;
    struct pid_infos pid_infos;
    struct rm_export_objects exports;
    struct rm_import_objects imports;
    struct rm_schedule schedule;
    struct rm_preempt preempt;
    struct rm_ctxsw_stats ctxsw;
    struct rm_handle_info handle;
    uint64_t slice_us;
    uint8_t bytes[14408];
    uint32_t words[32];
};

/* Under the lock. `object` is of the class that the control is for. */
typedef uint32_t (*control_function)(struct object *object, union control_params *params);

static uint32_t get_gid(struct object *object, union control_params *params)
{
    struct rm_gid_info *gid = &params->gid;
    const uint8_t *uuid = gpus[object->gpu].uuid;
    char *text = (char *)gid->data;

    memset(gid->data, 0, sizeof(gid->data));
    if (gid->flags & RM_GID_BINARY) {
        memcpy(gid->data, uuid, 16);
        gid->length = 16;
        return RM_OK;
    }
    strcpy(text, "GPU-");
    for (unsigned i = 0; i < 16; i++)
        sprintf(text + strlen(text), "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                uuid[i]);
    gid->length = (uint32_t)strlen(text) + 1;
    return RM_OK;
}

static bool has_class(const struct client *client, uint32_t class_id, int gpu)
{
    const struct object *object = &client->object;

    for (;;) {
        if (object->class_id == class_id && object->gpu == gpu)
            return true;
        if (object->children) {
            object = object->children;
            continue;
        }
        while (object->parent && !object->next)
            object = object->parent;
        if (!object->parent)
            return false;
        object = object->next;
    }
}

static uint32_t get_pids(struct object *object, union control_params *params)
{
    struct pids *pids = &params->pids;

    if (pids->type != 0)
        return RM_ERR_NOT_SUPPORTED;
    pids->count = 0;
    for (struct client *client = clients; client && pids->count < PIDS_MOST;
         client = client->all_next) {
        bool known = false;

        for (unsigned i = 0; i < pids->count; i++)
            known |= pids->pid[i] == (uint32_t)client->pid;
        if (!known && has_class(client, pids->id, object->gpu))
            pids->pid[pids->count++] = (uint32_t)client->pid;
    }
    return RM_OK;
}

static uint32_t get_pid_infos(struct object *object, union control_params *params)
{
    struct pid_infos *infos = &params->pid_infos;

    if (infos->count > PID_INFOS_MOST)
        return RM_ERR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < infos->count; i++) {
        struct pid_info *info = &infos->info[i];
        const struct account *account = book_account((pid_t)info->pid);

        if (info->index != 0 || info->pid == 0)
            return RM_ERR_INVALID_ARGUMENT;
        *info = (struct pid_info){
            .pid = info->pid,
            .private = account->gpu[object->gpu].private,
            .owned = account->gpu[object->gpu].owned,
            .duped = account->gpu[object->gpu].duped,
            .compute_instance = UINT32_MAX,
            .gpu_instance = UINT32_MAX,
        };
    }
    return RM_OK;
}

static uint32_t fb_value(const struct gpu *gpu, uint32_t index)
{
    switch (index) {
    case RM_FB_RAM_SIZE:
    case RM_FB_TOTAL_RAM_SIZE:
    case RM_FB_USABLE_RAM_SIZE:
    case RM_FB_HEAP_SIZE:
    case RM_FB_MAPPABLE_HEAP_SIZE:
        return (uint32_t)(settings.mem_bytes >> 10);
    case RM_FB_LARGEST_FREE_REGION_SIZE:
    case RM_FB_HEAP_FREE:
        return (uint32_t)((settings.mem_bytes - gpu->used) >> 10);
    default:
        return 0;
    }
}

static uint32_t fb_fill(const struct object *object, struct rm_fb_info_item *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].index > FB_INDEX_MOST)
            return RM_ERR_INVALID_ARGUMENT;
        items[i].value = fb_value(&gpus[object->gpu], items[i].index);
    }
    return RM_OK;
}

static uint32_t get_fb_info(struct object *object, union control_params *params)
{
    if (params->fb.count > RM_FB_INFO_MAX)
        return RM_ERR_INVALID_ARGUMENT;
    return fb_fill(object, params->fb.item, params->fb.count);
}

static uint32_t group_schedule(struct object *object, union control_params *params)
{
    gpu_schedule(object->group, NULL, params->schedule.enable != 0);
    return RM_OK;
}

static uint32_t channel_schedule(struct object *object, union control_params *params)
{
    gpu_schedule(object->channel->group, object->channel, params->schedule.enable != 0);
    return RM_OK;
}

static uint32_t set_slice(struct object *object, union control_params *params)
{
    gpu_simulate(&gpus[object->gpu]);
    object->group->slice_ns =
        params->slice_us < UINT64_MAX / 1000 ? params->slice_us * 1000 : UINT64_MAX;
    return RM_OK;
}

static uint32_t get_slice(struct object *object, union control_params *params)
{
    params->slice_us = object->group->slice_ns / 1000;
    return RM_OK;
}

static uint32_t preempt(struct object *object, union control_params *params)
{
    if (params->preempt.manual_timeout && params->preempt.timeout_us > PREEMPT_MOST_US)
        return RM_ERR_INVALID_ARGUMENT;
    gpu_preempt(object->group);
    return RM_OK;
}

static uint32_t get_ctxsw_stats(struct object *object, union control_params *params)
{
    struct rm_ctxsw_stats *stats = &params->ctxsw;
    const struct object *which = object_find(object->client, stats->object);
    struct group *group = !which ? NULL : which->channel ? which->channel->group : which->group;

    if (!group || which->gpu != object->gpu)
        return RM_ERR_OBJECT_NOT_FOUND;
    if (!group->graphics)
        return RM_ERR_INSUFFICIENT_RESOURCES;
    gpu_simulate(&gpus[object->gpu]);
    stats->restore = group->counts.restores;
    stats->wfi = group->counts.idle_saves;
    stats->cilp = group->counts.stops;
    stats->save = stats->wfi + stats->cilp;
    stats->cta = stats->gfxp = 0;
    if (stats->flags & CTXSW_RESET)
        memset(&group->counts, 0, sizeof(group->counts));
    return RM_OK;
}

static uint32_t handle_info(struct object *object, union control_params *params)
{
    const struct object *found = object_find(object->client, params->handle.object);

    if (!found || !found->parent)
        return RM_ERR_OBJECT_NOT_FOUND;
    if (params->handle.index == RM_HANDLE_PARENT)
        params->handle.result = found->parent->handle;
    else if (params->handle.index == RM_HANDLE_CLASS)
        params->handle.result = found->class_id;
    else
        return RM_ERR_INVALID_ARGUMENT;
    return RM_OK;
}

static uint32_t attached_ids(struct object *object, union control_params *params)
{
    (void)object;
    for (unsigned i = 0; i < 32; i++)
        params->words[i] = i < settings.gpus ? i << 8 | 1 : UINT32_MAX;
    return RM_OK;
}

static uint32_t neutral(struct object *object, union control_params *params)
{
    (void)object;
    (void)params;
    return RM_OK;
}

static bool class_fits(uint32_t cmd, const struct object *object)
{
    switch (cmd >> 16) {
    case 0:
        return !object->parent;
    case 0x41:
        return object->reference.memory || object->system;
    case 0xa06f:
        return object->channel != NULL;
    default:
        return object->class_id == cmd >> 16;
    }
}

/* What a control is done to, with the lock held; or the status and the lock not held. */
static uint32_t lock_object(const struct call *call, const struct rm_control *control,
                            struct object **ret_object)
{
    struct client *client;
    struct object *object = NULL;
    uint32_t status = RM_ERR_OBJECT_NOT_FOUND;

    pthread_mutex_lock(&state_lock);
    client = client_of_file(control->client, call->file);
    if (client)
        object = object_find(client, control->object);
    else
        status = RM_ERR_INVALID_CLIENT;
    if (object && class_fits(control->cmd, object)) {
        *ret_object = object;
        return RM_OK;
    }
    pthread_mutex_unlock(&state_lock);
    return object ? RM_ERR_NOT_SUPPORTED : status;
}

/* All of the list, or nothing where one is no channel of this device. Does not look at whose
 * clients they are. */
static uint32_t find_channels(const struct object *object, const struct rm_disable_channels *list,
                              struct channel *ret_channels[RM_DISABLE_MAX])
{
    for (unsigned i = 0; i < list->count; i++) {
        struct client *client = client_find(list->client[i]);
        struct object *found = client ? object_find(client, list->channel[i]) : NULL;

        if (!found || !found->channel)
            return RM_ERR_OBJECT_NOT_FOUND;
        if (found->gpu != object->gpu)
            return RM_ERR_INVALID_ARGUMENT;
        ret_channels[i] = found->channel;
    }
    return RM_OK;
}

static void nap(uint64_t ns)
{
    nanosleep(&(struct timespec){(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)}, NULL);
}

/* Which part of the call is over when channels stop, and when they go on; measured on an H200. */
#define STOPS_PERCENT 73
#define GOES_PERCENT  85

/* Takes time. Others' calls go on meanwhile; in the driver one that schedules comes after it. */
static uint32_t disable_channels(struct call *call, const struct rm_control *control,
                                 const struct rm_disable_channels *list)
{
    enum gpu_switch to = !list->disable ? GPU_ON : list->only_scheduling ? GPU_ENDING : GPU_OFF;
    uint64_t ns = to == GPU_ON       ? settings.on_ns
                  : to == GPU_ENDING ? settings.end_ns
                                     : settings.off_ns;
    uint64_t before_ns = ns * (to == GPU_ON ? GOES_PERCENT : STOPS_PERCENT) / 100;
    struct channel *channels[RM_DISABLE_MAX];
    struct object *object;
    uint32_t status;

    if (list->count > RM_DISABLE_MAX || list->preempt_event)
        return RM_ERR_INVALID_ARGUMENT;
    status = lock_object(call, control, &object);
    if (status != RM_OK)
        return status;
    *(list->disable ? &book.disable_calls : &book.enable_calls) += 1;
    status = find_channels(object, list, channels);
    for (unsigned i = 0; status == RM_OK && list->disable && i < list->count; i++)
        gpu_wedge(channels[i]);
    pthread_mutex_unlock(&state_lock);
    if (status != RM_OK)
        return status;
    nap(before_ns);
    status = lock_object(call, control, &object);
    if (status != RM_OK)
        return status;
    status = find_channels(object, list, channels);
    if (status == RM_OK)
        gpu_switch(channels, list->count, to);
    pthread_mutex_unlock(&state_lock);
    if (status == RM_OK)
        nap(ns - before_ns);
    return status;
}

static uint32_t get_fb_info_list(struct call *call, const struct rm_control *control,
                                 const struct rm_fb_info_list *list)
{
    struct rm_fb_info_item items[RM_FB_INFO_MAX];
    struct object *object;
    uint32_t status;

    if (list->count > RM_FB_INFO_MAX)
        return RM_ERR_INVALID_ARGUMENT;
    if (caller_read(call->tid, list->items, items, list->count * sizeof(items[0])) < 0)
        return RM_ERR_INVALID_ADDRESS;
    status = lock_object(call, control, &object);
    if (status != RM_OK)
        return status;
    status = fb_fill(object, items, list->count);
    pthread_mutex_unlock(&state_lock);
    if (status == RM_OK &&
        caller_write(call->tid, list->items, items, list->count * sizeof(items[0])) < 0)
        return RM_ERR_INVALID_ADDRESS;
    return status;
}

static uint32_t surface_value(const struct object *object, uint32_t index)
{
    uint64_t bytes = object->reference.memory ? object->reference.memory->bytes : 65536;

    switch (index) {
    case RM_SURFACE_SIZE:
        return (uint32_t)(bytes >> 12);
    case RM_SURFACE_ADDRESS_SPACE:
        return object->system ? 1 : RM_SURFACE_VIDMEM;
    default:
        return 0;
    }
}

static uint32_t get_surface_info(struct call *call, const struct rm_control *control,
                                 const struct rm_fb_info_list *list)
{
    struct rm_fb_info_item items[16];
    struct object *object;
    uint32_t status;

    if (list->count > sizeof(items) / sizeof(items[0]))
        return RM_ERR_INVALID_ARGUMENT;
    if (caller_read(call->tid, list->items, items, list->count * sizeof(items[0])) < 0)
        return RM_ERR_INVALID_ADDRESS;
    status = lock_object(call, control, &object);
    if (status != RM_OK)
        return status;
    for (uint32_t i = 0; i < list->count; i++)
        items[i].value = surface_value(object, items[i].index);
    pthread_mutex_unlock(&state_lock);
    return caller_write(call->tid, list->items, items, list->count * sizeof(items[0])) < 0
               ? RM_ERR_INVALID_ADDRESS
               : RM_OK;
}

static const struct {
    uint32_t cmd;
    uint32_t bytes;            /* of the parameters; 0: any */
    control_function function; /* NULL: one that does more than look under the lock */
} controls[] = {
    {CTRL_ATTACHED_IDS, 128, attached_ids},
    {CTRL_REGISTER_PID, 0, neutral},
    {RM_CTRL_CLIENT_GET_HANDLE_INFO, sizeof(struct rm_handle_info), handle_info},
    {RM_CTRL_EXPORT_OBJECT, sizeof(struct rm_export_object), NULL},
    {RM_CTRL_EXPORT_OBJECTS, sizeof(struct rm_export_objects), NULL},
    {RM_CTRL_IMPORT_OBJECT, sizeof(struct rm_import_object), NULL},
    {RM_CTRL_IMPORT_OBJECTS, sizeof(struct rm_import_objects), NULL},
    {RM_CTRL_SURFACE_INFO, sizeof(struct rm_fb_info_list), NULL},
    {RM_CTRL_GPU_GET_GID_INFO, sizeof(struct rm_gid_info), get_gid},
    {RM_CTRL_GPU_GET_PIDS, sizeof(struct pids), get_pids},
    {RM_CTRL_GPU_GET_PID_INFO, sizeof(struct pid_infos), get_pid_infos},
    {RM_CTRL_FIFO_DISABLE_CHANNELS, sizeof(struct rm_disable_channels), NULL},
    {RM_CTRL_GR_GET_CTXSW_STATS, sizeof(struct rm_ctxsw_stats), get_ctxsw_stats},
    {RM_CTRL_FB_GET_INFO, sizeof(struct rm_fb_info_list), NULL},
    {RM_CTRL_FB_GET_INFO_V2, sizeof(struct rm_fb_info), get_fb_info},
    {RM_CTRL_GROUP_SCHEDULE, 2, group_schedule}, /* 3 from 580 on */
    {RM_CTRL_GROUP_SET_TIMESLICE, 8, set_slice},
    {RM_CTRL_GROUP_GET_TIMESLICE, 8, get_slice},
    {RM_CTRL_GROUP_PREEMPT, sizeof(struct rm_preempt), preempt},
    {RM_CTRL_CHANNEL_SCHEDULE, 2, channel_schedule},
};

static uint32_t bytes_of(size_t row)
{
    bool grown = controls[row].bytes == 2 && settings.branch >= 580;

    return controls[row].bytes + grown;
}

/* As disable_channels() takes time; what is asked for is done, or looked at, at the end. */
static uint32_t take_time(const struct call *call, const struct rm_control *control)
{
    uint64_t ns = control->cmd == RM_CTRL_GROUP_PREEMPT        ? settings.preempt_ns
                  : control->cmd == RM_CTRL_GR_GET_CTXSW_STATS ? settings.counts_ns
                                                               : 0;
    struct object *object;
    uint32_t status;

    if (ns == 0)
        return RM_OK;
    status = lock_object(call, control, &object);
    if (status != RM_OK)
        return status;
    pthread_mutex_unlock(&state_lock);
    nap(ns);
    return RM_OK;
}

static uint32_t do_control(struct call *call, const struct rm_control *control,
                           union control_params *params)
{
    struct object *object;
    uint32_t status;
    size_t row = 0;

    while (row < sizeof(controls) / sizeof(controls[0]) && controls[row].cmd != control->cmd)
        row++;
    if (row == sizeof(controls) / sizeof(controls[0])) {
        status = lock_object(call, control, &object);
        if (status == RM_OK)
            pthread_mutex_unlock(&state_lock);
        return status == RM_OK ? RM_ERR_NOT_SUPPORTED : status;
    }
    if (control->params_bytes > sizeof(*params) ||
        (controls[row].bytes && control->params_bytes != bytes_of(row)))
        return RM_ERR_INVALID_PARAM_STRUCT;
    if (caller_read(call->tid, control->params, params, control->params_bytes) < 0)
        return RM_ERR_INVALID_ADDRESS;
    if (control->cmd == RM_CTRL_FIFO_DISABLE_CHANNELS)
        return disable_channels(call, control, &params->disable);
    if (control->cmd == RM_CTRL_SURFACE_INFO)
        return get_surface_info(call, control, &params->fb_list);
    if (control->cmd >> 8 == RM_CTRL_EXPORT_OBJECT >> 8) {
        status = export_control(call, control, params);
        if (status == RM_OK &&
            caller_write(call->tid, control->params, params, control->params_bytes) < 0)
            return RM_ERR_INVALID_ADDRESS;
        return status;
    }
    if (control->cmd == RM_CTRL_FB_GET_INFO)
        return get_fb_info_list(call, control, &params->fb_list);
    status = take_time(call, control);
    if (status == RM_OK)
        status = lock_object(call, control, &object);
    if (status != RM_OK)
        return status;
    status = controls[row].function(object, params);
    pthread_mutex_unlock(&state_lock);
    if (status == RM_OK &&
        caller_write(call->tid, control->params, params, control->params_bytes) < 0)
        return RM_ERR_INVALID_ADDRESS;
    return status;
}

int control_ioctl(struct call *call, void *arg)
{
    struct rm_control *control = arg;
    union control_params params;

    memset(&params, 0, sizeof(params));
    pthread_mutex_lock(&state_lock);
    book.calls[BOOK_CONTROL]++;
    pthread_mutex_unlock(&state_lock);
    control->status = do_control(call, control, &params);
    return 0;
}

int control_neutral(struct call *call, void *arg)
{
    (void)call;
    (void)arg;
    pthread_mutex_lock(&state_lock);
    book.calls[BOOK_OTHER]++;
    pthread_mutex_unlock(&state_lock);
    return 0;
}
