/* The parts of `vgpu ps`. */
#ifndef VGPU_CLI_PS_H
#define VGPU_CLI_PS_H

#include "region/region.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* "GPU-" and the first group, which tell the GPUs of a machine apart */
#define PS_UUID_SHOWN 12

struct ps_instance {
    char name[VGPU_NAME_LEN];
    char dir[PATH_MAX]; /* of an implicit instance: its cache file */
    uid_t owner;
    uint64_t id;      /* its id in arenas */
    bool implicit;    /* made by HAMi's variables, in a cache file */
    unsigned running; /* members (account/member.h) and attached processes */
    bool paused;      /* its work is paused */
    struct vgpu_snapshot snapshot;
};

struct ps_list {
    unsigned count;
    struct ps_instance **instances;
    bool failed;             /* an instance could not be read, and a message was written */
    bool heads;              /* tables have a first line of heads */
    char **names;            /* NULL-terminated: only instances of these names; NULL: all */
    struct ps_arena *arenas; /* kept by ps_entitlement(): the members of arenas */
};

/* Collects the instances that this user may see, and removes unused ones. The caller has set the
 * heads and names of `list` and zeroed the rest. */
void ps_collect(struct ps_list *list);
void ps_done(struct ps_list *list);
void ps_arenas_done(struct ps_list *list);

/*
 * The share of a device, from 0 to 1, that an instance gets where all instances want more. It is
 * the instance's weight among the weights of the instances that use the device, by the device's
 * arena. Without an arena, instances of the list that used the device in the last second count. A
 * cap that holds bounds the share. *ret_complete is false if instances use the device unseen.
 */
double ps_entitlement(struct ps_list *list, const struct ps_instance *instance, unsigned vdev,
                      bool *ret_complete);

/*
 * Whether memory of a kind counts as used on a vdev. Under the guard only the driver's count and
 * managed memory do: the library's counts, if it is preloaded too, only tell what the memory is
 * for.
 */
bool ps_kind_counts(const struct vgpu_snapshot *snapshot, unsigned vdev, enum vgpu_kind kind);

/* The memory of one kind that all processes hold on a vdev. */
uint64_t ps_vdev_held(const struct vgpu_snapshot *snapshot, unsigned vdev, enum vgpu_kind kind);
/* The memory that a process holds on a vdev, of all kinds that count. */
uint64_t ps_proc_held(const struct vgpu_snapshot *snapshot, const struct vgpu_proc_usage *proc,
                      unsigned vdev);
/* Whether a process holds memory of any kind on a vdev. */
bool ps_proc_holds(const struct vgpu_proc_usage *proc, unsigned vdev);

/* Whether tables show a vdev: it is selected, seen or used, or its host memory is limited. */
bool ps_vdev_shown(const struct vgpu_snapshot *snapshot, unsigned vdev);

uint64_t ps_refusals(const struct vgpu_snapshot *snapshot); /* on all vdevs */

/* Prints the table of GPU time, if an instance has used a GPU or has a setting for it. False: out
 * of memory. */
bool ps_print_compute(struct ps_list *list);

/* False: out of memory. */
bool ps_print_table(struct ps_list *list);
bool ps_print_json(struct ps_list *list);

#endif
