/*
 * The share of a device that one instance gets from outside: all of its channels there are switched off and on to hold
 * its cap, and to take turns with other instances (the guard's as well as the preload tier's) through the device's
 * arena. Knows neither channels nor the driver: `set` and `busy` are the caller's.
 *
 * What limits it is read from the instance's region, every now and then: the cap of the slice, the policy of caps,
 * weight, priority, the policy of turns. What happens is counted there: GPU time as far as it can be told from outside
 * (on-time in which it was busy, as work VGPU_WORK_KERNEL), throttles, turns and time waited for them.
 *
 * One thread a share does
 *
 *     while (!ending)
 *         share_wait(share, share_step(share));
 *
 * Every function may be called from any thread. Nothing waits but share_wait(), and whatever the operations do.
 */
#ifndef VGPU_GUARD_SHARE_H
#define VGPU_GUARD_SHARE_H

#include "region/region.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Called by share_new(), share_step(), share_pause() and share_free(), one at a time, with a lock held that those take:
 * they must call none of them back, and no lock that is held around one of them may be taken here. The others are safe.
 */
struct share_ops {
    /*
     * Switches all channels of the instance on this device; those of now, and again those that are as wanted already.
     * Takes about 0.6 ms off and 0.35 ms on. -errno: they may be either way; it is tried again later.
     */
    int (*set)(void *arg, bool on);

    /*
     * 1: work of it runs or waits to run, also while it is off; 0: there is none; -errno: cannot be told, and it is
     * taken for busy: all on-time counts. Takes 0.1 to 0.3 ms; called for less than 5 percent of the time, or 13 while
     * it has a contended device or is close to its cap.
     */
    int (*busy)(void *arg);
};

struct share;

/*
 * Joins the turns on the device `uuid`, which is `slice` of the region's; region and ops stay valid until share_free().
 * The channels are on. Where no arena is to be had there are no turns, which is logged. -ENOMEM; -EINVAL.
 */
int share_new(struct vgpu_region *region, unsigned slice, const char *uuid, const struct share_ops *ops, void *arg,
              struct share **ret_share);

/* The channels are on afterwards (it is tried some times), and the turn is somebody else's. NULL is fine. */
void share_free(struct share *share);

/* Does what is due. Returns after how long it wants to be called again, in ns. */
uint64_t share_step(struct share *share);

/* Waits for so long, or until something happens that a step should look at. */
void share_wait(struct share *share, uint64_t ns);

/* Ends a share_wait() that is under way, or the next one. */
void share_poke(struct share *share);

/*
 * true: switches off at once, and nothing but false switches on again: not turns, not caps. It gives its turn up.
 * false: on at once where nobody else has the device, else when its turn comes. -errno of `set`, which is tried again
 * by steps.
 */
int share_pause(struct share *share, bool pause);

/* Whether channels that are made now must be off. False, too, while a switch to on is under way. */
bool share_is_off(const struct share *share);

/*
 * There are channels that there were not. The next step, which comes at once, switches all of them to how they are to
 * be, where some may not have been reached: if it is off, or was within the last 100 ms.
 */
void share_changed(struct share *share);

/* How often the channels were switched. */
uint64_t share_switches(const struct share *share);

#endif
