#include "share_world.h"

#include "sched/usage.h"
#include "guard/notify/bus.h"
#include "guard/sched/share_internal.h"
#include "region/liveness.h"
#include "unit.h"

#include <stdlib.h>

#define STACK_BYTES (256U << 10)
/* How long the calls take, and after which part of that they stop the work or let it go on. */
#define OFF_NS    (640 * US)
#define ENDING_NS (405 * US)
#define ON_NS     (385 * US)
#define STOPS     .73
#define GOES      .85
/* A probe reads counts; if the context is loaded it may stop it, for HELD_NS, and read them again.
 * Whose next kernel comes before they are read does not look idle. */
#define COUNTS_NS (200 * US)
#define STOP_NS   (600 * US)
#define HELD_NS   (330 * US)
#define GAP_NS    (200 * US)
#define AGAIN_NS                                                                                   \
    (10 *                                                                                          \
     US) /* after that, what was stopped is there again; and a kernel that ends within it, ends */

#define LATE_NS       (40 * US)
#define VERY_LATE_NS  (400 * US)
#define VERY_LATE_ONE 200
#define RESCUE_NS     MS

static struct guarded *all[WORLD_PROCS];
static unsigned count;

static struct context *context_of(struct guarded *guarded)
{
    return &guarded->proc->contexts[0];
}

static uint64_t lateness(struct guarded *guarded)
{
    bool very = world_random(&guarded->proc->random) % VERY_LATE_ONE == 0;

    return very ? VERY_LATE_NS : LATE_NS;
}

/* On the share's stack: others act, and the GPU works, for so long. */
static void pass(struct guarded *guarded, uint64_t ns)
{
    struct world *world = guarded->proc->world;

    guarded->next_ns = world->now_ns + world->extra_ns + ns;
    swapcontext(&guarded->own, &guarded->world);
}

static void switched(struct guarded *guarded, enum share_switch to)
{
    uint64_t now_ns = guarded->proc->world->now_ns;
    struct context *context = context_of(guarded);
    bool was_on = !context->off && !context->ending;

    if (to == SHARE_ENDING && was_on)
        gpu_end(guarded->proc);
    else if (to != SHARE_ENDING)
        context->off = to == SHARE_OFF;
    context->ending = context->ending && to == SHARE_ENDING;
    if (was_on == (to == SHARE_ON))
        return;
    if (was_on) {
        guarded->offs++;
        guarded->off_since_ns = now_ns;
    } else if (now_ns - guarded->off_since_ns > guarded->longest_off_ns) {
        guarded->longest_off_ns = now_ns - guarded->off_since_ns;
    }
}

static void is_set(struct guarded *guarded, enum share_switch to)
{
    guarded->went[guarded->state][to]++;
    guarded->state = to;
    guarded->set_ns = guarded->proc->world->now_ns;
}

static int set(void *arg, enum share_switch to)
{
    static const uint64_t costs[] = {
        [SHARE_OFF] = OFF_NS, [SHARE_ENDING] = ENDING_NS, [SHARE_ON] = ON_NS};
    struct guarded *guarded = arg;
    uint64_t effect_ns = (uint64_t)((double)costs[to] * (to == SHARE_ON ? GOES : STOPS));
    uint64_t ended_ns = guarded->proc->world->now_ns - guarded->set_ns;

    if (guarded->state == SHARE_ENDING && to == SHARE_OFF) {
        if (ended_ns < guarded->ended_least_ns || !guarded->ended_least_ns)
            guarded->ended_least_ns = ended_ns;
        if (ended_ns > guarded->ended_most_ns)
            guarded->ended_most_ns = ended_ns;
    }
    guarded->switching = true;
    pass(guarded, effect_ns);
    if (!guarded->set_rc)
        switched(guarded, to);
    pass(guarded, costs[to] - effect_ns);
    if (!guarded->set_rc)
        is_set(guarded, to);
    guarded->switching = false;
    return guarded->set_rc;
}

/* As guard/nvidia/probe.c: of a context that is loaded. */
static double stop_it(struct guarded *guarded)
{
    struct context *context = context_of(guarded);
    double runs = gpu_works(guarded->proc, AGAIN_NS) ? 1 : 0;

    guarded->stops++;
    if (runs == 0)
        pass(guarded, AGAIN_NS);
    gpu_hold(guarded->proc, HELD_NS);
    pass(guarded, GAP_NS);
    if (runs == 0 && !gpu_drained(context))
        runs = .5;
    pass(guarded, runs > 0 ? HELD_NS + AGAIN_NS - GAP_NS : 1);
    guarded->seen_loads = context->loads; /* if it is there again, that is counted */
    pass(guarded, STOP_NS - HELD_NS - AGAIN_NS);
    return runs;
}

static int probe(void *arg, bool stop, struct share_probe *ret_probe)
{
    struct guarded *guarded = arg;
    struct context *context = context_of(guarded);
    uint64_t begin_ns = guarded->proc->world->now_ns;

    *ret_probe = (struct share_probe){.worked = false};
    guarded->probes++;
    assert_true(!stop || guarded->state == SHARE_ON);
    pass(guarded, COUNTS_NS);
    ret_probe->worked = context->loads != guarded->seen_loads;
    guarded->seen_loads = context->loads;
    if (guarded->state == SHARE_ON && context->loaded && !guarded->look_rc) {
        if (stop)
            ret_probe->runs = stop_it(guarded);
        ret_probe->worked = ret_probe->worked || !stop || ret_probe->runs > 0;
    }
    guarded->looking_ns += guarded->proc->world->now_ns - begin_ns;
    return guarded->look_rc;
}

static struct arena_page *page_of(const struct guarded *guarded)
{
    return guarded->share->preempt.client.page;
}

static void serve(struct guarded *guarded)
{
    uint64_t ns;

    for (;;) {
        if (guarded->pause) {
            int pause = guarded->pause;

            guarded->pause = 0;
            guarded->pause_rc = share_pause(guarded->share, pause > 0);
        }
        ns = share_step(guarded->share);
        guarded->waiting = true;
        pass(guarded, ns + lateness(guarded));
        guarded->waiting = false;
    }
}

static void begin(unsigned index)
{
    serve(all[index]);
}

static void look_for_wake(struct guarded *guarded)
{
    struct share *share = guarded->share;
    uint64_t now_ns = guarded->proc->world->now_ns;

    if (guarded->waiting && guarded->next_ns > now_ns + LATE_NS &&
        (share->seen_open != page_of(guarded)->granted_turn ||
         share->seen_wake != page_of(guarded)->wake || share->seen_pokes != share->pokes))
        guarded->next_ns = now_ns + LATE_NS;
}

static struct guarded *guarded_of(const struct proc *proc)
{
    return proc->preempt;
}

static uint64_t next_ns(const struct proc *proc)
{
    struct guarded *guarded = guarded_of(proc);

    if (guarded->stopped)
        return NEVER;
    if (!guarded->dead)
        look_for_wake(guarded);
    return guarded->next_ns;
}

static void step(struct proc *proc)
{
    struct guarded *guarded = guarded_of(proc);
    struct world *world = proc->world;

    if (guarded->stopped || guarded->next_ns > world->now_ns)
        return;
    world->extra_ns = 0;
    if (guarded->dead) {
        switched(guarded, SHARE_ON);
        guarded->next_ns = NEVER;
    } else {
        swapcontext(&guarded->world, &guarded->own);
    }
    world->extra_ns = 0;
}

static struct share_limits limits_of(const struct limits *limits)
{
    return (struct share_limits){
        .compute = {.weight = limits->weight,
                    .priority = limits->priority,
                    .cap_policy = limits->cap_policy},
        .cap_percent = limits->cap_percent,
    };
}

struct guarded *guarded_add(struct world *world, const struct limits *limits,
                            const struct program *program, uint64_t start_ns)
{
    struct share_ops ops = {.set = set, .probe = probe};
    struct guarded *guarded = calloc(1, sizeof(*guarded));
    struct vgpu_limits region_limits = {.device_count = 0};
    struct share_limits share_limits = limits_of(limits);
    struct share_self self;
    bool created;

    assert_non_null(guarded);
    world->outside_next_ns = next_ns;
    world->preempt_step = step;
    *guarded = (struct guarded){
        .proc = world_add(world, 1000 + count, limits->weight, limits->priority, program, start_ns),
        .next_ns = world->now_ns + count * 7 * US,
        .state = SHARE_ON,
        .stack = malloc(STACK_BYTES),
    };
    assert_non_null(guarded->stack);
    snprintf(guarded->file, sizeof(guarded->file), "guarded-%u", count);
    snprintf(region_limits.name, sizeof(region_limits.name), "%s", guarded->file);
    unlink(scratch_path(guarded->file));
    assert_int_equal(region_create(scratch_path(guarded->file), NULL, &region_limits,
                                   &guarded->region, &created),
                     0);
    self = (struct share_self){.region = guarded->region,
                               .id = usage_instance_id(guarded->region),
                               .name = guarded->file,
                               .uuid = world->arenas[0]->layout->uuid};
    assert_int_equal(share_new(&self, &share_limits, &ops, guarded, &guarded->share), 0);
    assert_true(guarded->share->joined);
    /* Its seed is made from the time of day: the world decides alone. */
    guarded->share->random = guarded->proc->random;
    throttle_init(&guarded->share->throttle, guarded->proc->random, world->now_ns);
    guarded->proc->preempt = guarded;
    assert_int_equal(getcontext(&guarded->own), 0);
    guarded->own.uc_stack.ss_sp = guarded->stack;
    guarded->own.uc_stack.ss_size = STACK_BYTES;
    all[count] = guarded;
    makecontext(&guarded->own, (void (*)(void))begin, 1, count);
    count++;
    return guarded;
}

void guarded_stop(struct guarded *guarded, bool stop)
{
    guarded->stopped = stop;
}

void guarded_kill(struct guarded *guarded)
{
    guarded->dead = true;
    guarded->next_ns = guarded->proc->world->now_ns + RESCUE_NS;
    liveness_drop(guarded->share->arena->liveness, guarded->share->preempt.client.index + 1);
}

void guarded_pause(struct guarded *guarded, bool pause)
{
    guarded->pause = pause ? 1 : -1;
    share_poke(guarded->share);
}

void guarded_measure(struct world *world)
{
    world_measure(world);
    for (unsigned i = 0; i < count; i++) {
        all[i]->marked_ran = context_of(all[i])->ran_ns;
        all[i]->marked_offs = all[i]->offs;
        all[i]->marked_looking = all[i]->looking_ns;
        all[i]->marked_stops = all[i]->stops;
        memset(all[i]->went, 0, sizeof(all[i]->went));
        all[i]->ended_least_ns = all[i]->ended_most_ns = 0;
        all[i]->longest_off_ns = 0;
    }
}

static double part(const struct guarded *guarded, uint64_t ns)
{
    const struct world *world = guarded->proc->world;

    return (double)ns / (double)(world->now_ns - world->marked_ns);
}

double guarded_ran(const struct guarded *guarded)
{
    return part(guarded, guarded->proc->contexts[0].ran_ns - guarded->marked_ran);
}

uint64_t guarded_offs(const struct guarded *guarded)
{
    return guarded->offs - guarded->marked_offs;
}

double guarded_looking(const struct guarded *guarded)
{
    return part(guarded, guarded->looking_ns - guarded->marked_looking);
}

uint64_t guarded_stops(const struct guarded *guarded)
{
    return guarded->stops - guarded->marked_stops;
}

struct vgpu_compute_usage guarded_usage(const struct guarded *guarded)
{
    struct vgpu_snapshot snapshot;
    struct vgpu_compute_usage usage;

    assert_int_equal(region_snapshot(guarded->region, &snapshot), 0);
    usage = snapshot.vdev[0].compute;
    snapshot_done(&snapshot);
    return usage;
}

void guarded_free(struct world *world)
{
    for (unsigned i = 0; i < count; i++) {
        struct guarded *guarded = all[i];

        /* Its stack is in the middle of something. */
        arena_release(guarded->share->arena, guarded->share->preempt.client.index);
        bus_forget(guarded->share->arena->layout);
        arena_close(guarded->share->arena);
        free(guarded->share);
        region_close(guarded->region);
        unlink(scratch_path(guarded->file));
        free(guarded->stack);
        free(guarded);
    }
    count = 0;
    world_free(world);
}
