/*
 * The layer of the guard that knows NVIDIA's driver: what a trapped call asks for, what it changes,
 * and which channels of an instance run. It stands on the processes and files of notify/, the
 * object model of track/ and the shares of sched/.
 */
#ifndef VGPU_GUARD_NVIDIA_H
#define VGPU_GUARD_NVIDIA_H

#include "base/clock.h"
#include "guard/notify/files.h"
#include "guard/notify/process.h"
#include "guard/nvidia/abi.h"
#include "guard/nvidia/branch.h"
#include "guard/nvidia/channels.h"
#include "guard/nvidia/decode.h"
#include "guard/sched/share.h"
#include "guard/track/clients.h"
#include "guard/track/objects.h"

#include <pthread.h>

#define RM_DEVICES_MAX 4096
/* For so long a look at the programs may fail; strict mode ends the instance then. */
#define BLIND_NS (5 * NS_PER_S)

struct nvidia;
struct trap;

/* A device of the instance; they are indexed by vdev. */
struct guarded_device {
    atomic_bool known; /* once it is set, the next two never change; read without the lock */
    char uuid_text[VGPU_UUID_LEN];
    uint64_t physical_bytes;
    struct nvidia *nvidia;
    _Atomic(struct share *) share; /* NULL: there is none: it was not asked for, or could not be
                                      made. Read without the lock */
    struct share *kept;            /* the same, for its thread; set before that starts */
    pthread_t thread;              /* there is one once there is `share` */
};

/* An object of class RM_CLASS_DEVICE. */
struct rm_device {
    uint32_t client, device; /* device 0: the entry is free */
    uint32_t subdevice; /* the guard's own, by which channels are switched; 0: by the program's */
    unsigned vdev;
};

/* map_proxy.c; client 0: there is none yet. */
struct map_proxy {
    int fd;
    uint32_t client;
    struct map_proxy_device {
        uint32_t device, subdevice; /* 0: none yet */
        bool missing;
    } device[VGPU_DEVICES_MAX]; /* by vdev */
};

struct nvidia {
    struct notify *notify;
    struct objects *objects;
    struct channels *channels;
    struct audit *audit; /* NULL: without */
    /* Set before the threads start. */
    const struct rm_branch *branch;
    struct rm_version version;
    struct vgpu_limits limits; /* as they were given: the region's are for display, and anybody of
                                  the same user can write them */
    uint64_t instance_id;
    int command;               /* the command's pidfd */
    bool strict, maps, shares; /* as in struct guard_config */
    bool audited;              /* memory is compared with NVML's figures */

    atomic_bool paused; /* written by the control thread */
    atomic_bool ended;  /* strict: the instance is ended */
    _Atomic uint64_t refusals, audits, differences;
    _Atomic uint64_t
        reading_ns; /* since when a program's map is read, with the lock; 0: it is not */
    /* What follows is under notify->lock. */
    uint64_t checked_ns; /* lifetime_check(), the last time */
    bool mapped_over;    /* it has found more managed memory than the quota leaves */
    struct clients clients;
    struct map_proxy map_proxy;
    struct guarded_device device[VGPU_DEVICES_MAX];
    struct rm_device rm_device[RM_DEVICES_MAX];
    unsigned rm_devices_high;
};

/* The names of its devices. */
extern const struct device_names nvidia_device_names;

/* Answers a trapped call (struct trap_server). `arg`: a struct nvidia. */
int nvidia_handle(void *arg, const struct trap *trap);

#endif
