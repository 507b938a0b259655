/* How the guard decodes calls that schedule and switch channels. */
#include "guard_calls.h"

static void assert_refused(unsigned major, bool strict, const struct rm_control *arg)
{
    struct rm_call call;

    assert_int_equal(
        decode_call(branch(major), strict, RM_KEY(RM_ESC_CONTROL, sizeof(*arg)), arg, &call), 0);
    assert_int_equal(call.action, RM_REFUSE);
    assert_int_equal(call.refusal, RM_ERR_INVALID_ARGUMENT);
}

/* 2 bytes of it, as the branch 570 has them. */
static void scheduling(struct rm_control *arg, bool strict)
{
    static const struct rm_schedule on = {.enable = 1}, off = {0};
    struct rm_control wrong = *arg;
    struct rm_call call, fresh;

    assert_int_equal(
        decode_call(branch(570), strict, RM_KEY(RM_ESC_CONTROL, sizeof(*arg)), arg, &fresh), 0);
    assert_true(fresh.kind == RM_KIND_CONTROL && fresh.action == RM_EXECUTE &&
                fresh.params_bytes == 2);
    assert_false(fresh.schedules);
    call = fresh;
    assert_int_equal(decode_params(&call, &on, 2), 0);
    assert_true(call.action == RM_EXECUTE && call.schedules);
    call = fresh;
    assert_int_equal(decode_params(&call, &off, 2), 0);
    assert_false(call.schedules);
    assert_int_equal(call.action, strict ? RM_REFUSE : RM_EXECUTE);
    if (strict)
        assert_int_equal(call.refusal, RM_ERR_INSUFFICIENT_PERMISSIONS);
    call = fresh;
    assert_int_equal(decode_params(&call, &on, 1), 0);
    assert_true(call.action == RM_REFUSE && call.refusal == RM_ERR_INVALID_ADDRESS &&
                !call.schedules);
    assert_refused(580, strict, arg); /* 3 bytes there */
    wrong.flags = RM_CONTROL_SERIALIZED;
    assert_refused(570, strict, &wrong);
    wrong = *arg;
    wrong.params = 0;
    assert_refused(570, strict, &wrong);
}

TEST(switching)
{
    struct rm_control arg = {
        1, 2, RM_CTRL_FIFO_DISABLE_CHANNELS, 0, 0x3000, sizeof(struct rm_disable_channels), 0};
    struct rm_call call;

    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_int_equal(call.action, RM_CONTINUE);
    assert_int_equal(
        decode_call(branch(580), true, RM_KEY(RM_ESC_CONTROL, sizeof(arg)), &arg, &call), 0);
    assert_int_equal(call.action, RM_REFUSE);
    assert_int_equal(call.refusal, RM_ERR_INSUFFICIENT_PERMISSIONS);
    for (unsigned i = 0; i < 2; i++) {
        arg.cmd = i ? RM_CTRL_GROUP_SCHEDULE : RM_CTRL_CHANNEL_SCHEDULE;
        arg.params_bytes = 2;
        for (int strict = 0; strict < 2; strict++)
            scheduling(&arg, strict);
    }
}

/* What the guard reads may not be set back, and nobody has the card for as long as he likes. */
TEST(counts_and_slices)
{
    struct rm_control arg = {
        1, 2, RM_CTRL_GR_GET_CTXSW_STATS, 0, 0x3000, sizeof(struct rm_ctxsw_stats), 0};
    struct rm_ctxsw_stats stats = {.object = 3};
    struct rm_timeslice slice = {.us = 2048};
    struct rm_call call;

    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_true(call.action == RM_EXECUTE && call.params_bytes == sizeof(stats));
    assert_int_equal(decode_params(&call, &stats, sizeof(stats)), 0);
    assert_int_equal(call.action, RM_EXECUTE);
    stats.flags = RM_CTXSW_RESET;
    assert_int_equal(decode_params(&call, &stats, sizeof(stats)), 0);
    assert_true(call.action == RM_REFUSE && call.refusal == RM_ERR_INSUFFICIENT_PERMISSIONS);
    arg.params_bytes--;
    assert_refused(580, false, &arg);

    arg.cmd = RM_CTRL_GROUP_SET_TIMESLICE;
    assert_refused(580, false, &arg);
    arg.params_bytes = sizeof(slice);
    assert_int_equal(CALL(RM_ESC_CONTROL, arg, &call), 0);
    assert_int_equal(decode_params(&call, &slice, sizeof(slice)), 0);
    assert_int_equal(call.action, RM_EXECUTE);
    decode_bound(&call, &slice, sizeof(slice));
    assert_int_equal(slice.us, 2048);
    slice.us = UINT64_MAX;
    decode_bound(&call, &slice, sizeof(slice) - 1);
    assert_true(slice.us == UINT64_MAX);
    decode_bound(&call, &slice, sizeof(slice));
    assert_int_equal(slice.us, RM_TIMESLICE_MOST_US);
}
