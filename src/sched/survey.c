#include "sched/survey.h"

#include "base/clock.h"
#include "sched/sched_params.h"

#include <stdatomic.h>

/* Measured times of launches, as a ratio to their guesses. */
union average {
    struct {
        float ratio;
        uint32_t count; /* 0: no measurement yet; up to SURVEY_WINDOW */
    };
    uint64_t word;
};

static _Atomic uint64_t measured_ns[SURVEY_STREAMS]; /* when last */
static struct {
    _Atomic uint64_t average;
    _Atomic uint64_t guessed_ns; /* charged before the first measurement */
} kinds[VGPU_DEVICES_MAX][VGPU_WORKS];

bool survey_due(gpu_stream stream, uint64_t now_ns)
{
    uint64_t place = (stream * 0x9E3779B97F4A7C15ULL) >> 58;
    uint64_t last_ns = atomic_load_explicit(&measured_ns[place], memory_order_relaxed);

    if (last_ns > 0 && now_ns - last_ns < SURVEY_PERIOD_NS)
        return false;
    return atomic_compare_exchange_strong(&measured_ns[place], &last_ns, now_ns);
}

uint64_t survey_estimate(unsigned vdev, enum vgpu_work kind, uint64_t guess_ns)
{
    union average average = {
        .word = atomic_load_explicit(&kinds[vdev][kind].average, memory_order_relaxed)};

    if (average.count > 0)
        return (uint64_t)((float)guess_ns * average.ratio);
    atomic_fetch_add_explicit(&kinds[vdev][kind].guessed_ns, guess_ns, memory_order_relaxed);
    return guess_ns;
}

int64_t survey_measured(unsigned vdev, enum vgpu_work kind, uint64_t guess_ns, uint64_t took_ns)
{
    _Atomic uint64_t *word = &kinds[vdev][kind].average;
    union average before = {.word = atomic_load_explicit(word, memory_order_relaxed)}, next;
    float ratio = (float)took_ns / (float)(guess_ns > 0 ? guess_ns : 1);
    uint64_t guessed_ns;

    do {
        next.count = before.count < SURVEY_WINDOW ? before.count + 1 : SURVEY_WINDOW;
        next.ratio = before.ratio + (ratio - before.ratio) / (float)next.count;
    } while (!atomic_compare_exchange_weak(word, &before.word, next.word));
    guessed_ns = atomic_exchange(&kinds[vdev][kind].guessed_ns, 0);
    return (int64_t)((float)guessed_ns * (next.ratio - 1));
}

/* The parent settles its own guesses. */
void survey_forked(void)
{
    for (unsigned vdev = 0; vdev < VGPU_DEVICES_MAX; vdev++)
        for (unsigned kind = 0; kind < VGPU_WORKS; kind++)
            atomic_store(&kinds[vdev][kind].guessed_ns, 0);
}
