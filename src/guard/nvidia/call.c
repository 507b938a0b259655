/*
 * A call on the control device: read, look at, and either let through, refused, or made here.
 *
 * What is made here is made through a duplicate of the caller's file, with the caller's bytes as
 * they were read. The driver's answer is written back where it differs from those, so no table of
 * the sizes of parameters is needed: the driver takes them from the class, and finds a whole
 * buffer.
 */
#include "guard/guard_internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "guard/notify/privilege.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#define ARG_MAX_BYTES  RM_PARAMS_MAX
#define LIST_MAX_BYTES (RM_FB_INFO_MAX * sizeof(struct rm_fb_info_item))
/* A program that is refused again and again is not worth more. */
#define PROBE_AGAIN_NS (20 * NS_PER_MS)
/* Where the address of what is nested is, in RM_ALLOC and RM_CONTROL alike. */
#define PARAMS_AT 16
#define RIGHTS_AT 24
#define NOWHERE   UINT64_MAX /* no program's memory, as the driver sees it */

_Static_assert(offsetof(struct rm_alloc, params) == PARAMS_AT &&
                   offsetof(struct rm_alloc_short, params) == PARAMS_AT &&
                   offsetof(struct rm_control, params) == PARAMS_AT &&
                   offsetof(struct rm_alloc, rights) == RIGHTS_AT,
               "addresses of nested parameters");

/* A call, as the caller had it and as the driver left it. */
struct made {
    struct rm_call call;
    uint64_t address; /* of `arg` in the caller */
    bool indirect;    /* by way of XFER */
    bool has_rights;  /* it says where they are */
    uint32_t arg_bytes, rights;
    size_t params_bytes, list_bytes;
    _Alignas(8) uint8_t arg[ARG_MAX_BYTES], arg_before[ARG_MAX_BYTES];
    _Alignas(8) uint8_t params[RM_PARAMS_MAX], params_before[RM_PARAMS_MAX];
    _Alignas(8) uint8_t list[LIST_MAX_BYTES], list_before[LIST_MAX_BYTES];
};

static uint64_t address_at(const void *bytes, size_t offset)
{
    uint64_t address;

    memcpy(&address, (const uint8_t *)bytes + offset, sizeof(address));
    return address;
}

static void set_address(void *bytes, size_t offset, uint64_t address)
{
    memcpy((uint8_t *)bytes + offset, &address, sizeof(address));
}

static int read_arg(const struct guard *guard, const struct trap *trap, struct made *made)
{
    uint32_t key = trap->cmd & RM_KEY_MASK;
    int rc;

    made->address = trap->address;
    made->indirect = key == RM_KEY(RM_ESC_XFER, sizeof(struct rm_xfer));
    if (made->indirect) {
        struct rm_xfer xfer;

        rc = task_read(trap->tid, trap->address, &xfer, sizeof(xfer));
        if (rc == 0)
            rc = decode_xfer(&xfer, &key, &made->address);
        if (rc < 0)
            return rc;
    }
    made->arg_bytes = RM_KEY_SIZE(key);
    if (made->arg_bytes > sizeof(made->arg))
        return -EINVAL;
    rc = task_read(trap->tid, made->address, made->arg, made->arg_bytes);
    if (rc < 0)
        return rc;
    memcpy(made->arg_before, made->arg, made->arg_bytes);
    return decode_call(guard->branch, guard->config.mode == GUARD_STRICT, key, made->arg,
                       &made->call);
}

static int read_nested(const struct trap *trap, struct made *made)
{
    struct rm_call *call = &made->call;
    int rc;

    if (call->params && call->params_bytes > sizeof(made->params))
        return -EINVAL;
    if (call->params) {
        memset(made->params, 0, sizeof(made->params));
        made->params_bytes =
            task_read_some(trap->tid, call->params, made->params, call->params_bytes);
        memcpy(made->params_before, made->params, made->params_bytes);
    }
    rc = decode_params(call, made->params, made->params_bytes);
    decode_bound(call, made->params, made->params_bytes);
    if (rc < 0 || !call->list)
        return rc;
    if (call->list_bytes > sizeof(made->list))
        return -EINVAL;
    made->list_bytes = call->list_bytes;
    rc = task_read(trap->tid, call->list, made->list, made->list_bytes);
    memcpy(made->list_before, made->list, made->list_bytes);
    return rc;
}

/* Puts our addresses in place of the caller's, or the other way round. What is not there for the
 * caller is not for the driver, which may not want it either. */
static void point(struct made *made, bool ours)
{
    uint64_t params = made->params_bytes ? (uintptr_t)made->params : NOWHERE;

    if (made->call.params)
        set_address(made->arg, PARAMS_AT, ours ? params : made->call.params);
    if (made->call.list)
        set_address(made->params, offsetof(struct rm_fb_info_list, items),
                    ours ? (uintptr_t)made->list : made->call.list);
    if (made->has_rights)
        set_address(made->arg, RIGHTS_AT,
                    ours ? (uintptr_t)&made->rights : address_at(made->arg_before, RIGHTS_AT));
}

static int read_rights(const struct trap *trap, struct made *made)
{
    uint64_t address;

    if (made->call.kind != RM_KIND_ALLOC || made->arg_bytes != sizeof(struct rm_alloc))
        return 0;
    address = address_at(made->arg, RIGHTS_AT);
    made->has_rights = address != 0;
    return address ? task_read(trap->tid, address, &made->rights, sizeof(made->rights)) : 0;
}

static int make(const struct guard_file *file, struct made *made)
{
    int rc;

    point(made, true);
    rc = ioctl(file->fd, RM_IOCTL(RM_KEY_NR(made->call.key), made->arg_bytes), made->arg) < 0
             ? err_last()
             : 0;
    point(made, false);
    return rc;
}

static int write_back(const struct guard *guard, const struct trap *trap, struct made *made)
{
    const struct task_piece piece[] = {
        task_changes(made->address, made->arg_before, made->arg, made->arg_bytes),
        task_changes(made->call.params, made->params_before, made->params, made->params_bytes),
        task_changes(made->call.list, made->list_before, made->list, made->list_bytes),
    };

    if (piece[0].bytes + piece[1].bytes + piece[2].bytes == 0)
        return 0;
    /* The driver took its time: the thread's number may be another's. */
    return trap_valid(guard, trap) ? task_write_pieces(trap->tid, piece, 3) : -EINTR;
}

static int refuse(struct made *made, uint32_t status)
{
    decode_set_status(&made->call, made->arg, status);
    return 0;
}

/* With what the driver looks for in the caller. What NVML has opened here is not the caller's. */
static int make_lent(struct guard *guard, const struct trap *trap, const struct guard_file *file,
                     struct made *made)
{
    bool wants_card = made->call.class_id == RM_CLASS_DEVICE;
    uint64_t *number = (uint64_t *)made->params, its_number = *number;
    struct borrowed borrowed;
    int rc;

    if (wants_card)
        borrow_gpus(guard, trap->tid, &borrowed);
    else
        borrow_capability(guard, trap->tid, number, &borrowed);
    if (!trap_valid(guard, trap))
        rc = -EINTR;
    else if (wants_card && borrowed.count == 0)
        rc = refuse(made, RM_ERR_INSUFFICIENT_PERMISSIONS);
    else
        rc = make(file, made);
    borrowed_close(&borrowed);
    if (!wants_card)
        *number = its_number;
    return rc;
}

static bool schedules(const struct rm_call *call)
{
    return call->kind == RM_KIND_CONTROL &&
           (call->control == RM_CTRL_GROUP_SCHEDULE || call->control == RM_CTRL_CHANNEL_SCHEDULE);
}

/* Nobody switches channels meanwhile. */
static int make_schedule(struct guard *guard, const struct trap *trap,
                         const struct guard_file *file, struct made *made)
{
    const struct rm_call *call = &made->call;
    int rc = -EINTR;

    channels_lock(guard->channels);
    if (channels_postpone(guard->channels, call->client, call->handle,
                          (struct rm_schedule *)made->params, call->params_bytes))
        rc = refuse(made, RM_OK);
    else if (trap_valid(guard, trap))
        rc = make(file, made);
    channels_unlock(guard->channels);
    return rc;
}

/* If it still waits. */
static int make_for(struct guard *guard, const struct trap *trap, const struct guard_file *file,
                    struct made *made)
{
    const struct rm_call *call = &made->call;
    bool profiles =
        call->kind == RM_KIND_ALLOC && (made->has_rights || rm_class_is_profiler(call->class_id));
    int rc;

    if (call->kind == RM_KIND_ALLOC &&
        (call->class_id == RM_CLASS_DEVICE ||
         (call->shows_file && made->params_bytes >= sizeof(uint64_t))))
        return make_lent(guard, trap, file, made);
    if (schedules(call))
        return make_schedule(guard, trap, file, made);
    if (profiles)
        privilege_profile_as(trap->tid);
    rc = trap_valid(guard, trap) ? make(file, made) : -EINTR;
    if (profiles)
        privilege_profile_as(0);
    return rc;
}

static const char *api_of(const struct rm_call *call)
{
    return call->kind == RM_KIND_HEAP_ALLOC ? "VID_HEAP_CONTROL" : "RM_ALLOC";
}

/* The driver makes memory beneath devices and subdevices, and those are made by calls that the
 * guard makes. */
static bool is_memory_parent(const struct guard *guard, const struct rm_call *call)
{
    uint32_t class_id;

    return objects_class(guard->objects, call->client, call->parent, &class_id) == 0 &&
           (class_id == RM_CLASS_DEVICE || class_id == RM_CLASS_SUBDEVICE);
}

/* Whether there is room for what the call asks for; the lock is held, so nobody else takes it. The
 * status to refuse it with, or RM_OK. */
static uint32_t find_room(struct guard *guard, struct guard_process *process,
                          const struct guard_file *file, const struct rm_call *call,
                          unsigned *ret_vdev)
{
    unsigned vdev;

    if (!is_memory_parent(guard, call) ||
        card_of(guard, file, call->client, call->parent, &vdev) < 0)
        return RM_ERR_INSUFFICIENT_PERMISSIONS;
    *ret_vdev = vdev;
    if (processes_within_quota(guard, vdev, call->charge_bytes))
        return RM_OK;
    /* What programs have let go of without a call, by exec or munmap, is found by looking. */
    watch_look(guard, PROBE_AGAIN_NS);
    if (processes_within_quota(guard, vdev, call->charge_bytes))
        return RM_OK;
    process_refuse(guard, process, vdev, call->charge_bytes, api_of(call));
    return RM_ERR_NO_MEMORY;
}

/* What the answer says of the card is of the program's share of it. */
static void rewrite_view(struct guard *guard, const struct guard_file *file, struct made *made)
{
    const struct rm_call *call = &made->call;
    struct rm_vid_heap_control *heap = (struct rm_vid_heap_control *)made->arg;
    struct rm_fb_info *info = (struct rm_fb_info *)made->params;
    bool is_heap = call->kind == RM_KIND_HEAP_ALLOC || call->kind == RM_KIND_HEAP_FREE ||
                   call->kind == RM_KIND_HEAP_OTHER;
    unsigned vdev;

    if ((call->kind != RM_KIND_CONTROL && !is_heap) ||
        card_of(guard, file, call->client, is_heap ? call->parent : call->handle, &vdev) < 0)
        return;
    if (is_heap)
        view_heap(guard, vdev, &heap->total, &heap->free);
    else if (call->control == RM_CTRL_FB_GET_INFO_V2)
        view_fb_info(guard, vdev, info->item, info->count);
    else if (call->control == RM_CTRL_FB_GET_INFO && made->list_bytes)
        view_fb_info(guard, vdev, (struct rm_fb_info_item *)made->list,
                     (uint32_t)(made->list_bytes / sizeof(struct rm_fb_info_item)));
}

static bool frees(const struct rm_call *call)
{
    return call->kind == RM_KIND_FREE || call->kind == RM_KIND_HEAP_FREE;
}

/* Its channels could be scheduled by the other name, unseen. */
static bool duplicates_group(const struct guard *guard, const struct rm_call *call)
{
    uint32_t class_id;

    return call->kind == RM_KIND_DUP && guard->config.shares &&
           objects_class(guard->objects, call->source_client, call->source_handle, &class_id) ==
               0 &&
           class_id == RM_CLASS_CHANNEL_GROUP;
}

/* Whether there is room for what the call makes. The status to refuse it with, or RM_OK. */
static uint32_t prepare(struct guard *guard, struct guard_process *process,
                        const struct guard_file *file, const struct rm_call *call,
                        struct account_place *ret_place)
{
    *ret_place = (struct account_place){0};
    if (frees(call) && cards_own(guard, call->client, call->handle)) /* nobody else has it */
        return RM_ERR_OBJECT_NOT_FOUND;
    if (frees(call))
        return cards_let_go(guard, file, call->client, call->handle) == 0
                   ? RM_OK
                   : RM_ERR_INSUFFICIENT_RESOURCES;
    if (objects_reserve(guard->objects) < 0 || !client_has_room(guard, call->client))
        return RM_ERR_NO_MEMORY;
    if (!account_may_make(guard, file, call, ret_place) || duplicates_group(guard, call))
        return RM_ERR_INSUFFICIENT_PERMISSIONS;
    return call->charges ? find_room(guard, process, file, call, &ret_place->vdev) : RM_OK;
}

/* Makes the call and notes what it has done. */
static int execute(struct guard *guard, const struct trap *trap, struct guard_process *process,
                   const struct guard_file *file, struct made *made)
{
    struct rm_result result = {.status = RM_OK};
    struct account_place place;
    uint32_t status = prepare(guard, process, file, &made->call, &place);
    bool undone = false;
    int rc;

    if (status != RM_OK)
        return refuse(made, status);
    rc = make_for(guard, trap, file, made);
    if (rc == 0) {
        decode_result(&made->call, made->arg, made->params, made->params_bytes, &result);
        undone = result.status == RM_OK &&
                 account_known(guard, file, &made->call, &result, process, &place) < 0;
    }
    if (undone)
        return refuse(made, RM_ERR_NO_MEMORY);
    if (rc == 0 && result.status == RM_OK)
        rewrite_view(guard, file, made);
    return rc;
}

static bool is_transfer(const struct rm_call *call)
{
    return call->kind == RM_KIND_EXPORT || call->kind == RM_KIND_IMPORT ||
           call->kind == RM_KIND_DMABUF;
}

/* The same for a call that names another file. */
static int transfer(struct guard *guard, const struct trap *trap, struct guard_process *process,
                    const struct guard_file *file, struct made *made)
{
    static struct exports exports; /* the trap thread's; large */
    bool nested = made->call.kind != RM_KIND_DMABUF;
    void *data = nested ? made->params : made->arg;
    size_t bytes = nested ? made->params_bytes : made->arg_bytes;
    struct rm_result result;
    int rc = exports_begin(guard, trap, process, &made->call, data, bytes, &exports);

    if (rc)
        return rc < 0 ? rc : refuse(made, (uint32_t)rc);
    rc = trap_valid(guard, trap) ? make(file, made) : -EINTR;
    if (rc == 0) {
        decode_result(&made->call, made->arg, made->params, made->params_bytes, &result);
        rc = (int)result.status;
        if (rc == RM_OK && nested) /* through the client's file */
            account_known(guard, file, &made->call, &result, process, &(struct account_place){0});
    }
    rc = exports_end(guard, trap, process, file, &made->call, data, bytes, rc, &exports);
    if (rc < 0)
        return rc;
    return refuse(made, (uint32_t)rc);
}

/* On a card's node the driver makes events, and nothing of any other class (escape.c,
 * NV_ESC_RM_ALLOC). */
static bool is_left_to_caller(const struct made *made, const struct guard_file *file)
{
    if (file->kind == DEVICE_GPU)
        return made->call.kind == RM_KIND_ALLOC && rm_class_is_event(made->call.class_id) &&
               !made->indirect;
    return file->kind == DEVICE_CTL && made->call.action == RM_CONTINUE;
}

/* What was read is looked at, and done; under the lock. 0: it is to be written back. */
static int act(struct guard *guard, const struct trap *trap, struct made *made)
{
    struct guard_process *process;
    struct guard_file *file;
    int rc = process_calls(guard, trap, &process, &file);

    if (rc < 0)
        return rc;
    if (is_left_to_caller(made, file)) {
        rc = made->call.kind == RM_KIND_ALLOC ? client_makes(guard, file, process->pid) : 0;
        return rc < 0 ? rc : TRAP_CONTINUE;
    }
    if (made->call.action == RM_CONTINUE ||
        file->kind != (made->call.kind == RM_KIND_DMABUF ? DEVICE_GPU : DEVICE_CTL))
        return -EINVAL;
    if (made->call.action == RM_REFUSE)
        return refuse(made, made->call.refusal);
    return is_transfer(&made->call) ? transfer(guard, trap, process, file, made)
                                    : execute(guard, trap, process, file, made);
}

static int read_all(const struct guard *guard, const struct trap *trap, struct made *made)
{
    int rc;

    made->params_bytes = made->list_bytes = 0;
    made->has_rights = false;
    rc = read_arg(guard, trap, made);
    if (rc < 0)
        return rc;
    if (made->call.action == RM_CONTINUE && made->indirect)
        return -EINVAL;
    if (made->call.action == RM_CONTINUE && made->call.kind == RM_KIND_CONTROL)
        return TRAP_CONTINUE; /* most calls: nothing of it is of interest */
    if (made->call.action != RM_EXECUTE)
        return 0;
    rc = read_nested(trap, made);
    return rc < 0 ? rc : read_rights(trap, made);
}

int call_rm(struct guard *guard, const struct trap *trap)
{
    static struct made made; /* the trap thread's; large */
    int rc = read_all(guard, trap, &made);

    if (rc)
        return rc;
    rc = trap_begin(guard) ? act(guard, trap, &made) : -ENOSYS;
    account_settle(guard);
    trap_end(guard);
    return rc ? rc : write_back(guard, trap, &made);
}
