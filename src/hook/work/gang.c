#include "hook/work/gang.h"

#include "base/mutex.h"
#include "sched/usage.h"
#include "hook/loader/hook.h"

static struct vgpu_mutex open_lock = VGPU_MUTEX_INIT;
static _Atomic(struct vgpu_arena *)
    arenas[VGPU_DEVICES_MAX]; /* by vdev; the first is opened under the lock */

/* NULL: it cannot be opened. */
static struct vgpu_arena *arena_of(unsigned vdev, const char *uuid)
{
    struct vgpu_arena *arena = atomic_load_explicit(&arenas[vdev], memory_order_acquire);

    if (arena || uuid[0] == '\0')
        return arena;
    MUTEX_SCOPE(&open_lock);
    arena = atomic_load_explicit(&arenas[vdev], memory_order_relaxed);
    if (!arena && arena_open(uuid, true, &arena) == 0)
        atomic_store_explicit(&arenas[vdev], arena, memory_order_release);
    return atomic_load_explicit(&arenas[vdev], memory_order_relaxed);
}

unsigned gang_others(unsigned vdev, struct vgpu_arena **ret_arenas)
{
    struct vgpu_limits limits;
    unsigned used = 0, count = 0;

    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++)
        used += i != vdev && usage_in_use(hook_region(), i);
    if (used == 0)
        return 0;
    region_limits(hook_region(), &limits);
    for (unsigned i = 0; i < VGPU_DEVICES_MAX && count < VGPU_DEVICES_MAX - 1; i++) {
        if (i == vdev || !usage_in_use(hook_region(), i))
            continue;
        ret_arenas[count] = arena_of(i, limits.vdev[i].uuid);
        count += ret_arenas[count] != NULL;
    }
    return count;
}
