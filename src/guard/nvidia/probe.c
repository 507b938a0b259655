/*
 * Whether an instance's kernels run, seen from outside. The driver tells how often a group's
 * context was put on the engine and taken off it, and how; and a group can be stopped for a moment,
 * after which it goes on. From that follows (bench/gpu/guard_facts.py, docs/measurements.md):
 *
 * - A context that is not on the engine does not run. If it was not put there since the last probe,
 *   it has not run.
 * - A context on the engine may work, or may have ended its work while no other context came. So it
 *   is stopped: the engine has to interrupt a kernel for that (cilp, cta), or was idle (wfi), or
 *   became idle within some 10 us.
 * - If it was idle and the context is back at once, there are many short kernels: the engine waited
 *   for the end of one or the beginning of the next. That counts as half.
 *
 * The control by which a program could set the counts back is refused (decode_data.c). If they go
 * back all the same, the group is taken to work all the time. A program can keep its kernels from
 * being interrupted: then stopping takes long.
 */
#include "base/clock.h"
#include "guard/nvidia/channels_internal.h"
#include "guard/nvidia/rm.h"

#include <errno.h>

#define LONG_NS (2 * NS_PER_MS)

static int read_counts(const struct channel_set *set, const struct group *group,
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

/* The part of the engine that a group has: it was stopped between the two counts, which took so
 * long. */
static double part(const struct rm_ctxsw_stats *before, const struct rm_ctxsw_stats *after,
                   uint64_t ns)
{
    if (went_back(before, after) || interrupted(after) != interrupted(before) || ns >= LONG_NS)
        return 1;
    return after->restore != before->restore ? .5 : 0;
}

static int preempt(const struct channel_set *set, const struct group *group)
{
    struct rm_preempt params = {.wait = 1};

    return rm_control(set->fd, set->client, group->handle, RM_CTRL_GROUP_PREEMPT, &params,
                      sizeof(params));
}

static void stop(const struct channel_set *set, struct group *group, struct share_probe *probe)
{
    struct rm_ctxsw_stats after;
    uint64_t begin_ns = clock_ns(), ns;
    double runs;
    int rc = preempt(set, group);

    ns = clock_ns() - begin_ns;
    if (rc != RM_OK || read_counts(set, group, &after) != RM_OK) {
        probe->runs = 1; /* it is on the engine, and nothing more is known */
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
static int probe_group(const struct channel_set *set, struct group *group, bool may_stop,
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
        probe->worked = true; /* it may: only stopping would tell */
    return 0;
}

void probes_stop(const struct channel_set *set)
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
        struct channel_set *set = &channels->set[i];

        if (!set->used || set->fd < 0 || set->vdev != vdev)
            continue;
        for (unsigned k = 0; k < set->groups && rc == 0; k++) {
            if (!set->group[k].silent)
                rc = probe_group(set, &set->group[k], may_stop, ret_probe);
        }
    }
    return rc;
}
