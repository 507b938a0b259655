/* The other devices that the instance runs on: turns on one device look at the arenas of the others
 * (sched/gang.h). */
#ifndef VGPU_HOOK_WORK_GANG_H
#define VGPU_HOOK_WORK_GANG_H

#include "sched/arena.h"

/* The arenas of devices on which processes of the instance hold memory, except `vdev`; at most
 * VGPU_DEVICES_MAX - 1. They stay open. Any thread. */
unsigned gang_others(unsigned vdev, struct vgpu_arena **ret_arenas);

#endif
