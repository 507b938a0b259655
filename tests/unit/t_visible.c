/* CUDA_VISIBLE_DEVICES: what a program sees, and in which order. */
#include "unit.h"

#include "account/visible.h"

#include <string.h>

#define A   "GPU-aaaa0000-0000-0000-0000-000000000000"
#define B   "GPU-bbbb0000-0000-0000-0000-000000000000"
#define C   "GPU-bbbb1111-0000-0000-0000-000000000000"
#define MIG "MIG-cccc0000-0000-0000-0000-000000000000"

static struct visible_devices devices = {.count = 4,
                                         .uuid = {A, B, C, ""}}; /* the last cannot be had */

TEST(lists)
{
    static const struct {
        const char *text;
        unsigned count;
        const char *uuid[3];
    } rows[] = {
        {"1", 1, {B}},
        {"2,0", 2, {C, A}},
        {" 1 ,\t0", 2, {B, A}},
        {A, 1, {A}},
        {"GPU-aaaa", 1, {A}},
        {"GPU-bbbb1," A, 2, {C, A}},
        {"GPU-bbbb", 0, {NULL}}, /* of two */
        {"GPU-", 0, {NULL}},
        {"0,9,1", 1, {A}}, /* what is none ends the list */
        {"0,3,1", 1, {A}},
        {"1,-1,2", 1, {B}},
        {"", 0, {NULL}},
        {"-1", 0, {NULL}},
        {"NoDevFiles", 0, {NULL}},
        {"0,0", 0, {NULL}},
        {"1,0,GPU-bbbb0", 0, {NULL}},
        {MIG ",1", 2, {MIG, B}},
        {"1," MIG, 2, {B, MIG}},
        {"00000", 0, {NULL}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct visible_device list[VGPU_DEVICES_MAX];
        unsigned count = visible_list(rows[i].text, &devices, list, VGPU_DEVICES_MAX);

        if (count != rows[i].count)
            fail_msg("'%s': %u devices, not %u", rows[i].text, count, rows[i].count);
        for (unsigned k = 0; k < count; k++) {
            assert_string_equal(list[k].uuid, rows[i].uuid[k]);
            if (list[k].index != VISIBLE_MIG)
                assert_string_equal(devices.uuid[list[k].index], list[k].uuid);
        }
    }
}

TEST(not_set_is_all)
{
    struct visible_device list[VGPU_DEVICES_MAX];

    assert_int_equal(visible_list(NULL, &devices, list, VGPU_DEVICES_MAX), 4);
    assert_int_equal(list[2].index, 2);
    assert_int_equal(visible_list(NULL, &devices, list, 2), 2);
    assert_int_equal(visible_list("2,1,0", &devices, list, 2), 2);
    assert_int_equal(list[1].index, 1);
}

TEST(translated_among_the_selected)
{
    static char text[VISIBLE_MAX];
    struct vgpu_limits limits = {.device_count = 2};

    strcpy(limits.vdev[0].uuid, C);
    strcpy(limits.vdev[1].uuid, A);
    visible_translate(NULL, &limits, text);
    assert_string_equal(text, C "," A);
    visible_translate("1", &limits, text);
    assert_string_equal(text, A);
    visible_translate("1,GPU-bbbb," MIG, &limits, text);
    assert_string_equal(text, A "," C "," MIG);
    visible_translate("2", &limits, text);
    assert_string_equal(text, "");
    visible_translate("0,2,1", &limits, text);
    assert_string_equal(text, C);
}
