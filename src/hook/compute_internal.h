/*
 * What compute.c (devices, launches) and cap.c (waiting for the cap) share.
 */
#ifndef VGPU_HOOK_COMPUTE_INTERNAL_H
#define VGPU_HOOK_COMPUTE_INTERNAL_H

#include "sched/cost.h"
#include "sched/usage.h"
#include "hook/compute.h"
#include "hook/semaphore.h"
#include "sched/sched_params.h"

/*
 * The last launch of unknown cost that this process holds the bucket for. Written by whoever
 * launched it and whoever harvests it; each word is a hint, and a mixture of two costs a sleep that
 * is too long or too short.
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

/* Of the run inside the instance that this process belongs to, which has limits of its own; 0: of
 * none. */
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

/* Sleeps, for at most COMPUTE_NAP_MOST_NS. No cancellation point. */
void compute_nap(uint64_t ns);

/* Reads samples that are done (cap.c): now, or if that is a while ago. */
void compute_harvest_now(void);
void compute_harvest(uint64_t now_ns);

/* What limits work on a device now, each in percent; 0: it does not. */
struct caps {
    uint32_t percent[BUCKETS];
};

/* Whether a cap limits the device, and how high they are. */
bool cap_applies(const struct compute_device *device, uint32_t flags, struct caps *ret_caps);

/*
 * Launches whose charges are put right by their samples: on average others are right without. Of
 * long ones each is measured, which is nothing beside what they take: the next may take another
 * time, by an argument that nobody sees.
 */
bool cap_unsure(const struct work *work);

/* 0: the buckets let the launch through, and it is charged. Else how long until then. */
uint64_t cap_charge(struct work *work, const struct caps *caps, uint64_t now_ns);

/* How long to sleep before the next cap_charge(): a launch that cap_charge() says to wait wait_ns
 * for has waited waited_ns so far. */
uint64_t cap_sleep_ns(const struct compute_device *device, uint64_t wait_ns, uint64_t waited_ns,
                      uint64_t now_ns);

/* A launch that was charged will have no sample; was made, at launched_ns if that is known, or
 * failed. */
void cap_unmeasured(struct work *work);
void cap_launched(struct work *work, bool succeeded, uint64_t launched_ns);

/* The sample of a launch is done, which cost delta_ns more than was charged. */
void cap_settle(struct compute_device *device, const struct bucket_hold hold[BUCKETS],
                uint64_t now_ns, int64_t delta_ns);

#endif
