#include "guard/nvidia/decode_internal.h"

#include <errno.h>
#include <string.h>

#define HUGE_BYTES (2ULL << 20)
#define HUGE_512M  (512ULL << 20)
#define HUGE_256G  (256ULL << 30)

/* What a structure is decoded by: its bytes, whichever it is, and decode_call()'s other arguments.
 */
struct input {
    const struct rm_branch *branch;
    bool strict;
    union {
        struct rm_alloc alloc;
        struct rm_alloc_object alloc_object;
        struct rm_free free;
        struct rm_dup_object dup;
        struct rm_vid_heap_control heap;
        struct rm_control control;
        struct rm_dmabuf dmabuf;
    } of;
};

int decode_xfer(const struct rm_xfer *xfer, uint32_t *ret_key, uint64_t *ret_address)
{
    if (xfer->nr > 0xff || xfer->nr == RM_ESC_XFER || xfer->size == 0 ||
        xfer->size > RM_PARAMS_MAX || !xfer->params)
        return -EINVAL;
    *ret_key = RM_KEY(xfer->nr, xfer->size);
    *ret_address = xfer->params;
    return 0;
}

void decode_refuse(struct rm_call *call, uint32_t status)
{
    call->action = RM_REFUSE;
    call->refusal = status;
    call->params_bytes = 0;
    call->charges = false;
    call->charge_bytes = 0;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    uint64_t over = bytes % unit;

    if (!over)
        return bytes;
    return bytes > UINT64_MAX - (unit - over) ? UINT64_MAX : bytes + (unit - over);
}

/* The driver gives whole pages. Its smallest piece is 64 KiB, even with pages of 4 KiB. */
static uint64_t page_bytes(const struct alloc_request *request)
{
    switch (RM_MEMORY_ATTR_PAGE_SIZE(request->attr)) {
    case RM_MEMORY_PAGE_DEFAULT:
        return request->size >= HUGE_BYTES ? HUGE_BYTES : RM_CHARGE_UNIT;
    case RM_MEMORY_PAGE_HUGE:
        switch (RM_MEMORY_ATTR2_HUGE_SIZE(request->attr2)) {
        case RM_MEMORY_HUGE_512M:
            return HUGE_512M;
        case RM_MEMORY_HUGE_256G:
            return HUGE_256G;
        default:
            return HUGE_BYTES;
        }
    default:
        return RM_CHARGE_UNIT;
    }
}

void decode_charge(struct rm_call *call, const struct alloc_request *request)
{
    call->charges = true;
    call->charge_bytes = round_up(request->size, page_bytes(request));
    /* At a fixed address the driver takes whole multiples of the alignment, and does not say so. */
    if (request->flags & RM_MEMORY_FLAG_FIXED_ADDRESS) {
        call->charge_keeps = true;
        if (request->flags & (RM_MEMORY_FLAG_ALIGNMENT_HINT | RM_MEMORY_FLAG_ALIGNMENT_FORCE) &&
            request->alignment)
            call->charge_bytes = round_up(call->charge_bytes, request->alignment);
    }
}

/*
 * The supervisor makes every object except clients, so an object has the class that was checked. A
 * client belongs to the process that makes it: NVML counts by that, and UVM asks for it.
 */
static void alloc(struct rm_call *call, bool serialized)
{
    call->kind = RM_KIND_ALLOC;
    call->action = RM_EXECUTE;
    switch (call->class_id) {
    case RM_CLASS_ROOT:
    case RM_CLASS_ROOT_NON_PRIV:
    case RM_CLASS_ROOT_CLIENT:
        call->action = RM_CONTINUE;
        return;
    case RM_CLASS_MEMORY_LOCAL_USER:
        call->params_bytes = sizeof(struct rm_memory_params);
        break;
    case RM_CLASS_FABRIC_MANAGER:
    case RM_CLASS_IMEX:
    case RM_CLASS_MIG_INSTANCE:
    case RM_CLASS_MIG_COMPUTE_INSTANCE:
    case RM_CLASS_MIG_CONFIG:
    case RM_CLASS_MIG_MONITOR:
        call->shows_file = call->params != 0;
        call->params_bytes = RM_PARAMS_MAX;
        break;
    case RM_CLASS_MEMORY_EXPORT: /* NVML does not count what it holds, and controls that continue
                                    change it */
        decode_refuse(call, RM_ERR_NOT_SUPPORTED);
        return;
    case RM_CLASS_MEMORY_OS_DESCRIPTOR:
        /* The caller's own pages, which another process cannot ask for. Programs use
         * RM_ESC_ALLOC_MEMORY. */
        decode_refuse(call, RM_ERR_NOT_SUPPORTED);
        return;
    default:
        call->params_bytes = RM_PARAMS_MAX;
    }
    if (!call->params)
        call->params_bytes = 0;
    if (rm_class_looks_like_channel(call->class_id) &&
        !rm_class_is_channel(call->class_id)) /* the guard would not switch it */
        decode_refuse(call, RM_ERR_NOT_SUPPORTED);
    if (serialized)
        decode_refuse(call, RM_ERR_INVALID_ARGUMENT);
}

/* Both structures begin alike. `serialized`: only the program says how large the parameters are. */
static void decode_alloc_head(const struct input *in, bool serialized, struct rm_call *call)
{
    call->client = in->of.alloc.root;
    call->parent = in->of.alloc.parent;
    call->handle = in->of.alloc.handle;
    call->class_id = in->of.alloc.class_id;
    call->params = in->of.alloc.params;
    alloc(call, serialized);
}

static void decode_alloc_short(const struct input *in, struct rm_call *call)
{
    decode_alloc_head(in, false, call);
}

static void decode_alloc(const struct input *in, struct rm_call *call)
{
    decode_alloc_head(in, in->of.alloc.flags & RM_ALLOC_SERIALIZED, call);
}

static void decode_heap(const struct input *in, struct rm_call *call)
{
    const struct rm_vid_heap_control *arg = &in->of.heap;
    struct alloc_request request;

    call->kind = RM_KIND_HEAP_OTHER;
    call->action = RM_EXECUTE;
    call->client = arg->root;
    call->parent = arg->parent;
    call->function = arg->function;
    switch (arg->function) {
    case RM_HEAP_ALLOC_SIZE:
        request = (struct alloc_request){arg->u.alloc.flags, arg->u.alloc.attr, arg->u.alloc.attr2,
                                         arg->u.alloc.size, arg->u.alloc.alignment};
        call->handle = arg->u.alloc.handle;
        break;
    case RM_HEAP_ALLOC_TILED_PITCH:
        /* The driver's own product, which may wrap around. */
        request = (struct alloc_request){
            arg->u.tiled.flags, arg->u.tiled.attr, arg->u.tiled.attr2,
            arg->u.tiled.height * (uint64_t)(int64_t)arg->u.tiled.pitch, arg->u.tiled.alignment};
        call->handle = arg->u.tiled.handle;
        break;
    case RM_HEAP_ALLOC_SIZE_RANGE:
        request = (struct alloc_request){arg->u.range.flags, arg->u.range.attr, arg->u.range.attr2,
                                         arg->u.range.size, arg->u.range.alignment};
        call->handle = arg->u.range.handle;
        break;
    case RM_HEAP_FREE:
        call->kind = RM_KIND_HEAP_FREE;
        call->handle = arg->u.free_.handle;
        return;
    case RM_HEAP_INFO:
    case RM_HEAP_GET_MEM_ALIGNMENT:
        return;
    default:
        decode_refuse(call, RM_ERR_NOT_SUPPORTED);
        return;
    }
    call->kind = RM_KIND_HEAP_ALLOC;
    /* The driver overwrites a handle that is not marked as given. */
    if (!(request.flags & RM_MEMORY_FLAG_HANDLE_GIVEN))
        call->handle = 0;
    if (request.flags & RM_MEMORY_FLAG_VIRTUAL) {
        call->class_id = RM_CLASS_MEMORY_VIRTUAL;
    } else if (RM_MEMORY_ATTR_LOCATION(request.attr) == RM_MEMORY_LOCATION_VIDMEM) {
        call->class_id = RM_CLASS_MEMORY_LOCAL_USER;
        decode_charge(call, &request);
    } else {
        call->class_id = RM_CLASS_MEMORY_SYSTEM;
    }
}

enum control_use {
    CONTROL_VIEW, /* the answer becomes the program's view; in another form it is the driver's alone
                   */
    CONTROL_CHECK,    /* executed in this form, else refused: its parameters have to be checked */
    CONTROL_SCHEDULE, /* as CHECK; from then on channels run, so the guard has to know */
    CONTROL_EXPORT,   /* as CHECK; a descriptor in it is replaced by ours */
    CONTROL_IMPORT,
    CONTROL_SWITCH, /* switches any program's channels off, and on what the guard has switched off
                     */
};

/* The controls that the guard does not leave to the driver alone, with the size of their
 * parameters. */
static const struct control_row {
    uint32_t cmd, bytes;
    size_t branch_bytes_at; /* not 0: where struct rm_branch has the size */
    enum control_use use;
} control_rows[] = {
#define OF_BRANCH(member) 0, offsetof(struct rm_branch, member)
    {RM_CTRL_FB_GET_INFO, sizeof(struct rm_fb_info_list), 0, CONTROL_VIEW},
    {RM_CTRL_FB_GET_INFO_V2, OF_BRANCH(fb_info_bytes), CONTROL_VIEW},
    {RM_CTRL_EXPORT_OBJECT, sizeof(struct rm_export_object), 0, CONTROL_EXPORT},
    {RM_CTRL_EXPORT_OBJECTS, sizeof(struct rm_export_objects), 0, CONTROL_EXPORT},
    {RM_CTRL_IMPORT_OBJECT, sizeof(struct rm_import_object), 0, CONTROL_IMPORT},
    {RM_CTRL_IMPORT_OBJECTS, sizeof(struct rm_import_objects), 0, CONTROL_IMPORT},
    {RM_CTRL_FIFO_DISABLE_CHANNELS, 0, 0, CONTROL_SWITCH},
    {RM_CTRL_GROUP_SCHEDULE, OF_BRANCH(schedule_bytes), CONTROL_SCHEDULE},
    {RM_CTRL_CHANNEL_SCHEDULE, OF_BRANCH(schedule_bytes), CONTROL_SCHEDULE},
    {RM_CTRL_GROUP_SET_TIMESLICE, sizeof(struct rm_timeslice), 0, CONTROL_CHECK},
    {RM_CTRL_GR_GET_CTXSW_STATS, sizeof(struct rm_ctxsw_stats), 0, CONTROL_CHECK},
#undef OF_BRANCH
};

/* A size that may be a branch's. */
static uint32_t bytes_of(uint32_t bytes, size_t branch_bytes_at, const struct rm_branch *branch)
{
    if (branch_bytes_at)
        memcpy(&bytes, (const char *)branch + branch_bytes_at, sizeof(bytes));
    return bytes;
}

static void decode_control_row(const struct input *in, const struct control_row *row,
                               struct rm_call *call)
{
    const struct rm_control *arg = &in->of.control;
    uint32_t bytes = bytes_of(row->bytes, row->branch_bytes_at, in->branch);

    if (row->use == CONTROL_SWITCH) {
        if (in->strict)
            decode_refuse(call, RM_ERR_INSUFFICIENT_PERMISSIONS);
        return;
    }
    call->may_unschedule = row->use == CONTROL_SCHEDULE && !in->strict;
    if (row->use == CONTROL_EXPORT || row->use == CONTROL_IMPORT)
        call->kind = row->use == CONTROL_EXPORT ? RM_KIND_EXPORT : RM_KIND_IMPORT;
    if (call->params && arg->params_bytes == bytes && !(arg->flags & RM_CONTROL_SERIALIZED)) {
        call->action = RM_EXECUTE;
        call->params_bytes = bytes;
    } else if (row->use != CONTROL_VIEW) {
        decode_refuse(call, RM_ERR_INVALID_ARGUMENT);
    }
}

static void decode_control(const struct input *in, struct rm_call *call)
{
    const struct rm_control *arg = &in->of.control;

    call->kind = RM_KIND_CONTROL;
    call->action = RM_CONTINUE;
    call->client = arg->client;
    call->handle = arg->object;
    call->control = arg->cmd;
    call->params = arg->params;
    for (unsigned i = 0; i < sizeof(control_rows) / sizeof(control_rows[0]); i++) {
        if (control_rows[i].cmd == arg->cmd)
            decode_control_row(in, &control_rows[i], call);
    }
}

/* This old form of RM_ALLOC has no parameters, so programs have no use for it. */
static void decode_alloc_object(const struct input *in, struct rm_call *call)
{
    call->kind = RM_KIND_ALLOC;
    call->client = in->of.alloc_object.root;
    call->parent = in->of.alloc_object.parent;
    call->handle = in->of.alloc_object.handle;
    call->class_id = in->of.alloc_object.class_id;
    decode_refuse(call, RM_ERR_NOT_SUPPORTED);
}

static void decode_free(const struct input *in, struct rm_call *call)
{
    call->kind = RM_KIND_FREE;
    call->action = RM_EXECUTE;
    call->client = in->of.free.root;
    call->parent = in->of.free.parent;
    call->handle = in->of.free.handle;
}

static void decode_dup(const struct input *in, struct rm_call *call)
{
    call->kind = RM_KIND_DUP;
    call->action = RM_EXECUTE;
    call->client = in->of.dup.client;
    call->parent = in->of.dup.parent;
    call->handle = in->of.dup.handle;
    call->source_client = in->of.dup.source_client;
    call->source_handle = in->of.dup.source_handle;
}

static void decode_dmabuf(const struct input *in, struct rm_call *call)
{
    call->kind = RM_KIND_DMABUF;
    call->action = RM_EXECUTE;
    call->client = in->of.dmabuf.client;
}

/*
 * The structures of the control device, one row each: a structure that decode_call() accepts is
 * one that decode_filter() has trapped.
 */
static const struct layout {
    uint32_t nr, bytes;
    size_t branch_bytes_at; /* not 0: where struct rm_branch has the size; status_at is from the
                               end then */
    uint32_t status_at;
    bool limits_only; /* trapped only where memory or channels are limited: it makes nothing */
    void (*decode)(const struct input *in,
                   struct rm_call *call); /* NULL: decode_xfer() unwraps it */
} layouts[] = {
#define LAYOUT(nr, type, ...)                                                                      \
    {                                                                                              \
        (nr), sizeof(type), 0, offsetof(type, status), __VA_ARGS__                                 \
    }
    LAYOUT(RM_ESC_ALLOC, struct rm_alloc_short, false, decode_alloc_short),
    LAYOUT(RM_ESC_ALLOC, struct rm_alloc, false, decode_alloc),
    LAYOUT(RM_ESC_ALLOC_OBJECT, struct rm_alloc_object, false, decode_alloc_object),
    LAYOUT(RM_ESC_FREE, struct rm_free, false, decode_free),
    LAYOUT(RM_ESC_DUP_OBJECT, struct rm_dup_object, false, decode_dup),
    LAYOUT(RM_ESC_VID_HEAP_CONTROL, struct rm_vid_heap_control, false, decode_heap),
    LAYOUT(RM_ESC_CONTROL, struct rm_control, true, decode_control),
    {RM_ESC_XFER, sizeof(struct rm_xfer), 0, 0, false, NULL},
    {RM_ESC_EXPORT_DMABUF, 0, offsetof(struct rm_branch, dmabuf_bytes), 8, true, decode_dmabuf},
#undef LAYOUT
};

#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

_Static_assert(LAYOUTS <= FILTER_KEYS_MAX, "the filter has room for all structures");

static uint32_t key_of(const struct layout *layout, const struct rm_branch *branch)
{
    return RM_KEY(layout->nr, bytes_of(layout->bytes, layout->branch_bytes_at, branch));
}

void decode_filter(const struct rm_branch *branch, bool limits, struct filter_calls *ret_calls)
{
    *ret_calls = (struct filter_calls){
        .whole = {UVM_MAP_EXTERNAL_ALLOCATION, UVM_FREE, UVM_UNMAP_EXTERNAL},
        .whole_count = 3,
        .refused = UVM_ALLOC_DEVICE_P2P, /* NVML counts the memory that it holds for no process */
        .mask = RM_KEY_MASK,
    };
    for (unsigned i = 0; i < LAYOUTS; i++) {
        if (limits || !layouts[i].limits_only)
            ret_calls->key[ret_calls->key_count++] = key_of(&layouts[i], branch);
    }
}

int decode_call(const struct rm_branch *branch, bool strict, uint32_t key, const void *arg,
                struct rm_call *ret_call)
{
    struct rm_call call = {.key = key};
    struct input in = {.branch = branch, .strict = strict};
    size_t bytes = RM_KEY_SIZE(key);

    memcpy(&in.of, arg, bytes < sizeof(in.of) ? bytes : sizeof(in.of));
    for (unsigned i = 0; i < LAYOUTS; i++) {
        if (!layouts[i].decode || key_of(&layouts[i], branch) != key)
            continue;
        call.status_at = layouts[i].branch_bytes_at ? (uint32_t)bytes - layouts[i].status_at
                                                    : layouts[i].status_at;
        layouts[i].decode(&in, &call);
        *ret_call = call;
        return 0;
    }
    return -EINVAL;
}

static uint32_t word_at(const void *bytes, size_t offset)
{
    uint32_t word;

    memcpy(&word, (const char *)bytes + offset, sizeof(word));
    return word;
}

static uint64_t long_at(const void *bytes, size_t offset)
{
    uint64_t word;

    memcpy(&word, (const char *)bytes + offset, sizeof(word));
    return word;
}

void decode_set_status(const struct rm_call *call, void *arg, uint32_t status)
{
    memcpy((char *)arg + call->status_at, &status, sizeof(status));
}

void decode_result(const struct rm_call *call, const void *arg, const void *params, size_t bytes,
                   struct rm_result *ret_result)
{
    struct rm_result result = {.status = word_at(arg, call->status_at)};

    if (result.status != RM_OK) {
        *ret_result = result;
        return;
    }
    switch (call->kind) {
    case RM_KIND_ALLOC: /* the same place in all its forms */
        result.handle = word_at(arg, offsetof(struct rm_alloc, handle));
        if (call->charges && bytes >= sizeof(struct rm_memory_params))
            result.bytes = long_at(params, offsetof(struct rm_memory_params, size));
        break;
    case RM_KIND_DUP:
        result.handle = word_at(arg, offsetof(struct rm_dup_object, handle));
        break;
    case RM_KIND_HEAP_ALLOC: /* the handle's place is the same in all of them */
        result.handle = word_at(arg, offsetof(struct rm_vid_heap_control, u.alloc.handle));
        if (call->charges)
            result.bytes = long_at(arg, call->function == RM_HEAP_ALLOC_SIZE_RANGE
                                            ? offsetof(struct rm_vid_heap_control, u.range.size)
                                            : offsetof(struct rm_vid_heap_control, u.alloc.size));
        break;
    default:
        result.handle = call->handle;
        break;
    }
    if (call->charges) {
        result.charge_bytes = round_up(result.bytes, RM_CHARGE_UNIT);
        if (call->charge_keeps && result.charge_bytes < call->charge_bytes)
            result.charge_bytes = call->charge_bytes;
    }
    *ret_result = result;
}
