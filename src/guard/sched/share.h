/*
 * The share of a device that one instance gets from outside. All its channels there are switched
 * off and on, to keep its cap and to take turns with other instances through the device's arena;
 * those may be of either tier. It knows neither channels nor the driver: `set` and `probe` are the
 * caller's.
 *
 * The caller gives the limits, which are kept here. The instance's programs can write to its
 * region, so that is only told what happens, for display: GPU time as far as it can be told from
 * outside (on-time in which it worked, as VGPU_WORK_KERNEL), throttles, turns, and time waited for
 * them.
 *
 * One thread for each share calls share_wait(share, share_step(share)) in a loop.
 *
 * Thread-safe. Only share_wait() and the operations wait.
 */
#ifndef VGPU_GUARD_SHARE_H
#define VGPU_GUARD_SHARE_H

#include "region/region.h"

#include <stdbool.h>
#include <stdint.h>

/* ENDING: off, but kernels may run on for some milliseconds, if nobody else has work. */
enum share_switch { SHARE_ON, SHARE_ENDING, SHARE_OFF };

struct share_probe {
    double runs; /* the part of the device's engine that it has at this moment, 0 to 1 */
    bool worked; /* it has run since the last probe, or runs */
};

/*
 * Called by share_new(), share_step(), share_pause() and share_free(), one at a time, with a lock
 * held that those take. So an operation must not call them, nor take a lock that is held around one
 * of them. It may call the others.
 */
struct share_ops {
    /*
     * Switches all channels of the instance on this device; later ones are to be like them. Takes
     * about 0.6 ms off and 0.4 ms on or ending. -errno: they may be either way; it is tried again
     * later.
     */
    int (*set)(void *arg, enum share_switch to);

    /*
     * Whether the instance's work runs. With `stop` its work may be interrupted to see that, for a
     * third of a millisecond; that is asked only while it is on. Without, it may count as work that
     * it has the device, and `runs` means nothing. -errno: cannot be told; it is taken for busy,
     * and all on-time counts. Takes 0.2 to 0.8 ms. Called for less than 10 percent of the time, or
     * 30 while the instance has a contended device and was idle lately.
     */
    int (*probe)(void *arg, bool stop, struct share_probe *ret_probe);
};

struct share_limits {
    struct vgpu_compute compute; /* copy_bytes_s is not used */
    uint32_t cap_percent;        /* as in struct vgpu_limit */
};

/* The instance and the device. */
struct share_self {
    struct vgpu_region *region; /* told of what happens on `vdev`; valid until share_free() */
    unsigned vdev;
    uint64_t id;      /* usage_instance_id(), from before the programs ran */
    const char *name; /* of the instance; copied, as is `uuid` */
    const char *uuid; /* of the device */
};

struct share;

/*
 * Joins the turns on the device; `ops` are copied. The channels are on. Without an arena there are
 * no turns, which is logged. -ENOMEM; -EINVAL.
 */
int share_new(const struct share_self *self, const struct share_limits *limits,
              const struct share_ops *ops, void *arg, struct share **ret_share);

/* Switches the channels on (it tries some times), and gives the turn up. NULL is fine. */
void share_free(struct share *share);

/* Does what is due. Returns after how many ns it wants to be called again. */
uint64_t share_step(struct share *share);

/* Waits for so long, or until something happens that a step should see. */
void share_wait(struct share *share, uint64_t ns);

/* Ends a share_wait() that is under way, or the next one. */
void share_poke(struct share *share);

/*
 * true: switches off at once, and gives the turn up; only false switches on again, no turn and no
 * cap. false: on at once if nobody else has the device, else when its turn comes. -errno of `set`,
 * which the next steps try again.
 */
int share_pause(struct share *share, bool pause);

/* How often the channels were switched. */
uint64_t share_switches(const struct share *share);

#endif
