/* What compute.c (devices, launches) and cap.c (the cap, samples) share. */
#ifndef VGPU_HOOK_WORK_COMPUTE_INTERNAL_H
#define VGPU_HOOK_WORK_COMPUTE_INTERNAL_H

#include "sched/cost.h"
#include "sched/usage.h"
#include "hook/work/compute.h"
#include "hook/work/semaphore.h"
#include "sched/sched_params.h"

/*
 * The last launch of unknown cost that this process holds the bucket for. The threads that launch
 * and harvest it write these words. Each is a hint: a mixture of two costs a sleep that is too long
 * or too short.
 */
struct cap_hold {
    _Atomic uint64_t since_ns;
    _Atomic uint64_t wait_ns; /* what the hold adds to the waits of others, at the cap of then; 0:
                                 none is under way */
    atomic_uint stuck;        /* holds in a row that were paid before their launch was done */
};

struct compute_device {
    atomic_bool ready;
    CUdevice device;
    unsigned vdev;
    struct semaphore semaphore;
    _Atomic uint64_t refreshed_ns; /* settings, counts of turns */
    _Atomic uint32_t cap_policy;
    struct cap_hold hold;
};

extern struct compute_device compute_devices[VGPU_DEVICES_MAX]; /* by vdev */

/* Of a sample; the bits below are SAMPLE_DOUBTFUL and SAMPLE_VAGUE. */
#define FLAG_VDEV_SHIFT   2
#define FLAG_CORRECTS     64u
#define FLAG_KIND_SHIFT   8
#define FLAG_WEIGHT_SHIFT 16

static inline bool compute_joined(const struct compute_device *device)
{
    return atomic_load_explicit(&device->semaphore.joined, memory_order_acquire);
}

/* The group of this process, which has limits of its own; 0: none. */
static inline unsigned compute_group(void)
{
    return ledger_group(hook_ledger());
}

/* The cap of a vdev as it is now, of the instance or the group; 0: none. */
static inline uint32_t compute_cap(unsigned group, unsigned vdev)
{
    return atomic_load_explicit(usage_cap(hook_region(), group, vdev), memory_order_relaxed);
}

static inline uint32_t compute_flags(const struct compute_device *device)
{
    return compute_joined(device) ? sched_client_flags(&device->semaphore.client) : 0;
}

static inline uint64_t compute_guess(const struct work *work)
{
    return work->guess_ns ? work->guess_ns : COMPUTE_UNKNOWN_NS;
}

static inline uint64_t compute_estimate(const struct work *work)
{
    return cost_estimate(work->cell, compute_guess(work));
}

/* Sleeps for at most COMPUTE_NAP_MOST_NS. No cancellation point. */
void compute_nap(uint64_t ns);

/* Reads samples that are done: now, or if the last time is a while ago. */
void compute_harvest_now(void);
void compute_harvest(uint64_t now_ns);

/* What limits work on a device now, each in percent; 0: nothing. */
struct caps {
    uint32_t percent[BUCKETS];
};

/* Whether a cap limits the device, and how low. */
bool cap_applies(const struct compute_device *device, uint32_t flags, struct caps *ret_caps);

/*
 * Whether a launch's sample corrects its charge; on average the others are right without. Every
 * long launch is measured, which costs little beside it: the next one may take another time, by an
 * argument that nobody sees.
 */
bool cap_unsure(const struct work *work);

/* 0: the buckets let the launch through, and it is charged. Otherwise how long to wait. */
uint64_t cap_charge(struct work *work, const struct caps *caps, uint64_t now_ns);

/* How long to sleep before the next cap_charge(), after a launch has waited waited_ns and
 * cap_charge() wants wait_ns more. */
uint64_t cap_sleep_ns(const struct compute_device *device, uint64_t wait_ns, uint64_t waited_ns,
                      uint64_t now_ns);

/* A launch that was charged will have no sample; or it was made (at launched_ns, if that is known),
 * or failed. */
void cap_unmeasured(struct work *work);
void cap_launched(struct work *work, bool succeeded, uint64_t launched_ns);

#endif
