/* Statistics of work without limits. */
#include "unit.h"

#include "sched/survey.h"

#include "base/clock.h"

#define US 1000ULL

static gpu_stream stream_of(unsigned i)
{
    return 0x10000 + 64 * i;
}

TEST(once_a_second_and_stream)
{
    unsigned measured = 0;

    /* An hour of a launch each millisecond. */
    for (uint64_t ms = 0; ms < 3600 * 1000; ms++)
        measured += survey_due(stream_of(0), 100 * NS_PER_S + ms * NS_PER_MS);
    assert_int_equal(measured, 3600);
    /* Many streams: each once at most, and few go without. */
    measured = 0;
    for (unsigned round = 0; round < 10; round++)
        for (unsigned i = 0; i < 32; i++)
            measured += survey_due(stream_of(i), 10000 * NS_PER_S + round);
    assert_in_range(measured, 16, 32);
}

/* What was guessed before anything was known is settled with the first measurement; what comes
 * later is right at once.
 */
TEST(unknown_ones_take_the_average)
{
    int64_t missing;

    assert_int_equal(survey_estimate(0, VGPU_WORK_KERNEL, 320 * US), 320 * US);
    assert_int_equal(survey_estimate(0, VGPU_WORK_KERNEL, 320 * US), 320 * US);
    assert_int_equal(survey_estimate(1, VGPU_WORK_KERNEL, 320 * US), 320 * US);
    missing = survey_measured(0, VGPU_WORK_KERNEL, 20 * US, 100 * US);
    assert_in_range(missing, 4 * 640 * US - 1000, 4 * 640 * US + 1000);
    assert_in_range(survey_estimate(0, VGPU_WORK_KERNEL, 20 * US), 99 * US, 101 * US);
    assert_int_equal(survey_measured(0, VGPU_WORK_KERNEL, 20 * US, 300 * US), 0);
    assert_in_range(survey_estimate(0, VGPU_WORK_KERNEL, 20 * US), 199 * US, 201 * US);
    /* Other devices and kinds know nothing of it. */
    assert_int_equal(survey_estimate(1, VGPU_WORK_KERNEL, 20 * US), 20 * US);
    assert_int_equal(survey_estimate(0, VGPU_WORK_GRAPH, 20 * US), 20 * US);
    /* Shorter than guessed: what was charged is taken back. */
    missing = survey_measured(1, VGPU_WORK_KERNEL, 20 * US, 10 * US);
    assert_true(missing < 0 && missing > -171 * (int64_t)US && missing < -169 * (int64_t)US);
}

/* It forgets what was long ago. */
TEST(the_average_follows)
{
    for (unsigned i = 0; i < 1000; i++)
        survey_measured(2, VGPU_WORK_MEMSET, 10 * US, 10 * US);
    for (unsigned i = 0; i < 100; i++)
        survey_measured(2, VGPU_WORK_MEMSET, 10 * US, 50 * US);
    assert_in_range(survey_estimate(2, VGPU_WORK_MEMSET, 10 * US), 48 * US, 51 * US);
}

/* What a parent has guessed is not settled in its child as well. */
TEST(not_in_a_child)
{
    survey_estimate(3, VGPU_WORK_KERNEL, 320 * US);
    survey_forked();
    assert_int_equal(survey_measured(3, VGPU_WORK_KERNEL, 20 * US, 100 * US), 0);
}
