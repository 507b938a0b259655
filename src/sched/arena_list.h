/*
 * What can be seen of the arenas from outside: which there are, and who takes turns in one. Nothing
 * is mapped, so that nobody who shortens a file harms whoever looks; everything is a copy, with a
 * bound. For commands: descriptors are opened and closed, which a process with a page of its own
 * must not do.
 */
#ifndef VGPU_SCHED_ARENA_LIST_H
#define VGPU_SCHED_ARENA_LIST_H

#include "sched/arena.h"
#include "sched/tenant.h"

#include <sys/types.h>

struct arena_entry {
    char uuid[VGPU_UUID_LEN];
    uid_t owner;
    bool ours; /* arena_open() opens this one */
    bool used; /* arena_list_used(): a process has a page of it */
    dev_t device;
    ino_t inode;
};

/* The files in the arenas' folder, in no order; those beyond `most` are left out. -errno: the
 * folder cannot be read. */
int arena_list(struct arena_entry *entries, unsigned most, unsigned *ret_count);

/*
 * Whether processes of this PID namespace have pages of them, as /proc/locks tells, which everybody
 * may read. Takes 1 to 10 ms, for the kernel stops all changes of locks meanwhile.
 */
void arena_list_used(struct arena_entry *entries, unsigned count);

/* One that takes turns: an instance with a living process. */
struct arena_member {
    uint64_t id;               /* of the instance; as its region says */
    uint32_t weight, priority; /* within what the settings allow */
    unsigned processes;
    enum tenant_state state;
    char name[VGPU_NAME_LEN]; /* whatever whoever shares the arena has written; to be filtered
                                 before it is shown */
};

struct arena_view {
    unsigned count;
    struct arena_member member[ARENA_TENANTS];
    bool hidden; /* others use the device in an arena that is not this one: they are not in `member`
                  */
};

/*
 * Who takes turns on a device with instances of the user `user`. 0, also where nobody does;
 * -EACCES, -EPERM: it is not for this process to see (`hidden` is set then); -EPROTO: it is
 * damaged; other -errno of the system.
 */
int arena_view(const char *uuid, uid_t user, struct arena_view *ret_view);

#endif
