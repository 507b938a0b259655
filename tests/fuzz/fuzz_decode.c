/*
 * Fuzzing the guard's decoder: whatever the bytes of a call are, it stays within them and keeps its
 * promises. What a call asks for is read here by the driver's own offsets, not by the structures
 * that the decoder uses.
 */
#include "fuzz.h"

#include "guard/nvidia/decode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const uint64_t fuzz_iterations = 2000000;

static void require_at(bool right, const char *what, int line)
{
    if (right)
        return;
    fprintf(stderr, "fuzz_decode.c:%d: does not hold: %s\n", line, what);
    abort();
}

#define require(condition) require_at(condition, #condition, __LINE__)

static uint32_t word(const uint8_t *bytes, size_t offset)
{
    uint32_t value;

    memcpy(&value, bytes + offset, sizeof(value));
    return value;
}

static uint64_t long_word(const uint8_t *bytes, size_t offset)
{
    uint64_t value;

    memcpy(&value, bytes + offset, sizeof(value));
    return value;
}

/* Bytes that end where memory ends, and begin wherever that makes them begin. */
static uint8_t *place(unsigned which, const uint8_t *bytes, size_t size)
{
    static uint8_t *end[2];

    if (!end[which]) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE),
               room = (FUZZ_INPUT_MAX + page - 1) / page * page;
        uint8_t *base =
            mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (base == MAP_FAILED || mprotect(base + room, page, PROT_NONE))
            abort();
        end[which] = base + room;
    }
    if (size)
        memcpy(end[which] - size, bytes, size);
    return end[which] - size;
}

/* Reads the input from its beginning; past the end there are zeros. */
struct input {
    const uint8_t *at;
    size_t left;
};

static uint32_t take(struct input *input, unsigned bytes)
{
    uint32_t value = 0;

    for (unsigned i = 0; i < bytes && input->left; i++, input->at++, input->left--)
        value |= (uint32_t)*input->at << 8 * i;
    return value;
}

static uint8_t *take_bytes(struct input *input, unsigned which, size_t size)
{
    static uint8_t bytes[FUZZ_INPUT_MAX];
    size_t have = size < input->left ? size : input->left;

    memset(bytes, 0, size);
    memcpy(bytes, input->at, have);
    input->at += have;
    input->left -= have;
    return place(which, bytes, size);
}

static void xfer_holds(struct input *input)
{
    struct rm_xfer xfer;
    uint64_t address = 77;
    uint32_t key = 77;

    memcpy(&xfer, take_bytes(input, 0, sizeof(xfer)), sizeof(xfer));
    if (decode_xfer(&xfer, &key, &address) < 0) {
        require(key == 77 && address == 77);
        return;
    }
    require(xfer.nr <= 0xff && xfer.nr != 0xd3);
    require(xfer.size > 0 && xfer.size <= 4096 && xfer.params != 0);
    require((key & 0xff) == xfer.nr && key >> 16 == xfer.size && address == xfer.params);
}

/* Whether the bytes ask the driver for memory of the card, and for how much. */
static bool asks(uint32_t key, const uint8_t *arg, const uint8_t *params, size_t bytes,
                 uint64_t *ret_size)
{
    uint32_t function, flags, attr;

    if ((key & 0xff) == 0x2b) {
        if (word(arg, 12) != 0x40 || bytes < 128)
            return false;
        *ret_size = long_word(params, 64);
        return true;
    }
    if ((key & 0xff) != 0x4a)
        return false;
    function = word(arg, 8);
    flags = word(arg, 52);
    attr = word(arg, function == 6 ? 64 : 56);
    if ((function != 2 && function != 6 && function != 14) || flags & 0x80000 || attr >> 25 & 3)
        return false;
    if (function == 6)
        *ret_size = word(arg, 56) * (uint64_t)(int64_t)(int32_t)word(arg, 60);
    else
        *ret_size = long_word(arg, function == 14 ? 80 : 88);
    return true;
}

static void call_holds(const struct rm_call *call, bool strict, uint32_t key, const uint8_t *arg)
{
    uint32_t nr = key & 0xff;

    require(call->key == key && call->kind <= RM_KIND_DMABUF && call->action <= RM_REFUSE);
    require((call->action == RM_REFUSE) == (call->refusal != 0));
    require(call->action == RM_EXECUTE || (!call->charges && !call->charge_bytes));
    require(call->action == RM_EXECUTE || !call->params_bytes);
    require(call->params_bytes <= 4096 && (call->params || !call->params_bytes));
    require(call->list_bytes <= 1024 && (call->list || !call->list_bytes));
    require(call->charges || !call->charge_bytes);
    if (nr == 0x28 || nr == 0x29 || nr == 0x34 || nr == 0x4a)
        require(call->action != RM_CONTINUE);
    if (nr == 0xd9 || (nr == 0x2a && (word(arg, 8) == 0x3d05 || word(arg, 8) == 0x3d06 ||
                                      word(arg, 8) == 0x3d0b || word(arg, 8) == 0x3d0c)))
        require(call->action != RM_CONTINUE);
    if (nr == 0x2b && word(arg, 12) == 0x71)
        require(call->action == RM_REFUSE);
    if (nr == 0x2a && strict && word(arg, 8) == 0x2080110b)
        require(call->action == RM_REFUSE);
    if (nr == 0x2a && (word(arg, 8) == 0xa06c0101 || word(arg, 8) == 0xa06f0103 ||
                       word(arg, 8) == 0xa06c0103 || word(arg, 8) == 0x20801215))
        require(call->action != RM_CONTINUE);
    if (nr == 0x2b)
        require((call->action == RM_CONTINUE) == (word(arg, 12) <= 1 || word(arg, 12) == 0x41));
    if (call->kind == RM_KIND_FREE || call->kind == RM_KIND_DUP || call->kind == RM_KIND_ALLOC)
        require(call->client == word(arg, 0) && call->parent == word(arg, 4) &&
                call->handle == word(arg, 8));
}

/* A status that is written comes back, and nothing else changes; what was got is never counted as
 * less than it is. */
static void results_hold(const struct rm_call *call, uint8_t *arg, size_t arg_bytes,
                         const uint8_t *params, size_t bytes, uint32_t status)
{
    static uint8_t before[FUZZ_INPUT_MAX];
    struct rm_result result;
    size_t changed = 0;

    memcpy(before, arg, arg_bytes);
    decode_set_status(call, arg, status);
    for (size_t i = 0; i < arg_bytes; i++)
        changed += before[i] != arg[i];
    require(changed <= 4);
    decode_result(call, arg, params, bytes, &result);
    require(result.status == status);
    if (status)
        require(!result.handle && !result.bytes && !result.charge_bytes);
    decode_set_status(call, arg, 0);
    decode_result(call, arg, params, bytes, &result);
    require(result.status == 0 && result.charge_bytes >= result.bytes);
    require(call->charges || (!result.bytes && !result.charge_bytes));
    require(!call->charge_keeps || result.charge_bytes >= call->charge_bytes);
}

/* What is written as the file's number comes back, and nothing else changes. */
static void transfer_holds(const struct rm_branch *branch, const struct rm_call *call,
                           uint8_t *data, size_t bytes)
{
    static struct rm_transfer before, after;
    int rc = decode_transfer(branch, call, data, bytes, &before);

    require(rc == 0 || call->action == RM_REFUSE || call->kind < RM_KIND_EXPORT ||
            bytes < call->params_bytes || before.count == 0);
    if (rc < 0)
        return;
    require(call->kind >= RM_KIND_EXPORT && before.count <= RM_EXPORT_MAX);
    decode_set_fd(call, data, ~before.fd);
    require(decode_transfer(branch, call, data, bytes, &after) == 0 && after.fd == ~before.fd);
    after.fd = before.fd;
    require(!memcmp(&before, &after, sizeof(before)));
    decode_set_fd(call, data, before.fd);
}

static bool known_key(const struct rm_branch *branch, uint32_t key)
{
    struct filter_calls calls;

    decode_filter(branch, true, &calls);
    for (unsigned i = 0; i < calls.key_count; i++)
        if (calls.key[i] == key)
            return (key & 0xff) != 0xd3;
    return false;
}

static uint32_t take_key(const struct rm_branch *branch, struct input *input)
{
    struct filter_calls calls;
    uint32_t which = take(input, 1);

    decode_filter(branch, true, &calls);
    return which < 0xe0 ? calls.key[which % calls.key_count] : take(input, 4) & RM_KEY_MASK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct rm_branch branches[] = {
#define BRANCH(...) {__VA_ARGS__},
#include "branches.def"
#undef BRANCH
    };
    struct input input = {data, size};
    uint32_t choice = take(&input, 1), key, status = take(&input, 1);
    const struct rm_branch *branch;
    struct rm_call call, untouched;
    bool strict = choice & 4, asked;
    uint8_t *arg, *params;
    uint64_t wanted = 0;
    size_t arg_bytes, bytes;

    if (choice & 8 && choice & 16) {
        xfer_holds(&input);
        return 0;
    }
    branch = &branches[(choice & 3) % (sizeof(branches) / sizeof(branches[0]))];
    key = take_key(branch, &input);
    arg_bytes = RM_KEY_SIZE(key) < 4096 ? RM_KEY_SIZE(key) : 4096;
    key = (key & 0xff) | (uint32_t)arg_bytes << 16;
    arg = take_bytes(&input, 0, arg_bytes);
    memset(&call, 0xa5, sizeof(call));
    untouched = call;
    if (decode_call(branch, strict, key, arg, &call) < 0) {
        require(!known_key(branch, key) && !memcmp(&call, &untouched, sizeof(call)));
        return 0;
    }
    require(known_key(branch, key));
    call_holds(&call, strict, key, arg);
    bytes = choice & 32 ? take(&input, 2) % 4200 : call.params_bytes;
    params = take_bytes(&input, 1, bytes);
    if (call.action == RM_EXECUTE && bytes <= call.params_bytes) {
        require(decode_params(&call, params, bytes) == 0);
        call_holds(&call, strict, key, arg);
        asked = asks(key, arg, params, bytes, &wanted);
        require(asked == (call.charges && call.action == RM_EXECUTE));
        require(!asked || call.charge_bytes >= wanted);
        if (call.control == 0xa06c0101 || call.control == 0xa06f0103)
            require(call.action == RM_REFUSE ||
                    (bytes >= 2 && (params[0] || !strict) && call.schedules == !!params[0]));
        if (call.control == 0x20801215)
            require(call.action == RM_REFUSE || (bytes == 32 && !(params[4] & 1)));
        decode_bound(&call, params, bytes);
        if (call.control == 0xa06c0103 && call.action == RM_EXECUTE)
            require(bytes == 8 && (uint64_t)word(params, 0) + ((uint64_t)word(params, 4) << 32) <=
                                      RM_TIMESLICE_MOST_US);
        require(key != RM_KEY(0x2b, 48) || word(arg, 12) != 0x40 || asked ||
                call.action == RM_REFUSE);
    } else {
        require(decode_params(&call, params, bytes) < 0);
        bytes = 0;
    }
    transfer_holds(branch, &call, call.kind == RM_KIND_DMABUF ? arg : params,
                   call.kind == RM_KIND_DMABUF ? arg_bytes : bytes);
    results_hold(&call, arg, arg_bytes, params, bytes, status);
    return 0;
}

static uint64_t (*random_next)(void);

/* Values that decide something, in the places where they do. */
static void salt(uint8_t *bytes, size_t size)
{
    /* clang-format off */
    static const uint64_t values[] = {
        0, 1, 2, 3, 6, 14, 0x40, 0x41, 0x71, 0x80, 0x2080, 0x20801301, 0x20801303, 0x2080110b,
        0xa06c0101, 0xa06f0103,
        16, 129, 1028, 0x80000, 0x4110, 65537, 1 << 25, 3 << 23 | 2 << 20, 1ULL << 40, 1ULL << 63,
        UINT64_MAX - 65536, UINT64_MAX - 65535, UINT64_MAX,
    };
    /* clang-format on */
    static const uint8_t places[] = {0, 8, 12, 16, 24, 28, 52, 56, 60, 64, 80, 88, 96};

    for (uint64_t count = random_next() % 6; count; count--) {
        uint64_t value = values[random_next() % (sizeof(values) / sizeof(values[0]))];
        size_t at =
            random_next() % 4 ? places[random_next() % sizeof(places)] + 3u : random_next() % size;
        size_t bytes_of = random_next() & 1 ? 4 : 8;

        if (random_next() % 4 == 0)
            at += random_next() & 1 ? sizeof(struct rm_alloc)
                                    : sizeof(struct rm_control); /* what is nested */
        if (at + bytes_of <= size)
            memcpy(bytes + at, &value, bytes_of);
    }
}

/* A control as a program makes it. */
static void control(uint8_t *bytes)
{
    static const uint32_t kinds[][2] = {{RM_CTRL_FB_GET_INFO, sizeof(struct rm_fb_info_list)},
                                        {RM_CTRL_FB_GET_INFO_V2, sizeof(struct rm_fb_info)},
                                        {RM_CTRL_EXPORT_OBJECTS, sizeof(struct rm_export_objects)},
                                        {RM_CTRL_EXPORT_OBJECT, sizeof(struct rm_export_object)},
                                        {RM_CTRL_IMPORT_OBJECT, sizeof(struct rm_import_object)},
                                        {RM_CTRL_IMPORT_OBJECTS, sizeof(struct rm_import_objects)},
                                        {RM_CTRL_GROUP_SCHEDULE, 2},
                                        {RM_CTRL_CHANNEL_SCHEDULE, 3}};
    const uint32_t *kind = kinds[random_next() % 8];
    struct rm_control arg = {.cmd = kind[0], .params = 0x1000, .params_bytes = kind[1]};

    memcpy(bytes, &arg, sizeof(arg));
}

/* Another input, or one that differs a little from the last. */
size_t fuzz_make(uint64_t i, uint8_t *input, size_t size, uint64_t (*random)(void))
{
    random_next = random;
    if (i % 16 == 0) {
        size = random_next() % 4 ? 3 + random_next() % 400 : random_next() % FUZZ_INPUT_MAX;
        for (size_t at = 0; at < size; at++)
            input[at] = random_next() % 3 ? 0 : (uint8_t)random_next();
        input[0] = (uint8_t)random_next();
        input[2] = (uint8_t)random_next();
        if (random_next() % 4 == 0 && size > 3 + sizeof(struct rm_control))
            control(input + 3);
    }
    if (size)
        salt(input, size);
    for (uint64_t flips = random_next() % 4; flips && size; flips--)
        input[random_next() % size] ^= (uint8_t)(1u << random_next() % 8);
    return size;
}
