/* Common to all calls: counting, faults, latencies, the lock, charging memory to the process. */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WAKE_EARLY_NS                                                                              \
    60000ULL /* a sleeping thread may wake this late; it polls the clock for the rest */

static struct sim_page not_ready;
static uint64_t early_calls[SIM_CALLS];
static uint32_t never_frozen;

struct sim sim = {
    .page = &not_ready,
    .calls = early_calls,
    .frozen = &never_frozen,
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .slot = -1,
};

__thread struct sim_thread sim_thread;

static const char *const call_names[SIM_CALLS] = {
#define HOOK(symbol, handler) #symbol,
#define PASS(symbol)          #symbol,
#include "driver.def"
#undef HOOK
#undef PASS
};

void sim_delay(uint64_t duration_ns)
{
    uint64_t end = sim_now_ns() + duration_ns;

    if (duration_ns > 100000) {
        struct timespec until = {.tv_sec = (time_t)(end / 1000000000ULL),
                                 .tv_nsec = (long)(end % 1000000000ULL)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            ;
    }
    while (sim_now_ns() < end)
        ;
}

void sim_sleep_until(uint64_t until_ns)
{
    if (until_ns > sim_now_ns() + WAKE_EARLY_NS + 40000) {
        uint64_t wake_ns = until_ns - WAKE_EARLY_NS;
        struct timespec wake = {.tv_sec = (time_t)(wake_ns / 1000000000ULL),
                                .tv_nsec = (long)(wake_ns % 1000000000ULL)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL);
    }
    while (sim_now_ns() < until_ns)
        ; /* a yield would make it late under load */
}

void sim_lock(void)
{
    pthread_mutex_lock(&sim.mutex);
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&sim.mutex);
}

uint64_t sim_number(void)
{
    return __atomic_add_fetch(&sim.next_number, 1, __ATOMIC_RELAXED);
}

void *sim_object(size_t bytes, unsigned magic)
{
    unsigned *object = calloc(1, bytes);

    if (object)
        *object = magic;
    return object;
}

static bool is_one(const char *name)
{
    const char *text = getenv(name);

    return text && *text == '1';
}

static void read_environment(void)
{
    sim.noop = is_one("SIMGPU_NOOP");
    sim.bandwidth = sim_parse_bytes(getenv("SIMGPU_BANDWIDTH"), 4ULL << 40);
    sim.copy_bandwidth = sim_parse_bytes(getenv("SIMGPU_COPY_BANDWIDTH"), 50ULL << 30);
    sim.poll_ns = sim_parse_ns(getenv("SIMGPU_POLL"), 20000);
    sim.lazy = is_one("SIMGPU_LAZY");
    sim.old_memops = is_one("SIMGPU_MEMOPS_V1");
    fault_read_environment();
    sim.latency_ns = fault_latency_of_all();
    sim.slow = fault_any();
}

static void read_environment_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_environment);
}

int sim_enter_slow(enum sim_call call, bool early)
{
    read_environment_once();
    if (sim.slow) {
        int code = fault_next(call_names[call]);
        if (code >= 0)
            return code;
        uint64_t latency_ns = fault_latency(call_names[call]);
        if (latency_ns)
            sim_delay(latency_ns);
    }
    if (!sim.page->ready && (!early || sim.was_ready))
        return sim.was_ready && early && call != CALL_cuInit ? CUDA_SUCCESS
                                                             : CUDA_ERROR_NOT_INITIALIZED;
    /* a checkpointed process stands still until it is restored and unlocked */
    while (!early && *(volatile uint32_t *)sim.frozen &&
           strncmp(call_names[call], "cuCheckpoint", 12))
        sim_delay(200000);
    __atomic_fetch_add(&sim.calls[call], 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

/* Registers in another slot, with all that this process holds. Another process took it for dead,
 * and its slot is lost. */
static void register_again(void)
{
    int slot;

    if (state_register(sim.state, &slot))
        return;
    state_lock(sim.state);
    struct sim_process *process = &sim.state->process[slot];
    memcpy(process->held, sim.held, sizeof(sim.held));
    for (int device = 0; device < SIM_MAX_DEVICES; device++) {
        uint64_t total = 0;
        for (int kind = 0; kind < SIM_HOST; kind++)
            total += process->held[device][kind];
        process->total[device] = process->peak[device] = total;
        sim.state->device[device].used += total;
        if (process->group)
            sim.state->group[process->group - 1].total[device] += total;
    }
    process->contexts_created = sim.self->contexts_created;
    for (struct sim_context *context = sim.contexts; context; context = context->next)
        process->contexts_live++;
    sim.generation = process->generation;
    state_unlock(sim.state);
    sim.slot = slot;
    sim.self = process;
    sim.calls = process->calls;
    sim.frozen = &process->checkpoint;
}

void sim_lock_state(void)
{
    state_lock(sim.state);
    while (
        __builtin_expect(sim.self->generation != sim.generation || sim.self->life != SIM_LIVE, 0)) {
        state_unlock(sim.state);
        register_again();
        state_lock(sim.state);
    }
}

int sim_charge(int device, enum sim_kind kind, uint64_t bytes)
{
    if (!bytes)
        return CUDA_SUCCESS;
    sim_lock_state();
    bool fits = state_charge_locked(sim.state, sim.slot, device, kind, bytes);
    if (fits)
        sim.held[device][kind] += bytes;
    state_unlock(sim.state);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_release(int device, enum sim_kind kind, uint64_t bytes)
{
    if (!bytes)
        return;
    sim_lock_state();
    state_release_locked(sim.state, sim.slot, device, kind, bytes);
    sim.held[device][kind] -= bytes;
    state_unlock(sim.state);
}

bool sim_ordinal_valid(int ordinal)
{
    return ordinal >= 0 && ordinal < sim.device_count;
}

int sim_attach(void)
{
    if (state_register(sim.state, &sim.slot))
        return CUDA_ERROR_OPERATING_SYSTEM;
    struct sim_page *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return CUDA_ERROR_OPERATING_SYSTEM;
    madvise(page, 4096, MADV_WIPEONFORK);
    sim.self = &sim.state->process[sim.slot];
    sim.generation = sim.self->generation;
    for (int call = 0; call < SIM_CALLS; call++)
        sim.self->calls[call] = early_calls[call];
    sim.frozen = &sim.self->checkpoint;
    sim.calls = sim.self->calls;
    sim.was_ready = true;
    sim.page = page;
    __atomic_store_n(&page->ready, 1, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}
