/* Whether instances of this user take turns on the devices, and who else uses those. */
#ifndef VGPU_CLI_TURNS_H
#define VGPU_CLI_TURNS_H

#include "sched/arena_list.h"

/*
 * Calls `each` with what is wrong, or worth knowing, about one arena: arena_check() of one of this
 * user's that does not work as it is (rc: ARENA_BROKEN or -errno); or another's that is in use (rc
 * 0). `limits`: only of the devices that these name, if they name any, and of others only if these
 * limit time; NULL: all. A folder of arenas that is of no use comes first, with no entry.
 */
void turns_examine(const struct vgpu_limits *limits,
                   void (*each)(const struct arena_entry *entry, int rc, void *arg), void *arg);

/* The name of a user, or the number. */
#define TURNS_USER_BYTES 64
const char *turns_user(uid_t user, char *buffer, size_t size);

/* For `vgpu run`: a damaged arena is made anew, which is said; so is why there are no turns, or who
 * shares outside of them where the limits are about time. */
void turns_report(const struct vgpu_limits *limits);

#endif
