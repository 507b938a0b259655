/* The usage figures of an instance. What any thread adds, early or late, arrives. */
#include "unit.h"

#include "sched/usage.h"
#include "region/internal.h"

#include <pthread.h>

static struct vgpu_region *region;

#define COMPUTE (&region->layout->vdev[0].compute)

static int setup(void **state)
{
    (void)state;
    region = new_region("meter", 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    region_close(region);
    return 0;
}

static uint64_t in_span(uint64_t span)
{
    unsigned i = span % REGION_SPANS;

    return atomic_load(&COMPUTE->span_stamp[i]) == span ? atomic_load(&COMPUTE->span_ns[i]) : 0;
}

TEST(spans, setup, teardown)
{
    const uint64_t now = 1000;

    usage_add(region, 0, VGPU_WORK_KERNEL, 1, 50, now * REGION_SPAN_NS);
    usage_add(region, 0, VGPU_WORK_GRAPH, 1, 70, now * REGION_SPAN_NS + 5);
    usage_add(region, 0, VGPU_WORK_KERNEL, 0, -20, now * REGION_SPAN_NS + 6);
    assert_int_equal(in_span(now), 100);
    /* Bytes are no time. */
    usage_add(region, 0, VGPU_WORK_HTOD, 1, 4096, 0);
    assert_int_equal(in_span(now), 100);
    /* An entry is used again; */
    usage_add(region, 0, VGPU_WORK_KERNEL, 1, 30, (now + REGION_SPANS) * REGION_SPAN_NS);
    assert_int_equal(in_span(now + REGION_SPANS), 30);
    /* who comes too late for it takes nothing away from the newer one. */
    usage_add(region, 0, VGPU_WORK_KERNEL, 1, 5, now * REGION_SPAN_NS);
    assert_int_equal(in_span(now + REGION_SPANS), 35);
    /* Nonsense does not stay. */
    atomic_store(&COMPUTE->span_stamp[now % REGION_SPANS], UINT64_MAX / 2);
    usage_add(region, 0, VGPU_WORK_KERNEL, 1, 6, now * REGION_SPAN_NS);
    assert_int_equal(in_span(now), 6);
    assert_int_equal(atomic_load(&COMPUTE->calls[VGPU_WORK_KERNEL]), 4);
    assert_int_equal(atomic_load(&COMPUTE->amount[VGPU_WORK_KERNEL]), 50 - 20 + 30 + 5 + 6);
}

enum { THREADS = 4, ROUNDS = 20000 };

static void *adds(void *arg)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        usage_add(region, 0, VGPU_WORK_MEMSET, 1, 3, clock_ns());
    return arg;
}

TEST(threads, setup, teardown)
{
    pthread_t thread[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, adds, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(atomic_load(&COMPUTE->calls[VGPU_WORK_MEMSET]), THREADS * ROUNDS);
    assert_int_equal(atomic_load(&COMPUTE->amount[VGPU_WORK_MEMSET]), 3 * THREADS * ROUNDS);
}
