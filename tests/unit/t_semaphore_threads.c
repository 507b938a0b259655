/* Semaphores and fences, with threads and with more streams than there are places. */
#include "semaphore_world.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>

static void *launches_in_own_stream(void *arg)
{
    int *slot = arg;

    current = CONTEXT(1);
    *slot = semaphore_enter(semaphore, NULL, true, 1000, clock_ns());
    semaphore_leave(semaphore, *slot);
    return NULL;
}

/* Threads that are gone keep no place. */
TEST(short_threads, world_setup, world_teardown)
{
    pthread_t thread;
    int slot;

    answer.holds = true;
    for (unsigned i = 0; i < 3 * ARENA_STREAMS; i++) {
        assert_int_equal(pthread_create(&thread, NULL, launches_in_own_stream, &slot), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(slot >= 0);
    }
    assert_true(launch(STREAM(1)) >= 0);
}

/* Without a place a stream waits all the same, again and again; when fences are reached there are
 * places. */
TEST(many_streams, world_setup, world_teardown)
{
    unsigned before;

    answer.holds = true;
    other_works(10 * NS_PER_10MS);
    for (unsigned i = 0; i < ARENA_STREAMS; i++)
        assert_int_equal(launch(STREAM(i)), i);
    before = call_count;
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(launch(STREAM(ARENA_STREAMS)), -1);
    assert_int_equal(told(before, false, (uintptr_t)STREAM(ARENA_STREAMS)), 10);
    /* All were fenced, once. */
    assert_int_equal(told(before, true, 0), ARENA_STREAMS);
    for (unsigned i = 0; i < ARENA_STREAMS; i++)
        atomic_store(&semaphore->client.page->fence_completed[i],
                     atomic_load(&semaphore->client.page->fence_issued[i]));
    assert_true(launch(STREAM(ARENA_STREAMS)) >= 0);
    await_open(3000);
}

static unsigned threads_of_process(void)
{
    DIR *folder = opendir("/proc/self/task");
    unsigned count = 0;

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void *nothing(void *arg)
{
    return arg;
}

/* No thread where there is nothing to wait for. */
TEST(one_helper, world_setup, world_teardown)
{
    unsigned before;
    pthread_t first;

    /* With the first thread, a sanitizer starts one of its own. */
    assert_int_equal(pthread_create(&first, NULL, nothing, NULL), 0);
    pthread_join(first, NULL);
    before = threads_of_process();
    assert_true(launch(STREAM(1)) >= 0);
    assert_int_equal(threads_of_process(), before + 1);
    current = CONTEXT(2);
    assert_true(launch(STREAM(2)) >= 0);
    assert_int_equal(threads_of_process(), before + 1);
}

static atomic_bool over;

static void *launches(void *arg)
{
    uintptr_t number = (uintptr_t)arg;

    current = CONTEXT(1 + number % 2);
    for (unsigned i = 0; !atomic_load(&over); i++) {
        launch(STREAM(i % 50));
        if (i % 8 == 0)
            semaphore_fence(semaphore, i % 16 == 0);
        if (i % 64 == 0)
            semaphore_stream_ends(semaphore, STREAM(i % 50), false);
        if (number == 0 && i % 256 == 0) {
            semaphore_pause(semaphore, true);
            semaphore_pause(semaphore, false);
        }
        if (i % 32 == 0)
            sched_yield();
    }
    return NULL;
}

static void *contexts_go(void *arg)
{
    struct vgpu_compute settings = {.weight = 100};
    uint64_t turns, waited_ns;

    for (unsigned i = 0; !atomic_load(&over); i++) {
        current = CONTEXT(10);
        launch(STREAM(60));
        semaphore_context_ends(semaphore, CONTEXT(10));
        context_goes(CONTEXT(10));
        settings.weight = 100 + i % 2;
        semaphore_settings(semaphore, &settings, &turns, &waited_ns);
        usleep(500);
    }
    return arg;
}

TEST(threads, world_setup, world_teardown)
{
    pthread_t thread[5];

    atomic_store(&over, false);
    for (uintptr_t i = 0; i < 5; i++)
        assert_int_equal(
            pthread_create(&thread[i], NULL, i < 4 ? launches : contexts_go, (void *)i), 0);
    for (unsigned i = 0; i < 60; i++) {
        other_works(i % 3 * NS_PER_MS);
        nap_ms(5);
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (unsigned i = 0; i < ARENA_STREAMS; i++)
        assert_int_equal(atomic_load(&semaphore->slots[i].inside), 0);
}
