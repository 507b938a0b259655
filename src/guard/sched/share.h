/*
 * The share of a device that one instance gets from outside: all of its channels there are switched
 * off and on to hold its cap, and to take turns with other instances (the guard's as well as the
 * preload tier's) through the device's arena. Knows neither channels nor the driver: `set` and
 * `look` are the caller's.
 *
 * What limits it is the caller's to say, and kept here. The instance's region, which its programs
 * can write to, is only told what happens, for people: GPU time as far as it can be told from
 * outside (on-time in which it was busy, as work VGPU_WORK_KERNEL), throttles, turns and time
 * waited for them.
 *
 * One thread a share does
 *
 *     while (!ending)
 *         share_wait(share, share_step(share));
 *
 * Every function may be called from any thread. Nothing waits but share_wait(), and whatever the
 * operations do.
 */
#ifndef VGPU_GUARD_SHARE_H
#define VGPU_GUARD_SHARE_H

#include "region/region.h"

#include <stdbool.h>
#include <stdint.h>

/* ENDING: off, but what runs may go on for some milliseconds, if there is nobody else to run. */
enum share_state { SHARE_ON, SHARE_ENDING, SHARE_OFF };

struct share_probe {
    double runs; /* which part of the device's engine it has at this moment, 0 to 1 */
    bool worked; /* it runs, or has run since the last probe */
};

/*
 * Called by share_new(), share_step(), share_pause() and share_free(), one at a time, with a lock
 * held that those take: they must call none of them back, and no lock that is held around one of
 * them may be taken here. The others are safe.
 */
struct share_ops {
    /*
     * Switches all channels of the instance on this device; those that come later are to be like
     * them. Takes about 0.6 ms off and 0.4 ms on or ending. -errno: they may be either way; it is
     * tried again later.
     */
    int (*set)(void *arg, enum share_state to);

    /*
     * What of its work is to be seen. With `stop` it may be interrupted to see it, for a third of a
     * millisecond, and is only asked for while it is on; without, it may be said to have worked
     * because it has the device, and `runs` means nothing then. -errno: cannot be told, and it is
     * taken for busy: all on-time counts. Takes 0.2 to 0.8 ms; called for less than 10 percent of
     * the time, or 30 while it has a contended device and was idle lately.
     */
    int (*probe)(void *arg, bool stop, struct share_probe *ret_probe);
};

struct share_limits {
    struct vgpu_compute compute; /* copy_bytes_s means nothing here */
    uint32_t cap_percent;        /* as in struct vgpu_limit */
};

/* Whose share of what. */
struct share_self {
    struct vgpu_region *region; /* told of what happens on `vdev`; stays valid until share_free() */
    unsigned vdev;
    uint64_t id; /* the instance among others: usage_instance_id(), from before its programs ran */
    const char *name; /* of the instance; copied, as is `uuid` */
    const char *uuid; /* of the device */
};

struct share;

/*
 * Joins the turns on the device; `ops` are copied. The channels are on. Where no arena is to be had
 * there are no turns, which is logged. -ENOMEM; -EINVAL.
 */
int share_new(const struct share_self *self, const struct share_limits *limits,
              const struct share_ops *ops, void *arg, struct share **ret_share);

/* Other limits, which are brought into range: from the next step on, within 50 ms. */
void share_limit(struct share *share, const struct share_limits *limits);

/* The channels are on afterwards (it is tried some times), and the turn is somebody else's. NULL is
 * fine. */
void share_free(struct share *share);

/* Does what is due. Returns after how long it wants to be called again, in ns. */
uint64_t share_step(struct share *share);

/* Waits for so long, or until something happens that a step should look at. */
void share_wait(struct share *share, uint64_t ns);

/* Ends a share_wait() that is under way, or the next one. */
void share_poke(struct share *share);

/*
 * true: switches off at once, and nothing but false switches on again: not turns, not caps. It
 * gives its turn up. false: on at once where nobody else has the device, else when its turn comes.
 * -errno of `set`, which is tried again by steps.
 */
int share_pause(struct share *share, bool pause);

/* How often the channels were switched. */
uint64_t share_switches(const struct share *share);

#endif
