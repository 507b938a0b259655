/*
 * Calls on the UVM device: which memory is mapped, and so stays allocated after the driver was told
 * to free it; and mappings of the device, which are managed memory.
 *
 * Mapping runs in the caller, as the driver compares the caller with the process that made the
 * client; or it is made here by another way (map_proxy.c). Unmapping and freeing are made here, so
 * that what was checked is what is released.
 */
#include "guard/nvidia/request.h"

#include "base/err.h"
#include "guard/nvidia/lifetime.h"
#include "guard/nvidia/quota.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#define MAPPED_BYTES_MAX (1ULL << 47) /* all addresses that a process has */

/* A number for a GPU that is the same whenever the GPU is. */
static uint32_t gpu_number(const uint8_t uuid[16])
{
    uint32_t number = 2166136261u;

    for (unsigned i = 0; i < 16; i++)
        number = (number ^ uuid[i]) * 16777619u;
    return number;
}

/* Most maps are for one GPU; what lies between that and the end is large. */
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

static int uvm_read(struct request *request)
{
    const struct trap *trap = request->trap;
    struct uvm_bytes *uvm = &request->uvm;
    uint32_t bytes = request->nvidia->branch->uvm_free_bytes;

    switch (trap->cmd) {
    case UVM_MAP_EXTERNAL_ALLOCATION:
        uvm->status_at = offsetof(struct uvm_map_external, status);
        uvm->rc = read_map(trap, &uvm->map);
        break;
    case UVM_UNMAP_EXTERNAL:
        uvm->status_at = offsetof(struct uvm_unmap_external, status);
        uvm->rc = task_read(trap->tid, trap->address, &uvm->unmap, sizeof(uvm->unmap));
        break;
    default:
        uvm->status_at = bytes > 16 ? 16 : 8;
        memset(&uvm->range, 0, sizeof(uvm->range));
        uvm->rc = bytes > sizeof(uvm->range)
                      ? -EINVAL
                      : task_read(trap->tid, trap->address, &uvm->range, bytes);
        break;
    }
    return 0;
}

static int map_external(struct request *request)
{
    const struct uvm_map_external *map = &request->uvm.map;
    uint32_t gpus[UVM_GPUS_MAX];
    int rc;

    for (unsigned i = 0; i < map->gpu_count; i++)
        gpus[i] = gpu_number(map->gpu[i].uuid);
    rc = objects_map(request->nvidia->objects, request->file->number, map->base, map->length, gpus,
                     (unsigned)map->gpu_count, map->client, map->memory);
    if (rc == -ENOSPC || rc == -ENOMEM)
        return -ENOMEM;
    return request->nvidia->maps ? map_proxy_map(request) : TRAP_CONTINUE;
}

/* Makes the call; the status that it has given. */
static int make(struct request *request, uint32_t *ret_status)
{
    struct uvm_bytes *uvm = &request->uvm;

    if (!request_valid(request))
        return -EINTR;
    if (ioctl(request->file->fd, request->trap->cmd, uvm->bytes) < 0)
        return err_last();
    memcpy(ret_status, uvm->bytes + uvm->status_at, sizeof(*ret_status));
    return 0;
}

static int unmap_external(struct request *request)
{
    const struct uvm_unmap_external *unmap = &request->uvm.unmap;
    uint32_t status;
    int rc = make(request, &status);

    if (rc == 0 && status == RM_OK)
        objects_unmap(request->nvidia->objects, request->file->number, unmap->base, unmap->length,
                      gpu_number(unmap->uuid));
    return rc;
}

static int free_range(struct request *request)
{
    struct objects *objects = request->nvidia->objects;
    uint64_t base = request->uvm.range.base, length = request->uvm.range.rest[0];
    uint32_t status, space = request->file->number;
    int rc = make(request, &status);

    if (rc == 0 && status == RM_OK) {
        /* If the length is given, the driver takes none but the range's: all in it is gone. */
        if (request->uvm.status_at == 16)
            objects_range(objects, space, base, length);
        objects_unmap_all(objects, space, base);
    }
    return rc;
}

static int use_space(struct request *request)
{
    int rc =
        objects_space(request->nvidia->objects, request->file->number, request->process->owner);

    if (rc == 0)
        request->file->inherited = false;
    return rc;
}

static int uvm_act(struct request *request)
{
    int rc = request_identify(request);

    if (rc < 0)
        return rc;
    /* Not to be continued: another thread may put a UVM file in its place meanwhile. The driver
     * says the same. */
    if (request->file->kind != DEVICE_UVM)
        return -EINVAL;
    rc = use_space(request);
    if (rc < 0 || request->uvm.rc < 0)
        return rc < 0 ? rc : request->uvm.rc;
    switch (request->trap->cmd) {
    case UVM_MAP_EXTERNAL_ALLOCATION:
        return map_external(request);
    case UVM_UNMAP_EXTERNAL:
        return unmap_external(request);
    case UVM_FREE:
        return free_range(request);
    default:
        return TRAP_CONTINUE;
    }
}

/* Only the status is written back. */
static int uvm_write(struct request *request)
{
    struct uvm_bytes *uvm = &request->uvm;

    return task_write(request->trap->tid, request->trap->address + uvm->status_at,
                      uvm->bytes + uvm->status_at, sizeof(uint32_t));
}

const struct request_steps uvm_steps = {.read = uvm_read, .act = uvm_act, .write = uvm_write};

/* Most mappings are of other files. The watch thread finds it if a UVM file is put in the place of
 * one meanwhile. */
static int managed_read(struct request *request)
{
    const struct trap *trap = request->trap;
    enum device_kind kind;

    return devices_kind_at(&request->nvidia->notify->devices, trap->tid, trap->fd, &kind, NULL) ==
                       0 &&
                   kind != DEVICE_UVM
               ? TRAP_CONTINUE
               : 0;
}

static int charge_managed(struct request *request)
{
    struct guard_process *process = request->process;
    uint64_t bytes;

    process->managed = request->file->node;
    if (quota_set_managed(request->nvidia, process, process->managed_bytes + request->trap->address,
                          false) == 0)
        return TRAP_CONTINUE;
    /* What was unmapped meanwhile is seen now. */
    if (process_mapped(process->pid, &process->managed, &bytes) == 0)
        quota_set_managed(request->nvidia, process, bytes, true);
    return quota_set_managed(request->nvidia, process,
                             process->managed_bytes + request->trap->address, false) == 0
               ? TRAP_CONTINUE
               : -ENOMEM;
}

static int managed_act(struct request *request)
{
    int rc = lifetime_process(request->nvidia, request->trap->tid, &request->process);

    if (rc == 0) {
        lifetime_renew(request->nvidia, request->process);
        rc = request_identify(request);
    }
    if (rc == -ENOTTY)
        return TRAP_CONTINUE; /* another shared file; see managed_read() */
    if (rc < 0)
        return rc == -EPERM || rc == -EACCES || rc == -EBADF ? rc : -ENOMEM;
    if (request->file->kind != DEVICE_UVM)
        return TRAP_CONTINUE;
    if (use_space(request) < 0 || request->trap->address > MAPPED_BYTES_MAX)
        return -ENOMEM;
    return charge_managed(request);
}

const struct request_steps managed_steps = {.read = managed_read, .act = managed_act};
