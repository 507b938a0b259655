/*
 * Whether an instance's kernels run, seen from outside. Of a group's context the driver tells how
 * often it was put on the engine and taken off it again, and with which effort; and a group can be
 * stopped for a moment, after which it goes on. What follows from that (bench/gpu/guard_facts.py,
 * docs/measurements.md):
 *
 * - A context that is not on the engine does not run, and if it was not put there since the last
 * probe, it has not run.
 * - One that is there may be at work, or have been for a while and nobody else has come. It is
 * stopped: the engine has to interrupt a kernel for that (cilp, cta), or was idle (wfi), or has
 * become so within some 10 us.
 * - If it was idle and the context is there again at once, there are many short kernels: the end of
 * one was waited for, or the beginning of the next. That is half a kernel.
 *
 * The control by which a program sets the counts back is refused (decode.c); should they go back
 * all the same, the group is taken to work all the time. A program can have its kernels not
 * interrupted: then stopping takes long.
 */
#include "base/clock.h"
#include "guard/nvidia/channels_internal.h"
#include "guard/nvidia/rm.h"

#include <errno.h>

#define LONG_NS (2 * NS_PER_MS)

static int read_counts(const struct set *set, const struct group *group,
                       struct rm_ctxsw_stats *ret_counts)
{
    *ret_counts = (struct rm_ctxsw_stats){.object = group->handle};
    return rm_control(set->fd, set->client, set->subdevice, RM_CTRL_GR_GET_CTXSW_STATS, ret_counts,
                      sizeof(*ret_counts));
}

static bool went_back(const struct rm_ctxsw_stats *before, const struct rm_ctxsw_stats *after)
{
    return after->restore < before->restore || after->save < before->save;
}

static bool is_loaded(const struct rm_ctxsw_stats *counts)
{
    return counts->restore != counts->save;
}

static uint32_t interrupted(const struct rm_ctxsw_stats *counts)
{
    return counts->cta + counts->cilp + counts->gfxp;
}

/* The part of the engine that a group has which was stopped between the two, in so long. */
static double part(const struct rm_ctxsw_stats *before, const struct rm_ctxsw_stats *after,
                   uint64_t ns)
{
    if (went_back(before, after) || interrupted(after) != interrupted(before) || ns >= LONG_NS)
        return 1;
    return after->restore != before->restore ? .5 : 0;
}

static int preempt(const struct set *set, const struct group *group)
{
    struct rm_preempt params = {.wait = 1};

    return rm_control(set->fd, set->client, group->handle, RM_CTRL_GROUP_PREEMPT, &params,
                      sizeof(params));
}

static void stop(const struct set *set, struct group *group, struct share_probe *probe)
{
    struct rm_ctxsw_stats after;
    uint64_t begin_ns = clock_ns(), ns;
    double runs;
    int rc = preempt(set, group);

    ns = clock_ns() - begin_ns;
    if (rc != RM_OK || read_counts(set, group, &after) != RM_OK) {
        probe->runs = 1; /* whatever it is, it is there */
        probe->worked = true;
        return;
    }
    runs = part(&group->counts, &after, ns);
    group->doubted = group->doubted || went_back(&group->counts, &after);
    group->counts = after;
    probe->worked = probe->worked || runs > 0;
    probe->runs = runs > probe->runs ? runs : probe->runs;
}

/* -ENOTSUP: the driver does not say. */
static int look_at(const struct set *set, struct group *group, bool may_stop,
                   struct share_probe *probe)
{
    struct rm_ctxsw_stats now;
    int rc = read_counts(set, group, &now);

    if (rc == RM_ERR_OBJECT_NOT_FOUND) /* it is gone */
        return 0;
    group->silent = rc == RM_ERR_INSUFFICIENT_RESOURCES;
    if (rc != RM_OK)
        return group->silent ? 0 : -ENOTSUP;
    if (group->seen && went_back(&group->counts, &now))
        group->doubted = true;
    if (group->seen ? now.restore != group->counts.restore : now.restore != 0)
        probe->worked = true;
    group->counts = now;
    group->seen = true;
    if (group->doubted)
        *probe = (struct share_probe){.runs = 1, .worked = true};
    else if (!set->off && is_loaded(&now) && may_stop)
        stop(set, group, probe);
    else if (!set->off && is_loaded(&now))
        probe->worked = true; /* for all that one knows */
    return 0;
}

void probes_stop(const struct set *set)
{
    for (unsigned i = 0; i < set->groups; i++) {
        const struct group *group = &set->group[i];
        struct rm_ctxsw_stats now;

        if (!group->silent &&
            (group->doubted || read_counts(set, group, &now) != RM_OK || is_loaded(&now)))
            preempt(set, group);
    }
}

int channels_probe(struct channels *channels, unsigned vdev, bool may_stop,
                   struct share_probe *ret_probe)
{
    int rc = 0;

    *ret_probe = (struct share_probe){.worked = false};
    MUTEX_SCOPE(&channels->lock);
    for (unsigned i = 0; i < channels->high; i++) {
        struct set *set = &channels->set[i];

        if (!set->used || set->fd < 0 || set->vdev != vdev)
            continue;
        for (unsigned k = 0; k < set->groups && rc == 0; k++) {
            if (!set->group[k].silent)
                rc = look_at(set, &set->group[k], may_stop, ret_probe);
        }
    }
    return rc;
}
