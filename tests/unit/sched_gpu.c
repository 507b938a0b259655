/* The GPUs of sched_world.h. */
#include "sched_world.h"

#include <stdlib.h>
#include <string.h>

#define OPEN_NS 3000ULL /* from a semaphore's opening to the start of what is behind it */

void gpu_push(struct context *context, unsigned index, const struct op *op)
{
    struct queue *queue = &context->queues[index];

    if (queue->count == queue->room) {
        size_t room = queue->room ? 2 * queue->room : 64;
        struct op *ops = malloc(room * sizeof(*ops));

        if (!ops)
            abort();
        for (size_t i = 0; i < queue->count; i++)
            ops[i] = queue->ops[(queue->head + i) % queue->room];
        free(queue->ops);
        queue->ops = ops;
        queue->room = room;
        queue->head = 0;
    }
    queue->ops[(queue->head + queue->count) % queue->room] = *op;
    queue->count++;
}

void gpu_drop(struct context *context)
{
    for (unsigned i = 0; i < WORLD_STREAMS; i++)
        context->queues[i].count = 0;
    context->running = -1;
}

bool gpu_drained(const struct context *context)
{
    for (unsigned i = 0; i < WORLD_STREAMS; i++)
        if (context->queues[i].count > 0)
            return false;
    return true;
}

static struct op *head(struct queue *queue)
{
    return queue->count > 0 ? &queue->ops[queue->head] : NULL;
}

static void pop(struct queue *queue)
{
    queue->head = (queue->head + 1) % queue->room;
    queue->count--;
}

/* Something that the hardware could work at, if only by spinning. */
static bool startable(const struct world *world, struct queue *queue)
{
    const struct op *op = head(queue);

    return op && op->kind != OP_GATE && queue->ready_ns <= world->now_ns;
}

static bool runnable(const struct world *world, struct context *context)
{
    for (unsigned i = 0; i < WORLD_STREAMS && !context->off; i++)
        if (startable(world, &context->queues[i]))
            return true;
    return false;
}

static bool spins(const struct world *world, const struct op *op)
{
    return op->left_ns == NEVER ||
           (op->pair >= 0 && !(world->pairs[op->pair].began[0] && world->pairs[op->pair].began[1]));
}

static void pass_gates(struct world *world, struct context *context)
{
    for (unsigned i = 0; i < WORLD_STREAMS; i++) {
        struct queue *queue = &context->queues[i];
        uint64_t *since_ns = &context->semaphore_since_ns[i];
        struct op *op;

        while ((op = head(queue)) && op->kind == OP_GATE) {
            if (!*since_ns)
                *since_ns = world->now_ns;
            if (world->now_ns - *since_ns > context->longest_wait)
                context->longest_wait = world->now_ns - *since_ns;
            if ((int32_t)(atomic_load(&context->client.page->granted_turn) - op->value) < 0)
                break;
            *since_ns = 0;
            queue->ready_ns = world->now_ns + OPEN_NS;
            pop(queue);
        }
    }
}

/* Nothing of it runs any more. */
static void leave(struct context *context)
{
    context->running = -1;
    context->off = context->off || context->ending;
    context->ending = false;
}

static void complete(struct context *context, struct queue *queue)
{
    struct op *op = head(queue);

    if (op->kind == OP_MARK) {
        atomic_store(&context->client.page->fence_completed[op->place], op->value);
    } else {
        context->completed++;
        context->done_ns += op->ns;
    }
    pop(queue);
    leave(context);
}

static void account(struct world *world, struct gpu *gpu, unsigned device)
{
    struct context *context;
    struct op *op;
    uint64_t passed_ns = world->now_ns - gpu->from_ns;

    if (gpu->switching || gpu->current < 0)
        return;
    gpu->from_ns = world->now_ns;
    context = &world->procs[gpu->current].contexts[device];
    if (context->running < 0)
        return;
    op = head(&context->queues[context->running]);
    gpu->busy_ns += passed_ns;
    context->ran_ns += passed_ns;
    op->left_ns -= passed_ns < op->left_ns ? passed_ns : op->left_ns;
    if (op->left_ns == 0)
        complete(context, &context->queues[context->running]);
}

static void load(struct world *world, struct context *context, unsigned device)
{
    if (context->loaded)
        return;
    for (unsigned i = 0; i < world->count; i++)
        world->procs[i].contexts[device].loaded = false;
    context->loaded = true;
    context->loads++;
}

/* Which of the process's kernels runs; those that spin are there beside it. */
static void choose(struct world *world, struct context *context, unsigned device)
{
    load(world, context, device);
    context->running = -1;
    for (unsigned i = 0; i < WORLD_STREAMS; i++) {
        struct queue *queue = &context->queues[i];
        struct op *op = head(queue);

        if (!startable(world, queue))
            continue;
        if (op->pair >= 0)
            world->pairs[op->pair].began[device] = true;
        if (!spins(world, op) && context->running < 0)
            context->running = (int)i;
    }
}

static int other_runnable(struct world *world, unsigned device, int current)
{
    for (unsigned i = 1; i <= world->count; i++) {
        int next = (int)(((unsigned)(current + (int)world->count) + i) % world->count);

        if (next != current && runnable(world, &world->procs[next].contexts[device]))
            return next;
    }
    return -1;
}

static void go_on(struct world *world, unsigned device)
{
    struct gpu *gpu = &world->gpus[device];
    struct context *context =
        gpu->current >= 0 ? &world->procs[gpu->current].contexts[device] : NULL;
    int other = other_runnable(world, device, gpu->current);
    bool runs = context && runnable(world, context);

    if (other < 0 && gpu->vdev_ns <= world->now_ns)
        gpu->vdev_ns +=
            (world->now_ns - gpu->vdev_ns) / world->vdev_ns * world->vdev_ns + world->vdev_ns;
    if (runs && (other < 0 || world->now_ns < gpu->vdev_ns)) {
        if (context->running < 0)
            choose(world, context, device);
        return;
    }
    if (context)
        leave(context);
    if (other < 0)
        return;
    if (context)
        context->loaded = false;
    gpu->switching = gpu->current >= 0;
    gpu->switches += gpu->switching;
    gpu->current = other;
    gpu->switched_ns = world->now_ns + world->switch_ns;
    if (!gpu->switching) {
        gpu->vdev_ns = world->now_ns + world->vdev_ns;
        gpu->from_ns = world->now_ns;
        choose(world, &world->procs[other].contexts[device], device);
    }
}

bool gpu_works(struct proc *proc, uint64_t ns)
{
    struct context *context = &proc->contexts[0];
    struct op *op;

    if (!context->loaded || context->running < 0)
        return false;
    op = head(&context->queues[context->running]);
    return op->left_ns >= ns;
}

void gpu_hold(struct proc *proc, uint64_t ns)
{
    struct context *context = &proc->contexts[0];

    context->loaded = false;
    leave(context);
    for (unsigned i = 0; i < WORLD_STREAMS; i++)
        context->queues[i].ready_ns = proc->world->now_ns + ns;
}

void gpu_end(struct proc *proc)
{
    struct context *context = &proc->contexts[0];

    context->ending = context->running >= 0;
    context->off = !context->ending;
}

void gpu_run(struct world *world, unsigned device)
{
    struct gpu *gpu = &world->gpus[device];

    account(world, gpu, device);
    for (unsigned i = 0; i < world->count; i++)
        pass_gates(world, &world->procs[i].contexts[device]);
    if (gpu->switching) {
        if (world->now_ns < gpu->switched_ns)
            return;
        gpu->switching = false;
        gpu->vdev_ns = world->now_ns + world->vdev_ns;
        gpu->from_ns = world->now_ns;
    }
    go_on(world, device);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t gpu_next_ns(struct world *world, unsigned device)
{
    const struct gpu *gpu = &world->gpus[device];
    uint64_t next_ns = NEVER;

    if (gpu->switching)
        next_ns = gpu->switched_ns;
    else if (gpu->current >= 0) {
        struct context *context = &world->procs[gpu->current].contexts[device];

        if (context->running >= 0)
            next_ns = gpu->from_ns + head(&context->queues[context->running])->left_ns;
        if (other_runnable(world, device, gpu->current) >= 0)
            next_ns = least(next_ns, gpu->vdev_ns);
    }
    for (unsigned i = 0; i < world->count; i++)
        for (unsigned k = 0; k < WORLD_STREAMS; k++) {
            struct queue *queue = &world->procs[i].contexts[device].queues[k];

            if (queue->count > 0 && queue->ready_ns > world->now_ns)
                next_ns = least(next_ns, queue->ready_ns);
        }
    return next_ns > world->now_ns ? next_ns : world->now_ns;
}
