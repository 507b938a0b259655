/* Gates and fences in streams, with a driver that writes down what it is told and does it at once,
 * or when asked to. */
#include "unit.h"

#include "base/mutex.h"
#include "sched/sched_client.h"
#include "hook/capture.h"
#include "hook/semaphore.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define NS_PER_10MS (10 * NS_PER_MS)

/* The driver */

#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x10 * (n)))
#define STREAM(n)  ((CUstream)(uintptr_t)(0x1000 + 0x10 * (n)))
#define APART      40 /* the stream that does not block with the legacy one */

enum { CALLS_MAX = 4096, PINNED_MAX = 64 };

struct call {
    bool write;
    uintptr_t stream;
    CUcontext context;
    CUdeviceptr address;
    uint32_t value;
};

static struct vgpu_mutex driver_mutex = VGPU_MUTEX_INIT;
static struct call calls[CALLS_MAX];
static unsigned call_count;
static struct {
    CUcontext context;
    void *memory;
} pinned[PINNED_MAX];
static unsigned pinned_count;
static atomic_uint misused, pushes, unrelaxed;
static _Thread_local CUcontext current, pushed[8];
static _Thread_local unsigned depth;
static _Thread_local bool relaxed;

static struct {
    CUresult wait, write, pin, push;
    uintptr_t captures; /* this stream does, and so the legacy stream must not be touched */
    bool holds;         /* fences are not reached */
    bool calls_back;
} answer;

void *hook_real[SYMBOL_COUNT];
atomic_int capture_active;

void capture_relax(struct capture_mode *mode)
{
    mode->changed = true;
    relaxed = true;
}

void capture_restore(struct capture_mode *mode)
{
    (void)mode;
    relaxed = false;
}

bool capture_touches(CUstream stream)
{
    return capture_running() && ((uintptr_t)stream == answer.captures || (uintptr_t)stream == 1);
}

static CUresult get_current(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    if (answer.push != CUDA_SUCCESS)
        return answer.push;
    atomic_fetch_add(&pushes, 1);
    pushed[depth++] = current;
    current = context;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
    *context = current;
    current = pushed[--depth];
    return CUDA_SUCCESS;
}

static void *memory_of(CUdeviceptr address)
{
    return (void *)(uintptr_t)(address - 0x1000000);
}

static bool is_pinned(CUcontext context, CUdeviceptr address)
{
    const char *memory = memory_of(address);

    for (unsigned i = 0; i < pinned_count; i++)
        if (pinned[i].context == context && memory >= (char *)pinned[i].memory &&
            memory < (char *)pinned[i].memory + ARENA_PAGE_BYTES)
            return true;
    return false;
}

static CUresult pin(void *memory, size_t bytes, unsigned flags)
{
    CUresult result = answer.pin;

    if (!relaxed)
        atomic_fetch_add(&unrelaxed, 1);
    if (result != CUDA_SUCCESS)
        return result;
    mutex_lock(&driver_mutex);
    for (unsigned i = 0; i < pinned_count; i++)
        if (pinned[i].memory == memory)
            result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (result == CUDA_SUCCESS) {
        pinned[pinned_count].context = current;
        pinned[pinned_count++].memory = memory;
    }
    if (bytes != ARENA_PAGE_BYTES || !(flags & 2))
        atomic_fetch_add(&misused, 1);
    mutex_unlock(&driver_mutex);
    return result;
}

static void context_goes(CUcontext context)
{
    unsigned kept = 0;

    mutex_lock(&driver_mutex);
    for (unsigned i = 0; i < pinned_count; i++)
        if (pinned[i].context != context)
            pinned[kept++] = pinned[i];
    pinned_count = kept;
    mutex_unlock(&driver_mutex);
}

static CUresult pointer_of(CUdeviceptr *address, void *memory, unsigned flags)
{
    (void)flags;
    *address = (CUdeviceptr)(uintptr_t)memory + 0x1000000;
    return CUDA_SUCCESS;
}

static void write_down(bool write, CUstream stream, CUdeviceptr address, uint32_t value)
{
    mutex_lock(&driver_mutex);
    if (call_count < CALLS_MAX)
        calls[call_count++] = (struct call){write, (uintptr_t)stream, current, address, value};
    if (!is_pinned(current, address) || !stream)
        atomic_fetch_add(&misused, 1);
    mutex_unlock(&driver_mutex);
}

/* The world: a semaphore, and another instance's process on the same device */

static struct semaphore *the_gate; /* of each test its own: its helper stays */
static struct semaphore *semaphores[32];
static struct vgpu_arena *arenas[32]; /* of the other; they stay, too */
#define semaphore (*the_gate)
static struct sched_client other;

static void call_back(void)
{
    struct vgpu_compute settings = {.weight = 100};
    uint64_t turns, waited_ns;
    struct semaphore_wait wait;

    if (!answer.calls_back)
        return;
    semaphore_leave(&semaphore, semaphore_enter(&semaphore, STREAM(5), false, 1000, clock_ns()));
    semaphore_fence(&semaphore, true);
    semaphore_wait_begins(&semaphore, 0, &wait);
    semaphore_wait_ends(&semaphore, &wait);
    semaphore_settings(&semaphore, &settings, &turns, &waited_ns);
    semaphore_pause(&semaphore, false);
    semaphore_stream_ends(&semaphore, STREAM(5), false);
}

static CUresult flags_of(CUstream stream, unsigned *flags)
{
    *flags = (uintptr_t)stream == (uintptr_t)STREAM(APART);
    return CUDA_SUCCESS;
}

static CUresult wait_value(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags)
{
    (void)flags;
    call_back();
    if (answer.wait == CUDA_SUCCESS)
        write_down(false, stream, address, value);
    return answer.wait;
}

static CUresult write_value(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags)
{
    (void)flags;
    call_back();
    if (answer.write != CUDA_SUCCESS)
        return answer.write;
    write_down(true, stream, address, value);
    if (!answer.holds)
        atomic_store((_Atomic uint32_t *)memory_of(address), value);
    return CUDA_SUCCESS;
}

/* What was told since `from`: waits or writes, in a stream; 0: in any. */
static unsigned told(unsigned from, bool write, uintptr_t stream)
{
    unsigned count = 0;

    mutex_lock(&driver_mutex);
    for (unsigned i = from; i < call_count; i++)
        count += calls[i].write == write && (!stream || calls[i].stream == stream);
    mutex_unlock(&driver_mutex);
    return count;
}

static int setup(void **state)
{
    static const struct sched_identity self = {.id = 1, .weight = 100, .name = "own"};
    static const struct sched_identity them = {.id = 2, .weight = 100, .name = "other"};
    static unsigned count;
    char uuid[32];

    (void)state;
    snprintf(uuid, sizeof(uuid), "GPU-%u", count);
    setenv("VGPU_ARENA_DIR", scratch(), 1);
    the_gate = calloc(1, sizeof(*the_gate));
    assert_non_null(the_gate);
    semaphores[count] = the_gate;
    memset(&answer, 0, sizeof(answer));
    atomic_store(&capture_active, 0);
    call_count = pinned_count = 0;
    current = CONTEXT(1);
    hook_real[SYMBOL_cuCtxGetCurrent] = (void *)get_current;
    hook_real[SYMBOL_cuCtxPushCurrent_v2] = (void *)push;
    hook_real[SYMBOL_cuCtxPopCurrent_v2] = (void *)pop;
    hook_real[SYMBOL_cuMemHostRegister_v2] = (void *)pin;
    hook_real[SYMBOL_cuMemHostGetDevicePointer_v2] = (void *)pointer_of;
    hook_real[SYMBOL_cuStreamGetFlags] = (void *)flags_of;
    hook_real[SYMBOL_cuStreamWaitValue32_v2] = (void *)wait_value;
    hook_real[SYMBOL_cuStreamWriteValue32_v2] = (void *)write_value;
    if (!semaphore_join(&semaphore, uuid, &self, 0) || arena_open(uuid, true, &arenas[count]) < 0 ||
        sched_client_join(arenas[count++], &them, &other) < 0)
        return -1;
    sched_client_resume(&other, clock_ns());
    semaphore_resume(&semaphore, clock_ns());
    return sched_client_flags(&semaphore.client) & ARENA_CONTENDED ? 0 : -1;
}

static int teardown(void **state)
{
    unsigned wrong = atomic_exchange(&misused, 0) + atomic_exchange(&unrelaxed, 0);

    (void)state;
    atomic_store(&semaphore.joined, false); /* its helper goes on; it only looks */
    return wrong ? -1 : 0;
}

/* A busy machine may keep the test from going on for a while. */
#define LONG_ENOUGH (50 * NS_PER_10MS)

/* The other has the device, and work on it for so long. */
static void other_works(uint64_t ns)
{
    struct sched_ticket ticket;

    sched_client_launch(&other, ns, clock_ns(), &ticket);
    sched_client_launched(&other, ticket.turn);
}

static int launch(CUstream stream)
{
    int slot = semaphore_enter(&semaphore, stream, false, 1000, clock_ns());

    semaphore_leave(&semaphore, slot);
    return slot;
}

static bool gates_open(void)
{
    return sched_client_open(&semaphore.client, atomic_load(&semaphore.client.queued));
}

static void await_open(unsigned ms)
{
    for (unsigned i = 0; i < ms * SLOWER && !gates_open(); i++)
        nap_ms(1);
    assert_true(gates_open());
}

/* Tests */

TEST(each_stream_waits_once, setup, teardown)
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
TEST(contexts, setup, teardown)
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
    semaphore_fence(&semaphore, true);
    before = call_count;
    semaphore_context_ends(&semaphore, CONTEXT(1));
    context_goes(CONTEXT(1));
    assert_int_equal(call_count, before);
    launch(STREAM(2));
    semaphore_fence(&semaphore, true);
    /* Its handle may come back. */
    current = CONTEXT(1);
    launch(STREAM(1));
    await_open(3000);
    for (unsigned i = 0; i < 12; i++) {
        current = CONTEXT(3 + i);
        other_works(NS_PER_10MS);
        launch(STREAM(3 + i));
        semaphore_context_ends(&semaphore, current);
        context_goes(current);
    }
    current = CONTEXT(2);
    assert_true(launch(STREAM(2)) >= 0);
    assert_true(atomic_load(&semaphore.joined));
}

TEST(more_contexts_than_views, setup, teardown)
{
    for (unsigned i = 0; i < SEMAPHORE_CONTEXTS; i++) {
        current = CONTEXT(1 + i);
        assert_true(launch(STREAM(i)) >= 0);
    }
    other_works(100 * NS_PER_10MS);
    launch(STREAM(1));
    current = CONTEXT(100);
    assert_int_equal(launch(STREAM(100)), -1);
    assert_false(atomic_load(&semaphore.joined));
    assert_true(gates_open());
}

TEST(no_context, setup, teardown)
{
    current = NULL;
    assert_int_equal(launch(NULL), -1);
    current = CONTEXT(1);
    assert_true(launch(NULL) >= 0);
    assert_true(atomic_load(&semaphore.joined));
}

TEST(a_context_that_cannot_be_pushed, setup, teardown)
{
    unsigned before;

    other_works(NS_PER_10MS);
    launch(STREAM(1));
    current = CONTEXT(2);
    answer.push = CUDA_ERROR_INVALID_CONTEXT;
    before = call_count;
    semaphore_fence(&semaphore, true);
    assert_int_equal(call_count, before);
    await_open(3000);
}

/* While another stream captures, the legacy stream is not touched, nor is one that does. */
TEST(captures, setup, teardown)
{
    unsigned before;

    launch(STREAM(1));
    launch(STREAM(2));
    launch(NULL);
    other_works(10 * NS_PER_10MS);
    atomic_store(&capture_active, 1);
    semaphore_stream_ends(&semaphore, STREAM(1), false);
    answer.captures = 0x1000 + 0x10;
    assert_int_equal(told(0, true, 0x1010), 1);
    before = call_count;
    atomic_store(&semaphore.client.arena->layout->waiting, 1);
    semaphore_fence(&semaphore, true);
    assert_int_equal(told(before, true, 1), 0);
    assert_int_equal(told(before, true, 0x1010), 0);
    assert_int_equal(told(before, true, 0x1020), 1);
    atomic_store(&capture_active, 0);
    semaphore_fence(&semaphore, true);
    assert_int_equal(told(before, true, 1), 1);
}

/*
 * A fence in the legacy stream is a barrier for all blocking streams, so it comes before anything
 * else is launched; one in a stream that is apart from it is none.
 */
TEST(legacy_stream, setup, teardown)
{
    _Atomic uint32_t *turn = &semaphore.client.arena->layout->turn;
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
TEST(calls_back, setup, teardown)
{
    answer.calls_back = true;
    other_works(NS_PER_10MS);
    assert_true(launch(STREAM(1)) >= 0);
    assert_true(launch(NULL) >= 0);
    semaphore_fence(&semaphore, true);
    assert_true(told(0, true, 0) >= 2);
    await_open(3000);
}

static void *launches_in_own_stream(void *arg)
{
    int *slot = arg;

    current = CONTEXT(1);
    *slot = semaphore_enter(&semaphore, NULL, true, 1000, clock_ns());
    semaphore_leave(&semaphore, *slot);
    return NULL;
}

/* Threads that are gone keep no place. */
TEST(short_threads, setup, teardown)
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
TEST(many_streams, setup, teardown)
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
        atomic_store(&semaphore.client.page->fence_completed[i],
                     atomic_load(&semaphore.client.page->fence_issued[i]));
    assert_true(launch(STREAM(ARENA_STREAMS)) >= 0);
    await_open(3000);
}

/* The stream goes, by another thread, while one is about to launch into it. */
TEST(ends_meanwhile, setup, teardown)
{
    int slot;

    slot = semaphore_enter(&semaphore, STREAM(1), false, 1000, clock_ns());
    assert_true(slot >= 0);
    semaphore_stream_ends(&semaphore, STREAM(1), false);
    /* Nobody else gets the place until that one has left. */
    for (unsigned i = 2; i < 20; i++)
        assert_int_not_equal(launch(STREAM(i)), slot);
    semaphore_leave(&semaphore, slot);
    assert_false(atomic_load(&semaphore.slots[slot].launched));
    assert_int_equal(launch(STREAM(30)), slot);
}

TEST(given_up, setup, teardown)
{
    answer.wait = CUDA_ERROR_NOT_SUPPORTED;
    other_works(100 * NS_PER_10MS);
    launch(STREAM(1));
    assert_false(atomic_load(&semaphore.joined));
    assert_true(gates_open());
    assert_int_equal(atomic_load(&semaphore.client.page->used), 0);
    assert_int_equal(launch(STREAM(1)), -1);
}

TEST(cannot_be_registered, setup, teardown)
{
    answer.pin = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(launch(STREAM(1)), -1);
    assert_false(atomic_load(&semaphore.joined));
    answer.pin = CUDA_SUCCESS;
    assert_int_equal(launch(STREAM(1)), -1);
    assert_int_equal(call_count, 0);
}

/* The page is another's: semaphores open, and stay so whatever that one writes. */
TEST(page_lost, setup, teardown)
{
    struct vgpu_compute settings = {.weight = 100};
    uint64_t turns, waited_ns;

    other_works(100 * NS_PER_10MS);
    launch(STREAM(1));
    arena_release(
        semaphore.client.arena,
        semaphore.client.index); /* as if all descriptors had been closed, and it were too late */
    semaphore_settings(&semaphore, &settings, &turns, &waited_ns);
    assert_false(atomic_load(&semaphore.joined));
    assert_true(gates_open());
    atomic_store(&semaphore.client.page->granted_turn, 0);
    await_open(1000);
    atomic_store(&semaphore.joined, false);
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

/* No thread where there is nothing to wait for. */
TEST(one_helper, setup, teardown)
{
    unsigned before = threads_of_process();

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
            semaphore_fence(&semaphore, i % 16 == 0);
        if (i % 64 == 0)
            semaphore_stream_ends(&semaphore, STREAM(i % 50), false);
        if (number == 0 && i % 256 == 0) {
            semaphore_pause(&semaphore, true);
            semaphore_pause(&semaphore, false);
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
        semaphore_context_ends(&semaphore, CONTEXT(10));
        context_goes(CONTEXT(10));
        settings.weight = 100 + i % 2;
        semaphore_settings(&semaphore, &settings, &turns, &waited_ns);
        usleep(500);
    }
    return arg;
}

TEST(threads, setup, teardown)
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
        assert_int_equal(atomic_load(&semaphore.slots[i].inside), 0);
}
