/* What channels.c and probe.c share; nobody else includes this. */
#ifndef VGPU_GUARD_CHANNELS_INTERNAL_H
#define VGPU_GUARD_CHANNELS_INTERNAL_H

#include "base/mutex.h"
#include "guard/nvidia/abi.h"
#include "guard/nvidia/channels.h"
#include "region/region.h"

#include <stdatomic.h>

#define SETS_MAX 512

/* What is to be scheduled when it is switched on, and how. */
struct postponed {
    bool waits;
    struct rm_schedule how;
};

struct channel {
    uint32_t handle, group; /* group: its own handle, if it has none */
    bool off;               /* it may be */
    struct postponed postponed;
};

/* What looks know of a group. */
struct group {
    uint32_t handle;
    bool silent;  /* it is not for kernels */
    bool seen;    /* the next are those of the last look */
    bool doubted; /* somebody has set them back */
    struct postponed postponed;
    struct rm_ctxsw_stats counts;
};

/* What one call of the driver switches: channels of a client on a card. */
struct set {
    _Atomic uint32_t used,
        off; /* off: it may be; set before it is, cleared after it is not. Also the keeper's */
    _Atomic uint32_t count;
    int fd; /* -1: the client's file is not seen; all are off */
    uint32_t client, vdev, subdevice, groups;
    bool ending; /* off, but what ran may go on */
    struct channel channel[RM_DISABLE_MAX];
    struct group group[RM_DISABLE_MAX];
};

struct channels {
    struct vgpu_mutex lock;
    uint32_t schedule_bytes; /* of the parameters, on this branch of the driver */
    unsigned high;           /* sets at and above were never used */
    enum share_state
        state[VGPU_DEVICES_MAX]; /* of each card: what those are to be like that come */
    struct set set[SETS_MAX];
};

/* probe.c: takes a set's work off the engine; what may not be scheduled stays off it. */
void probes_stop(const struct set *set);

#endif
