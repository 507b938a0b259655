/*
 * Calls on the UVM device: which memory is mapped, and so stays allocated after the driver was told
 * to free it; and mappings of the device, which are managed memory.
 *
 * Mapping runs in the caller, for the driver compares the caller with the process that made the
 * client, or is made here by a way round (map_proxy.c). Unmapping and freeing are made here, so
 * that what was looked at is what is released.
 */
#include "guard/guard_internal.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#define MAPPED_BYTES_MAX (1ULL << 47) /* all addresses that there are */

/* A number for a card that is the same whenever the card is. */
static uint32_t gpu_number(const uint8_t uuid[16])
{
    uint32_t number = 2166136261u;

    for (unsigned i = 0; i < 16; i++)
        number = (number ^ uuid[i]) * 16777619u;
    return number;
}

/* What was read of a call. */
struct arguments {
    int rc; /* of reading it: of no interest where the file is another device's */
    size_t status_at;
    union {
        struct uvm_map_external map;
        struct uvm_unmap_external unmap;
        struct {
            uint64_t base, rest[2];
        } range;
        uint8_t bytes[1];
    };
};

/* Most maps are for one card; what lies between that and the end is large. */
static int read_map(const struct trap *trap, struct uvm_map_external *map)
{
    const size_t head = offsetof(struct uvm_map_external, gpu[1]),
                 tail = offsetof(struct uvm_map_external, gpu_count);
    const struct task_piece piece[] = {
        {trap->address, map, head},
        {trap->address + tail, &map->gpu_count, sizeof(*map) - tail},
    };
    int rc = task_read_pieces(trap->tid, piece, 2);

    if (rc < 0)
        return rc;
    if (map->gpu_count > UVM_GPUS_MAX)
        return -EINVAL;
    return map->gpu_count > 1 ? task_read(trap->tid, trap->address + head, &map->gpu[1],
                                          (map->gpu_count - 1) * sizeof(map->gpu[0]))
                              : 0;
}

static void read_arguments(const struct guard *guard, const struct trap *trap,
                           struct arguments *arguments)
{
    uint32_t bytes = guard->branch->uvm_free_bytes;

    switch (trap->cmd) {
    case UVM_MAP_EXTERNAL_ALLOCATION:
        arguments->status_at = offsetof(struct uvm_map_external, status);
        arguments->rc = read_map(trap, &arguments->map);
        break;
    case UVM_UNMAP_EXTERNAL:
        arguments->status_at = offsetof(struct uvm_unmap_external, status);
        arguments->rc =
            task_read(trap->tid, trap->address, &arguments->unmap, sizeof(arguments->unmap));
        break;
    default:
        arguments->status_at = bytes > 16 ? 16 : 8;
        memset(&arguments->range, 0, sizeof(arguments->range));
        arguments->rc = bytes > sizeof(arguments->range)
                            ? -EINVAL
                            : task_read(trap->tid, trap->address, &arguments->range, bytes);
        break;
    }
}

static int map_external(struct guard *guard, const struct trap *trap,
                        const struct guard_process *process, const struct guard_file *file,
                        struct uvm_map_external *map)
{
    uint32_t gpus[UVM_GPUS_MAX];
    int rc;

    for (unsigned i = 0; i < map->gpu_count; i++)
        gpus[i] = gpu_number(map->gpu[i].uuid);
    rc = objects_map(guard->objects, file->number, map->base, map->length, gpus,
                     (unsigned)map->gpu_count, map->client, map->memory);
    if (rc == -ENOSPC || rc == -ENOMEM)
        return -ENOMEM;
    return guard->config.maps ? map_proxy_map(guard, trap, process, file, map) : TRAP_CONTINUE;
}

/* Makes the call; the status that it has given. */
static int make(struct guard *guard, const struct trap *trap, const struct guard_file *file,
                struct arguments *arguments, uint32_t *ret_status)
{
    if (!trap_valid(guard, trap))
        return -EINTR;
    if (ioctl(file->fd, trap->cmd, arguments->bytes) < 0)
        return err_last();
    memcpy(ret_status, arguments->bytes + arguments->status_at, sizeof(*ret_status));
    return 0;
}

static int unmap_external(struct guard *guard, const struct trap *trap,
                          const struct guard_file *file, struct arguments *arguments)
{
    uint32_t status;
    int rc = make(guard, trap, file, arguments, &status);

    if (rc == 0 && status == RM_OK)
        objects_unmap(guard->objects, file->number, arguments->unmap.base, arguments->unmap.length,
                      gpu_number(arguments->unmap.uuid));
    return rc;
}

static int free_range(struct guard *guard, const struct trap *trap, const struct guard_file *file,
                      struct arguments *arguments)
{
    uint64_t base = arguments->range.base, length = arguments->range.rest[0];
    uint32_t status;
    int rc = make(guard, trap, file, arguments, &status);

    if (rc == 0 && status == RM_OK) {
        /* Where the length is given the driver takes none but the range's: all in it is gone. */
        if (arguments->status_at == 16)
            objects_range(guard->objects, file->number, base, length);
        objects_unmap_all(guard->objects, file->number, base);
    }
    return rc;
}

static int use_space(struct guard *guard, struct guard_file *file,
                     const struct guard_process *process)
{
    int rc = objects_space(guard->objects, file->number, process->owner);

    if (rc == 0)
        file->inherited = false;
    return rc;
}

/* Under the lock. 0: the status is to be written. */
static int act(struct guard *guard, const struct trap *trap, struct arguments *arguments)
{
    struct guard_process *process;
    struct guard_file *file;
    int rc = process_calls(guard, trap, &process, &file);

    if (rc < 0)
        return rc;
    /* Not to be continued: another thread may put a UVM file in its place meanwhile. The driver
     * says the same. */
    if (file->kind != DEVICE_UVM)
        return -EINVAL;
    rc = use_space(guard, file, process);
    if (rc < 0 || arguments->rc < 0)
        return rc < 0 ? rc : arguments->rc;
    switch (trap->cmd) {
    case UVM_MAP_EXTERNAL_ALLOCATION:
        return map_external(guard, trap, process, file, &arguments->map);
    case UVM_UNMAP_EXTERNAL:
        return unmap_external(guard, trap, file, arguments);
    case UVM_FREE:
        return free_range(guard, trap, file, arguments);
    default:
        return TRAP_CONTINUE;
    }
}

int uvm_call(struct guard *guard, const struct trap *trap)
{
    static struct arguments arguments; /* the trap thread's */
    int rc;

    read_arguments(guard, trap, &arguments);
    rc = trap_begin(guard) ? act(guard, trap, &arguments) : -ENOSYS;
    account_settle(guard);
    trap_end(guard);
    return rc ? rc
              : task_write(trap->tid, trap->address + arguments.status_at,
                           arguments.bytes + arguments.status_at, sizeof(uint32_t));
}

static int map_managed(struct guard *guard, const struct trap *trap)
{
    struct guard_process *process;
    struct guard_file *file;
    uint64_t bytes;
    int rc = process_of(guard, trap->tid, &process);

    if (rc == 0) {
        process_renew(guard, process);
        rc = process_calls(guard, trap, &process, &file);
    }
    if (rc == -ENOTTY)
        return TRAP_CONTINUE; /* somebody's shared file; what is put in its place meanwhile is found
                               * by the watch thread
                               */
    if (rc < 0)
        return rc == -EPERM || rc == -EACCES || rc == -EBADF ? rc : -ENOMEM;
    if (file->kind != DEVICE_UVM)
        return TRAP_CONTINUE;
    if (use_space(guard, file, process) < 0)
        return -ENOMEM;
    if (trap->address > MAPPED_BYTES_MAX)
        return -ENOMEM;
    process->uvm = file->node;
    if (process_managed(guard, process, process->managed_bytes + trap->address, false) == 0)
        return TRAP_CONTINUE;
    /* What was unmapped meanwhile is seen now. */
    if (process_mapped(process->pid, &process->uvm, &bytes) == 0)
        process_managed(guard, process, bytes, true);
    return process_managed(guard, process, process->managed_bytes + trap->address, false) == 0
               ? TRAP_CONTINUE
               : -ENOMEM;
}

int uvm_mmap(struct guard *guard, const struct trap *trap)
{
    enum device_kind kind;
    int rc;

    /* Most are of files that are nobody's concern. (What is put in its place meanwhile is found by
     * the watch thread.)
     */
    if (devices_kind_at(&guard->devices, trap->tid, trap->fd, &kind, NULL) == 0 &&
        kind != DEVICE_UVM)
        return TRAP_CONTINUE;
    rc = trap_begin(guard) ? map_managed(guard, trap) : -ENOSYS;
    account_settle(guard);
    trap_end(guard);
    return rc;
}
