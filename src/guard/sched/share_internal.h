/* What the files of the share share. */
#ifndef VGPU_GUARD_SHARE_INTERNAL_H
#define VGPU_GUARD_SHARE_INTERNAL_H

#include "base/mutex.h"
#include "sched/throttle.h"
#include "sched/sched_preempt.h"
#include "guard/sched/share.h"

#include <stdatomic.h>

struct share {
    struct vgpu_mutex mutex; /* of all that is not atomic, except what share_wait() reads */
    struct vgpu_region *region;
    unsigned vdev;
    char uuid[VGPU_UUID_LEN];
    struct share_limits limits;
    struct share_ops ops;
    void *arg;

    struct vgpu_arena *arena;
    atomic_bool arena_lost; /* it was cut short (bus.h): no other tenant is there any more */
    bool joined;
    struct preempt preempt;
    struct throttle throttle;

    bool on, paused, failed;
    uint64_t ending_ns; /* since when it is SHARE_ENDING; 0: it is not */
    uint64_t switched_ns;
    uint64_t retry_ns; /* no switch before then, as one has failed */
    _Atomic uint64_t switches;

    /* Probes, see share_probe.c. */
    bool idle;         /* what several of them say */
    bool last_worked;  /* what the last one said */
    bool fresh;        /* there was none since it was switched on */
    uint64_t still_ns; /* since when it has not worked; only if it has not */
    uint64_t probed_ns, idle_ns, cost_ns;
    uint64_t idled_ns; /* when it was idle last */
    unsigned lone_probes;
    unsigned part; /* of the usual time until the next, in 1/1024 */
    uint64_t random;

    uint64_t refreshed_ns, told_ns;
    uint64_t throttled_ns; /* since when its cap keeps it off; 0: it does not */
    uint32_t turn_policy;  /* the last one that was set for the device */

    /* The words that a wait is for, as they were when the last step began; two are of the page, if
     * there is one. Of the thread that steps and waits. */
    struct arena_page *seen_page;
    uint32_t seen_open, seen_wake, seen_pokes;
    _Atomic uint32_t pokes;
};

/* share_probe.c: whether there is work. init: nothing is known. step: probes, if it is time. */
void share_probes_init(struct share *share, uint64_t now_ns);
void share_probes_step(struct share *share);
void share_probes_switched(struct share *share, uint64_t now_ns);
uint64_t share_probes_in_ns(const struct share *share, uint64_t now_ns);

#endif
