#include "semaphore_world.h"

#include "base/mutex.h"

#include <stdlib.h>

enum { PINNED_MAX = 64 };

static struct vgpu_mutex driver_mutex = VGPU_MUTEX_INIT;
struct call calls[CALLS_MAX];
unsigned call_count;
static struct {
    CUcontext context;
    void *memory;
} pinned[PINNED_MAX];
static unsigned pinned_count;
struct answer answer;
static atomic_uint misused, pushes, unrelaxed;
_Thread_local CUcontext current;
static _Thread_local CUcontext pushed[8];
static _Thread_local unsigned depth;
static _Thread_local bool relaxed;

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

void context_goes(CUcontext context)
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

struct semaphore *semaphore; /* of each test its own: its helper stays */
static struct semaphore *semaphores[32];
static struct vgpu_arena *arenas[32]; /* of the other; they stay, too */
static struct sched_client other;

static void call_back(void)
{
    struct vgpu_compute settings = {.weight = 100};
    uint64_t turns, waited_ns;
    struct semaphore_wait wait;

    if (!answer.calls_back)
        return;
    semaphore_leave(semaphore, semaphore_enter(semaphore, STREAM(5), false, 1000, clock_ns()));
    semaphore_fence(semaphore, true);
    semaphore_wait_begins(semaphore, 0, &wait);
    semaphore_wait_ends(semaphore, &wait);
    semaphore_settings(semaphore, &settings, &turns, &waited_ns);
    semaphore_pause(semaphore, false);
    semaphore_stream_ends(semaphore, STREAM(5), false);
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

unsigned told(unsigned from, bool write, uintptr_t stream)
{
    unsigned count = 0;

    mutex_lock(&driver_mutex);
    for (unsigned i = from; i < call_count; i++)
        count += calls[i].write == write && (!stream || calls[i].stream == stream);
    mutex_unlock(&driver_mutex);
    return count;
}

int world_setup(void **state)
{
    static const struct sched_identity self = {.id = 1, .weight = 100, .name = "own"};
    static const struct sched_identity them = {.id = 2, .weight = 100, .name = "other"};
    static unsigned count;
    char uuid[32];

    (void)state;
    snprintf(uuid, sizeof(uuid), "GPU-%u", count);
    setenv("VGPU_ARENA_DIR", scratch(), 1);
    semaphore = calloc(1, sizeof(*semaphore));
    assert_non_null(semaphore);
    semaphores[count] = semaphore;
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
    if (!semaphore_join(semaphore, uuid, &self, 0) || arena_open(uuid, true, &arenas[count]) < 0 ||
        sched_client_join(arenas[count++], &them, &other) < 0)
        return -1;
    sched_client_resume(&other, clock_ns());
    semaphore_resume(semaphore, clock_ns());
    return sched_client_flags(&semaphore->client) & ARENA_CONTENDED ? 0 : -1;
}

int world_teardown(void **state)
{
    unsigned wrong = atomic_exchange(&misused, 0) + atomic_exchange(&unrelaxed, 0);

    (void)state;
    atomic_store(&semaphore->joined, false); /* its helper goes on; it only looks */
    return wrong ? -1 : 0;
}

void other_works(uint64_t ns)
{
    struct sched_ticket ticket;

    sched_client_launch(&other, ns, clock_ns(), &ticket);
    sched_client_launched(&other, ticket.turn);
}

int launch(CUstream stream)
{
    int slot = semaphore_enter(semaphore, stream, false, 1000, clock_ns());

    semaphore_leave(semaphore, slot);
    return slot;
}

bool gates_open(void)
{
    return sched_client_open(&semaphore->client, atomic_load(&semaphore->client.queued));
}

void await_open(unsigned ms)
{
    for (unsigned i = 0; i < ms * SLOWER && !gates_open(); i++)
        nap_ms(1);
    assert_true(gates_open());
}
