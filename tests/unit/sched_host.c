/* The threads of the processes of sched_world.h. */
#include "sched_world.h"

#include "unit.h"

#include "sched/gang.h"

#include <stdlib.h>

#define MARK_NS        2200ULL
#define FUTEX_NS       5000ULL
#define AHEAD_BOUND_NS (SCHED_RESCUE_NS + SCHED_RESCUE_NS / 4)
#define CAP_SLACK_NS   100000ULL
#define CAP_BURST_NS   5000000ULL

/* What hook/work/semaphore.c does */

static void fence_all(struct context *context)
{
    sched_client_fences(&context->client);
    for (unsigned i = 0; i < WORLD_STREAMS; i++) {
        struct op fence = {
            .kind = OP_MARK, .place = i, .ns = MARK_NS, .left_ns = MARK_NS, .pair = -1};

        if (!context->place_launched[i])
            continue;
        context->place_launched[i] = false;
        fence.value = sched_client_fence(&context->client, i, context->work_turn[i]);
        gpu_push(context, i, &fence);
    }
}

static void semaphore_fence(const struct proc *proc, struct context *context, bool blocks)
{
    if (!(sched_client_flags(&context->client) & ARENA_CONTENDED))
        return;
    if (blocks)
        sched_client_waits(&context->client);
    if ((atomic_load(&context->client.page->unfenced) ||
         atomic_load(&context->client.page->queued_unfenced)) &&
        (proc->world->marks_always || atomic_load(&context->client.arena->layout->waiting) > 0))
        fence_all(context);
}

static void pause_all(const struct proc *proc, bool pausing)
{
    for (unsigned i = 0; i < proc->devices; i++) {
        struct context *context = (struct context *)&proc->contexts[i];

        if (!context->joined)
            continue;
        sched_client_pauses(&context->client, pausing, proc->world->now_ns);
        if (pausing)
            semaphore_fence(proc, context, false);
    }
}

/* False: the thread must wait, at the semaphore or because it is too far ahead, before it
 * launches. */
static bool enter(struct proc *proc, struct context *context, unsigned stream, uint64_t cost_ns)
{
    struct world *world = proc->world;
    struct arena_page *page = context->client.page;
    struct sched_ticket ticket;
    bool first;

    if (!context->registered) {
        for (unsigned i = 0; i < WORLD_STREAMS; i++)
            context->place_turn[i] = atomic_load(&page->granted_turn);
        context->registered = true;
        context->help_ns = world->now_ns + 50 * US;
    }
    sched_client_tidy(&context->client, world->now_ns);
    sched_client_launch(&context->client, cost_ns, world->now_ns, &ticket);
    proc->again = ticket.ahead;
    proc->ahead_until_ns = world->now_ns + (ticket.ahead ? SCHED_NAP_NS : AHEAD_BOUND_NS);
    if (ticket.ahead)
        return false;
    if (ticket.fences)
        fence_all(context);
    first = ticket.queued && (int32_t)(ticket.turn - context->place_turn[stream]) > 0;
    if (first) {
        struct op semaphore = {.kind = OP_GATE, .value = ticket.turn, .pair = -1};

        gpu_push(context, stream, &semaphore);
        context->place_turn[stream] = ticket.turn;
        atomic_fetch_add(&page->wake, 1);
    }
    context->work_turn[stream] = ticket.turn;
    context->place_launched[stream] = true;
    sched_client_launched(&context->client, ticket.turn);
    proc->ahead_turn = ticket.turn;
    return !ticket.queued || !ticket.full;
}

/* What hook/work/compute.c does before a launch. */
static bool begin(struct proc *proc, struct context *context, unsigned stream, uint64_t cost_ns)
{
    struct world *world = proc->world;
    uint32_t flags;

    if (world->native || proc->preempt)
        return true;
    if (!context->joined) {
        assert_int_equal(sched_client_join(world->arenas[context - proc->contexts], &proc->self,
                                           &context->client),
                         0);
        context->joined = true;
        if (proc->program.job)
            gang_set(&context->client, &world->arenas[proc->first_device ^ 1], 1);
    }
    flags = sched_client_flags(&context->client);
    if (flags & ARENA_RESUME) {
        sched_client_resume(&context->client, world->now_ns);
        flags = sched_client_flags(&context->client);
    }
    if (flags & ARENA_CONTENDED)
        return enter(proc, context, stream, cost_ns);
    atomic_fetch_add(&context->client.page->launches, 1);
    return true;
}

/* The thread of a process */

static uint64_t length_of(struct proc *proc)
{
    return proc->program.length ? proc->program.length(proc) : proc->program.kernel_ns;
}

static unsigned stream_of(const struct proc *proc)
{
    return proc->program.streams ? (unsigned)(proc->launches % proc->program.streams) : 0;
}

static int new_pair(struct world *world)
{
    for (int i = 0; i < WORLD_PAIRS; i++)
        if (!world->pairs[i].used) {
            world->pairs[i] = (struct pair_of_kernels){.used = true};
            return i;
        }
    return -1;
}

/* Sleeps, where the process has a cap and has used its share. */
static bool capped(struct proc *proc)
{
    uint64_t now_ns = proc->world->now_ns;

    if (!proc->program.cap_percent)
        return false;
    if (proc->paid_ns > now_ns + CAP_SLACK_NS) {
        pause_all(proc, true);
        proc->paused = true;
        proc->host_ns = proc->paid_ns;
        return true;
    }
    if (proc->paused)
        pause_all(proc, false);
    proc->paused = false;
    return false;
}

static void charge(struct proc *proc, uint64_t cost_ns)
{
    uint64_t now_ns = proc->world->now_ns,
             from_ns = now_ns > CAP_BURST_NS ? now_ns - CAP_BURST_NS : 0;

    if (proc->program.cap_percent)
        proc->paid_ns = (proc->paid_ns > from_ns ? proc->paid_ns : from_ns) +
                        cost_ns * 100 / proc->program.cap_percent;
}

static bool idle_now(struct proc *proc)
{
    const struct program *program = &proc->program;
    uint64_t now_ns = proc->world->now_ns;

    if (!program->idle_ns || proc->in_batch > 0)
        return false;
    if (!proc->idle_from_ns)
        proc->idle_from_ns = now_ns + program->busy_ns;
    if (now_ns < proc->idle_from_ns)
        return false;
    proc->idle_from_ns = now_ns + program->idle_ns + program->busy_ns;
    proc->host_ns = now_ns + program->idle_ns;
    return true;
}

static void begin_sync(struct proc *proc)
{
    proc->state = HOST_SYNCS;
    proc->host_ns = NEVER;
    for (unsigned i = 0; i < proc->devices && !proc->world->native; i++)
        if (proc->contexts[i].joined)
            semaphore_fence(proc, &proc->contexts[i], true);
}

static void launched(struct proc *proc)
{
    const struct program *program = &proc->program;

    proc->stage = 0;
    proc->launches++;
    if (program->pair && proc->in_batch % 2 == 0) {
        proc->in_batch++;
        proc->host_ns = proc->world->now_ns + program->launch_ns;
        return;
    }
    proc->in_batch++;
    if (program->limit && proc->launches >= program->limit) {
        proc->state = HOST_ENDED;
        proc->host_ns = NEVER;
    } else if (program->batch && proc->in_batch >= program->batch) {
        begin_sync(proc);
    } else {
        proc->host_ns = proc->world->now_ns + program->launch_ns;
    }
}

/* Whether the kernel that is launched next is the one of a batch that the ranks of a job run
 * together. */
static bool is_joint(const struct proc *proc)
{
    return proc->program.job && proc->in_batch == proc->program.batch - 1;
}

static int joint_pair(struct proc *proc)
{
    unsigned step = (unsigned)(proc->launches / proc->program.batch),
             first = (proc->program.job - 1) * WORLD_STEPS;

    if (proc->program.rank == 0)
        proc->world->pairs[first + (step + WORLD_STEPS / 2) % WORLD_STEPS] =
            (struct pair_of_kernels){.used = true};
    return (int)(first + step % WORLD_STEPS);
}

static void launch(struct proc *proc)
{
    const struct program *program = &proc->program;
    unsigned stream = stream_of(proc);
    struct op op = {.kind = OP_KERNEL, .pair = -1};
    struct context *context;

    if (proc->stage == 0) {
        proc->device = proc->again     ? proc->device
                       : program->pair ? (unsigned)(proc->in_batch % 2) ^ program->reversed
                                       : proc->first_device;
        if (program->pair && proc->in_batch % 2 == 0 && !proc->again)
            proc->pair = new_pair(proc->world);
        proc->asked_ns = proc->again ? proc->asked_ns : length_of(proc);
    }
    context = &proc->contexts[proc->device];
    op.ns = op.left_ns = proc->asked_ns;
    op.pair = program->pair ? proc->pair : -1;
    if (is_joint(proc)) {
        op.pair = joint_pair(proc);
        op.ns = op.left_ns = program->joint_ns;
    }
    if (proc->stage == 0) {
        bool unknown = op.ns == NEVER || (program->unknown && context->completed == 0);
        uint64_t cost_ns = unknown ? SCHED_UNKNOWN_NS : op.ns;

        if (program->wrong > 0)
            cost_ns = (uint64_t)((double)cost_ns * program->wrong);
        if (!proc->again)
            charge(proc, cost_ns);
        proc->stage = 1;
        if (!begin(proc, context, stream, cost_ns)) {
            proc->state = HOST_AHEAD;
            proc->host_ns = proc->ahead_until_ns;
            return;
        }
    }
    if (context->queues[stream].count >= WORLD_QUEUE) {
        proc->state = HOST_FULL;
        proc->host_ns = NEVER;
        return;
    }
    gpu_push(context, stream, &op);
    context->launched++;
    if (!proc->world->native && !proc->preempt && !context->place_launched[stream]) {
        context->place_launched[stream] = true;
        sched_client_launched(&context->client, context->work_turn[stream]);
    }
    launched(proc);
}

void host_step(struct proc *proc)
{
    if (proc->state == HOST_AHEAD || proc->state == HOST_FULL) {
        proc->stage = proc->again && proc->state == HOST_AHEAD ? 0 : 1;
        proc->state = HOST_RUNS;
        launch(proc);
        return;
    }
    if (proc->stage == 0 && (idle_now(proc) || capped(proc)))
        return;
    if (proc->in_batch == 0 && proc->stage == 0)
        proc->batch_ns = proc->world->now_ns;
    launch(proc);
}

static void add_step(struct proc *proc, uint64_t ns)
{
    if (proc->step_count == proc->step_room) {
        proc->step_room = proc->step_room ? 2 * proc->step_room : 1024;
        proc->steps = realloc(proc->steps, proc->step_room * sizeof(*proc->steps));
        if (!proc->steps)
            abort();
    }
    proc->steps[proc->step_count++] = ns;
}

void host_look(struct proc *proc)
{
    uint64_t now_ns = proc->world->now_ns;

    if (proc->state == HOST_AHEAD && !proc->again && proc->host_ns > now_ns + FUTEX_NS &&
        sched_client_open(&proc->contexts[proc->device].client, proc->ahead_turn))
        proc->host_ns = now_ns + FUTEX_NS;
    if (proc->state == HOST_FULL &&
        proc->contexts[proc->device].queues[stream_of(proc)].count < WORLD_QUEUE)
        proc->host_ns = now_ns;
    if (proc->state != HOST_SYNCS)
        return;
    for (unsigned i = 0; i < WORLD_DEVICES; i++)
        if (!gpu_drained(&proc->contexts[i]))
            return;
    add_step(proc, now_ns - proc->batch_ns);
    if (proc->pair >= 0)
        proc->world->pairs[proc->pair].used = false;
    proc->in_batch = 0;
    proc->state = HOST_RUNS;
    proc->host_ns = now_ns + proc->program.gap_ns;
}
