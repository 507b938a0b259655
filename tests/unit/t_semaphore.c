/* Semaphores and fences in streams. */
#include "semaphore_world.h"

TEST(each_stream_waits_once, world_setup, world_teardown)
{
    other_works(LONG_ENOUGH);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(launch(STREAM(i % 2)) >= 0);
        assert_true(launch(NULL) >= 0);
    }
    assert_int_equal(told(0, false, 0), 3);
    assert_int_equal(told(0, false, 1), 1); /* the legacy stream by its name */
    await_open(3000);
}

/* Each context has an address of its own, so that one may go while streams of another wait. */
TEST(contexts, world_setup, world_teardown)
{
    CUdeviceptr first, second;
    unsigned before;

    other_works(LONG_ENOUGH);
    launch(STREAM(1));
    current = CONTEXT(2);
    launch(STREAM(2));
    first = calls[0].address;
    second = calls[1].address;
    assert_int_not_equal(first, second);
    assert_int_equal(calls[1].context, (uintptr_t)CONTEXT(2));
    /* Marked from the other context: that of the stream is made current for it. */
    semaphore_fence(semaphore, true);
    before = call_count;
    semaphore_context_ends(semaphore, CONTEXT(1));
    context_goes(CONTEXT(1));
    assert_int_equal(call_count, before);
    launch(STREAM(2));
    semaphore_fence(semaphore, true);
    /* Its handle may come back. */
    current = CONTEXT(1);
    launch(STREAM(1));
    await_open(3000);
    for (unsigned i = 0; i < 12; i++) {
        current = CONTEXT(3 + i);
        other_works(NS_PER_10MS);
        launch(STREAM(3 + i));
        semaphore_context_ends(semaphore, current);
        context_goes(current);
    }
    current = CONTEXT(2);
    assert_true(launch(STREAM(2)) >= 0);
    assert_true(atomic_load(&semaphore->joined));
}

TEST(more_contexts_than_views, world_setup, world_teardown)
{
    for (unsigned i = 0; i < SEMAPHORE_CONTEXTS; i++) {
        current = CONTEXT(1 + i);
        assert_true(launch(STREAM(i)) >= 0);
    }
    other_works(100 * NS_PER_10MS);
    launch(STREAM(1));
    current = CONTEXT(100);
    assert_int_equal(launch(STREAM(100)), -1);
    assert_false(atomic_load(&semaphore->joined));
    assert_true(gates_open());
}

TEST(no_context, world_setup, world_teardown)
{
    current = NULL;
    assert_int_equal(launch(NULL), -1);
    current = CONTEXT(1);
    assert_true(launch(NULL) >= 0);
    assert_true(atomic_load(&semaphore->joined));
}

TEST(a_context_that_cannot_be_pushed, world_setup, world_teardown)
{
    unsigned before;

    other_works(NS_PER_10MS);
    launch(STREAM(1));
    current = CONTEXT(2);
    answer.push = CUDA_ERROR_INVALID_CONTEXT;
    before = call_count;
    semaphore_fence(semaphore, true);
    assert_int_equal(call_count, before);
    await_open(3000);
}

/* While another stream captures, the legacy stream is not touched, nor is one that does. */
TEST(captures, world_setup, world_teardown)
{
    unsigned before;

    launch(STREAM(1));
    launch(STREAM(2));
    launch(NULL);
    other_works(10 * NS_PER_10MS);
    atomic_store(&capture_active, 1);
    semaphore_stream_ends(semaphore, STREAM(1), false);
    answer.captures = 0x1000 + 0x10;
    assert_int_equal(told(0, true, 0x1010), 1);
    before = call_count;
    atomic_store(&semaphore->client.arena->layout->waiting, 1);
    semaphore_fence(semaphore, true);
    assert_int_equal(told(before, true, 1), 0);
    assert_int_equal(told(before, true, 0x1010), 0);
    assert_int_equal(told(before, true, 0x1020), 1);
    atomic_store(&capture_active, 0);
    semaphore_fence(semaphore, true);
    assert_int_equal(told(before, true, 1), 1);
}

/*
 * A fence in the legacy stream is a barrier for all blocking streams, so it comes before anything
 * else is launched; one in a stream that is apart from it is none.
 */
TEST(legacy_stream, world_setup, world_teardown)
{
    _Atomic uint32_t *turn = &semaphore->client.arena->layout->turn;
    unsigned before, apart, once, twice;
    uint32_t number;

    do { /* until it is not disturbed by the end of a turn, which is fenced everywhere */
        number = atomic_load(turn);
        launch(STREAM(1));
        launch(STREAM(APART));
        launch(NULL);
        launch(NULL);
        before = call_count;
        launch(STREAM(APART));
        apart = told(before, true, 1);
        launch(STREAM(1));
        once = told(before, true, 1);
        launch(STREAM(1));
        twice = told(before, true, 1);
    } while (number != atomic_load(turn) && call_count < CALLS_MAX);
    assert_int_equal(apart, 0);
    assert_int_equal(once, 1);
    assert_int_equal(twice, 1);
}

/* A driver that calls the hooks from within does not wait for itself. */
TEST(calls_back, world_setup, world_teardown)
{
    answer.calls_back = true;
    other_works(NS_PER_10MS);
    assert_true(launch(STREAM(1)) >= 0);
    assert_true(launch(NULL) >= 0);
    semaphore_fence(semaphore, true);
    assert_true(told(0, true, 0) >= 2);
    await_open(3000);
}

/* The stream goes, by another thread, while one is about to launch into it. */
TEST(ends_meanwhile, world_setup, world_teardown)
{
    int slot;

    slot = semaphore_enter(semaphore, STREAM(1), false, 1000, clock_ns());
    assert_true(slot >= 0);
    semaphore_stream_ends(semaphore, STREAM(1), false);
    /* Nobody else gets the place until that one has left. */
    for (unsigned i = 2; i < 20; i++)
        assert_int_not_equal(launch(STREAM(i)), slot);
    semaphore_leave(semaphore, slot);
    assert_false(atomic_load(&semaphore->slots[slot].launched));
    assert_int_equal(launch(STREAM(30)), slot);
}

TEST(given_up, world_setup, world_teardown)
{
    answer.wait = CUDA_ERROR_NOT_SUPPORTED;
    other_works(100 * NS_PER_10MS);
    launch(STREAM(1));
    assert_false(atomic_load(&semaphore->joined));
    assert_true(gates_open());
    assert_int_equal(atomic_load(&semaphore->client.page->used), 0);
    assert_int_equal(launch(STREAM(1)), -1);
}

TEST(cannot_be_registered, world_setup, world_teardown)
{
    answer.pin = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(launch(STREAM(1)), -1);
    assert_false(atomic_load(&semaphore->joined));
    answer.pin = CUDA_SUCCESS;
    assert_int_equal(launch(STREAM(1)), -1);
    assert_int_equal(call_count, 0);
}

/* The page is another's: semaphores open, and stay so whatever that one writes. */
TEST(page_lost, world_setup, world_teardown)
{
    struct vgpu_compute settings = {.weight = 100};
    uint64_t turns, waited_ns;

    other_works(100 * NS_PER_10MS);
    launch(STREAM(1));
    arena_release(
        semaphore->client.arena,
        semaphore->client.index); /* as if all descriptors had been closed, and it were too late */
    semaphore_settings(semaphore, &settings, &turns, &waited_ns);
    assert_false(atomic_load(&semaphore->joined));
    assert_true(gates_open());
    atomic_store(&semaphore->client.page->granted_turn, 0);
    await_open(1000);
    atomic_store(&semaphore->joined, false);
}
