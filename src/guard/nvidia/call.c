/*
 * A call on the control device: read, checked, and either let through, refused, or executed here.
 *
 * A call is executed through a duplicate of the caller's file, with the caller's bytes as they were
 * copied. The driver's answer is written back where it differs from those. So no table of the sizes
 * of parameters is needed: the driver takes them from the class, and finds a whole buffer.
 */
#include "guard/nvidia/request.h"

#include "base/err.h"
#include "guard/notify/borrowed.h"
#include "guard/notify/privilege.h"
#include "guard/notify/ratelimit.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

/* Where the address of what is nested is, in RM_ALLOC and RM_CONTROL alike. */
#define PARAMS_AT 16
#define RIGHTS_AT 24
#define NOWHERE   UINT64_MAX /* an address that is never mapped */

_Static_assert(offsetof(struct rm_alloc, params) == PARAMS_AT &&
                   offsetof(struct rm_alloc_short, params) == PARAMS_AT &&
                   offsetof(struct rm_control, params) == PARAMS_AT &&
                   offsetof(struct rm_alloc, rights) == RIGHTS_AT,
               "addresses of nested parameters");

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

static int read_arg(struct request *request)
{
    const struct trap *trap = request->trap;
    struct rm_bytes *rm = &request->rm;
    uint32_t key = trap->cmd & RM_KEY_MASK;
    int rc;

    rm->address = trap->address;
    rm->indirect = key == RM_KEY(RM_ESC_XFER, sizeof(struct rm_xfer));
    if (rm->indirect) {
        struct rm_xfer xfer;

        rc = task_read(trap->tid, trap->address, &xfer, sizeof(xfer));
        if (rc == 0)
            rc = decode_xfer(&xfer, &key, &rm->address);
        if (rc < 0)
            return rc;
    }
    rm->arg_bytes = RM_KEY_SIZE(key);
    if (rm->arg_bytes > sizeof(rm->arg))
        return -EINVAL;
    rc = task_read(trap->tid, rm->address, rm->arg, rm->arg_bytes);
    if (rc < 0)
        return rc;
    memcpy(rm->arg_before, rm->arg, rm->arg_bytes);
    return decode_call(request->nvidia->branch, request->nvidia->strict, key, rm->arg,
                       &request->call);
}

static int read_nested(struct request *request)
{
    pid_t tid = request->trap->tid;
    struct rm_call *call = &request->call;
    struct rm_bytes *rm = &request->rm;
    int rc;

    if (call->params && call->params_bytes > sizeof(rm->params))
        return -EINVAL;
    if (call->params) {
        memset(rm->params, 0, sizeof(rm->params));
        rm->params_bytes = task_read_some(tid, call->params, rm->params, call->params_bytes);
        memcpy(rm->params_before, rm->params, rm->params_bytes);
    }
    rc = decode_params(call, rm->params, rm->params_bytes);
    decode_bound(call, rm->params, rm->params_bytes);
    if (rc < 0 || !call->list)
        return rc;
    if (call->list_bytes > sizeof(rm->list))
        return -EINVAL;
    rm->list_bytes = call->list_bytes;
    rc = task_read(tid, call->list, rm->list, rm->list_bytes);
    memcpy(rm->list_before, rm->list, rm->list_bytes);
    return rc;
}

/* Puts our addresses in place of the caller's, or the other way round. What is not mapped for the
 * caller is not mapped for the driver, which may not want it either. */
static void point(struct request *request, bool ours)
{
    const struct rm_call *call = &request->call;
    struct rm_bytes *rm = &request->rm;
    uint64_t params = rm->params_bytes ? (uintptr_t)rm->params : NOWHERE;

    if (call->params)
        set_address(rm->arg, PARAMS_AT, ours ? params : call->params);
    if (call->list)
        set_address(rm->params, offsetof(struct rm_fb_info_list, items),
                    ours ? (uintptr_t)rm->list : call->list);
    if (rm->has_rights)
        set_address(rm->arg, RIGHTS_AT,
                    ours ? (uintptr_t)&rm->rights : address_at(rm->arg_before, RIGHTS_AT));
}

static int read_rights(struct request *request)
{
    struct rm_bytes *rm = &request->rm;
    uint64_t address;

    if (request->call.kind != RM_KIND_ALLOC || rm->arg_bytes != sizeof(struct rm_alloc))
        return 0;
    address = address_at(rm->arg, RIGHTS_AT);
    rm->has_rights = address != 0;
    return address ? task_read(request->trap->tid, address, &rm->rights, sizeof(rm->rights)) : 0;
}

static int make(struct request *request)
{
    struct rm_bytes *rm = &request->rm;
    int rc;

    point(request, true);
    rc =
        ioctl(request->file->fd, RM_IOCTL(RM_KEY_NR(request->call.key), rm->arg_bytes), rm->arg) < 0
            ? err_last()
            : 0;
    point(request, false);
    return rc;
}

static int call_write(struct request *request)
{
    const struct rm_call *call = &request->call;
    struct rm_bytes *rm = &request->rm;
    const struct task_piece piece[] = {
        task_changes(rm->address, rm->arg_before, rm->arg, rm->arg_bytes),
        task_changes(call->params, rm->params_before, rm->params, rm->params_bytes),
        task_changes(call->list, rm->list_before, rm->list, rm->list_bytes),
    };

    if (piece[0].bytes + piece[1].bytes + piece[2].bytes == 0)
        return 0;
    /* The driver took its time: the thread's number may be another's. */
    return request_valid(request) ? task_write_pieces(request->trap->tid, piece, 3) : -EINTR;
}

static int refuse(struct request *request, uint32_t status)
{
    decode_set_status(&request->call, request->rm.arg, status);
    return 0;
}

/* With descriptors that the driver looks for in the caller. Those that NVML has opened here are not
 * the caller's. */
static int make_borrowed(struct request *request)
{
    struct notify *notify = request->nvidia->notify;
    bool wants_gpu = request->call.class_id == RM_CLASS_DEVICE;
    uint64_t *number = (uint64_t *)request->rm.params, its_number = *number;
    struct borrowed borrowed;
    int rc;

    if (wants_gpu)
        borrow_gpus(notify, request->trap->tid, &borrowed);
    else
        borrow_capability(notify, request->trap->tid, number, &borrowed);
    if (!request_valid(request))
        rc = -EINTR;
    else if (wants_gpu && borrowed.count == 0)
        rc = refuse(request, RM_ERR_INSUFFICIENT_PERMISSIONS);
    else
        rc = make(request);
    borrowed_close(&borrowed);
    if (!wants_gpu)
        *number = its_number;
    return rc;
}

static bool schedules(const struct rm_call *call)
{
    return call->kind == RM_KIND_CONTROL &&
           (call->control == RM_CTRL_GROUP_SCHEDULE || call->control == RM_CTRL_CHANNEL_SCHEDULE);
}

/* With the channels' lock, so that no channel is switched meanwhile. */
static int make_schedule(struct request *request)
{
    struct channels *channels = request->nvidia->channels;
    const struct rm_call *call = &request->call;
    int rc = -EINTR;

    channels_lock(channels);
    if (channels_postpone(channels, call->client, call->handle,
                          (struct rm_schedule *)request->rm.params, call->params_bytes))
        rc = refuse(request, RM_OK);
    else if (request_valid(request))
        rc = make(request);
    channels_unlock(channels);
    return rc;
}

/* Makes the call, if its caller still waits. */
static int make_for(struct request *request)
{
    const struct rm_call *call = &request->call;
    const struct rm_bytes *rm = &request->rm;
    bool profiles =
        call->kind == RM_KIND_ALLOC && (rm->has_rights || rm_class_is_profiler(call->class_id));
    int rc;

    if (call->kind == RM_KIND_ALLOC && (call->class_id == RM_CLASS_DEVICE ||
                                        (call->shows_file && rm->params_bytes >= sizeof(uint64_t))))
        return make_borrowed(request);
    if (schedules(call))
        return make_schedule(request);
    if (profiles)
        privilege_profile_as(request->trap->tid);
    rc = request_valid(request) ? make(request) : -EINTR;
    if (profiles)
        privilege_profile_as(0);
    return rc;
}

/* Checks the call, makes it, and notes what it has done. */
static int execute(struct request *request)
{
    struct rm_bytes *rm = &request->rm;
    uint32_t status = request_check(request);
    int rc;

    if (status != RM_OK)
        return refuse(request, status);
    rc = make_for(request);
    if (rc < 0)
        return rc;
    decode_result(&request->call, rm->arg, rm->params, rm->params_bytes, &request->result);
    if (request->result.status != RM_OK)
        return 0;
    if (account_note(request) < 0)
        return refuse(request, RM_ERR_NO_MEMORY);
    view_rewrite(request);
    return 0;
}

static bool is_transfer(const struct rm_call *call)
{
    return call->kind == RM_KIND_EXPORT || call->kind == RM_KIND_IMPORT ||
           call->kind == RM_KIND_DMABUF;
}

/* As execute(), for a call that names another file. */
static int transfer(struct request *request)
{
    struct rm_bytes *rm = &request->rm;
    bool nested = request->call.kind != RM_KIND_DMABUF;
    void *data = nested ? rm->params : rm->arg;
    size_t bytes = nested ? rm->params_bytes : rm->arg_bytes;
    int rc = exports_begin(request, data, bytes);

    if (rc)
        return rc < 0 ? rc : refuse(request, (uint32_t)rc);
    rc = request_valid(request) ? make(request) : -EINTR;
    if (rc == 0) {
        decode_result(&request->call, rm->arg, rm->params, rm->params_bytes, &request->result);
        rc = (int)request->result.status;
        request->place = (struct rm_place){0};
        if (rc == RM_OK && nested) /* through the client's file */
            account_note(request);
    }
    rc = exports_end(request, data, bytes, rc);
    return rc < 0 ? rc : refuse(request, (uint32_t)rc);
}

/* On a GPU's node the driver makes events, and objects of no other class (escape.c,
 * NV_ESC_RM_ALLOC). */
static bool is_left_to_caller(const struct request *request)
{
    const struct rm_call *call = &request->call;

    if (request->file->kind == DEVICE_GPU)
        return call->kind == RM_KIND_ALLOC && rm_class_is_event(call->class_id) &&
               !request->rm.indirect;
    return request->file->kind == DEVICE_CTL && call->action == RM_CONTINUE;
}

/* Left to the caller. On the control device that makes a client, for which the driver counts memory
 * by the process. (On a GPU's node it is an event, and the note means nothing.) */
static int note_maker(struct request *request)
{
    int rc = request->call.kind == RM_KIND_ALLOC
                 ? clients_add_maker(&request->nvidia->clients, request->file->number,
                                     request->process->pid)
                 : 0;

    if (rc < 0)
        log_ratelimited("guard: a client is refused: more than %d processes have made some under "
                        "files that are still open",
                        MAKERS_MAX);
    return rc < 0 ? rc : TRAP_CONTINUE;
}

static int call_act(struct request *request)
{
    const struct rm_call *call = &request->call;
    int rc = request_identify(request);

    if (rc < 0)
        return rc;
    if (is_left_to_caller(request))
        return note_maker(request);
    if (call->action == RM_CONTINUE ||
        request->file->kind != (call->kind == RM_KIND_DMABUF ? DEVICE_GPU : DEVICE_CTL))
        return -EINVAL;
    if (call->action == RM_REFUSE)
        return refuse(request, call->refusal);
    return is_transfer(call) ? transfer(request) : execute(request);
}

static int call_read(struct request *request)
{
    const struct rm_call *call = &request->call;
    struct rm_bytes *rm = &request->rm;
    int rc;

    rm->params_bytes = rm->list_bytes = 0;
    rm->has_rights = false;
    rc = read_arg(request);
    if (rc < 0)
        return rc;
    if (call->action == RM_CONTINUE && rm->indirect)
        return -EINVAL;
    if (call->action == RM_CONTINUE && call->kind == RM_KIND_CONTROL)
        return TRAP_CONTINUE; /* most calls: nothing of it is of interest */
    if (call->action != RM_EXECUTE)
        return 0;
    rc = read_nested(request);
    return rc < 0 ? rc : read_rights(request);
}

const struct request_steps call_steps = {.read = call_read, .act = call_act, .write = call_write};
