/* Tells whether instances of this user take turns on the devices, and which other users' instances
 * use those. */
#ifndef VGPU_CLI_TURNS_H
#define VGPU_CLI_TURNS_H

#include "sched/arena_list.h"

/*
 * Calls `each` for each arena with a finding: one of this user's that does not work (rc:
 * ARENA_BROKEN or -errno from arena_check()), or another user's in use (rc 0). An unusable arena
 * directory comes first, without an entry. `limits`: only for the devices that they name, if any,
 * and other users' only if they limit time; NULL: all.
 */
void turns_examine(const struct vgpu_limits *limits,
                   void (*each)(const struct arena_entry *entry, int rc, void *arg), void *arg);

/* The user's name, or number. */
#define TURNS_USER_BYTES 64
const char *turns_user(uid_t user, char *buffer, size_t size);

/* For `vgpu run`: makes a damaged arena anew, and reports that, missing turns, and, if the limits
 * concern time, other users on the devices. */
void turns_report(const struct vgpu_limits *limits);

#endif
