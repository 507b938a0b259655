/* The parts of `vgpu ps`. */
#ifndef VGPU_CLI_PS_H
#define VGPU_CLI_PS_H

#include "region/region.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct ps_instance {
    char name[VGPU_NAME_LEN];
    char dir[PATH_MAX];
    uid_t owner;
    unsigned running; /* processes in it, whether or not they use the GPU */
    struct vgpu_snapshot snapshot;
};

struct ps_list {
    unsigned count;
    struct ps_instance **instances;
    bool failed; /* something could not be read; a message has been written */
};

/* Everything that this user may see; what nobody uses is removed on the way. */
void ps_collect(struct ps_list *ret_list);
void ps_done(struct ps_list *list);

/* What all processes hold on a slice, of one kind. */
uint64_t ps_slice_held(const struct vgpu_snapshot *snapshot, unsigned slice, enum vgpu_kind kind);
uint64_t ps_proc_held(const struct vgpu_proc_usage *proc, unsigned slice); /* of all kinds */

/* Whether there is anything to say about a slice: it is selected, seen, used or, for host memory, limited. */
bool ps_slice_shown(const struct vgpu_snapshot *snapshot, unsigned slice);

uint64_t ps_refusals(const struct vgpu_snapshot *snapshot); /* on all slices */

/* False: out of memory. */
bool ps_print_table(const struct ps_list *list);
bool ps_print_json(const struct ps_list *list);

#endif
