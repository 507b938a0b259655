/*
 * The processes that have slots: whether they live or exit, and their pids.
 */
#include "base/file.h"
#include "base/proc.h"
#include "region/internal.h"

#include <errno.h>
#include <signal.h>

uint64_t slot_pid_namespace(void)
{
    struct stat found;

    return file_stat_path("/proc/self/ns/pid", 1, &found) == 0 ? found.st_ino : 0;
}

/* The pid as the slot has it; 0: it is of another namespace. */
static pid_t written_pid(const struct region_slot *slot, struct slot_pass *pass)
{
    pid_t pid = __atomic_load_n(&slot->pid, __ATOMIC_RELAXED);
    uint64_t namespace = __atomic_load_n(&slot->pid_namespace, __ATOMIC_RELAXED);

    if (pid <= 0 || !namespace)
        return 0;
    if (!pass->asked) {
        pass->asked = true;
        pass->pid_namespace = slot_pid_namespace();
    }
    return namespace == pass->pid_namespace ? pid : 0;
}

bool slot_alive(struct vgpu_region *region, unsigned id, struct slot_pass *pass)
{
    const struct region_slot *slot;
    pid_t pid = 0;
    int rc = liveness_check(region->liveness, id, &pid);

    if (rc <= 0)
        return rc < 0;
    if (pid >= 0 || id > VGPU_PROCS_MAX)
        return true;
    /* The owner is not known: it lives, or it has died and a child keeps its description. */
    slot = &region->layout->slot[id - 1];
    if (!slot_live(slot) || slot->guarded)
        return true;
    pid = written_pid(slot, pass);
    return pid == 0 || kill(pid, 0) == 0 || errno != ESRCH;
}

bool slot_exiting(const struct region_slot *slot, struct slot_pass *pass)
{
    pid_t pid = slot_live(slot) && !slot->guarded ? written_pid(slot, pass) : 0;

    return pid > 0 && proc_is_exiting(pid);
}

bool slots_exiting(const struct region_layout *layout, unsigned vdev, unsigned except)
{
    struct slot_pass pass = {0};

    for (unsigned i = 0; i < region_slots_high(layout); i++) {
        const struct region_slot *slot = &layout->slot[i];

        if (i != except && slot_live(slot) && load_relaxed(&slot->vdev[vdev].reserved_bytes) > 0 &&
            slot_exiting(slot, &pass))
            return true;
    }
    return false;
}

pid_t slot_pid(struct vgpu_region *region, unsigned index, struct slot_pass *pass)
{
    const struct region_slot *slot = &region->layout->slot[index];
    pid_t pid = 0;

    if (slot->guarded)
        return written_pid(slot, pass);
    liveness_check(region->liveness, slot_id(index), &pid);
    return pid >= 0 ? pid : written_pid(slot, pass);
}
