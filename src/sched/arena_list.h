/*
 * The arenas as seen from outside: which there are, and which instances take turns in one. Nothing
 * is mapped, so a user who shortens a file does not harm the reader. Everything is a bounded copy.
 * For commands: the functions open and close descriptors, which a process with a page must not do.
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

/* The files in the arenas' folder, in no order, at most `most`. -errno: the folder cannot be
 * read. */
int arena_list(struct arena_entry *entries, unsigned most, unsigned *ret_count);

/*
 * Sets `used`: whether a process of this PID namespace has a page, by /proc/locks, which every user
 * may read. Takes 1 to 10 ms, while the kernel stops all changes of locks.
 */
void arena_list_used(struct arena_entry *entries, unsigned count);

/* An instance with a living process. */
struct arena_member {
    uint64_t id;               /* of the instance, as in its region */
    uint32_t weight, priority; /* within the bounds of the settings */
    unsigned processes;
    enum tenant_state state;
    char name[VGPU_NAME_LEN]; /* may contain anything: filter it before it is shown */
};

struct arena_view {
    unsigned count;
    struct arena_member member[ARENA_TENANTS];
    bool hidden; /* other users use the device in another arena, and are not in `member` */
};

/*
 * The instances that take turns on a device with those of `user`. 0, also if there are none;
 * -EACCES, -EPERM: this process may not see it (`hidden` is set then); -EPROTO: it is damaged;
 * other -errno of the system.
 */
int arena_view(const char *uuid, uid_t user, struct arena_view *ret_view);

#endif
