#include "guard/sched/share.h"

#include "base/clock.h"
#include "base/log.h"
#include "sched/usage.h"
#include "guard/notify/bus.h"
#include "guard/sched/share_internal.h"
#include "sched/sched_params.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void count_throttled(struct share *share, uint64_t now_ns)
{
    if (share->throttled_ns)
        usage_throttled(share->region, share->vdev, now_ns - share->throttled_ns);
    share->throttled_ns = 0;
}

static int switch_it(struct share *share, enum share_switch to)
{
    uint64_t begin_ns = clock_ns(), end_ns;
    bool on = to == SHARE_ON;
    int rc = share->ops.set(share->arg, to);

    end_ns = clock_ns();
    atomic_fetch_add(&share->switches, 1);
    share->retry_ns = rc < 0 ? end_ns + SHARE_RETRY_NS : 0;
    if (rc < 0) {
        if (!share->failed)
            log_warning("the channels of an instance on device %s cannot be switched %s: error %d",
                        share->uuid, on ? "on" : "off", -rc);
        share->failed = true;
        return rc;
    }
    share->on = on;
    share->ending_ns = to == SHARE_ENDING ? end_ns : 0;
    share->switched_ns = end_ns;
    throttle_switched(&share->throttle, on, begin_ns, end_ns);
    share_probes_switched(share, end_ns);
    return 0;
}

/* At the end of a turn. With a cap, kernels that run on would not be charged. */
static enum share_switch end_of_turn(const struct share *share)
{
    return share->throttle.cap > 0 ? SHARE_OFF : SHARE_ENDING;
}

/* Settings and counts */

static void set_turn_policy(struct share *share, uint32_t turn_policy)
{
    if (turn_policy == share->turn_policy)
        return;
    share->turn_policy = turn_policy;
    /* A setting of the device: the last one that was asked for holds. */
    if (turn_policy > 0)
        atomic_store(&share->arena->layout->policy, turn_policy - 1);
}

static void stay_away(struct share *share)
{
    if (atomic_load(&share->arena_lost))
        log_warning("guard: no turns on device %s any more: %s was cut short; caps hold",
                    share->uuid, share->arena->path);
    else
        log_info("no turns for the instance on device %s any more: its page of the arena is "
                 "another's now",
                 share->uuid);
    share->joined = false;
}

static void refresh_turns(struct share *share)
{
    const struct vgpu_compute *compute = &share->limits.compute;

    uint64_t turns, waited_ns;

    if (share->joined && (atomic_load(&share->arena_lost) ||
                          !arena_holds(share->arena, share->preempt.client.index)))
        stay_away(share);
    if (!share->joined)
        return;
    set_turn_policy(share, compute->turn_policy);
    sched_client_settings(&share->preempt.client, compute->weight, compute->priority);
    sched_client_take_counts(&share->preempt.client, &turns, &waited_ns);
    if (turns > 0)
        usage_turns(share->region, share->vdev, turns, waited_ns);
}

static void refresh(struct share *share, uint64_t now_ns)
{
    uint64_t used_ns = throttle_used_ns(&share->throttle);

    if (now_ns - share->refreshed_ns < SHARE_REFRESH_NS)
        return;
    share->refreshed_ns = now_ns;
    refresh_turns(share);
    if (used_ns != share->told_ns)
        usage_add(share->region, share->vdev, VGPU_WORK_KERNEL, 0,
                  (int64_t)(used_ns - share->told_ns), now_ns);
    share->told_ns = used_ns;
}

static unsigned cap_now(const struct share *share)
{
    uint32_t policy = share->limits.compute.cap_policy;
    bool contended = share->joined && share->preempt.contended;

    if (policy == VGPU_CAP_OFF || (policy == VGPU_CAP_ELASTIC && !contended))
        return 0;
    return share->limits.cap_percent;
}

/* Deciding */

/* Whether it must be off, whichever tenant has the turn. */
static bool is_held(struct share *share, uint64_t now_ns)
{
    bool rests;

    throttle_cap(&share->throttle, cap_now(share), now_ns);
    rests = throttle_step(&share->throttle, now_ns);
    if (!rests)
        count_throttled(share, now_ns);
    else if (!share->throttled_ns && !share->paused)
        share->throttled_ns = now_ns;
    return rests || share->paused;
}

/*
 * One decision, carried out. False: the next one has to be made at once. *ret_again_ns: when the
 * turn may be another tenant's.
 */
static bool decide(struct share *share, int *ret_rc, uint64_t *ret_again_ns)
{
    uint64_t now_ns = clock_ns();
    bool may_switch = now_ns >= share->retry_ns;
    /* A tenant that cannot be switched on does not want the device either. */
    bool held = is_held(share, now_ns) || (!share->on && !may_switch);
    enum preempt_demand demand = held ? PREEMPT_HELD : share->idle ? PREEMPT_IDLE : PREEMPT_BUSY;
    enum preempt_decision word = PREEMPT_RUNS;

    *ret_again_ns = UINT64_MAX;
    *ret_rc = 0;
    /* SHARE_ENDING ends after SHARE_ENDING_NS, whatever time slice the program has set. */
    if (may_switch && ((held && (share->on || share->ending_ns)) ||
                       (share->ending_ns && now_ns - share->ending_ns >= SHARE_ENDING_NS)))
        *ret_rc = switch_it(share, SHARE_OFF);
    if (share->joined)
        word = preempt_step(&share->preempt, demand, clock_ns(), ret_again_ns);
    if (word == PREEMPT_ENDS) {
        if (share->on && may_switch)
            *ret_rc = switch_it(share, end_of_turn(share));
        /* A tenant that cannot be switched off does not wait for turns, and lets others have
         * theirs. */
        preempt_leave(&share->preempt, !share->on, clock_ns());
        return share->on;
    }
    if (!held && share->on != (word == PREEMPT_RUNS) && may_switch)
        *ret_rc = switch_it(share, word == PREEMPT_RUNS ? SHARE_ON : end_of_turn(share));
    return *ret_rc == 0 || share->on;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t run(struct share *share, int *ret_rc)
{
    uint64_t again_ns = 0, now_ns;
    bool done = false;
    int rc;

    *ret_rc = 0;
    for (unsigned i = 0; i < SHARE_ROUNDS && !done; i++) {
        done = decide(share, &rc, &again_ns);
        if (rc < 0)
            *ret_rc = rc;
    }
    now_ns = clock_ns();
    refresh(share, now_ns);
    again_ns = least(least(again_ns, throttle_step_in_ns(&share->throttle)), SHARE_STEP_MOST_NS);
    again_ns = least(again_ns, share_probes_in_ns(share, now_ns));
    if (share->retry_ns > now_ns)
        again_ns = least(again_ns, share->retry_ns - now_ns);
    if (share->ending_ns)
        again_ns = least(again_ns, share->ending_ns + SHARE_ENDING_NS > now_ns
                                       ? share->ending_ns + SHARE_ENDING_NS - now_ns
                                       : 0);
    return done ? (again_ns > SHARE_STEP_LEAST_NS ? again_ns : SHARE_STEP_LEAST_NS)
                : SHARE_STEP_LEAST_NS;
}

uint64_t share_step(struct share *share)
{
    int rc;

    MUTEX_SCOPE(&share->mutex);
    share->seen_pokes = atomic_load(&share->pokes);
    share->seen_page = share->joined ? share->preempt.client.page : NULL;
    if (share->seen_page) {
        share->seen_open = atomic_load(&share->seen_page->granted_turn);
        share->seen_wake = atomic_load(&share->seen_page->wake);
    }
    share_probes_step(share);
    return run(share, &rc);
}

int share_pause(struct share *share, bool pause)
{
    int rc = 0;

    {
        MUTEX_SCOPE(&share->mutex);
        share->paused = pause;
        share->retry_ns = 0;
        /* Whether it has work is not known; an instance that is resumed probably has. */
        share->idle = share->idle && pause;
        if (pause)
            count_throttled(share, clock_ns());
        run(share, &rc);
    }
    share_poke(share);
    return rc;
}

uint64_t share_switches(const struct share *share)
{
    return atomic_load(&share->switches);
}

/* Coming and going */

static int join(struct share *share, const struct share_self *of)
{
    struct sched_identity self = {
        .id = of->id,
        .weight = share->limits.compute.weight,
        .priority = share->limits.compute.priority,
    };
    int rc = arena_open(share->uuid, true, &share->arena);

    snprintf(self.name, sizeof(self.name), "%s", of->name);
    if (rc == 0)
        rc = bus_watch(share->arena->layout, sizeof(*share->arena->layout), &share->arena_lost);
    if (rc == 0)
        rc = preempt_join(share->arena, &self, &share->preempt);
    share->joined = rc == 0;
    return rc;
}

int share_new(const struct share_self *self, const struct share_limits *limits,
              const struct share_ops *ops, void *arg, struct share **ret_share)
{
    uint64_t now_ns = clock_ns();
    struct share *share;
    char text[64];
    int rc;

    if (self->vdev >= VGPU_DEVICES_MAX || strlen(self->uuid) >= VGPU_UUID_LEN)
        return -EINVAL;
    share = calloc(1, sizeof(*share));
    if (!share)
        return -ENOMEM;
    share->region = self->region;
    share->vdev = self->vdev;
    share->limits.compute = vgpu_compute_within(&limits->compute);
    share->limits.cap_percent = limits->cap_percent < 100 ? limits->cap_percent : 0;
    share->ops = *ops;
    share->arg = arg;
    share->on = true;
    memcpy(share->uuid, self->uuid, strlen(self->uuid) + 1);
    share->random = self->id ^ now_ns;
    throttle_init(&share->throttle, share->random, now_ns);
    share_probes_init(share, now_ns);
    rc = join(share, self);
    if (rc < 0)
        log_info("no turns on device %s: %s; the instance shares it as the driver does",
                 share->uuid, arena_error_text(rc, text, sizeof(text)));
    share->refreshed_ns = now_ns - SHARE_REFRESH_NS;
    refresh(share, now_ns);
    *ret_share = share;
    return 0;
}

void share_free(struct share *share)
{
    if (!share)
        return;
    if (share->joined)
        preempt_part(&share->preempt, clock_ns());
    for (unsigned i = 0; i < SHARE_END_TRIES && !share->on; i++)
        switch_it(share, SHARE_ON);
    share->refreshed_ns = 0;
    share->joined = false;
    refresh(share, clock_ns());
    if (share->arena)
        bus_forget(share->arena->layout);
    arena_close(share->arena);
    free(share);
}
