/*
 * Every way to ask for memory, at the quota. Each way gets exactly the quota, to the page. What is
 * not video memory is not charged. A refusal has the driver's own status for a full device.
 */
#include "attack.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define REFUSED RM_ERR_NO_MEMORY

typedef int (*alloc_function)(struct rmclient *client, uint64_t bytes, uint32_t *handle);

static struct rm_memory_params wish(uint64_t bytes)
{
    return (struct rm_memory_params){.attr = ATTR_4K, .size = bytes, .numa_node = -1};
}

static int by_short(struct rmclient *client, uint64_t bytes, uint32_t *handle)
{
    struct rm_memory_params params = wish(bytes);

    return rmclient_alloc_short(client, client->device, handle, RM_CLASS_MEMORY_LOCAL_USER, &params,
                                sizeof(params));
}

static int by_xfer(struct rmclient *client, uint64_t bytes, uint32_t *handle)
{
    struct rm_memory_params params = wish(bytes);

    return rmclient_alloc_xfer(client, client->device, handle, RM_CLASS_MEMORY_LOCAL_USER, &params,
                               sizeof(params));
}

static int by_subdevice(struct rmclient *client, uint64_t bytes, uint32_t *handle)
{
    struct rm_memory_params params = wish(bytes);

    return rmclient_alloc(client, client->subdevice, handle, RM_CLASS_MEMORY_LOCAL_USER, &params,
                          sizeof(params));
}

/* The size that the call itself says its parameters have is not looked at by the driver. */
static int by_lie(struct rmclient *client, uint64_t bytes, uint32_t *handle)
{
    struct rm_memory_params params = wish(bytes);

    return rmclient_alloc(client, client->device, handle, RM_CLASS_MEMORY_LOCAL_USER, &params, 1);
}

/* A word for ioctl() that says the same to the driver. */
static int by_word(struct rmclient *client, uint64_t bytes, uint32_t *handle, unsigned long cmd)
{
    struct rm_memory_params params = wish(bytes);
    struct rm_alloc alloc = {.root = client->client,
                             .parent = client->device,
                             .handle = *handle,
                             .class_id = RM_CLASS_MEMORY_LOCAL_USER,
                             .params = (uintptr_t)&params,
                             .status = 0xbad};
    int rc = rmclient_ioctl(client->ctl, cmd, &alloc);

    if (rc == 0 && alloc.status == RM_OK)
        *handle = alloc.handle;
    return rc < 0 ? rc : (int)alloc.status;
}

static int by_type(struct rmclient *client, uint64_t bytes, uint32_t *handle)
{
    return by_word(client, bytes, handle,
                   _IOC(_IOC_READ | _IOC_WRITE, 'X', RM_ESC_ALLOC, sizeof(struct rm_alloc)));
}

static int by_no_direction(struct rmclient *client, uint64_t bytes, uint32_t *handle)
{
    return by_word(client, bytes, handle, _IOC(0, 'F', RM_ESC_ALLOC, sizeof(struct rm_alloc)));
}

static int by_high_half(struct rmclient *client, uint64_t bytes, uint32_t *handle)
{
    return by_word(client, bytes, handle,
                   0xdeadbeef00000000ul | RM_IOCTL(RM_ESC_ALLOC, sizeof(struct rm_alloc)));
}

static int by_all_of_it(struct rmclient *client, uint64_t bytes, uint32_t *handle)
{
    return by_word(client, bytes, handle,
                   0xffffffff00000000ul | _IOC(0, 0, RM_ESC_ALLOC, sizeof(struct rm_alloc)));
}

/* The heap's own calls, with pages of 64 KiB. */
static int by_heap(struct rmclient *client, uint32_t function, uint64_t bytes, uint32_t *handle)
{
    struct rm_vid_heap_control heap = {
        .root = client->client, .parent = client->device, .function = function};
    int rc;

    switch (function) {
    case RM_HEAP_ALLOC_SIZE_RANGE:
        heap.u.range.attr = ATTR_4K;
        heap.u.range.size = bytes;
        break;
    case RM_HEAP_ALLOC_TILED_PITCH: /* what counts is the product */
        heap.u.tiled.attr = ATTR_4K;
        heap.u.tiled.size = 1; /* of no interest */
        heap.u.tiled.pitch = (int32_t)PAGE;
        heap.u.tiled.height = (uint32_t)((bytes + PAGE - 1) / PAGE);
        break;
    default:
        heap.u.alloc.attr = ATTR_4K;
        heap.u.alloc.size = bytes;
        break;
    }
    heap.status = 0xbad;
    rc = rmclient_call(client->ctl, RM_ESC_VID_HEAP_CONTROL, sizeof(heap), &heap);
    if (rc == 0 && heap.status == RM_OK)
        *handle = heap.u.alloc.handle;
    return rc < 0 ? rc : (int)heap.status;
}

static int by_heap_size(struct rmclient *client, uint64_t bytes, uint32_t *handle)
{
    return by_heap(client, RM_HEAP_ALLOC_SIZE, bytes, handle);
}

static int by_heap_tiled(struct rmclient *client, uint64_t bytes, uint32_t *handle)
{
    return by_heap(client, RM_HEAP_ALLOC_TILED_PITCH, bytes, handle);
}

static int by_heap_range(struct rmclient *client, uint64_t bytes, uint32_t *handle)
{
    return by_heap(client, RM_HEAP_ALLOC_SIZE_RANGE, bytes, handle);
}

static const struct {
    const char *name;
    alloc_function allocate;
    bool narrow; /* cannot say sizes beyond 2^47 */
} ways[] = {
    {"RM_ALLOC", attack_alloc, false},
    {"RM_ALLOC, 32 bytes", by_short, false},
    {"RM_ALLOC below a subdevice", by_subdevice, false},
    {"RM_ALLOC, wrong paramsSize", by_lie, false},
    {"XFER", by_xfer, false},
    {"type X", by_type, false},
    {"no direction", by_no_direction, false},
    {"garbage in the high half", by_high_half, false},
    {"nothing but number and size", by_all_of_it, false},
    {"heap: ALLOC_SIZE", by_heap_size, false},
    {"heap: ALLOC_TILED_PITCH", by_heap_tiled, true},
    {"heap: ALLOC_SIZE_RANGE", by_heap_range, false},
};

static void check_way(struct rmclient *client, alloc_function allocate, bool narrow)
{
    static const uint64_t wild[] = {UINT64_MAX,        UINT64_MAX - 1, UINT64_MAX - PAGE + 1,
                                    UINT64_MAX - PAGE, 1ULL << 63,     INT64_MAX + 2ULL,
                                    1ULL << 48,        1ULL << 40};
    uint64_t quota = attack_quota();
    uint32_t handle = 0, rest = 0, more = 0;
    struct fakerm_stats before = book(client, 0);

    CHECK_EQUAL(before.gpu_used, 0);
    for (unsigned i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
        if (!narrow)
            CHECK_EQUAL(allocate(client, wild[i], &handle), REFUSED);
    }
    CHECK_EQUAL(allocate(client, quota + 1, &handle), REFUSED);
    /* None of them has come to the driver. */
    CHECK_EQUAL(book(client, 0).refused, before.refused);
    CHECK_EQUAL(handle, 0);
    CHECK_EQUAL(allocate(client, quota, &handle), 0);
    CHECK_EQUAL(book(client, 0).pid_bytes, quota);
    CHECK_EQUAL(allocate(client, 1, &more), REFUSED);
    attack_must_free(client, handle);

    /* The last page counts, and a byte is a page. */
    handle = 0;
    CHECK_EQUAL(allocate(client, quota - 2 * PAGE + 1, &handle), 0);
    CHECK_EQUAL(book(client, 0).pid_bytes, quota - PAGE);
    CHECK_EQUAL(allocate(client, PAGE + 1, &more), REFUSED);
    CHECK_EQUAL(allocate(client, 1, &rest), 0);
    CHECK_EQUAL(book(client, 0).pid_bytes, quota);
    CHECK_EQUAL(allocate(client, 1, &more), REFUSED);
    CHECK_EQUAL(more, 0);
    attack_must_free(client, handle);
    attack_check_room(client);
    CHECK_EQUAL(rmclient_heap_free(client, rest), 0);
    CHECK_EQUAL(book(client, 0).gpu_used, 0);
}

/* What a tiled allocation asks for is the product, whatever size it names; and that may be
 * anything. */
static void check_products(struct rmclient *client)
{
    static const struct {
        uint32_t height;
        int32_t pitch;
    } wild[] = {{UINT32_MAX, INT32_MAX},
                {UINT32_MAX, INT32_MIN},
                {1u << 31, INT32_MIN},
                {1, -1},
                {1u << 15, 1 << 16}};

    for (unsigned i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
        struct rm_vid_heap_control heap = {.root = client->client,
                                           .parent = client->device,
                                           .function = RM_HEAP_ALLOC_TILED_PITCH,
                                           .status = 0xbad};

        heap.u.tiled.attr = ATTR_4K;
        heap.u.tiled.height = wild[i].height;
        heap.u.tiled.pitch = wild[i].pitch;
        heap.u.tiled.size = PAGE;
        CHECK_EQUAL(rmclient_call(client->ctl, RM_ESC_VID_HEAP_CONTROL, sizeof(heap), &heap), 0);
        CHECK_EQUAL(heap.status, REFUSED);
        CHECK_EQUAL(heap.u.tiled.handle, 0);
        CHECK_EQUAL(book(client, 0).gpu_used, 0);
    }
}

/* As libcuda does it: pages of the driver's choice, which are of 2 MiB from there on. */
static void check_default_pages(struct rmclient *client)
{
    uint64_t quota = attack_quota(), bytes = quota, whole = 0;
    uint32_t handles[64], last = 0;
    unsigned count = 0;

    for (;; count++) {
        bytes = quota / 32;
        handles[count] = 0;
        if (rmclient_memory(client, &bytes, &handles[count]) != 0)
            break;
        whole += bytes;
        CHECK(count < 63);
    }
    CHECK_EQUAL(whole, quota);
    CHECK_EQUAL(book(client, 0).pid_bytes, quota);
    attack_must_free(client, handles[--count]);
    bytes = quota / 32 + 1; /* which may be 2 MiB more */
    CHECK_EQUAL(rmclient_memory(client, &bytes, &last), REFUSED);
    attack_check_room(client);
    while (count)
        attack_must_free(client, handles[--count]);
    CHECK_EQUAL(book(client, 0).gpu_used, 0);
}

static int alloc_class(struct rmclient *client, uint32_t class_id, uint32_t flags, uint64_t bytes,
                       uint32_t *handle)
{
    struct rm_memory_params params = {.flags = flags, .attr = ATTR_4K, .size = bytes};

    return rmclient_alloc(client, client->device, handle, class_id, &params, sizeof(params));
}

/* Host memory is no video memory; addresses alone are none, either. */
static void check_uncharged(struct rmclient *client)
{
    struct rm_vid_heap_control heap = {
        .root = client->client, .parent = client->device, .function = RM_HEAP_ALLOC_SIZE};
    uint64_t much = attack_quota() * 8;
    uint32_t handle = 0;

    CHECK_EQUAL(alloc_class(client, RM_CLASS_MEMORY_VIRTUAL, 0, much, &handle), 0);
    attack_check_room(client);
    attack_must_free(client, handle);
    handle = 0;
    CHECK_EQUAL(alloc_class(client, RM_CLASS_MEMORY_SYSTEM, 0, much, &handle), 0);
    attack_check_room(client);
    attack_must_free(client, handle);

    heap.u.alloc.flags = RM_MEMORY_FLAG_VIRTUAL;
    heap.u.alloc.size = much;
    CHECK_EQUAL(rmclient_call(client->ctl, RM_ESC_VID_HEAP_CONTROL, sizeof(heap), &heap), 0);
    CHECK_EQUAL(heap.status, 0);
    attack_check_room(client);
    CHECK_EQUAL(rmclient_heap_free(client, heap.u.alloc.handle), 0);
    heap.u.alloc.flags = 0;
    heap.u.alloc.handle = 0;
    heap.u.alloc.attr = 1u << 25;
    CHECK_EQUAL(rmclient_call(client->ctl, RM_ESC_VID_HEAP_CONTROL, sizeof(heap), &heap), 0);
    CHECK_EQUAL(heap.status, 0);
    attack_check_room(client);
    CHECK_EQUAL(rmclient_heap_free(client, heap.u.alloc.handle), 0);
}

static int alloc_with_rights(struct rmclient *client, const uint32_t *mask, uint32_t *handle)
{
    struct rm_memory_params params = wish(PAGE);
    struct rm_alloc alloc = {.root = client->client,
                             .parent = client->device,
                             .class_id = RM_CLASS_MEMORY_LOCAL_USER,
                             .params = (uintptr_t)&params,
                             .rights = (uintptr_t)mask,
                             .status = 0xbad};
    int rc = rmclient_call(client->ctl, RM_ESC_ALLOC, sizeof(alloc), &alloc);

    CHECK_EQUAL(alloc.rights, (uintptr_t)mask);
    *handle = alloc.handle;
    return rc < 0 ? rc : (int)alloc.status;
}

/* The driver reads the mask from whoever makes the call, whatever it says. */
static void check_rights(struct rmclient *client)
{
    const uint32_t masks[] = {0, 1};
    const uint32_t *const given[] = {NULL, &masks[0], &masks[1]};
    uint32_t handle;

    for (unsigned i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        CHECK_EQUAL(alloc_with_rights(client, given[i], &handle), RM_OK);
        attack_check_room(client);
        attack_must_free(client, handle);
    }
    CHECK_EQUAL(book(client, 0).gpu_used, 0);
}

/* On a card's node the driver takes events only. What else is asked for there does not come to it:
 * what continues in the caller could be something else by then. */
static void check_card(struct rmclient *client)
{
    static const uint32_t classes[] = {RM_CLASS_MEMORY_LOCAL_USER, RMCLIENT_CHANNEL_CLASS,
                                       RM_CLASS_CHANNEL_GROUP, RM_CLASS_ROOT_CLIENT};
    struct rmclient on_card = *client;
    uint64_t before = attack_calls(" malformed "); /* that the driver could make nothing of */
    uint32_t handle = 0, event = 0;

    on_card.ctl = client->card;
    for (unsigned i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        uint8_t params[512] = {0}; /* no class has more */

        CHECK_EQUAL(
            rmclient_alloc(&on_card, client->device, &handle, classes[i], params, sizeof(params)),
            -EINVAL);
        CHECK_EQUAL(rmclient_alloc_short(&on_card, client->device, &handle, classes[i], params,
                                         sizeof(params)),
                    -EINVAL);
        CHECK_EQUAL(rmclient_alloc_xfer(&on_card, client->device, &handle, classes[i], params,
                                        sizeof(params)),
                    -EINVAL);
    }
    CHECK_EQUAL(attack_calls(" malformed "), before);
    CHECK_EQUAL(rmclient_event(client, client->card, client->subdevice, &event), RM_OK);
    attack_must_free(client, event);
    CHECK_EQUAL(handle, 0);
}

/* What the guard lets nobody do, since it could not tell what it means. */
static void check_refused(struct rmclient *client)
{
    static const uint32_t functions[] = {1, 4, 7, 13, 15, 27, 0, UINT32_MAX};
    struct rm_alloc_object object = {
        .root = client->client, .parent = client->device, .class_id = RM_CLASS_MEMORY_LOCAL_USER};
    uint32_t handle = 0, client_handle = 0;
    struct rm_alloc root = {.class_id = RM_CLASS_ROOT_CLIENT};
    struct rm_control control = {.client = client->client, .object = client->client, .cmd = 0x201};
    struct rm_alloc inner = {.root = client->client};
    struct rm_xfer nested = {RM_ESC_ALLOC, sizeof(inner), (uintptr_t)&inner};

    CHECK_EQUAL(alloc_class(client, RM_CLASS_MEMORY_OS_DESCRIPTOR, 0, PAGE, &handle),
                RM_ERR_NOT_SUPPORTED);
    CHECK_EQUAL(rmclient_call(client->ctl, RM_ESC_ALLOC_OBJECT, sizeof(object), &object), 0);
    CHECK_EQUAL(object.status, RM_ERR_NOT_SUPPORTED);
    for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        struct rm_vid_heap_control heap = {.root = client->client,
                                           .parent = client->device,
                                           .function = functions[i],
                                           .status = 0xbad};

        CHECK_EQUAL(rmclient_call(client->ctl, RM_ESC_VID_HEAP_CONTROL, sizeof(heap), &heap), 0);
        CHECK_EQUAL(heap.status, RM_ERR_NOT_SUPPORTED);
    }
    /* By XFER only what the guard executes: what continues there could be something else by
     * then. */
    CHECK_EQUAL(rmclient_call_xfer(client->ctl, RM_ESC_XFER, sizeof(nested), &nested), -EINVAL);
    CHECK_EQUAL(rmclient_call_xfer(client->ctl, RM_ESC_CONTROL, sizeof(control), &control),
                -EINVAL);
    CHECK_EQUAL(rmclient_call_xfer(client->ctl, RM_ESC_ALLOC, sizeof(root), &root), -EINVAL);
    CHECK_EQUAL(rmclient_call_xfer(client->ctl, RM_ESC_ALLOC, 40, &root), -EINVAL);
    CHECK_EQUAL(rmclient_call_xfer(client->ctl, RM_ESC_ALLOC, sizeof(root), NULL), -EINVAL);
    CHECK_EQUAL(rmclient_call_xfer(client->ctl, RM_ESC_ALLOC, sizeof(root), (void *)8), -EFAULT);
    CHECK_EQUAL(rmclient_call_xfer(client->ctl, RM_ESC_ALLOC, 0x3fff, &root), -EINVAL);
    CHECK_EQUAL(rmclient_call_xfer(client->ctl, RM_ESC_ALLOC, UINT32_MAX, &root), -EINVAL);
    CHECK_EQUAL(rmclient_call_xfer(client->ctl, 0x100 | RM_ESC_ALLOC, sizeof(root), &root),
                -EINVAL);
    CHECK_EQUAL(rmclient_call(client->ctl, RM_ESC_ALLOC, sizeof(root), (void *)8), -EFAULT);
    CHECK_EQUAL(rmclient_call(client->ctl, RM_ESC_ALLOC, sizeof(root), NULL), -EFAULT);
    CHECK_EQUAL(rmclient_root(client->ctl, &client_handle), 0);
    CHECK_EQUAL(book(client, 0).gpu_used, 0);
}

/* Statuses that are the driver's come through, and leave no charge. */
static void check_errors(struct rmclient *client)
{
    struct rmclient wrong = *client;
    uint32_t handle = 0, twice = 0x1234;

    CHECK_EQUAL(attack_alloc(client, 0, &handle), RM_ERR_INVALID_ARGUMENT);
    CHECK_EQUAL(
        rmclient_alloc(client, client->device, &handle, RM_CLASS_MEMORY_LOCAL_USER, (void *)8, 128),
        RM_ERR_INVALID_ADDRESS);
    CHECK_EQUAL(attack_alloc(client, PAGE, &twice), 0);
    CHECK_EQUAL(twice, 0x1234);
    CHECK_EQUAL(attack_alloc(client, PAGE, &twice), RM_ERR_INSERT_DUPLICATE_NAME);
    attack_check_room(client);
    attack_must_free(client, twice);
    wrong.device = 0x77777777;
    CHECK(attack_alloc(&wrong, PAGE, &handle) > 0);
    wrong = *client;
    wrong.client = 0x77777777;
    CHECK(attack_alloc(&wrong, PAGE, &handle) > 0);
    wrong = *client;
    wrong.ctl = rmclient_open_file(NULL, "nvidia0");
    CHECK_EQUAL(attack_alloc(&wrong, PAGE, &handle), -EINVAL);
    close(wrong.ctl);
    wrong.ctl = -1;
    CHECK_EQUAL(attack_alloc(&wrong, PAGE, &handle), -EBADF);
    CHECK_EQUAL(handle, 0);
    attack_check_room(client);
}

static void check_all(struct rmclient *client)
{
    for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        fprintf(stderr, "%s\n", ways[i].name);
        check_way(client, ways[i].allocate, ways[i].narrow);
    }
    check_products(client);
    check_uncharged(client);
    check_rights(client);
    check_card(client);
    check_refused(client);
    check_errors(client);
}

/* attack_quota [default]: only with pages of the driver's choice. */
int main(int argc, char **argv)
{
    struct rmclient client;

    attack_open(&client);
    check_default_pages(&client);
    if (argc < 2 || strcmp(argv[1], "default") != 0)
        check_all(&client);
    rmclient_close(&client);
    return 0;
}
