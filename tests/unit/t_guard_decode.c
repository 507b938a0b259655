/* How the guard decodes the bytes of a call. */
#include "guard_calls.h"

#include <errno.h>

TEST(indirect)
{
    struct rm_xfer xfer = {.nr = RM_ESC_ALLOC, .size = sizeof(struct rm_alloc), .params = 0x1000};
    uint64_t address = 0;
    uint32_t key = 0;

    assert_int_equal(decode_xfer(&xfer, &key, &address), 0);
    assert_int_equal(key, RM_KEY(RM_ESC_ALLOC, sizeof(struct rm_alloc)));
    assert_true(address == 0x1000);
    xfer.nr = RM_ESC_XFER;
    assert_int_equal(decode_xfer(&xfer, &key, &address), -EINVAL);
    xfer.nr = 0x100 | RM_ESC_ALLOC; /* the driver compares the whole word */
    assert_int_equal(decode_xfer(&xfer, &key, &address), -EINVAL);
    xfer = (struct rm_xfer){.nr = RM_ESC_ALLOC, .size = RM_PARAMS_MAX + 1, .params = 0x1000};
    assert_int_equal(decode_xfer(&xfer, &key, &address), -EINVAL);
    xfer.size = 0;
    assert_int_equal(decode_xfer(&xfer, &key, &address), -EINVAL);
    xfer = (struct rm_xfer){.nr = RM_ESC_ALLOC, .size = sizeof(struct rm_alloc)};
    assert_int_equal(decode_xfer(&xfer, &key, &address), -EINVAL);
}

static bool is_trapped(const struct filter_calls *calls, uint32_t key)
{
    for (unsigned i = 0; i < calls->key_count; i++) {
        if (calls->key[i] == key)
            return true;
    }
    return false;
}

/* Whatever decode_call() accepts on this branch is trapped. Returns how many structures it is. */
static unsigned accepted_are_trapped(const struct rm_branch *branch)
{
    static const uint8_t bytes[RM_KEY_SIZE(UINT32_MAX) + 1];
    struct filter_calls calls;
    unsigned accepted = 0;

    decode_filter(branch, true, &calls);
    for (uint32_t nr = 0; nr < 256; nr++) {
        for (uint32_t size = 0; size < sizeof(bytes); size++) {
            struct rm_call call;

            if (decode_call(branch, false, RM_KEY(nr, size), bytes, &call) < 0)
                continue;
            assert_true(is_trapped(&calls, RM_KEY(nr, size)));
            accepted++;
        }
    }
    /* All but XFER, which only wraps others. */
    assert_int_equal(accepted, calls.key_count - 1);
    assert_true(is_trapped(&calls, RM_KEY(RM_ESC_XFER, sizeof(struct rm_xfer))));
    return accepted;
}

TEST(rows)
{
    static const struct rm_branch branches[] = {
#define BRANCH(...) {__VA_ARGS__},
#include "branches.def"
#undef BRANCH
    };
    const unsigned count = sizeof(branches) / sizeof(branches[0]);

    for (unsigned i = 0; i < count; i++) {
        /* A branch to come, whose structures are of other sizes. */
        struct rm_branch next = branches[i];

        next.dmabuf_bytes += 8;
        assert_int_equal(accepted_are_trapped(&branches[i]), 8);
        assert_int_equal(accepted_are_trapped(&next), 8);
        assert_true(branches[i].fb_info_bytes <= sizeof(struct rm_fb_info));
        assert_true(branches[i].schedule_bytes <= sizeof(struct rm_schedule));
        assert_true(branches[i].dmabuf_bytes <= RM_PARAMS_MAX);
        assert_true(branches[i].dmabuf_handles_at + RM_DMABUF_MAX * sizeof(uint32_t) <=
                    branches[i].dmabuf_bytes);
    }
}

TEST(keys)
{
    /* What a CUDA program sends, in its own words. */
    static const uint32_t commands[] = {0xc020462b, 0xc030462b, 0xc0104629, 0xc020462a, 0xc01c4634,
                                        0xc0b8464a, 0xc01046d3, 0xc0144628, 0xca3046d9};
    struct filter_calls calls;
    uint8_t bytes[4096] = {0};
    struct rm_call call = {.key = 77};

    decode_filter(branch(580), true, &calls);
    assert_int_equal(calls.key_count, sizeof(commands) / sizeof(commands[0]));
    for (unsigned i = 0; i < calls.key_count; i++)
        assert_true(is_trapped(&calls, commands[i] & RM_KEY_MASK));
    /* What makes or frees something is trapped without limits, too. */
    decode_filter(branch(580), false, &calls);
    assert_int_equal(calls.key_count, sizeof(commands) / sizeof(commands[0]) - 2);
    assert_false(is_trapped(&calls, RM_KEY(RM_ESC_CONTROL, sizeof(struct rm_control))));
    assert_false(is_trapped(&calls, RM_KEY(RM_ESC_EXPORT_DMABUF, branch(580)->dmabuf_bytes)));
    assert_int_equal(decode_call(branch(580), false, RM_KEY(RM_ESC_XFER, 16), bytes, &call),
                     -EINVAL);
    assert_int_equal(decode_call(branch(580), false, RM_KEY(RM_ESC_ALLOC, 40), bytes, &call),
                     -EINVAL);
    assert_int_equal(decode_call(branch(580), false, RM_KEY(RM_ESC_SHARE, 24), bytes, &call),
                     -EINVAL);
    assert_int_equal(decode_call(branch(580), false, RM_KEY(RM_ESC_ALLOC, 4096), bytes, &call),
                     -EINVAL);
    assert_int_equal(call.key, 77);
}

static struct rm_call alloc_memory(struct rm_memory_params memory)
{
    struct rm_alloc arg = {.root = 1,
                           .parent = 2,
                           .handle = 3,
                           .class_id = RM_CLASS_MEMORY_LOCAL_USER,
                           .params = 0x2000};
    struct rm_call call;

    assert_int_equal(CALL(RM_ESC_ALLOC, arg, &call), 0);
    assert_int_equal(call.action, RM_EXECUTE);
    assert_int_equal(call.params_bytes, sizeof(memory));
    assert_int_equal(decode_params(&call, &memory, sizeof(memory)), 0);
    return call;
}

TEST(allocations)
{
    struct rm_alloc arg = {.root = 1,
                           .parent = 2,
                           .handle = 3,
                           .class_id = RM_CLASS_MEMORY_LOCAL_USER,
                           .params = 0x2000};
    struct rm_memory_params memory = {.size = 5 * MIB};
    struct rm_result result;
    struct rm_call call = alloc_memory(memory);

    assert_int_equal(call.kind, RM_KIND_ALLOC);
    assert_int_equal(call.client, 1);
    assert_int_equal(call.parent, 2);
    assert_int_equal(call.handle, 3);
    assert_true(call.params == 0x2000);
    assert_true(call.charges && call.charge_bytes == 6 * MIB);
    /* The driver has run it. */
    arg.handle = 0x44;
    memory.size = 6 * MIB;
    decode_result(&call, &arg, &memory, sizeof(memory), &result);
    assert_int_equal(result.status, RM_OK);
    assert_int_equal(result.handle, 0x44);
    assert_true(result.bytes == 6 * MIB && result.charge_bytes == 6 * MIB);
    decode_set_status(&call, &arg, RM_ERR_NO_MEMORY);
    assert_int_equal(arg.status, RM_ERR_NO_MEMORY);
    decode_result(&call, &arg, &memory, sizeof(memory), &result);
    assert_int_equal(result.status, RM_ERR_NO_MEMORY);
    assert_true(result.handle == 0 && result.bytes == 0 && result.charge_bytes == 0);
    /* Parameters that cannot be read, or that are more than was asked for. */
    assert_int_equal(CALL(RM_ESC_ALLOC, arg, &call), 0);
    assert_int_equal(decode_params(&call, &memory, sizeof(memory) - 1), 0);
    assert_int_equal(call.action, RM_REFUSE);
    assert_int_equal(call.refusal, RM_ERR_INVALID_ADDRESS);
    assert_int_equal(decode_params(&call, &memory, 0), -EINVAL);
    assert_int_equal(CALL(RM_ESC_ALLOC, arg, &call), 0);
    assert_int_equal(decode_params(&call, &memory, RM_PARAMS_MAX + 1), -EINVAL);
}

TEST(sizes)
{
    static const uint32_t huge = RM_MEMORY_PAGE_HUGE << 23, small = RM_MEMORY_PAGE_4K << 23,
                          big = RM_MEMORY_PAGE_BIG << 23;
    static const struct {
        struct rm_memory_params memory;
        uint64_t charge_bytes;
    } cases[] = {
        {{.size = 1}, 65536},
        {{.size = 65537}, 131072},
        {{.size = 1, .attr = small}, 65536},
        {{.size = 3 * MIB, .attr = small}, 3 * MIB},
        {{.size = 3 * MIB, .attr = big}, 3 * MIB},
        {{.size = 1, .attr = huge}, 2 * MIB},
        {{.size = 1, .attr = huge, .attr2 = 1 << 20}, 2 * MIB},
        {{.size = 1, .attr = huge, .attr2 = 2 << 20}, 512 * MIB},
        {{.size = 1, .attr = huge, .attr2 = 3 << 20}, 256 * GIB},
        {{.size = 2 * MIB + 1}, 4 * MIB},
        {{.size = 4 * GIB}, 4 * GIB},
        {{.size = UINT64_MAX}, UINT64_MAX},
        {{.size = UINT64_MAX - 65535}, UINT64_MAX},
        {{.size = UINT64_MAX - 65536, .attr = big}, UINT64_MAX - 65535},
        {{.size = 1, .attr = big, .flags = 0x110, .alignment = GIB}, GIB},
        {{.size = 1, .attr = big, .flags = 0x10, .alignment = GIB}, 65536},
        {{.size = 1, .attr = big, .flags = 0x100, .alignment = GIB}, 65536},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_true(alloc_memory(cases[i].memory).charge_bytes == cases[i].charge_bytes);
}

/* At a fixed place the driver takes more than it says. */
TEST(fixed_place)
{
    struct rm_memory_params memory = {.size = 65536, .flags = 0x110, .alignment = GIB};
    struct rm_call call = alloc_memory(memory);
    struct rm_alloc arg = {.handle = 3};
    struct rm_result result;

    decode_result(&call, &arg, &memory, sizeof(memory), &result);
    assert_true(result.bytes == 65536 && result.charge_bytes == GIB);
    /* Small pages are counted by what is really taken. */
    memory = (struct rm_memory_params){.size = 4096, .attr = RM_MEMORY_PAGE_4K << 23};
    call = alloc_memory(memory);
    decode_result(&call, &arg, &memory, sizeof(memory), &result);
    assert_true(result.bytes == 4096 && result.charge_bytes == 65536);
}

TEST(classes)
{
    static const struct {
        uint32_t class_id;
        enum rm_action action;
        uint32_t params_bytes; /* if it has any */
        bool shows_file;
    } cases[] = {
        {RM_CLASS_ROOT, RM_CONTINUE, 0, false},
        {RM_CLASS_ROOT_NON_PRIV, RM_CONTINUE, 0, false},
        {RM_CLASS_ROOT_CLIENT, RM_CONTINUE, 0, false},
        {RM_CLASS_DEVICE, RM_EXECUTE, RM_PARAMS_MAX, false},
        {RM_CLASS_SUBDEVICE, RM_EXECUTE, RM_PARAMS_MAX, false},
        {RM_CLASS_MEMORY_LOCAL_USER, RM_EXECUTE, sizeof(struct rm_memory_params), false},
        {RM_CLASS_MEMORY_SYSTEM, RM_EXECUTE, RM_PARAMS_MAX, false},
        {RM_CLASS_MEMORY_OS_DESCRIPTOR, RM_REFUSE, 0, false},
        {RM_CLASS_CHANNEL_GROUP, RM_EXECUTE, RM_PARAMS_MAX, false},
        {RM_CLASS_MIG_INSTANCE, RM_EXECUTE, RM_PARAMS_MAX, true},
        {RM_CLASS_IMEX, RM_EXECUTE, RM_PARAMS_MAX, true},
        {0xcb33, RM_EXECUTE, RM_PARAMS_MAX, false},
        {0xc86f, RM_EXECUTE, RM_PARAMS_MAX, false},
        {0x79, RM_EXECUTE, RM_PARAMS_MAX, false},
    };
    struct rm_call call;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rm_alloc_short arg = {.root = 1, .class_id = cases[i].class_id};

        for (unsigned with = 0; with < 2; with++) {
            arg.params = with;
            assert_int_equal(CALL(RM_ESC_ALLOC, arg, &call), 0);
            assert_int_equal(call.action, cases[i].action);
            assert_int_equal(call.class_id, cases[i].class_id);
            assert_int_equal(call.params_bytes, with ? cases[i].params_bytes : 0);
            assert_int_equal(call.shows_file, with && cases[i].shows_file);
            assert_false(call.charges);
        }
    }
    /* Not without parameters. */
    assert_int_equal(
        CALL(RM_ESC_ALLOC, ((struct rm_alloc){.class_id = RM_CLASS_MEMORY_LOCAL_USER}), &call), 0);
    assert_int_equal(decode_params(&call, NULL, 0), 0);
    assert_int_equal(call.action, RM_REFUSE);
    /* A device may have none. */
    assert_int_equal(CALL(RM_ESC_ALLOC, ((struct rm_alloc){.class_id = RM_CLASS_DEVICE}), &call),
                     0);
    assert_int_equal(decode_params(&call, NULL, 0), 0);
    assert_int_equal(call.action, RM_EXECUTE);
    /* Nor in a form that nobody here can read. */
    assert_int_equal(
        CALL(RM_ESC_ALLOC,
             ((struct rm_alloc){.class_id = RM_CLASS_MEMORY_LOCAL_USER, .params = 1, .flags = 1}),
             &call),
        0);
    assert_int_equal(call.action, RM_REFUSE);
    /* The old way, whatever the class. */
    assert_int_equal(
        CALL(RM_ESC_ALLOC_OBJECT, ((struct rm_alloc_object){.class_id = RM_CLASS_ROOT}), &call), 0);
    assert_int_equal(call.action, RM_REFUSE);
    assert_int_equal(call.refusal, RM_ERR_NOT_SUPPORTED);
}

TEST(frees_and_duplicates)
{
    struct rm_free gone = {.root = 1, .parent = 2, .handle = 3};
    struct rm_dup_object dup = {1, 2, 3, 4, 5, 6, 0};
    struct rm_result result;
    struct rm_call call;

    assert_int_equal(CALL(RM_ESC_FREE, gone, &call), 0);
    assert_int_equal(call.kind, RM_KIND_FREE);
    assert_int_equal(call.action, RM_EXECUTE);
    assert_true(call.client == 1 && call.parent == 2 && call.handle == 3);
    assert_int_equal(CALL(RM_ESC_DUP_OBJECT, dup, &call), 0);
    assert_int_equal(call.kind, RM_KIND_DUP);
    assert_int_equal(call.action, RM_EXECUTE);
    assert_true(call.client == 1 && call.parent == 2 && call.handle == 3);
    assert_true(call.source_client == 4 && call.source_handle == 5);
    dup.handle = 0x77;
    decode_result(&call, &dup, NULL, 0, &result);
    assert_int_equal(result.handle, 0x77);
    decode_set_status(&call, &dup, RM_ERR_INVALID_CLIENT);
    assert_int_equal(dup.status, RM_ERR_INVALID_CLIENT);
}

TEST(heap_allocations)
{
    struct rm_vid_heap_control arg = {.root = 1, .parent = 2, .function = RM_HEAP_ALLOC_SIZE};
    struct rm_result result;
    struct rm_call call;

    arg.u.alloc.handle = 9;
    arg.u.alloc.size = 100 * MIB;
    assert_int_equal(CALL(RM_ESC_VID_HEAP_CONTROL, arg, &call), 0);
    assert_true(call.kind == RM_KIND_HEAP_ALLOC && call.action == RM_EXECUTE);
    assert_true(call.client == 1 && call.parent == 2 &&
                call.class_id == RM_CLASS_MEMORY_LOCAL_USER);
    assert_int_equal(call.handle, 0); /* the driver chooses, as it is not said to be given */
    assert_true(call.charges && call.charge_bytes == 100 * MIB);
    arg.u.alloc.flags = RM_MEMORY_FLAG_HANDLE_GIVEN;
    assert_int_equal(CALL(RM_ESC_VID_HEAP_CONTROL, arg, &call), 0);
    assert_int_equal(call.handle, 9);
    decode_result(&call, &arg, NULL, 0, &result);
    assert_true(result.handle == 9 && result.bytes == 100 * MIB);
    /* Addresses, and memory of the host. */
    arg.u.alloc.flags |= RM_MEMORY_FLAG_VIRTUAL;
    assert_int_equal(CALL(RM_ESC_VID_HEAP_CONTROL, arg, &call), 0);
    assert_true(call.action == RM_EXECUTE && !call.charges &&
                call.class_id == RM_CLASS_MEMORY_VIRTUAL);
    arg.u.alloc.flags = 0;
    arg.u.alloc.attr = 1 << 25;
    assert_int_equal(CALL(RM_ESC_VID_HEAP_CONTROL, arg, &call), 0);
    assert_true(call.action == RM_EXECUTE && !call.charges &&
                call.class_id == RM_CLASS_MEMORY_SYSTEM);
    /* A range has its size elsewhere; */
    arg = (struct rm_vid_heap_control){.function = RM_HEAP_ALLOC_SIZE_RANGE};
    arg.u.range.size = 7 * 65536;
    assert_int_equal(CALL(RM_ESC_VID_HEAP_CONTROL, arg, &call), 0);
    assert_true(call.charges && call.charge_bytes == 7 * 65536);
    decode_result(&call, &arg, NULL, 0, &result);
    assert_true(result.bytes == 7 * 65536);
    /* a surface has none at all: what stands there is only given back. */
    arg = (struct rm_vid_heap_control){.function = RM_HEAP_ALLOC_TILED_PITCH};
    arg.u.tiled.size = 1;
    arg.u.tiled.height = 1 << 20;
    arg.u.tiled.pitch = 1 << 16;
    assert_int_equal(CALL(RM_ESC_VID_HEAP_CONTROL, arg, &call), 0);
    assert_true(call.charges && call.charge_bytes == 64 * GIB);
    arg.u.tiled.height = 1;
    arg.u.tiled.pitch = -1;
    assert_int_equal(CALL(RM_ESC_VID_HEAP_CONTROL, arg, &call), 0);
    assert_true(call.charges && call.charge_bytes == UINT64_MAX);
}

TEST(heap_rest)
{
    struct rm_vid_heap_control arg = {.root = 1, .function = RM_HEAP_FREE};
    struct rm_call call;

    arg.u.free_.handle = 5;
    assert_int_equal(CALL(RM_ESC_VID_HEAP_CONTROL, arg, &call), 0);
    assert_true(call.kind == RM_KIND_HEAP_FREE && call.action == RM_EXECUTE && call.handle == 5 &&
                call.client == 1);
    for (uint32_t function = 0; function < 64; function++) {
        bool known = function == RM_HEAP_ALLOC_SIZE || function == RM_HEAP_FREE ||
                     function == RM_HEAP_INFO || function == RM_HEAP_ALLOC_TILED_PITCH ||
                     function == RM_HEAP_ALLOC_SIZE_RANGE || function == RM_HEAP_GET_MEM_ALIGNMENT;

        arg.function = function;
        assert_int_equal(CALL(RM_ESC_VID_HEAP_CONTROL, arg, &call), 0);
        assert_int_equal(call.action, known ? RM_EXECUTE : RM_REFUSE);
        assert_int_equal(call.refusal, known ? 0 : RM_ERR_NOT_SUPPORTED);
    }
    decode_set_status(&call, &arg, RM_ERR_NOT_SUPPORTED);
    assert_int_equal(arg.status, RM_ERR_NOT_SUPPORTED);
}

TEST(views)
{
    struct rm_control arg = {1, 2, RM_CTRL_FB_GET_INFO_V2, 0, 0x3000, sizeof(struct rm_fb_info), 0};
    struct rm_fb_info_list list = {.count = 3, .items = 0x4000};
    struct rm_fb_info info = {.count = 3};
    struct rm_call call;

    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_true(call.kind == RM_KIND_CONTROL && call.action == RM_EXECUTE &&
                call.params_bytes == sizeof(info));
    assert_true(call.client == 1 && call.handle == 2 && call.control == RM_CTRL_FB_GET_INFO_V2);
    assert_int_equal(decode_params(&call, &info, sizeof(info)), 0);
    assert_int_equal(call.action, RM_EXECUTE);
    assert_int_equal(decode_params(&call, &info, sizeof(info) - 1), 0);
    assert_int_equal(call.action, RM_REFUSE);
    arg.params_bytes = sizeof(list);
    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_int_equal(call.action, RM_CONTINUE); /* the driver will not take it either */
    arg.cmd = RM_CTRL_FB_GET_INFO;
    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_int_equal(call.action, RM_EXECUTE);
    assert_int_equal(decode_params(&call, &list, sizeof(list)), 0);
    assert_true(call.action == RM_EXECUTE && call.list == 0x4000 && call.list_bytes == 24);
    list.count = RM_FB_INFO_MAX + 1;
    assert_int_equal(decode_params(&call, &list, sizeof(list)), 0);
    assert_int_equal(call.action, RM_REFUSE);
    arg.flags = RM_CONTROL_SERIALIZED;
    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_int_equal(call.action, RM_CONTINUE);
}

TEST(exports)
{
    static struct rm_export_objects many = {.fd = 6, .count = 3, .index = 2, .object = {7, 8, 9}};
    static struct rm_transfer transfer;
    struct rm_control arg = {
        1, 1, RM_CTRL_EXPORT_OBJECT, 0, 0x3000, sizeof(struct rm_export_object), 0};
    struct rm_export_object one = {.object = 5, .fd = 4};
    struct rm_call call;

    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_true(call.kind == RM_KIND_EXPORT && call.action == RM_EXECUTE &&
                call.params_bytes == sizeof(one));
    assert_int_equal(decode_transfer(branch(580), &call, &one, sizeof(one), &transfer), 0);
    assert_true(transfer.fd == 4 && transfer.first == 0 && transfer.count == 1 &&
                transfer.handle[0] == 5);
    assert_int_equal(decode_transfer(branch(580), &call, &one, sizeof(one) - 1, &transfer),
                     -EINVAL);
    decode_set_fd(&call, &one, 99);
    assert_true(one.fd == 99 && one.object == 5);
    arg.cmd = RM_CTRL_EXPORT_OBJECTS;
    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_int_equal(call.action, RM_REFUSE); /* of another size */
    arg.params_bytes = sizeof(many);
    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_int_equal(decode_transfer(branch(580), &call, &many, sizeof(many), &transfer), 0);
    assert_true(transfer.fd == 6 && transfer.first == 2 && transfer.count == 3);
    assert_true(transfer.handle[0] == 7 && transfer.handle[2] == 9);
    many.count = RM_EXPORT_MAX + 1;
    assert_int_equal(decode_transfer(branch(580), &call, &many, sizeof(many), &transfer), -EINVAL);
    arg.flags = RM_CONTROL_SERIALIZED;
    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_int_equal(call.action, RM_REFUSE);
    arg.cmd = RM_CTRL_GPU_GET_PIDS;
    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_int_equal(call.action, RM_CONTINUE);
    assert_int_equal(decode_transfer(branch(580), &call, &many, sizeof(many), &transfer), -EINVAL);
}

TEST(imports)
{
    static struct rm_import_objects many = {
        .fd = 6, .parent = 3, .count = 3, .index = 2, .object = {7, 8, 9}};
    static struct rm_transfer transfer;
    struct rm_control arg = {
        1, 1, RM_CTRL_IMPORT_OBJECT, 0, 0x3000, sizeof(struct rm_import_object), 0};
    struct rm_import_object one = {.fd = 4, .parent = 2, .object = 5};
    struct rm_call call;

    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_true(call.kind == RM_KIND_IMPORT && call.action == RM_EXECUTE &&
                call.params_bytes == sizeof(one));
    assert_int_equal(decode_transfer(branch(580), &call, &one, sizeof(one), &transfer), 0);
    assert_true(transfer.fd == 4 && transfer.parent == 2 && transfer.count == 1 &&
                transfer.handle[0] == 5);
    arg.cmd = RM_CTRL_IMPORT_OBJECTS;
    arg.params_bytes = sizeof(many);
    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    many.type[0] = RM_IMPORT_VIDMEM;
    many.type[2] = RM_IMPORT_SYSMEM;
    assert_int_equal(decode_transfer(branch(580), &call, &many, sizeof(many), &transfer), 0);
    assert_true(transfer.fd == 6 && transfer.parent == 3 && transfer.first == 2 &&
                transfer.count == 3);
    assert_true(transfer.handle[0] == 7 && transfer.handle[1] == 0 && transfer.handle[2] == 9);
    decode_set_fd(&call, &many, -7);
    assert_int_equal(many.fd, -7);
    many.count = RM_IMPORT_MAX + 1;
    assert_int_equal(decode_transfer(branch(580), &call, &many, sizeof(many), &transfer), -EINVAL);
    arg.params = 0;
    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_int_equal(call.action, RM_REFUSE);
}

TEST(dmabufs)
{
    static const struct {
        unsigned major, bytes, handles_at;
    } forms[] = {{550, 2600, 32}, {570, 2608, 36}, {580, 2608, 36}, {595, 2608, 36}};
    static const uint32_t handles[] = {7, 8, 9};
    static struct rm_transfer transfer;

    for (unsigned i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        uint8_t bytes[RM_PARAMS_MAX] = {0};
        struct rm_dmabuf head = {
            .fd = -1, .client = 0xc1d00001, .total = 9, .count = 3, .index = 2};
        uint32_t key = RM_KEY(RM_ESC_EXPORT_DMABUF, forms[i].bytes), status,
                 refused = RM_ERR_NO_MEMORY;
        struct rm_result result;
        struct rm_call call;

        memcpy(bytes, &head, sizeof(head));
        memcpy(bytes + forms[i].handles_at, handles, sizeof(handles));
        assert_int_equal(decode_call(branch(forms[i].major), false, key, bytes, &call), 0);
        assert_true(call.kind == RM_KIND_DMABUF && call.action == RM_EXECUTE &&
                    call.client == 0xc1d00001);
        assert_true(!call.params && !call.params_bytes);
        assert_int_equal(
            decode_transfer(branch(forms[i].major), &call, bytes, forms[i].bytes, &transfer), 0);
        assert_true(transfer.fd == -1 && transfer.first == 2 && transfer.count == 3 &&
                    transfer.handle[2] == 9);
        decode_set_fd(&call, bytes, 5);
        decode_set_status(&call, bytes, refused);
        memcpy(&head, bytes, sizeof(head));
        memcpy(&status, bytes + forms[i].bytes - 8, sizeof(status));
        assert_true(head.fd == 5 && status == refused);
        decode_result(&call, bytes, NULL, 0, &result);
        assert_int_equal(result.status, refused);
        head.count = RM_DMABUF_MAX + 1;
        memcpy(bytes, &head, sizeof(head));
        assert_int_equal(
            decode_transfer(branch(forms[i].major), &call, bytes, forms[i].bytes, &transfer),
            -EINVAL);
        /* The other form is none of this branch's. */
        key = RM_KEY(RM_ESC_EXPORT_DMABUF, forms[i].bytes == 2600 ? 2608 : 2600);
        assert_int_equal(decode_call(branch(forms[i].major), false, key, bytes, &call), -EINVAL);
    }
}
