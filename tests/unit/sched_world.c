/* The clock of sched_world.h, the helpers of its processes, and what tests do and ask. */
#include "sched_world.h"

#include "region/liveness.h"
#include "unit.h"

#include <stdlib.h>

#define SPIN_NS 1000ULL

static struct world *current;

/* What the library calls to learn the time and to wait: in virtual time here. See the linker's
 * --wrap. */
uint64_t __wrap_clock_ns(void);
void __wrap_futex_wait(void *word, unsigned expected, unsigned long long timeout_ns, int shared);
void __wrap_futex_wake(void *word, int count, int shared);

uint64_t __wrap_clock_ns(void)
{
    return current ? current->now_ns + current->extra_ns : 0;
}

void __wrap_futex_wait(void *word, unsigned expected, unsigned long long timeout_ns, int shared)
{
    (void)shared;
    if (*(unsigned *)word == expected)
        current->extra_ns += timeout_ns;
}

void __wrap_futex_wake(void *word, int count, int shared)
{
    (void)word;
    (void)count;
    (void)shared;
}

uint64_t world_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void arena_name(char *buffer, size_t bytes, unsigned number, unsigned device)
{
    snprintf(buffer, bytes, "GPU-%u-%u", number, device);
}

struct world *world_new(uint64_t seed, unsigned devices)
{
    static unsigned number;
    struct world *world = calloc(1, sizeof(*world));
    char uuid[VGPU_UUID_LEN];

    assert_non_null(world);
    *world = (struct world){
        .now_ns = SEC,
        .random = seed * 0x9e3779b97f4a7c15ULL + 1,
        .switch_ns = 145 * US,
        .vdev_ns = 2 * MS,
        .late_ns = 5 * US,
        .very_late_ns = 200 * US,
        .very_late_one_in = 100,
        .device_count = devices,
    };
    current = world;
    number++;
    setenv("VGPU_ARENA_DIR", scratch(), 1);
    for (unsigned i = 0; i < devices; i++) {
        world->gpus[i].current = -1;
        arena_name(uuid, sizeof(uuid), number, i);
        assert_int_equal(arena_open(uuid, true, &world->arenas[i]), 0);
    }
    return world;
}

void world_free(struct world *world)
{
    for (unsigned i = 0; i < world->count; i++)
        for (unsigned k = 0; k < WORLD_DEVICES; k++)
            for (unsigned s = 0; s < WORLD_STREAMS; s++)
                free(world->procs[i].contexts[k].queues[s].ops);
    for (unsigned i = 0; i < world->count; i++)
        free(world->procs[i].steps);
    for (unsigned i = 0; i < world->device_count; i++) {
        char path[64];

        snprintf(path, sizeof(path), "vgpu-%s", world->arenas[i]->layout->uuid);
        unlink(scratch_path(path));
        munmap(world->arenas[i]->layout, sizeof(struct arena_layout));
        liveness_put(world->arenas[i]->liveness);
        free(world->arenas[i]);
    }
    current = NULL;
    free(world);
}

void world_policy(struct world *world, enum vgpu_turn_policy policy)
{
    for (unsigned i = 0; i < world->device_count; i++)
        atomic_store(&world->arenas[i]->layout->policy, policy);
}

struct proc *world_add(struct world *world, uint64_t id, uint32_t weight, uint32_t priority,
                       const struct program *program, uint64_t start_ns)
{
    struct proc *proc = &world->procs[world->count];

    assert_true(world->count < WORLD_PROCS);
    *proc = (struct proc){
        .world = world,
        .index = world->count++,
        .program = *program,
        .self = {.id = id, .weight = weight, .priority = priority},
        .devices = program->pair ? 2 : program->rank + 1,
        .first_device = program->rank,
        .host_ns = start_ns,
        .pair = -1,
        .random = world_random(&world->random),
    };
    for (unsigned i = 0; i < WORLD_DEVICES; i++) {
        proc->contexts[i].running = -1;
        proc->contexts[i].help_ns = NEVER;
    }
    return proc;
}

/* Helpers and the clock */

static uint64_t lateness(struct world *world)
{
    bool very =
        world->very_late_one_in && world_random(&world->random) % world->very_late_one_in == 0;

    return very ? world->very_late_ns : world->late_ns;
}

static void help(struct world *world, struct context *context)
{
    uint64_t again_ns;

    context->wake_seen = atomic_load(&context->client.page->wake);
    again_ns = sched_client_watch(&context->client, &context->observer, world->now_ns);
    world->looks++;
    if (again_ns == 0)
        context->help_ns = world->now_ns + SPIN_NS;
    else
        context->help_ns = world->now_ns + (again_ns == NEVER ? SEC : again_ns) + lateness(world);
}

static void wake_helper(struct world *world, struct context *context)
{
    uint64_t soon_ns;

    if (!context->registered || atomic_load(&context->client.page->wake) == context->wake_seen)
        return;
    context->wake_seen = atomic_load(&context->client.page->wake);
    soon_ns = world->now_ns + lateness(world);
    if (context->help_ns > soon_ns)
        context->help_ns = soon_ns;
}

static void step_proc(struct world *world, struct proc *proc)
{
    if (proc->preempt)
        world->preempt_step(proc);
    if (proc->dead || proc->stopped)
        return;
    for (unsigned i = 0; i < proc->devices; i++) {
        struct context *context = &proc->contexts[i];

        if (!context->registered)
            continue;
        world->extra_ns = 0;
        if (context->help_ns <= world->now_ns) {
            help(world, context);
            context->help_ns += world->extra_ns;
        }
    }
    if (proc->host_ns > world->now_ns)
        return;
    world->extra_ns = 0;
    host_step(proc);
    if (proc->host_ns != NEVER)
        proc->host_ns += world->extra_ns;
}

static uint64_t next_ns(struct world *world)
{
    uint64_t next = NEVER;

    for (unsigned i = 0; i < world->device_count; i++) {
        uint64_t ns = gpu_next_ns(world, i);

        next = ns < next ? ns : next;
    }
    for (unsigned i = 0; i < world->count; i++) {
        const struct proc *proc = &world->procs[i];

        if (proc->preempt && world->outside_next_ns(proc) < next)
            next = world->outside_next_ns(proc);
        if (proc->dead || proc->stopped)
            continue;
        next = proc->host_ns < next ? proc->host_ns : next;
        for (unsigned k = 0; k < proc->devices; k++)
            next = proc->contexts[k].help_ns < next ? proc->contexts[k].help_ns : next;
    }
    return next;
}

static void run_gpus(struct world *world)
{
    for (unsigned i = 0; i < world->device_count; i++)
        gpu_run(world, i);
    if (world->device_count > 1)
        gpu_run(world, 0);
}

void world_run(struct world *world, uint64_t until_ns)
{
    current = world;
    for (;;) {
        uint64_t next = next_ns(world);

        if (next >= until_ns)
            break;
        if (next > world->now_ns)
            world->now_ns = next;
        run_gpus(world);
        for (unsigned i = 0; i < world->count; i++)
            step_proc(world, &world->procs[i]);
        world->extra_ns = 0;
        run_gpus(world);
        for (unsigned i = 0; i < world->count; i++) {
            struct proc *proc = &world->procs[i];

            for (unsigned k = 0; k < proc->devices && !proc->dead && !proc->stopped; k++)
                wake_helper(world, &proc->contexts[k]);
            if (!proc->dead && !proc->stopped)
                host_look(proc);
        }
        if (world->each)
            world->each(world);
    }
    world->now_ns = until_ns;
    run_gpus(world);
}

/* What the tests do and ask */

static uint64_t held_ns(const struct proc *proc)
{
    const struct sched_client *client = &proc->contexts[0].client;

    return proc->contexts[0].joined && client->tenant < ARENA_TENANTS
               ? client->arena->layout->tenant[client->tenant].held_ns
               : 0;
}

void world_measure(struct world *world)
{
    world->marked_ns = world->now_ns;
    for (unsigned i = 0; i < world->count; i++) {
        world->marked_done[i] = world->procs[i].contexts[0].done_ns;
        world->marked_held[i] = held_ns(&world->procs[i]);
        for (unsigned k = 0; k < WORLD_DEVICES; k++)
            world->procs[i].contexts[k].longest_wait = 0;
        world_forget_steps(&world->procs[i]);
    }
}

double world_share(const struct world *world, const struct proc *proc)
{
    return (double)(proc->contexts[0].done_ns - world->marked_done[proc->index]) /
           (double)(world->now_ns - world->marked_ns);
}

double world_held(const struct world *world, const struct proc *proc)
{
    return (double)(held_ns(proc) - world->marked_held[proc->index]) /
           (double)(world->now_ns - world->marked_ns);
}

double world_sum(const struct world *world)
{
    double sum = 0;

    for (unsigned i = 0; i < world->count; i++)
        sum += world_share(world, &world->procs[i]);
    return sum;
}

void world_kill(struct proc *proc)
{
    for (unsigned i = 0; i < proc->devices; i++) {
        struct context *context = &proc->contexts[i];

        gpu_drop(context);
        if (context->joined)
            liveness_drop(context->client.arena->liveness, context->client.index + 1);
        context->registered = false;
        context->help_ns = NEVER;
    }
    proc->dead = true;
}

void world_stop(struct proc *proc)
{
    proc->stopped = true;
}

void world_continue(struct proc *proc)
{
    proc->stopped = false;
}

void world_leave(struct proc *proc)
{
    for (unsigned i = 0; i < proc->devices; i++)
        if (proc->contexts[i].joined)
            arena_release(proc->contexts[i].client.arena, proc->contexts[i].client.index);
    world_kill(proc);
}

void world_weight(struct proc *proc, uint32_t weight)
{
    for (unsigned i = 0; i < proc->devices; i++)
        if (proc->contexts[i].joined)
            sched_client_settings(&proc->contexts[i].client, weight, proc->self.priority);
    proc->self.weight = weight;
}

static int shorter(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

uint64_t world_step_ns(struct proc *proc, double fraction)
{
    size_t index = (size_t)(fraction * (double)proc->step_count);

    if (proc->step_count == 0)
        return 0;
    qsort(proc->steps, proc->step_count, sizeof(*proc->steps), shorter);
    return proc->steps[index < proc->step_count ? index : proc->step_count - 1];
}

void world_forget_steps(struct proc *proc)
{
    proc->step_count = 0;
}

struct program synced(uint64_t kernel_ns)
{
    return (struct program){.kernel_ns = kernel_ns, .batch = 1, .gap_ns = 5 * US};
}

void run_ms(struct world *world, uint64_t ms)
{
    world_run(world, world->now_ns + ms * MS);
}

double in_ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

double jain(const struct world *world)
{
    double sum = 0, squares = 0;

    for (unsigned i = 0; i < world->count; i++) {
        double share = world_share(world, &world->procs[i]);

        sum += share;
        squares += share * share;
    }
    return sum * sum / (world->count * squares);
}

uint64_t longest_wait_ns(const struct world *world, const struct proc *except)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < world->count; i++)
        for (unsigned k = 0; k < WORLD_DEVICES; k++)
            if (&world->procs[i] != except && world->procs[i].contexts[k].longest_wait > most)
                most = world->procs[i].contexts[k].longest_wait;
    return most;
}

void print_world(const char *what, const struct world *world)
{
    print_message("%-34s", what);
    for (unsigned i = 0; i < world->count; i++)
        print_message(" %.4f", world_share(world, &world->procs[i]));
    print_message("  sum %.4f jain %.5f longest wait %.1f ms looks/s %.0f\n", world_sum(world),
                  jain(world), in_ms(longest_wait_ns(world, NULL)),
                  (double)world->looks * 1e9 / (double)(world->now_ns - SEC));
}

void assert_between(double value, double low, double high)
{
    if (value < low || value > high)
        fail_msg("%.5f is not between %.5f and %.5f", value, low, high);
}
