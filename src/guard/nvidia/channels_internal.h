/* What channels.c and probe.c share. */
#ifndef VGPU_GUARD_CHANNELS_INTERNAL_H
#define VGPU_GUARD_CHANNELS_INTERNAL_H

#include "base/mutex.h"
#include "guard/nvidia/abi.h"
#include "guard/nvidia/channels.h"
#include "region/region.h"

#include <stdatomic.h>

#define SETS_MAX 512

/* A call that is made once the channel is switched on. */
struct postponed {
    bool waits;
    struct rm_schedule how;
};

struct channel {
    uint32_t handle, group; /* group: its own handle, if it has none */
    bool off;               /* it may be off */
    struct postponed postponed;
};

/* What probes know of a group. */
struct group {
    uint32_t handle;
    bool silent;  /* it is not for kernels */
    bool seen;    /* the last probe has read `counts` */
    bool doubted; /* the counts have gone back: it is taken to work all the time */
    struct postponed postponed;
    struct rm_ctxsw_stats counts;
};

/* What one call of the driver switches: channels of a client on a device. */
struct channel_set {
    _Atomic uint32_t used, off; /* off: they may be; set before they are, and cleared after they are
                                   not. The keeper reads both */
    _Atomic uint32_t count;
    int fd; /* -1: no process is seen to have the client's file; all are off */
    uint32_t client, vdev, subdevice, groups;
    bool ending; /* off, but kernels may run on */
    struct channel channel[RM_DISABLE_MAX];
    struct group group[RM_DISABLE_MAX];
};

struct channels {
    struct vgpu_mutex lock;
    uint32_t schedule_bytes;                   /* of the parameters on this branch of the driver */
    unsigned high;                             /* entries from here on were never used */
    enum share_switch state[VGPU_DEVICES_MAX]; /* of each vdev: what new channels have to be */
    struct channel_set set[SETS_MAX];
};

/* probe.c: takes a set's work off the engine. It stays off if it may not be scheduled. */
void probes_stop(const struct channel_set *set);

#endif
