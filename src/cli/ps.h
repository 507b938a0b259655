/* The parts of `vgpu ps`. */
#ifndef VGPU_CLI_PS_H
#define VGPU_CLI_PS_H

#include "region/region.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* "GPU-" and the first group: enough to tell the cards of a machine apart. */
#define PS_UUID_SHOWN 12

struct ps_instance {
    char name[VGPU_NAME_LEN];
    char dir[PATH_MAX]; /* an implicit instance's is its cache file */
    uid_t owner;
    uint64_t id;      /* in arenas */
    bool implicit;    /* of HAMi's variables, in a cache file */
    unsigned running; /* processes in it that are known of: account/member.h, and those that are
                         attached */
    bool paused;      /* its work stands still */
    struct vgpu_snapshot snapshot;
};

struct ps_list {
    unsigned count;
    struct ps_instance **instances;
    bool failed;             /* something could not be read; a message has been written */
    bool heads;              /* tables have a line of heads */
    char **names;            /* NULL-terminated: only instances of these names; NULL: all */
    struct ps_arena *arenas; /* who takes turns where: ps_entitlement() keeps it */
};

/* Everything that this user may see; what nobody uses is removed on the way. */
/* `list` has names and heads set, and nothing else. */
void ps_collect(struct ps_list *list);
void ps_done(struct ps_list *list);
void ps_arenas_done(struct ps_list *list);

/*
 * The share of a device that an instance gets where all want more, from 0 to 1: its weight among
 * the weights of those that use the device, itself included, as the device's arena has them; where
 * that has none, of those in the list that have used it over the last second. Not more than its
 * cap, where that holds. *ret_complete is false where others use the device unseen.
 */
double ps_entitlement(struct ps_list *list, const struct ps_instance *instance, unsigned vdev,
                      bool *ret_complete);

/*
 * Whether what is held of a kind on a vdev is part of what is used there. Under the guard that is
 * what the guard knows of a device: the driver's figure and managed memory. What the library says,
 * where it is preloaded too, tells what for.
 */
bool ps_kind_counts(const struct vgpu_snapshot *snapshot, unsigned vdev, enum vgpu_kind kind);

/* What all processes hold on a vdev, of one kind. */
uint64_t ps_vdev_held(const struct vgpu_snapshot *snapshot, unsigned vdev, enum vgpu_kind kind);
/* What one holds there, of all kinds that count. */
uint64_t ps_proc_held(const struct vgpu_snapshot *snapshot, const struct vgpu_proc_usage *proc,
                      unsigned vdev);
/* Whether it holds anything there, of whatever kind. */
bool ps_proc_holds(const struct vgpu_proc_usage *proc, unsigned vdev);

/* Whether there is anything to say about a vdev: it is selected, seen, used or, for host memory,
 * limited. */
bool ps_vdev_shown(const struct vgpu_snapshot *snapshot, unsigned vdev);

uint64_t ps_refusals(const struct vgpu_snapshot *snapshot); /* on all vdevs */

/* The table about time; nothing where no instance has used a GPU or has a setting for it. False:
 * out of memory. */
bool ps_print_compute(struct ps_list *list);

/* False: out of memory. */
bool ps_print_table(struct ps_list *list);
bool ps_print_json(struct ps_list *list);

#endif
